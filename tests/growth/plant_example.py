#!/usr/bin/env python3
"""Adds the algorithm that CONTRIBUTING.md shows to a copy of the table of toeplitz_1d. A table that has it already is
not changed.

plant_example.py CONTRIBUTING.md optimized/toeplitz_1d.cc OUT.cc
"""

import pathlib
import re
import sys

INCLUDE = '#include "optimized/implementations.h"\n'
END = "}  // namespace\n\nstd::vector<Implementation>"
ROW = re.compile(r"\n +\{\.id = ")


def blocks_of(text):
    """Returns the class with its includes, and the row."""
    blocks = re.findall(r"^```cpp\n(.*?)^```$", text, re.M | re.S)
    if len(blocks) != 2 or "class MyProduct" not in blocks[0] or ".id" not in blocks[1]:
        sys.exit(f"CONTRIBUTING.md: expected a class and a row as blocks of C++, found {len(blocks)} blocks")
    return blocks


def planted(source, block, row):
    if "class MyProduct" in source:  # somebody is trying it out
        return source
    for part in (INCLUDE, END):
        if source.count(part) != 1:
            sys.exit(f"the table: expected {part!r} once, found it {source.count(part)} times")
    includes = "".join(re.findall(r"^#include .*\n", block, re.M))
    source = source.replace(INCLUDE, includes + INCLUDE)
    source = re.sub(
        r'(?:#include "optimized/.*\n)+', lambda block: "".join(sorted(set(block[0].splitlines(True)))), source
    )
    source = source.replace(END, block.replace(includes, "").strip() + "\n\n" + END)
    last = list(ROW.finditer(source))[-1].start()
    return source[:last] + "\n" + row.rstrip() + source[last:]


if __name__ == "__main__":
    guide, table, out = map(pathlib.Path, sys.argv[1:])
    out.write_text(
        planted(table.read_text(encoding="utf-8"), *blocks_of(guide.read_text(encoding="utf-8"))), encoding="utf-8"
    )
