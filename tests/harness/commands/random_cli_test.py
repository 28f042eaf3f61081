#!/usr/bin/env python3
"""`subquad verify --random` from outside: python3 tests/harness/commands/random_cli_test.py BUILD/subquad"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""  # set by main
QUICK = ("--operator", "toeplitz_1d", "--operator", "linformer_attention")
# The first 2500 draws of this seed pass, so that no test depends on chance.
PASSING = ("--seed", "3", *QUICK)


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, "verify", *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options
    )


def table(text):
    """Removes the parts that depend on the clock."""
    return re.sub(r"in \d+ s", "", text)


class Random(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_seed_repeats_it(self):
        command = ("--random", 60, *PASSING)
        first, second = (run(*command, cwd=self.folder) for _ in range(2))
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertEqual(table(first.stdout), table(second.stdout))
        self.assertIn(f"seed 3; to repeat: subquad verify --random 60 --seed 3 {' '.join(QUICK)}\n", first.stdout)
        self.assertIn(" of 60 draws gave no valid case", first.stdout)
        self.assertNotEqual(table(run("--random", 60, "--seed", 8, *QUICK).stdout), table(first.stdout))
        # Nothing failed, so nothing is written.
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_without_a_seed_it_is_a_new_one(self):
        seeds = {re.match(r"seed (\d+)", run("--random", 1, *QUICK).stdout).group(1) for _ in range(3)}
        self.assertEqual(len(seeds), 3)

    def test_every_case_can_be_repeated_by_its_id(self):
        text = run("--random", 30, "--seed", 3, "--verbose").stdout
        lines = [line.split() for line in text.splitlines() if line.startswith(("passed ", "mistrusted "))]
        self.assertGreater(len(lines), 20)
        for outcome, implementation, case in (line[:3] for line in lines[::9]):
            again = run("--case", case, "--implementation", implementation)
            self.assertIn(f"{outcome} ", again.stdout, case)

    def test_for_as_long_as_asked(self):
        start = time.monotonic()
        result = run("--random", "2s", *PASSING)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertGreater(time.monotonic() - start, 1.9)
        self.assertLess(time.monotonic() - start, 60)

    def test_an_interrupt_loses_nothing(self):
        process = subprocess.Popen(
            [PROGRAM, "verify", "--random", "1h", *PASSING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertTrue(process.stdout.readline().startswith("seed "))
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        text, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertRegex(text, r"\n[1-9]\d* passed, 0 failed")

    def test_the_help_says_what_is_counted(self):
        text = " ".join(run("--help").stdout.split())
        self.assertIn("about half of the draws are no valid case", text)

    def test_refusals(self):
        for amount in ("0", "-1", "x", "5x", "1.5", "s", "0s", "-3m", "nanm", "1e9h"):
            result = run(f"--random={amount}")
            self.assertEqual(result.returncode, 2, amount)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn("--random", result.stderr)
        for more in (("--n", "4"), ("--case", "toeplitz_1d:n=4")):
            self.assertEqual(run("--random", "1", *more).returncode, 2)
        self.assertEqual(run("--out", self.folder).returncode, 2)
        self.assertEqual(run("--random", "1", "--input", "nope").returncode, 2)
        self.assertEqual(run("--random", "1", "--scalar", "float16", "--backend", "cpu").returncode, 2)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
