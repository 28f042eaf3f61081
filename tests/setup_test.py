#!/usr/bin/env python3
"""Tests of ./setup on imitated systems, and of .ci/format: python3 tests/setup_test.py"""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASH = shutil.which("bash")


class Setup(unittest.TestCase):
    def run_with(self, *arguments, programs=None, **environment):
        """Runs ./setup where only bash, sed, grep, awk and these programs (name: script) exist."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for program in ("bash", "sed", "grep", "awk"):
                (folder / program).symlink_to(shutil.which(program))
            scripts = {"uname": "echo Linux", "getconf": "echo glibc 2.36", "id": "echo 1000"}
            for program, script in {**scripts, **(programs or {})}.items():
                (folder / program).write_text(f"#!{BASH}\n{script}\n", encoding="utf-8")
                (folder / program).chmod(0o755)
            return subprocess.run(
                [BASH, ROOT / "setup", *arguments],
                env={"PATH": name, **environment},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

    def check(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_help(self):
        result = self.run_with("--help")
        self.check(result, 0)
        self.assertIn("Exit status", result.stdout)
        self.check(self.run_with("--bogus"), 2, "--bogus")

    def test_debian(self):
        apt = {"apt-get": "exit 0", "dpkg-query": "echo not-installed"}
        self.check(self.run_with(programs=apt), 2, "apt-get install g++", "no sudo")
        self.assertNotIn("clang", self.run_with(programs=apt).stderr)
        self.check(self.run_with("--all", programs=apt), 2, "apt-get install g++", " clang-19")
        self.check(self.run_with(programs={**apt, "dpkg-query": "echo installed"}), 0)
        failing = {**apt, "apt-get": "exit 100", "id": "echo 0"}
        self.check(self.run_with(programs=failing), 100)

    def test_fedora(self):
        dnf = {"dnf": "exit 1", "rpm": "exit 1"}
        self.check(self.run_with(programs=dnf), 2, "sudo dnf install 'gcc-c++'")
        self.check(self.run_with(programs={**dnf, "rpm": "exit 0"}), 0)

    def test_conda(self):
        result = self.run_with(programs={"conda": "echo eigen 3.4.0"}, CONDA_PREFIX="/env")
        self.check(result, 2, "conda install -c conda-forge cxx-compiler")
        self.assertNotIn(" eigen ", result.stderr)

    def test_other_systems(self):
        self.check(self.run_with(), 2, "apt-get, dnf or an active conda", "libeigen3-dev", "SUBQUAD_SETUP=0")
        self.check(self.run_with(programs={"uname": "echo Darwin"}), 2, "Linux with glibc", "Darwin")
        self.check(self.run_with(programs={"getconf": "exit 1"}), 2, "Linux with glibc")

    def test_format_notices_a_badly_formatted_file(self):
        with tempfile.TemporaryDirectory() as folder:
            codes = []
            for text in ("int x;\n", "int   x ;\n"):
                path = pathlib.Path(folder) / "planted.cc"
                path.write_text(text, encoding="utf-8")
                run = subprocess.run([ROOT / ".ci/format", path], capture_output=True, timeout=60, check=False)
                codes.append(run.returncode)
        self.assertIn(codes, ([0, 1], [77, 77]))  # 77: clang-format 14 is not installed


if __name__ == "__main__":
    unittest.main()
