#!/usr/bin/env python3
"""Growth breaks nothing: a copy of the tree with what contributors add (grow.py) builds and passes the default suite.

grown_tree_test.py [CMAKE OPTION..]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = ""  # set by main
# Written in the words of CONTRIBUTING.md; it says to write README's tables as well.
README = "python3 -m reports.readme --program build/tests/subquad_emulated"


class GrownTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="subquad-grown-")
        cls.addClassCleanup(folder.cleanup)
        cls.tree = pathlib.Path(folder.name) / "subquad"
        subprocess.run([sys.executable, ROOT / "tests/growth/grow.py", ROOT, cls.tree], check=True)

    def run_in_tree(self, *words, **more):
        environment = {**os.environ, "SUBQUAD_SETUP": "0", "CMAKE_OPTIONS": OPTIONS}
        # The tree that this one is a copy of has the same files in the compiler's cache.
        run = subprocess.run(words, cwd=self.tree, env=environment, capture_output=True, text=True, check=False, **more)
        return run.returncode, run.stdout + run.stderr

    def test_the_default_suite_passes(self):
        self.assertIn(f"`{README}`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
        status, said = self.run_in_tree("./run-tests", "-R", "^AverageAttention|^layout$", timeout=7200)
        self.assertEqual(0, status, said[-6000:])
        self.assertIn("AverageAttention.NoRowSeesTheNext", said)
        status, said = self.run_in_tree(*README.replace("python3", sys.executable).split(), timeout=600)
        self.assertEqual(0, status, said)
        readme = (self.tree / "README.md").read_text(encoding="utf-8")
        self.assertRegex(readme, r"\| `average_attention` \| `dense` `running` \|")
        self.assertIn("`my_product`", readme)
        status, said = self.run_in_tree("./run-tests", timeout=7200)
        self.assertEqual(0, status, said[-6000:])
        self.assertRegex(said, r"Mutants.*average_attention_running")
        for command, words in (
            ("check tests/golden/average_attention-three", " 0 failed"),
            ("verify --operator average_attention", " 0 failed, 0 mistrusted"),
            ("list --operator toeplitz_1d", "my_product"),
        ):
            status, said = self.run_in_tree("build/subquad", *command.split(), timeout=600)
            self.assertEqual(0, status, said)
            self.assertIn(words, said)


if __name__ == "__main__":
    OPTIONS = " ".join(sys.argv[1:])
    del sys.argv[1:]
    unittest.main(verbosity=2)
