#!/usr/bin/env python3
"""Tests that the figures of the committed results mislead nobody. Run: python3 tests/reports/committed_figures_test.py"""

import functools
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import matplotlib.collections  # noqa: E402
import matplotlib.colors  # noqa: E402
import matplotlib.lines  # noqa: E402
from reports import figures  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import panels  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.drawing import ratio_panels  # noqa: E402
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


@functools.cache
def pages():
    """Returns [(name, recipe, layout.Page)] of every figure that the committed results have."""
    plot_style.use_style()
    drawn = []
    for machine, (results, studies, summary) in LOADED.items():
        for product in catalogue.build(results, studies, RECIPES, "none", summary).products:
            if product.draw:
                drawn.append((f"{machine}: {product.name}", product.recipe, product.draw()))
    return drawn


def intervals_of(axes):
    """Yields the ends, as arrays of points, of every interval in the axes: bands, vertical bars, and level bars without markers."""
    for collection in axes.collections:
        if isinstance(collection, (matplotlib.collections.PolyCollection, matplotlib.collections.LineCollection)):
            yield from (path.vertices for path in collection.get_paths())
    for line in axes.lines:
        ends = line.get_xydata()
        if line.get_transform() == axes.transData and len(ends) == 2 and ends[0][1] == ends[1][1]:
            yield ends


def leaves(axes):
    """Returns the ends of intervals that are outside the limits of the axes."""
    (left, right), (bottom, top) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    near = 1e-9
    return [
        (x, y)
        for ends in intervals_of(axes)
        for x, y in ends
        if not (left - near * abs(left) <= x <= right + near * abs(right))
        or not (bottom - near * abs(bottom) <= y <= top + near * abs(top))
    ]


class IntervalTest(unittest.TestCase):
    """An interval that is cut off looks more precise than it is."""

    def test_no_interval_leaves_its_axes(self):
        count = 0
        for name, _, page in pages():
            for axes in page.axes:
                count += len(list(intervals_of(axes)))
                with self.subTest(name):
                    self.assertEqual([], leaves(axes))
        self.assertGreater(count, 400)

    def test_an_interval_that_would_squeeze_the_others_ends_in_an_arrow(self):
        entry = {"input": "a", "ratio": 1.1, "low": 1.0, "high": 30.0, "in_turns": True}
        page = ratio_panels.draw([("a row", [entry])], ["a"], plot_style.look().text, "", ["A note."])
        (axes,) = page.axes
        self.assertEqual([], leaves(axes))
        self.assertLess(axes.get_xlim()[1], 2)
        self.assertIn(">", [line.get_marker() for line in axes.lines])
        self.assertIn("Arrow: the interval is longer.", page.notes)
        page = ratio_panels.draw([("a row", [{**entry, "high": 1.2}])], ["a"], plot_style.look().text, "", ["A note."])
        self.assertNotIn(">", [line.get_marker() for line in page.axes[0].lines])
        self.assertEqual(["A note."], page.notes)


def served(page):
    """Returns [(labels of a legend, the axes that it serves)]. The only legend of a page serves all panels."""
    if len(page.legends) == 1:
        return [(page.legends[0], page.axes)]
    return [(panel.cell.labels, [axes]) for axes, panel in zip(page.axes, page.panels) if panel.cell.labels]


def drawn_by(label):
    """Returns the line that matplotlib draws for a key."""
    style = label.style
    return matplotlib.lines.Line2D([], [], color=style.color, linestyle=style.dashes, marker=style.marker or "None",
                                   linewidth=label.width)  # fmt: skip


def dashes_of(line):
    return None if line.get_linestyle() == "None" else tuple(line._unscaled_dash_pattern[1] or ())


def marker_of(line):
    return None if line.get_marker() in (None, "None", "") else line.get_marker()


def thin(line):
    return line.get_linewidth() <= panels.THIN_WIDTH


def means(key, line):
    """Tells whether a key (a line as well) stands for a line. Open marks have no dashes, and some lines through many points no
    marker. A thin key stands for thin lines of any colour, a black mark for that mark in any colour."""
    if thin(key) or thin(line):
        return thin(key) and thin(line)
    if dashes_of(key) is None and key.get_color() == plot_style.BLACK:
        return marker_of(line) == marker_of(key)
    looks = [(dashes_of(key), dashes_of(line)), (marker_of(key), marker_of(line))]
    agreed = [own == drawn for own, drawn in looks if None not in (own, drawn)]
    return key.get_color() == line.get_color() and bool(agreed) and all(agreed)


class LegendTest(unittest.TestCase):
    def test_each_key_is_drawn_in_a_panel_that_it_serves(self):
        for name, _, page in pages():
            above = [
                line for line in page.figure.lines if line.get_markevery() is None
            ]  # marks over the axes; keys have it
            for labels, panels_served in served(page):
                lines = [line for axes in panels_served for line in axes.lines if len(line.get_xydata())]
                for label in labels:
                    with self.subTest(name, key=label.words):
                        self.assertTrue(any(means(drawn_by(label), line) for line in lines + above))

    def test_each_curve_has_a_key_in_the_legend_of_its_panel(self):
        for name, _, page in pages():
            for labels, panels_served in served(page):
                keys = list(map(drawn_by, labels))
                for line in (line for axes in panels_served for line in axes.lines):
                    if (
                        line.get_transform() == line.axes.transData
                        and len(set(line.get_xdata())) > 2
                        and not thin(line)
                    ):
                        with self.subTest(name, line=(line.get_color(), dashes_of(line), marker_of(line))):
                            self.assertTrue(any(means(key, line) for key in keys))


class MarginsTest(unittest.TestCase):
    def test_lines_join_only_sizes_at_which_every_operator_is_measured(self):
        for machine, (_, studies, _) in LOADED.items():
            for study in (study for study in studies if study.name == "margins"):
                table = study.table("margin", "operator", "n")
                operators = {n: {row["operator"] for row in table.where(n=n)} for n in table.values("n")}
                whole = {n for n, names in operators.items() if len(names) == len(table.values("operator"))}
                self.assertLess(1, len(whole))
                page = next(page for name, _, page in pages() if name == f"{machine}: margins")
                joined = [line for axes in page.axes for line in axes.lines if line.get_linestyle() != "None"]
                joined = [line for line in joined if line.get_transform() == line.axes.transData]
                self.assertGreater(len(joined), 4)
                for line in joined:
                    self.assertLessEqual(set(line.get_xdata()), whole)
                    self.assertEqual(sorted(line.get_xdata()), list(line.get_xdata()))


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
