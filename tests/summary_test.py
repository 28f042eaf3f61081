#!/usr/bin/env python3
"""Tests which tests ./run-tests runs, and its summary, on a report of three: python3 tests/summary_test.py"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUMMARY = ROOT / ".ci/summary"
REPORT = """<?xml version="1.0"?>
<testsuite>
<testcase name="Fast.Passes" time="0.25" status="run"><system-out>OK</system-out></testcase>
<testcase name="Slow.Fails/one  # GetParam() = one" time="12.5" status="fail"><failure message=""/></testcase>
<testcase name="A.NeedsMore" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>%s
</system-out></testcase>
</testsuite>
"""


class Summary(unittest.TestCase):
    def summary(self, output):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "junit.xml"
            path.write_text(REPORT % output, encoding="utf-8")
            return subprocess.run([SUMMARY, path], capture_output=True, text=True, check=True).stdout

    def test_slow_skipped_and_failed_tests_are_named(self):
        lines = self.summary("../a_test.cc:7: Skipped\nno device").splitlines()
        self.assertEqual(lines[1:3], ["    12.5  Slow.Fails/one", "     0.2  Fast.Passes"])
        self.assertIn("    A.NeedsMore: no device", lines)
        self.assertIn("FAILED: Slow.Fails/one", lines)
        self.assertEqual(lines[-1], "3 tests: 1 failed, 1 skipped")

    def test_reasons_are_found_wherever_they_stand(self):
        for output in ("OK\nskipped: no LaTeX", "setUpClass (Real) ... skipped 'no LaTeX'"):
            self.assertIn("    A.NeedsMore: no LaTeX\n", self.summary(output))
        self.assertIn("it does not say why", self.summary("OK"))


class Choice(unittest.TestCase):
    def pattern(self, pattern):
        """Returns the arguments of ctest, from a ./run-tests whose cmake and ctest do nothing."""
        with tempfile.TemporaryDirectory() as folder:
            tools = pathlib.Path(folder)
            for name, script in (("cmake", "exit 0"), ("ctest", 'printf "%s\\n" "$@"')):
                (tools / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
                (tools / name).chmod(0o755)
            environment = {"PATH": f"{folder}:{os.environ['PATH']}", "BUILD_DIR": folder, "SUBQUAD_SETUP": "0",
                           "SUBQUAD_PYTHON_TESTS": "0"}  # fmt: skip
            run = subprocess.run([ROOT / "run-tests", "-R", pattern], env={**os.environ, **environment}, check=True,
                                 capture_output=True, text=True, timeout=60)  # fmt: skip
            words = run.stdout.splitlines()
            return words[words.index("-R") + 1]

    def test_an_operator_has_two_spellings(self):
        selected = re.compile(self.pattern("toeplitz_1d|^cli$"))
        for name in ("Registry/SumsOf.Bits/toeplitz_1d", "Toeplitz1d.Identity", "cli"):
            self.assertRegex(name, selected)
        for name in ("Toeplitz2d.Identity", "cli_of_more"):
            self.assertNotRegex(name, selected)

    def test_other_patterns_stay(self):
        self.assertEqual("Fft[12]d\\b", self.pattern("Fft[12]d\\b"))

    def test_wrong_arguments_are_refused_before_anything_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            built = pathlib.Path(folder) / "built"
            for name in ("cmake", "ctest"):
                (pathlib.Path(folder) / name).write_text(f"#!/bin/sh\ntouch {built}\n", encoding="utf-8")
                (pathlib.Path(folder) / name).chmod(0o755)
            environment = {
                **os.environ,
                "PATH": f"{folder}:{os.environ['PATH']}",
                "BUILD_DIR": folder,
                "SUBQUAD_SETUP": "0",
            }
            for arguments, words in (
                (["--foo", "--help"], "found '--foo'"),
                (["-L", "quick", "--al"], "found '--al'"),
                (["toeplitz"], "such as -R NAME or -L LABEL, found 'toeplitz'"),
                (["-R"], "-R: expected a value after it, found none"),
                (["-L", "quick", "--all"], "expected --all as the first argument, found it after 'quick'"),
            ):
                run = subprocess.run([ROOT / "run-tests", *arguments], env=environment, check=False, capture_output=True,
                                     text=True, timeout=60)  # fmt: skip
                self.assertEqual((2, "", 1), (run.returncode, run.stdout, run.stderr.count("\n")), run.stderr)
                self.assertIn(words, run.stderr)
            run = subprocess.run([ROOT / "run-tests", "-L", "quick", "--help"], env=environment, check=True,
                                 capture_output=True, text=True, timeout=60)  # fmt: skip
            self.assertIn("Exit status", run.stdout)
            self.assertFalse(built.exists())


if __name__ == "__main__":
    unittest.main()
