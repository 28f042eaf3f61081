#!/usr/bin/env python3
"""Tests the installed program: python3 tests/install_test.py BUILD"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path()  # set by main


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.place = pathlib.Path(cls.folder.name)
        subprocess.run(
            ["cmake", "--install", BUILD, "--prefix", cls.place / "first"],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )
        cls.prefix = cls.place / "moved"
        (cls.place / "first").rename(cls.prefix)
        cls.data = cls.prefix / "share/subquad"
        cls.program = cls.prefix / "bin/subquad"
        # Other files of the source tree that may be needed are copied, too.
        shutil.copytree(ROOT / "tests/golden/toeplitz_1d-square", cls.place / "case")

    def run_program(self, *arguments, code=0, program=None, **environment):
        result = subprocess.run(
            [program or self.program, *map(str, arguments)],
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={"PATH": os.environ["PATH"], **environment},
        )
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        return result.stdout + result.stderr

    def test_holds_no_path_of_the_source_tree(self):
        program = self.program.read_bytes()
        for path in (ROOT, BUILD):
            self.assertNotIn(str(path).encode(), program)
        self.assertIn(b"share", program)  # shows that the search would find a path

    def test_installs_what_it_needs_and_no_results(self):
        for path in (
            "LICENSE",
            "reports/recipes/error-n.json",
            "reports/files/results.schema.json",
            "reports/inputs/mpnet-layer0/case.json",
            "reports/figures.py",
        ):
            self.assertTrue((self.data / path).is_file(), path)
        self.assertFalse((self.data / "reports/results").exists())

    def test_lists_and_checks(self):
        self.assertIn("toeplitz_1d", self.run_program("list"))
        self.assertIn("0 failed", self.run_program("check", "case"))

    def test_finds_its_inputs_from_anywhere(self):
        self.assertIn(
            "0 failed", self.run_program("verify", "--case", "softmax_attention:n=16,input=reports/inputs/mpnet-layer0")
        )

    def test_a_study_with_its_inputs_and_figures(self):
        # So small that its claims fail, which does not matter here.
        self.run_program("study", "conversion", "--tiny", "--out", "studies", code=1)
        study = (self.place / "studies/conversion.json").read_text(encoding="utf-8")
        self.assertIn("mpnet-layer0", study)
        self.assertNotIn(str(ROOT), study)
        self.run_program(
            "sweep",
            "--operator",
            "toeplitz_1d",
            "--n",
            "64:256:x2",
            "--e",
            "4",
            "--budget",
            "0.02",
            "--no-resident",
            "--out",
            "sweep.json",
        )
        self.run_program(
            "-m",
            "reports.figures",
            "sweep.json",
            "studies/conversion.json",
            "--out",
            "figures",
            program=sys.executable,
            PYTHONPATH=str(self.data),
            HOME=str(self.place),
        )
        self.assertTrue(any((self.place / "figures").iterdir()))

    def test_data_elsewhere(self):
        verify = ("verify", "--case", "softmax_attention:n=16,input=reports/inputs/mpnet-layer0")
        bare = self.place / "bare/bin/subquad"
        bare.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.program, bare)
        self.assertIn("input", self.run_program(*verify, program=bare, code=2))
        self.assertIn("0 failed", self.run_program(*verify, program=bare, SUBQUAD_DATA=str(self.data)))
        self.assertIn("SUBQUAD_DATA", self.run_program(*verify, program=bare, code=2, SUBQUAD_DATA="/nowhere"))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
