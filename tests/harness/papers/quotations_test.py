#!/usr/bin/env python3
"""Checks that the words quoted by each claim are in its paper: python3 tests/harness/papers/quotations_test.py
BUILD/subquad

The texts are not part of this repository. They are looked up in $SUBQUAD_PAPERS, or in shared/papers next to it: a
README.md whose table names a file for each paper. Without them the comparison is reported as skipped.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAPERS = pathlib.Path(os.environ.get("SUBQUAD_PAPERS") or ROOT.parent / "shared" / "papers")
NAMES = {"blog": "Transformers II"}  # as the folder has it, and as the claims do
PROGRAM = ""  # set by main


def flat(text):
    return re.sub(r"\s+", " ", text)


def texts_of(folder):
    """Returns {paper: text} by the table in the folder's README.md."""
    table = re.findall(r"^\| ([\w-]+) \| `([^`]+)` \|", (folder / "README.md").read_text(encoding="utf-8"), re.M)
    return {NAMES.get(name, name): flat((folder / file).read_text(encoding="utf-8")) for name, file in table}


def not_found(claims, texts):
    return [claim["id"] for claim in claims if flat(claim["words"]) not in texts.get(claim["paper"], "")]


class Quotations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "claims.json"
            empty = pathlib.Path(folder) / "none.json"
            empty.write_text(
                '{"format": "results/1", "created": "", "environment": {}, "records": []}', encoding="utf-8"
            )
            subprocess.run(
                [PROGRAM, "claims", str(empty), "--out", str(out), "--force"], capture_output=True, check=True
            )
            claims = json.loads(out.read_text(encoding="utf-8"))["claims"]
            cls.claims = [claim for claim in claims if claim["words"]]  # not what this project claims

    def test_the_words_stand_in_the_paper(self):
        if not (PAPERS / "README.md").exists():
            self.skipTest("the texts of the papers are not here (SUBQUAD_PAPERS names their folder)")
        texts = texts_of(PAPERS)
        self.assertLessEqual(set(texts), {claim["paper"] for claim in self.claims})
        self.assertEqual(not_found([claim for claim in self.claims if claim["paper"] in texts], texts), [])

    def test_words_that_are_not_there_are_found_out(self):
        texts = {claim["paper"]: "" for claim in self.claims}
        for claim in self.claims:
            texts[claim["paper"]] += " " + flat(claim["words"])
        self.assertEqual(not_found(self.claims, texts), [])
        first = self.claims[0]
        changed = [dict(first, words=first["words"] + " not"), *self.claims[1:]]
        self.assertEqual(not_found(changed, texts), [first["id"]])
        elsewhere = [dict(first, paper=self.claims[-1]["paper"])]
        self.assertEqual(not_found(elsewhere, texts), [first["id"]])

    def test_quotations_are_short(self):
        for claim in self.claims:
            self.assertLessEqual(len(claim["words"].split()), 12, claim["id"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    ran = unittest.main(exit=False).result
    for _, reason in ran.skipped:
        print("skipped:", reason)
    sys.exit(1 if not ran.wasSuccessful() else 77 if ran.skipped else 0)  # CTest does not see unittest's skips
