#!/usr/bin/env python3
"""Writes one broken copy of a source file.

    make_mutants.py MUTANTS.json SOURCE_FOLDER NAME OUT

Copies the file that the mutant NAME is about, with its `find` replaced. The
build must fail where `find` does not stand in the file exactly once: a mutant
that is no longer broken would be taken for one that nobody caught, or worse.
A mutant may name the one `case` that it is verified on, instead of many.
`--check` instead of NAME looks at all of them and writes nothing.
"""

import json
import pathlib
import re
import sys

FIELDS = {"name", "file", "find", "replace", "operator", "implementation", "what"}
MAY_HAVE = {"case"}


def fail(text):
    sys.exit(f"mutants: {text}")


def read(path):
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
    return mutants


def mutate(mutant, folder):
    text = (pathlib.Path(folder) / mutant["file"]).read_text(encoding="utf-8")
    count = text.count(mutant["find"])
    if count != 1:
        fail(f"{mutant['name']}: its `find` occurs {count} times in {mutant['file']}, expected once")
    if mutant["find"] == mutant["replace"]:
        fail(f"{mutant['name']}: it replaces a text by the same")
    return text.replace(mutant["find"], mutant["replace"])


def main():
    if len(sys.argv) == 4 and sys.argv[3] == "--check":
        for mutant in read(sys.argv[1]):
            mutate(mutant, sys.argv[2])
        return
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    _, path, folder, name, out = sys.argv
    for mutant in read(path):
        if mutant["name"] == name:
            text = f"// Broken on purpose: {mutant['what']}.\n" + mutate(mutant, folder)
            target = pathlib.Path(out)
            # An unchanged copy keeps its time stamp and is not compiled again.
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                target.write_text(text, encoding="utf-8")
            return
    fail(f"there is no mutant {name}")


if __name__ == "__main__":
    main()
