#!/usr/bin/env python3
"""Growth breaks nothing: a copy of the tree with the additions of contributors (grow.py) builds and passes the default
suite.

grown_tree_test.py [CMAKE OPTION..]

The copy has no .git, its path has a space, and the suite runs as a user other than root.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = ""  # set by main
NOBODY = "65534"  # user and group
# Uses the words of CONTRIBUTING.md, which also says to write README's tables.
README = "python3 -m reports.readme --program build/tests/subquad_emulated"


class GrownTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="subquad-grown-")
        cls.addClassCleanup(folder.cleanup)
        cls.tree = pathlib.Path(folder.name) / "a copy" / "subquad"
        cls.tree.parent.mkdir()
        subprocess.run([sys.executable, ROOT / "tests/growth/grow.py", ROOT, cls.tree], check=True)

    def run_in_tree(self, *words, **more):
        environment = {**os.environ, "SUBQUAD_SETUP": "0", "CMAKE_OPTIONS": OPTIONS}
        run = subprocess.run(words, cwd=self.tree, env=environment, capture_output=True, text=True, check=False, **more)
        return run.returncode, run.stdout + run.stderr

    def give_away(self):
        """Returns a command prefix that runs it as a user who owns the copy alone; empty unless we are root.

        Call it after the build, whose compilations come from root's cache.
        """
        if os.geteuid() != 0:
            return ()
        top = self.tree.parents[1]
        subprocess.run(["chown", "-R", NOBODY, top], check=True)
        home = f"HOME={self.tree.parent}"
        return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", home)

    def test_the_default_suite_passes(self):
        self.assertIn(f"`{README}`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
        status, output = self.run_in_tree("./run-tests", "-R", "^AverageAttention|^layout$", timeout=7200)
        self.assertEqual(0, status, output[-6000:])
        self.assertIn("AverageAttention.NoRowSeesTheNext", output)
        status, output = self.run_in_tree(*README.replace("python3", sys.executable).split(), timeout=600)
        self.assertEqual(0, status, output)
        readme = (self.tree / "reference" / "README.md").read_text(encoding="utf-8")
        self.assertRegex(readme, r"\| `average_attention` \| `dense` `running` \|")
        self.assertIn("`my_product`", readme)
        status, output = self.run_in_tree(*self.give_away(), "./run-tests", timeout=7200)
        self.assertEqual(0, status, output[-6000:])
        self.assertRegex(output, r"Mutants.*average_attention_running")
        for command, words in (
            ("check tests/golden/average_attention-three", " 0 failed"),
            ("verify --operator average_attention", " 0 failed, 0 mistrusted"),
            ("list --operator toeplitz_1d", "my_product"),
            ("study averages --tiny --out made", "averages-running: largest difference"),
            ("claims made --out made/claims.json --all", "averages-constant         reproduced"),
        ):
            status, output = self.run_in_tree("build/subquad", *command.split(), timeout=600)
            self.assertEqual(0, status, output)
            self.assertIn(words, output)


if __name__ == "__main__":
    OPTIONS = " ".join(sys.argv[1:])
    del sys.argv[1:]
    unittest.main(verbosity=2)
