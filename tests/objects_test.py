#!/usr/bin/env python3
"""Checks that code for one instruction set stays separate: python3 tests/objects_test.py BUILD

Functions of a library's headers are in every object that calls them, and the linker keeps one of each. If two objects
were compiled for different processors, one of them would run code of the other: instructions that the processor may not
have, or, in Eigen, loads of 32 bytes from memory that was aligned to 16. So only the files of a target are compiled for
a processor, and each target is closed: one object with a single public symbol (optimized/optimized.cmake).
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

BUILD = pathlib.Path()  # set by main
# Matches objects of a target: its library, tests of its parts before it is closed, and copies of its files with mutants
# or additions.
OF_A_TARGET = re.compile(
    r"(?:subquad_optimized_|optimized_)(\w+?)(?:_test)?\.dir/|(?:mutants_test_planted|subquad_grown_table)\.dir/"
)


def compiled_objects(build):
    """Yields (path, its flags that choose a processor) of all C++ files except those that nvcc compiles for the host."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        if not any("nvcc" in word for word in words[:6]):
            yield words[words.index("-o") + 1], [word for word in words if re.match(r"-m(?!tls-)", word)]


def wrong_flags(objects):
    """Returns files that are wrongly compiled for a processor, and targets whose files have different flags."""
    wrong, flags_of = [], {}
    for path, flags in objects:
        match = OF_A_TARGET.search(path)
        if not match:
            if flags:
                wrong.append(f"{path}: {' '.join(flags)}, and is no target's")
        elif match[1] and flags_of.setdefault(match[1], flags) != flags:
            wrong.append(f"{path}: {' '.join(flags)}, unlike others of {match[1]}")
    return wrong, flags_of


def symbols_for_others(path):
    listing = subprocess.run(
        ["nm", "--defined-only", "--extern-only", path], check=True, capture_output=True, text=True
    )
    fields = (line.split() for line in listing.stdout.splitlines())
    return {field[-1] for field in fields if len(field) == 3}


class Objects(unittest.TestCase):
    def test_only_targets_are_compiled_for_a_processor(self):
        wrong, flags_of = wrong_flags(compiled_objects(BUILD))
        self.assertEqual([], wrong)
        self.assertTrue(flags_of)
        different = {tuple(flags) for flags in flags_of.values()}
        self.assertEqual(len(flags_of), len(different))

    def test_a_file_for_another_processor_is_found(self):
        objects = [("CMakeFiles/subquad_harness.dir/harness/a.cc.o", ["-march=native"]), ("subquad_optimized_avx2.dir/a.cc.o", ["-march=x86-64-v3"]),
                   ("tests/CMakeFiles/optimized_avx2_test.dir/a.cc.o", []), ("subquad_judging.dir/b.cc.o", [])]  # fmt: skip
        self.assertEqual(2, len(wrong_flags(objects)[0]))

    def test_a_target_has_one_symbol_for_others(self):
        closed = [*BUILD.glob("subquad_target_*.o"), *BUILD.glob("tests/*/*_target.o")]
        self.assertGreaterEqual(len(closed), 1)
        for path in closed:
            symbols = symbols_for_others(path)
            self.assertEqual(1, len(symbols), path)
            self.assertRegex(symbols.pop(), r"^subquad_target_\w+$")

    def test_a_target_that_is_not_closed_has_many(self):
        archive = next(BUILD.glob("libsubquad_optimized_*.a"))
        self.assertGreater(len(symbols_for_others(archive)), 100)

    def test_what_tests_of_parts_link_has_no_eigen_for_another_processor(self):
        archive = BUILD / "libsubquad_judging_archive.a"
        self.assertEqual([], [symbol for symbol in symbols_for_others(archive) if re.match(r"_ZNK?5Eigen", symbol)][:3])


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
