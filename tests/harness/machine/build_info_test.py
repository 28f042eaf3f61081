#!/usr/bin/env python3
"""Tests what changes the digest of the program, and what does not: python3 tests/harness/machine/build_info_test.py"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "harness" / "machine" / "build_info.cmake"
SOURCES = ("CMakeLists.txt", "cuda/cuda.cmake", "cuda/fft.cu", "reference/one.h", "optimized/one.cc", "harness/two.cc")
OTHERS = ("README.md", "reports/recipes/one.json", "harness/papers/nprf/rules.cc", "tests/one_test.cc")


class Digest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        for name in (*SOURCES, *OTHERS):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(f"{name}\n", encoding="utf-8")

    def digest(self, tree=None, **words):
        tree = tree or self.tree
        words = {"VERSION": "1", "COMPILER": "GCC 12", "FLAGS": "-O3", "LIBRARIES": "Eigen 3.4", "CUDA": "off", **words}
        definitions = [
            f"-D{name}={value}" for name, value in {**words, "SOURCE": tree, "OUT": tree / "info.cc"}.items()
        ]
        subprocess.run(["cmake", *definitions, "-P", SCRIPT], check=True, capture_output=True)
        text = (tree / "info.cc").read_text(encoding="utf-8")
        return re.search(r'kProgram = "([0-9a-f]{16})"', text).group(1)

    def test_it_depends_on_what_the_program_is_made_of(self):
        before = self.digest()
        self.assertEqual(self.digest(), before)
        seen = {before}
        for name in SOURCES:
            (self.tree / name).write_text(f"{name}, changed\n", encoding="utf-8")
            seen.add(self.digest())
        (self.tree / "optimized" / "new.cc").write_text("", encoding="utf-8")
        seen.add(self.digest())
        for name, value in (("COMPILER", "GCC 13"), ("FLAGS", "-O2"), ("LIBRARIES", "Eigen 5"), ("CUDA", "nvcc 13")):
            seen.add(self.digest(**{name: value}))
        self.assertEqual(len(seen), len(SOURCES) + 6)

    def test_it_depends_on_nothing_else(self):
        before = self.digest()
        for name in OTHERS:
            (self.tree / name).write_text(f"{name}, changed\n", encoding="utf-8")
        (self.tree / "reports" / "recipes" / "new.json").write_text("{}", encoding="utf-8")
        self.assertEqual(self.digest(), before)
        elsewhere = self.tree.parent / "a folder elsewhere"
        shutil.copytree(self.tree, elsewhere)
        self.assertEqual(self.digest(elsewhere), before)
        git = ["git", "-C", str(self.tree), "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "One"]):
            subprocess.run([*git, *words], check=True, capture_output=True)
        self.assertEqual(self.digest(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
