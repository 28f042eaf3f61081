#!/usr/bin/env python3
"""Writes a copy of one source file in which all its mutants can be switched on, one at a time.

    plant_mutants.py MUTANTS.json SOURCE_FOLDER SOURCE OUT

The `find` of a mutant must occur in its file exactly once. The part between ⟦ and ⟧, or all of it without them, is
replaced by `replace`: whole statements if it ends with a semicolon, otherwise an expression. Mutant number k of the
table, counted from 1, becomes `(mutants::IsOn(k) ? (replace) : (original))`, or an if and an else. The build fails if
`find` does not occur exactly once: a mutant that no longer breaks anything would look like one that was not caught.

A mutant may name the one `case` that it is verified on, instead of many. A mutant in a header names the source file
`through` which it is compiled: in the copy of that file, the header with its mutants replaces the #include.
"""

import json
import pathlib
import re
import sys

FIELDS = {"name", "file", "find", "replace", "operator", "implementation", "what"}
MAY_HAVE = {"case", "through"}
OPEN, CLOSE = "⟦", "⟧"


def fail(text):
    sys.exit(f"mutants: {text}")


def read(path):
    """Returns the mutants by their numbers."""
    mutants = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    names = set()
    for mutant in mutants:
        name = mutant.get("name", "")
        if set(mutant) - MAY_HAVE != FIELDS:
            fail(f"{name or mutant}: expected the fields {', '.join(sorted(FIELDS))}")
        if not re.fullmatch(r"[a-z0-9_]+", name):
            fail(f"'{name}': expected a name of a-z, 0-9 and _")
        if name in names:
            fail(f"{name}: this name occurs twice")
        names.add(name)
    return dict(enumerate(mutants, 1))


def place(mutant, text):
    """Returns the first and last place of the replaced text."""
    name, find = mutant["name"], mutant["find"]
    before, opened, rest = find.partition(OPEN)
    if not opened:
        before, rest = "", find + CLOSE
    inside, closed, after = rest.partition(CLOSE)
    if not closed or OPEN in rest or CLOSE in after:
        fail(f"{name}: expected at most one {OPEN}..{CLOSE} in its `find`")
    whole = before + inside + after
    count = text.count(whole)
    if count != 1:
        fail(f"{name}: its `find` occurs {count} times in {mutant['file']}, expected once")
    if inside == mutant["replace"]:
        fail(f"{name}: it replaces a text by the same")
    first = text.index(whole) + len(before)
    return first, first + len(inside)


def switched(number, mutant, otherwise):
    if otherwise.rstrip().endswith((";", "}")):
        return f"{{ if (::subquad::mutants::IsOn({number})) {{ {mutant['replace']} }} else {{ {otherwise} }} }}"
    return f"(::subquad::mutants::IsOn({number}) ? ({mutant['replace']}) : ({otherwise}))"


def plant(mutants, file, text):
    places = {}
    for number, mutant in mutants.items():
        if mutant["file"] == file:
            places.setdefault(place(mutant, text), []).append(number)
    end = len(text)
    out = text
    # Replaces from the end, so that earlier places do not move.
    for (first, last), numbers in sorted(places.items(), reverse=True):
        if last > end:
            fail(f"{mutants[numbers[0]]['name']}: another mutant replaces a part of the same")
        end = first
        changed = text[first:last]
        for number in numbers:
            changed = switched(number, mutants[number], changed)
        out = out[:first] + changed + out[last:]
    return out


def copy(mutants, folder, source, target):
    """Returns the text of a source file with all mutants that are compiled through it."""
    through = {number: mutant for number, mutant in mutants.items() if mutant.get("through", mutant["file"]) == source}
    if not through:
        fail(f"there is no mutant of {source}")
    text = plant(through, source, (folder / source).read_text(encoding="utf-8"))
    for header in sorted({mutant["file"] for mutant in through.values()} - {source}):
        include = f'#include "{header}"\n'
        if text.count(include) != 1:
            fail(f"{source} does not include {header}")
        planted = plant(through, header, (folder / header).read_text(encoding="utf-8"))
        text = text.replace(include, planted.replace("#pragma once\n", ""))
    # A file that is compiled once for each instruction set includes itself.
    itself = '#define HWY_TARGET_INCLUDE "{}"'
    text = text.replace(itself.format(source), itself.format(target.resolve()))
    return '#include "tests/mutants/switch.h"\n' + text


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    table, folder, source, target = sys.argv[1:]
    out = pathlib.Path(target)
    text = copy(read(table), pathlib.Path(folder), source, out)
    # An unchanged copy keeps its time stamp and is not compiled again.
    if not out.exists() or out.read_text(encoding="utf-8") != text:
        out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
