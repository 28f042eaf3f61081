#!/usr/bin/env python3
"""Tests of reports on one paper, and of figures that compare two machines. Run: python3 tests/reports/reproduce_test.py

Every number in this file is synthetic; none was measured.
"""

import copy
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import figures_test  # noqa: E402
import recipes_test  # noqa: E402
from reports import reproduce  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.files import recipe_file  # noqa: E402

CLAIMS = {
    "format": "claims/1",
    "claims": [
        {"id": "txl-linear", "says": "a count is linear", "source": "Transformer-XL appendix B", "verdict": "reproduced", "numbers": "3"},
        {"id": "txl-words", "says": "text gets better", "source": "Transformer-XL table 1", "verdict": "cannot be tested here",
         "numbers": "needs training"},
        {"id": "txl-later", "says": "it is fast", "source": "Transformer-XL figure 9", "verdict": "not measured",
         "numbers": "no records; needs recipe txl-time"},
        {"id": "other", "says": "x", "source": "Transformers II eq. 4", "verdict": "reproduced", "numbers": "4"},
    ],
}  # fmt: skip


class PlaceTest(unittest.TestCase):
    def test_places_are_those_of_the_paper(self):
        for source, name, place in (
            ("FastRPB, figure 3a", "FastRPB", "figure 3a"),
            ("FastRPB prop. 3.1", "FastRPB", "proposition 3.1"),
            ("NPRF fig. 1a", "NPRF", "figure 1a"),
            ("FastRPB, proposition 3.2; NPRF, section 4.4", "FastRPB", "proposition 3.2"),
            ("Transformers II", "Transformers II", "the whole paper"),
        ):
            self.assertEqual(place, reproduce.place_of(source, name))
        self.assertFalse(reproduce.of_paper("Transformers II eq. 4", "Transformer-XL"))
        self.assertFalse(reproduce.of_paper("NPRF-like", "NPRF"))

    def test_parts_are_in_the_order_of_their_numbers(self):
        places = ["figure 10", "table 3", "equation 9", "figure 3a", "proposition 3.1", "equation 22"]
        self.assertEqual(["equation 9", "equation 22", "proposition 3.1", "figure 3a", "figure 10", "table 3"],
                         sorted(places, key=reproduce.by_place))  # fmt: skip


class ReportTest(figures_test.Workplace):
    def reproduce(self, *arguments):
        command = [sys.executable, "-m", "reports.reproduce", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def run_report(self, *more, out="out"):
        content = recipes_test.synthetic_results([recipes_test.RECIPES["txl-time"]])
        return self.reproduce("transformer-xl", "--files", self.write(content), "--claims", self.write(CLAIMS, "claims.json"), "--out",
                              self.folder / out, *more)  # fmt: skip

    def test_a_report_and_twice_the_same_bytes(self):
        for out in ("out", "again"):
            result = self.run_report(out=out)
            self.assertEqual((0, ""), (result.returncode, result.stderr))
        pages = [(self.folder / out / "transformer-xl.pdf").read_bytes() for out in ("out", "again")]
        self.assertTrue(pages[0].startswith(b"%PDF"))
        self.assertEqual(*pages)

    def test_what_is_in_it(self):
        content = recipes_test.synthetic_results([recipes_test.RECIPES["txl-time"]])
        plot_style.use_style()
        made = catalogue.build([("run.json", content)], [], recipe_file.load_all(), "none")
        document, report = reproduce.write_report("transformer-xl", made, [("run.json", content)], CLAIMS["claims"], {})
        words = " ".join(text.get_text() for sheet in document.finish() for text in sheet.texts)
        self.assertIn("Appendix B", words)
        self.assertIn(f"{content['created'][:10]}, at commit", words)
        self.assertNotIn(f"{content['created'][:10]} to", words)
        self.assertIn("txl-linear", words)
        self.assertIn("needs training", words)  # among the results that cannot be reproduced
        self.assertIn("the study shifted_scores is not in these files", words)
        self.assertIn("txl-later (figure 9): it is fast. no records; needs recipe txl-time", " ".join(words.split()))
        self.assertIn("1 not measured", words)
        self.assertNotIn("eq. 4", words)
        self.assertEqual(["appendix B", reproduce.LACKING, reproduce.LAST], list(report))

    def test_chapters_of_what_is_missing_are_there_for_a_reason(self):
        claims = {claim["verdict"]: claim for claim in CLAIMS["claims"]}
        made = catalogue.Catalogue([], [], [])
        sources = [("run.json", recipes_test.synthetic_results([recipes_test.RECIPES["txl-time"]]))]
        for verdicts, endings in (
            (["reproduced"], [reproduce.LAST]),  # whose text says that nothing is
            (["not measured"], [reproduce.LACKING]),
            (["cannot be tested here"], [reproduce.LAST]),
            (["not measured", "cannot be tested here"], [reproduce.LACKING, reproduce.LAST]),
        ):
            own = [dict(claims[verdict], source="Transformer-XL") for verdict in verdicts]
            _, report = reproduce.write_report("transformer-xl", made, sources, own, {})
            self.assertEqual(endings, [place for place in report if place in reproduce.UNANSWERED.values()])

    def test_sweeps_and_studies_of_a_paper(self):
        result = self.reproduce("transformer-xl", "--sweeps")
        self.assertEqual(
            ["transformer_xl_attention"], [sweep["operator"] for sweep in json.loads(result.stdout)["sweeps"]]
        )
        self.assertEqual("shifted_scores\n", self.reproduce("transformer-xl", "--studies").stdout)

    def test_refusals(self):
        for arguments, words in (
            (["nobody", "--sweeps"], "invalid choice: 'nobody'"),
            (["nprf"], "expected both --files"),
            (["nprf", "--files", self.folder / "none.json", "--out", self.folder / "out"], "cannot be read"),
        ):
            result = self.reproduce(*arguments)
            self.assertEqual(2, result.returncode)
            self.assertIn(words, result.stderr)
        content = recipes_test.synthetic_results([recipes_test.RECIPES["txl-time"]])
        result = self.reproduce("nprf", "--files", self.write(content), "--out", self.folder / "out")
        self.assertEqual(2, result.returncode)
        self.assertIn("nprf: expected files with data for one of its recipes or claims, found none", result.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_run_sweeps_refuses_unknown_papers(self):
        for arguments in (["reproduce"], ["reproduce", "fastrbp"]):
            result = subprocess.run([ROOT / "run-sweeps", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(2, result.returncode)
            self.assertIn("reproduce: expected fastrpb, nprf, lrpe, transformer-xl or survey, found", result.stderr)


class CompareTest(figures_test.Workplace):
    def sides(self, **environment):
        first = recipes_test.synthetic_results([recipes_test.RECIPES["txl-time"]])
        second = copy.deepcopy(first)
        second["environment"].update(environment)
        return self.write(first, "a.json"), self.write(second, "b.json")

    def compare(self, *paths):
        return self.draw("--compare", *paths, "--format", "svg")

    def test_every_line_twice(self):
        for environment, words in (
            ({"cpu": "Another CPU"}, "B (hollow): Another CPU"),
            ({"commit": "feed" * 10}, "B (hollow): feedfeed"),
        ):
            result = self.compare(*self.sides(**environment))
            self.assertEqual((0, ""), (result.returncode, result.stderr))
            drawn = (self.out / "txl-time-compare.svg").read_text(encoding="utf-8")
            for label in ("for every pair (A)", "for every pair (B)", "once, then shift (A)", "once, then shift (B)"):
                self.assertIn(label, drawn)
            self.assertIn(words, (self.out / "txl-time-compare.caption.md").read_text(encoding="utf-8"))
            rows = (self.out / "txl-time-compare.csv").read_text(encoding="utf-8").splitlines()
            self.assertEqual(1 + 4 * recipes_test.TINY, len(rows))

    def test_refusals(self):
        first, second = self.sides(cpu="Another CPU")
        result = self.draw(first, "--compare", first, second)
        self.assertEqual(2, result.returncode)
        self.assertIn("expected either FILE... or --compare A B", result.stderr)
        both = self.folder / "both"
        both.mkdir()
        for path in (first, second):
            (both / path.name).write_bytes(path.read_bytes())
        result = self.compare(first, both)
        self.assertEqual(2, result.returncode)
        self.assertIn("expected results of one machine to compare, found 2", result.stderr)


if __name__ == "__main__":
    unittest.main()
