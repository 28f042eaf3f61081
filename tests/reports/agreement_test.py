#!/usr/bin/env python3
"""Checks that summary, claims, figures and the texts made from them print the same numbers, for the committed results.

Run: python3 tests/reports/agreement_test.py BUILD/subquad
"""

import copy
import csv
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from reports import figures  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import panel_notes  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.drawing import quantities  # noqa: E402
from reports.files import recipe_file  # noqa: E402
from reports.files import result_file  # noqa: E402

PROGRAM = ""  # set by main
MACHINES = sorted(path.parent for path in (ROOT / "reports/results").glob("*/summary.json"))
# Matches numbers of a claim that are also in its recipes; the others are computed from counts, or from other points.
SHARED = re.compile("crossover |exponent of (time|workspace) of |exponent in pixels|time of (dense|tiled) softmax|"
                    "workspace of (dense|tiled) softmax|naive over shift")  # fmt: skip


def entries_of(summary, recipe):
    """Returns {kind: {(value, low, high)}} of a recipe; a `ratio` has no ends if they equal the value."""
    entries = {"crossover": set(), "fit": set(), "ratio": set()}
    for entry in summary["recipes"]:
        for panel in entry["panels"] if entry["recipe"] == recipe else ():
            entries["crossover"] |= {
                (crossover["n"], crossover["low"], crossover["high"])
                for crossover in panel["crossovers"]
                if crossover["n"]
            }
            entries["fit"] |= {
                (fit["exponent"], fit["low"], fit["high"]) for fit in (curve["fit"] for curve in panel["curves"]) if fit
            }
            entries["ratio"] |= {(ratio["ratio"], ratio["low"], ratio["high"]) for ratio in panel["ratios"]}
    return entries


def kind_of(name):
    return "crossover" if name.startswith("crossover") else "fit" if name.startswith("exponent") else "ratio"


def against_claims(summaries, claims):
    """Compares with claims; returns (differences, number of compared values). summaries: one of each machine."""
    wrong, count = [], 0
    for claim in claims["claims"]:
        known = [entries_of(summary, recipe) for summary in summaries for recipe in claim["recipes"]]
        for quantity in claim["quantities"]:
            if not known or not SHARED.match(quantity["name"]):
                continue
            count += 1
            if not any(
                (quantity["value"], quantity["low"], quantity["high"]) in entries[kind_of(quantity["name"])]
                for entries in known
            ):
                wrong.append(
                    f"{claim['id']}: {quantity['name']} = {quantity['value']} is not in the summary of {claim['recipes']}"
                )
    return wrong, count


def against_figures(summary, products):
    """Compares with the CSV files of figures; returns the same as against_claims."""
    wrong, count = [], 0
    for product in products:
        lines = product.data.get(f"{product.name}-lines.csv")
        if product.recipe is None or lines is None:
            continue
        known, shown = entries_of(summary, product.recipe.name), {"crossover": set(), "fit": set(), "ratio": set()}
        for row in csv.DictReader(io.StringIO(lines)):
            ends = tuple(None if row[key] == "nan" else float(row[key]) for key in ("value", "low", "high"))
            if ends[0] is not None:
                shown[row["kind"]].add(ends)
        count += sum(map(len, shown.values()))
        wrong += [
            f"{product.name}: {kind} of the figure and of the summary" for kind in shown if shown[kind] != known[kind]
        ]
    return wrong, count


def against_text(summary, recipe, quantity, text, words):
    """Returns crossovers of a recipe that a text does not print; `words` precede the number."""
    wrong, count = [], 0
    for entry in summary["recipes"]:
        for panel in entry["panels"] if entry["recipe"] == recipe else ():
            for crossover in panel["crossovers"] if panel["quantity"] == quantity else ():
                if crossover["n"]:
                    count += 1
                    printed = words + plot_style.with_interval(crossover["n"], crossover["low"], crossover["high"])
                    wrong += (
                        []
                        if printed in text
                        else [f"{recipe}: {printed} of {crossover['fast']} and {crossover['dense']}"]
                    )
    return wrong, count


def moved(summary, kind):
    """Returns the summary with the last digits of one recipe's numbers changed."""
    planted = copy.deepcopy(summary)
    recipe = "nprf-fig1a" if kind == "crossover" else "nprf-memory"
    panel = next(entry for entry in planted["recipes"] if entry["recipe"] == recipe)["panels"][0]
    if kind == "crossover":
        next(crossover for crossover in panel["crossovers"] if crossover["n"])["n"] *= 1.01
    else:
        for curve in panel["curves"]:
            curve["fit"]["exponent"] *= 1 + 1e-12
    return planted


class AgreementTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = result_file.default_folder()
        cls.summary = json.loads((cls.folder / "summary.json").read_text(encoding="utf-8"))
        cls.claims = json.loads((cls.folder / "claims/claims.json").read_text(encoding="utf-8"))
        results, studies, summary = figures.load_files([cls.folder])
        cls.products = catalogue.build(results, studies, recipe_file.load_all(), "none", summary).products

    def test_the_program_writes_the_committed_summary(self):
        for folder in MACHINES:
            with self.subTest(folder.name), tempfile.TemporaryDirectory() as made:
                out = pathlib.Path(made) / "summary.json"
                subprocess.run([PROGRAM, "summarize", folder, "--out", out], check=True, capture_output=True)
                content = json.loads(out.read_text(encoding="utf-8"))
                committed = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
                for key in ("files", "recipes"):
                    self.assertEqual(committed[key], content[key])

    def test_claims(self):
        others = [
            json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            for folder in MACHINES
            if folder != self.folder
        ]
        wrong, count = against_claims([self.summary, *others], self.claims)
        self.assertEqual([], wrong)
        self.assertGreater(count, 0)
        for kind in ("crossover", "fit"):
            self.assertTrue(against_claims([moved(self.summary, kind), *others], self.claims)[0], kind)

    def test_figures(self):
        wrong, count = against_figures(self.summary, self.products)
        self.assertEqual([], wrong)
        self.assertGreater(count, 0)
        for kind in ("crossover", "fit"):
            self.assertTrue(against_figures(moved(self.summary, kind), self.products)[0], kind)

    def test_texts(self):
        for path in (self.folder / "claims/claims.md", self.folder / "README.md"):
            text = path.read_text(encoding="utf-8")
            wrong, count = against_text(self.summary, "nprf-fig1a", "seconds", text, "from n = ")
            self.assertEqual([], wrong, path)
            self.assertGreater(count, 0)
            self.assertTrue(
                against_text(moved(self.summary, "crossover"), "nprf-fig1a", "seconds", text, "from n = ")[0], path
            )

    def test_tables(self):
        tables = {product.name: product.table.markdown() for product in self.products if product.table}
        for entry in self.summary["recipes"]:
            for quantity in ("seconds", "workspace_bytes"):
                self.assertEqual(
                    [], against_text(self.summary, entry["recipe"], quantity, tables["crossovers"], "| ")[0]
                )
        self.assertTrue(
            against_text(moved(self.summary, "crossover"), "nprf-fig1a", "seconds", tables["crossovers"], "| ")[0]
        )


class FewSamples(unittest.TestCase):
    """Points of few samples are marked."""

    def test_a_point_of_few_samples_is_told_apart(self):
        time, workspace = quantities.QUANTITIES["seconds"], quantities.QUANTITIES["workspace_bytes"]
        row = {"seconds_low": 1.0, "seconds_high": 2.0, "samples": 5}
        self.assertTrue(panel_notes.few_samples(row, time))
        self.assertFalse(panel_notes.few_samples({**row, "samples": panel_notes.FEWEST_SAMPLES}, time))
        self.assertFalse(panel_notes.few_samples({**row, "samples": None}, time))
        self.assertFalse(panel_notes.few_samples({**row, "seconds_low": None}, time))
        self.assertFalse(panel_notes.few_samples(row, workspace))

    def test_the_committed_captions_say_so(self):
        folder = result_file.default_folder()
        records = json.loads((folder / "paper.json").read_text(encoding="utf-8"))["records"]
        few = [r for r in records if r["seconds"] and len(r["seconds"]["samples"]) < panel_notes.FEWEST_SAMPLES]
        self.assertTrue(few)
        self.assertIn(
            f"open marks: fewer than {panel_notes.FEWEST_SAMPLES} samples",
            (folder / "README.md").read_text(encoding="utf-8"),
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
