#!/usr/bin/env python3
"""What ./run-tests says of its tests, on a report of three: python3 tests/summary_test.py"""

import pathlib
import subprocess
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).resolve().parents[1] / ".ci/summary"
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


if __name__ == "__main__":
    unittest.main()
