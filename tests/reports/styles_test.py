#!/usr/bin/env python3
"""Tests that figures tell the truth in every style and width: each recipe is drawn from the committed results (made-up ones where
those lack it) with warnings as errors, and its tick labels are read back from the PDF. Run: python3 tests/reports/styles_test.py
"""

import collections
import concurrent.futures
import itertools
import json
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import matplotlib.ticker  # noqa: E402
import pdf_text  # noqa: E402
import recipes_test  # noqa: E402
from reports import figures  # noqa: E402
from reports.drawing import caption as captions  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import layout  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.files import recipe_file  # noqa: E402
from reports.files import result_file  # noqa: E402

WIDTHS = ("column", "text")
TABLES = ("table", "fits", "crossovers")  # kinds of recipes without a figure
RECIPES = recipe_file.load_all()
RESULTS = figures.load_files([result_file.default_folder()])
DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
NUMBER = re.compile(r"(?:10(?P<power>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<number>[−-]?[0-9.]+(?:e[-+]?[0-9]+)?)) ?(?P<unit>[A-Za-zµ×]*)")
UNITS = {"": 1, "×": 1, "k": 1e3, "M": 1e6, "Ki": 2**10, "Mi": 2**20, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "B": 1,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}  # fmt: skip


def number_of(label):
    """The number that a tick label says."""
    match = NUMBER.fullmatch(label)
    if match["power"]:
        return 10.0 ** int(match["power"].translate(DIGITS))
    return float(match["number"].translate(DIGITS)) * UNITS[match["unit"]]


def ticks_of(axes):
    """[(axis, [(place, label)])] of the ticks that are seen, with the labels that they were meant to have."""
    found = []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        places = [place for place in axis.get_majorticklocs() if low <= place <= high]
        seen = any(tick.label1.get_visible() or tick.label2.get_visible() for tick in axis.get_major_ticks())
        labels = axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
        meant = dict(zip(axis.get_majorticklocs(), labels))
        found.append((axis, [(place, meant[place]) for place in places if seen and meant[place]]))
    return found


def products_of(style, width, panels=None):
    """All figures, to be drawn in the style."""
    plot_style.use_style(plot_style.load_look(style, width, panels=panels))
    results, studies, summary = RESULTS
    made = catalogue.build(results, studies, RECIPES, "none", summary)
    made_up = catalogue.build(*MADE_UP, [recipe for recipe, _ in made.unserved], "none").products
    return [product for product in made.products + made_up if product.draw]


def draw_one(name, *look):
    """The layout.Page of a figure."""
    return next(product for product in products_of(*look) if product.name == name).draw()


def made_up_results():
    """Made-up numbers for the recipes that the committed results do not serve."""
    results, studies, summary = RESULTS
    unserved = [recipe for recipe, _ in catalogue.build(results, studies, RECIPES, "none", summary).unserved]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "made-up.json"
        path.write_text(json.dumps(recipes_test.synthetic_results(unserved)), encoding="utf-8")
        return figures.load_files([path])[:2]


MADE_UP = made_up_results()


class StylesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(plot_style.use_style)

    def test_every_figure_in_every_style_and_width(self):
        looks = list(itertools.product(plot_style.named_styles(), WIDTHS))
        wanted = {recipe.name for recipe in RECIPES if recipe.kind not in TABLES}
        with concurrent.futures.ProcessPoolExecutor() as pool:
            for look, (drawn, faults) in zip(looks, pool.map(self.draw_all, *zip(*looks))):
                with self.subTest(look):
                    self.assertEqual(wanted, drawn)
                    self.assertEqual("", "\n".join(faults))

    @classmethod
    def draw_all(cls, style, width):
        """(names of the recipes drawn, what is wrong with the figures)"""
        test, drawn, faults = cls(), set(), []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for product in products_of(style, width):
                drawn.add(product.recipe.name)
                try:
                    page = product.draw()
                    test.check_labels(page, pdf_text.words(plot_style.render(page.figure, "pdf")))
                    test.check_panels(page)
                    test.check_caption(product.caption(page))
                except (AssertionError, Warning) as fault:
                    faults.append(f"{product.name}: {fault}")
        return drawn, faults

    def check_labels(self, page, printed):
        self.assertFalse([words for words in printed if pdf_text.MISSING in words])
        meant = collections.Counter()
        for axes in page.figure.axes:
            for axis, ticks in ticks_of(axes):
                labels = [label for _, label in ticks]
                meant.update(labels)
                self.assertFalse(
                    any("i" in label for label in labels) and any(label[-1] in "kM" for label in labels), labels
                )
                if not isinstance(axis.get_major_formatter(), matplotlib.ticker.FixedFormatter):
                    for place, label in ticks:
                        self.assertAlmostEqual(number_of(label), place, delta=6e-3 * abs(place) + 1e-12, msg=label)
        self.assertFalse(meant - collections.Counter(printed))

    def check_panels(self, page):
        if page.width <= layout.NARROW:
            self.assertLessEqual(page.height, layout.HIGHEST + 1e-9)
        renderer = page.figure.canvas.get_renderer()
        words = [text for text in page.figure.texts if text.get_text()]
        for axis in (axis for axes in page.axes for axis in (axes.xaxis, axes.yaxis)):
            axis.get_tightbbox(renderer)  # puts its label in its place
            words += [axis.label] if axis.label.get_text() else []
        boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in words]
        for place, (first, box) in enumerate(boxes):
            for second, other in boxes[place + 1 :]:
                across = min(box.x1, other.x1) - max(box.x0, other.x0)
                down = min(box.y1, other.y1) - max(box.y0, other.y0)
                # Boxes have room for letters with tails.
                self.assertFalse(min(across, down) > 0.04 * page.figure.dpi, f"{first!r} over {second!r}")

    def check_caption(self, caption):
        self.assertLessEqual(len(" ".join(caption.short()).split()), captions.WORDS)
        for words in (*caption.short(), *caption.plain()):
            self.assertNotRegex(words, "(Left|Right|Above|Below|Top):")

    def test_a_missing_letter_is_noticed(self):
        """Without the font that has every letter, both the warnings and the PDF show it."""
        with unittest.mock.patch.object(plot_style, "font_family", lambda: (plot_style.look().font,)):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                page = draw_one("nprf-theorem3", "icml", "column")
                printed = pdf_text.words(plot_style.render(page.figure, "pdf"))
            self.assertTrue([one for one in seen if "missing from current font" in str(one.message)])
            with self.assertRaises(AssertionError):
                self.check_labels(page, printed)
            self.assertIn(f"10{pdf_text.MISSING}", printed)

    def test_other_formats_name_the_font_that_has_every_letter(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            page = draw_one("nprf-theorem3", "neurips", "column")
            self.assertIn("'STIXGeneral', 'DejaVu Sans'", plot_style.render(page.figure, "svg").decode())
            plot_style.render(page.figure, "png")

    def test_panels_side_by_side_are_those_asked_for(self):
        for count in (1, 2, 3, 9):
            tops = collections.Counter(panel.top for panel in draw_one("nprf-fig1a", "default", "column", count).panels)
            self.assertEqual({1: [1, 1, 1], 2: [2, 1]}.get(count, [3]), sorted(tops.values(), reverse=True))

    def test_lines_of_one_legend_look_different(self):
        for product in products_of("default", "text"):
            for legend in product.draw().legends:
                looks = [label.style for label in legend]
                self.assertEqual(len(looks), len(set(looks)), f"{product.name}: {legend}")


class CountsTest(unittest.TestCase):
    def test_one_convention_on_an_axis(self):
        for values, labels in (([256, 1024, 65536], "256 1Ki 64Ki"), ([1000, 4000], "1k 4k"), ([2500, 1048576], "2.5k 1.05M"),
                               ([1000, 4096, 16384], "1k 4096 16.4k"), ([1024, 2500], "1024 2.5k")):  # fmt: skip
            self.assertEqual(labels.split(), list(map(plot_style.counts_format(values), values)))


if __name__ == "__main__":
    unittest.main()
