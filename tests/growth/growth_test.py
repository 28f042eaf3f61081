#!/usr/bin/env python3
"""Runs the ten-minute example of CONTRIBUTING.md: growth_test.py SUBQUAD_GROWN TOEPLITZ_1D_TEST"""

import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = OWN_TESTS = ""  # set by main


def commands():
    """Returns the commands after the example, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^Then build, check, measure and draw:\n\n((?:    .*\n)+)", text, re.M)
    return [line.strip() for line in block.splitlines()]


class TenMinutes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "build").mkdir()
        (cls.folder / "build" / "subquad").symlink_to(PROGRAM)
        cls.printed = {}
        for command in commands()[1:]:  # the first one builds, which is done
            words = command.split()
            # Runs the command unchanged except for a shorter time.
            more = ["--budget", "0.05", "--no-resident"] if "sweep" in words else []
            more += ["--format", "pdf"] if "python3" in words else []
            words = [sys.executable if word == "python3" else word for word in words]
            run = subprocess.run([*words, *more], cwd=cls.folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
                                 capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
            if run.returncode != 0:
                raise AssertionError(f"{command}: exit status {run.returncode}\n{run.stdout}{run.stderr}")
            cls.printed[command] = run.stdout

    def printed_by(self, word):
        return next(text for command, text in self.printed.items() if word in command)

    def test_it_is_built_first(self):
        self.assertEqual("cmake --build build --target subquad", commands()[0])

    @unittest.skipUnless(shutil.which("clang-format-14"), "expected clang-format-14, found none")
    def test_it_is_formatted(self):
        table = pathlib.Path(PROGRAM).with_name("toeplitz_1d.cc")
        run = subprocess.run(["clang-format-14", f"--style=file:{ROOT}/.clang-format", "--dry-run", "--Werror", table],
                             capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        self.assertEqual(0, run.returncode, run.stderr)

    def test_every_case_passes_in_both_types(self):
        lines = re.findall(r"^toeplitz_1d +my_product +cpu +(\w+) +(\d+) passed +0 failed +0 mistrusted",
                           self.printed_by(" verify "), re.M)  # fmt: skip
        self.assertEqual({"float32", "float64"}, {scalar for scalar, _ in lines})
        self.assertTrue(all(int(passed) > 20 for _, passed in lines), lines)

    def test_it_is_drawn_beside_the_others(self):
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        (figure,) = re.findall(r"`(figures/[\w-]+)\.pdf` shows its curve", text)
        self.assertRegex(self.printed_by("reports.figures"), rf"(?m)^{figure}\.?{{")
        self.assertTrue((self.folder / f"{figure}.pdf").exists())
        with open(self.folder / f"{figure}.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        curves = {row["implementation"] for row in rows}
        self.assertLessEqual({"my_product", "dense", "fft_columns"}, curves)
        drawn = [row for row in rows if row["implementation"] == "my_product" and row["verdict"] == "passed"]
        self.assertEqual({"256", "1024", "4096"}, {row["n"] for row in drawn})

    def test_the_operators_own_tests_pass(self):
        run = subprocess.run([OWN_TESTS], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(0, run.returncode, run.stdout[-3000:] + run.stderr[-1000:])


if __name__ == "__main__":
    PROGRAM, OWN_TESTS = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
