#!/usr/bin/env python3
"""Tests that the figures of the committed results mislead nobody. Run: python3 tests/reports/committed_figures_test.py"""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from reports import figures  # noqa: E402
from reports.drawing import recipe_figure  # noqa: E402
from reports.files import recipe_file  # noqa: E402

RECIPES = recipe_file.load_all()
FOLDERS = sorted(path.parent for path in (ROOT / "reports" / "results").glob("*/summary.json"))
LOADED = {folder.name: figures.load_files([folder]) for folder in FOLDERS}


def pictures():
    """Yields (name, recipe_figure.Picture) of every figure of curves or bars that the committed results have."""
    for machine, (results, _, summary) in LOADED.items():
        points = recipe_file.points_of(results)
        for platform in recipe_file.platforms(points):
            own = recipe_file.on_platform(points, platform)
            for recipe in RECIPES:
                if recipe.kind in ("curves", "bars"):
                    try:
                        picture = recipe_figure.curves(recipe, own, summary.panels(recipe.name, platform))
                    except recipe_figure.Unserved:
                        continue
                    yield f"{machine}: {recipe.name}", picture


class BaselineTest(unittest.TestCase):
    """A speed-up is over the fastest line that is drawn of the baseline's operator and precision, at the largest size of both."""

    def test_every_precision_has_a_panel_over_its_fastest_line(self):
        compared = [(name, picture.compared) for name, picture in pictures() if picture.compared]
        self.assertGreater(len(compared), 4)
        for name, panels in compared:
            baselines = {panel.against for panel, *_ in panels}
            for panel, baseline, rivals in panels:
                lines = [baseline, *rivals]
                for scalar in {line.points[0].settings["scalar"] for line in lines}:
                    own = [line for line in lines if line.points[0].settings["scalar"] == scalar]
                    times = [recipe_figure.seconds_by_size(line) for line in own]
                    largest = max(set.intersection(*(set(rows) for rows in times)))
                    fastest = min(own, key=lambda line: recipe_figure.seconds_by_size(line)[largest]["seconds"])
                    with self.subTest(name, scalar=scalar, n=largest):
                        self.assertIn(fastest.label, baselines)

    def test_a_label_names_the_precision_where_there_are_several(self):
        for name, picture in pictures():
            for panel, baseline, rivals in picture.compared:
                scalars = {line.points[0].settings["scalar"] for line in (baseline, *rivals)}
                if len(scalars) > 1:
                    with self.subTest(name):
                        self.assertIn(baseline.points[0].settings["scalar"], panel.label)


if __name__ == "__main__":
    unittest.main()
