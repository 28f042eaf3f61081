#!/usr/bin/env python3
"""Tests --target and SUBQUAD_TARGET: python3 tests/harness/commands/target_cli_test.py BUILD/subquad"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from reports.files import result_file  # noqa: E402

PROGRAM = ""  # set by main
KNOWN = {"sse4", "avx2", "avx512", "neon"}


def run(*arguments, **environment):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def here():
    """Returns the targets of this processor, the best one first."""
    return re.search(r"^target: .*; this processor has (.*)$", run("--version").stdout, re.M)[1].split(", ")


class Target(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fine(self, *arguments, **environment):
        result = run(*arguments, **environment)
        self.assertEqual(result.returncode, 0, (arguments, result.stderr, result.stdout))
        return result.stdout

    def test_the_best_one_is_taken(self):
        self.assertIn(f"target: {here()[0]};", self.fine("--version"))
        self.assertLessEqual(set(here()), KNOWN)

    def test_each_one_is_taken_and_told(self):
        for name in here():
            for listing in (
                self.fine("list", "--json", "--target", name),
                self.fine("list", "--json", SUBQUAD_TARGET=name),
            ):
                rows = [implementation for op in json.loads(listing) for implementation in op["implementations"]]
                self.assertEqual({name}, {row["target"] for row in rows if row["backend"] == "cpu"})
                self.assertTrue(all("target" not in row for row in rows if row["backend"] != "cpu"))
            self.assertEqual(name, json.loads(self.fine("env", "--target", name))["target"])
            self.assertIn(
                " 0 failed, 0 mistrusted",
                self.fine("verify", "--operator", "toeplitz_1d", "--n", "33", "--target", name),
            )

    def test_what_is_none_is_refused(self):
        for name in ("mmx", "AVX2", "", *(KNOWN - set(here()))):
            for arguments in (
                ("verify", "--operator", "toeplitz_1d"),
                ("list",),
                ("check", ROOT / "tests/golden/toeplitz_1d-square"),
            ):
                result = run(*arguments, f"--target={name}")
                self.assertEqual((2, 1), (result.returncode, result.stderr.count("\n")), (name, result.stderr))
                self.assertIn("--target", result.stderr)
                self.assertEqual(
                    name in KNOWN, "which this processor and build support" in result.stderr, result.stderr
                )
                if not name:
                    continue  # an empty SUBQUAD_TARGET chooses nothing
                result = run(*arguments, SUBQUAD_TARGET=name)
                self.assertEqual((2, 1), (result.returncode, result.stderr.count("\n")), (name, result.stderr))
                self.assertRegex(result.stderr, f"SUBQUAD_TARGET: expected .*{here()[-1]}.*, found '{name}'")

    def test_measurements_say_theirs(self):
        names, out = here(), self.folder / "out.json"
        sweep = (
            "sweep",
            "--operator",
            "toeplitz_1d",
            "--n",
            "64,128,256",
            "--e",
            "4",
            "--budget",
            "0.02",
            "--out",
            out,
        )
        self.fine(*sweep, "--target", names[-1])
        file = result_file.load(out)
        self.assertEqual(names[-1], file["environment"]["target"])
        self.assertRegex(result_file.machine_name("cpu", file["environment"]), f", {names[-1]}$")
        if len(names) > 1:
            result = run(*sweep, "--resume")
            self.assertEqual((2, 1), (result.returncode, result.stderr.count("\n")), result.stderr)
            for word in ("--resume: target", f'"{names[0]}"', f'"{names[-1]}"'):
                self.assertIn(word, result.stderr)
        self.fine("summarize", out, "--out", self.folder / "summary.json")
        entries = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))["recipes"]
        self.assertTrue(all(entry["machine"].endswith(f", {names[-1]}") for entry in entries), entries)
        drawn = subprocess.run([sys.executable, "-m", "reports.figures", out, "--out", self.folder / "figures", "--format", "png"],
                               cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        self.assertEqual(0, drawn.returncode, drawn.stderr)
        captions = [path.read_text(encoding="utf-8") for path in (self.folder / "figures").glob("*.caption.md")]
        self.assertTrue(captions and all(f", {names[-1]}" in caption for caption in captions), captions)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
