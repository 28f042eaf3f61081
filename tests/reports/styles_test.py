#!/usr/bin/env python3
"""Tests that figures tell the truth in every style and width: each recipe is drawn from the committed results (or
synthetic ones if those lack it) with warnings as errors, and its tick labels are read back from the PDF. Run: python3
tests/reports/styles_test.py
"""

import collections
import concurrent.futures
import csv
import dataclasses
import io
import itertools
import json
import math
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

import matplotlib.path  # noqa: E402
import matplotlib.ticker  # noqa: E402
import matplotlib.transforms  # noqa: E402
import figures_test  # noqa: E402
import pdf_text  # noqa: E402
import recipes_test  # noqa: E402
from reports import figures  # noqa: E402
from reports.drawing import caption as captions  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import layout  # noqa: E402
from reports.drawing import panels  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.drawing import quantities  # noqa: E402
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
    """Returns the number that a tick label prints."""
    match = NUMBER.fullmatch(label)
    if match["power"]:
        return 10.0 ** int(match["power"].translate(DIGITS))
    return float(match["number"].translate(DIGITS)) * UNITS[match["unit"]]


def ticks_of(axes):
    """Returns [(axis, [(place, label)])] of the visible ticks, with their intended labels."""
    ticks = []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        places = [place for place in axis.get_majorticklocs() if low <= place <= high]
        seen = any(tick.label1.get_visible() or tick.label2.get_visible() for tick in axis.get_major_ticks())
        labels = axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
        meant = dict(zip(axis.get_majorticklocs(), labels))
        ticks.append((axis, [(place, meant[place]) for place in places if seen and meant[place]]))
    return ticks


def small_texts(axes):
    """Returns [(words, box)] of the numbers written beside markers, in points."""
    renderer = axes.figure.canvas.get_renderer()
    scale = matplotlib.transforms.Affine2D().scale(72 / axes.figure.dpi)
    texts = [text for text in axes.texts if getattr(text, "xycoords", None) == "figure points"]
    return [(text.get_text(), text.get_window_extent(renderer).transformed(scale)) for text in texts]


def texts_of(page):
    """Returns [(words, box in pixels)] of everything that is written on the page: labels of axes and ticks as well."""
    renderer = page.figure.canvas.get_renderer()
    texts = [text for text in page.figure.texts if text.get_text()]
    for axis in (axis for axes in page.axes for axis in (axes.xaxis, axes.yaxis)):
        axis.get_tightbbox(renderer)  # moves labels to their final places
        texts += [axis.label] if axis.label.get_text() else []
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            label = tick.label1
            if label.get_visible() and label.get_text() and low <= tick.get_loc() <= high:
                texts.append(label)
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts]


def markers_of(axes):
    """Returns [(x, place in points, line)] of everything that is drawn as a marker."""
    lines = [line for line in axes.lines if line.get_marker() not in (None, "None", "")]
    return [
        (x, line.get_transform().transform((x, y)) * 72 / axes.figure.dpi, line)
        for line in lines for x, y in line.get_xydata()
    ]  # fmt: skip


def distance(box, place):
    """Returns the distance from a box to a place, 0 within the box."""
    return math.hypot(*(max(low - at, at - high, 0) for low, at, high in zip(box.min, place, box.max)))


def products_of(style, width, panels=None):
    """Returns all figures, to be drawn in the style."""
    plot_style.use_style(plot_style.load_look(style, width, panels=panels))
    results, studies, summary = RESULTS
    made = catalogue.build(results, studies, RECIPES, "none", summary)
    made_up = catalogue.build(*MADE_UP, undrawn(made), "none").products
    return [product for product in made.products + made_up if product.draw]


def undrawn(made):
    """Returns recipes that the committed results have no data for, or that are only a sentence there."""
    sentences = [product.recipe for product in made.products if product.recipe.kind == "ratios" and not product.draw]
    return [recipe for recipe, _ in made.unserved] + sentences


def draw_one(name, *look):
    """Returns the layout.Page of a figure."""
    return next(product for product in products_of(*look) if product.name == name).draw()


def made_up_results():
    """Returns synthetic results for the recipes that the committed results do not draw."""
    results, studies, summary = RESULTS
    unserved = undrawn(catalogue.build(results, studies, RECIPES, "none", summary))
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
        """Returns (names of the recipes drawn, faults of the figures)."""
        test, drawn, faults = cls(), set(), []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for product in products_of(style, width):
                drawn.add(product.recipe.name)
                try:
                    page = product.draw()
                    test.check_labels(page, pdf_text.words(plot_style.render(page.figure, "pdf")))
                    test.check_panels(page)
                    test.check_room(page)
                    test.check_numbers(page)
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
            axis.get_tightbbox(renderer)  # moves its label to its final place
            words += [axis.label] if axis.label.get_text() else []
        boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in words]
        for place, (first, box) in enumerate(boxes):
            for second, other in boxes[place + 1 :]:
                across = min(box.x1, other.x1) - max(box.x0, other.x0)
                down = min(box.y1, other.y1) - max(box.y0, other.y0)
                # Boxes have room for letters with tails.
                self.assertFalse(min(across, down) > 0.04 * page.figure.dpi, f"{first!r} over {second!r}")

    def check_room(self, page):
        """Checks that texts are on the page, with a gap between those on one line, and that words are on no curve, interval or mark."""
        joined = {(letter.get_text(), title.get_text()) for letter, title in page.after.items()}
        texts = texts_of(page)
        space = plot_style.text_width(" ") * page.figure.dpi
        for place, (first, box) in enumerate(texts):
            edge = 0.01 * page.figure.dpi  # of a box, without ink
            self.assertGreater(box.x0, page.figure.bbox.x0 - edge, f"{first!r} leaves the page")
            self.assertLess(box.x1, page.figure.bbox.x1 + edge, f"{first!r} leaves the page")
            for second, other in texts[place + 1 :]:
                across = max(box.x0, other.x0) - min(box.x1, other.x1)
                shared = min(box.y1, other.y1) - max(box.y0, other.y0)
                same_line = shared > 0.35 * min(box.height, other.height)
                if same_line and (first, second) not in joined:
                    self.assertGreater(across, 1.1 * space, f"{first!r} and {second!r}")
        renderer = page.figure.canvas.get_renderer()
        written = [(text.get_text(), text.get_window_extent(renderer)) for text in page.figure.texts if text.get_text()]
        for axes in page.axes:
            # A box has room for letters with tails. What is outside the axes is not drawn.
            seen = [(words, box.intersection(box.from_extents(box.x0, box.y0 + 2, box.x1, box.y1 - 2), axes.bbox))
                    for words, box in written]  # fmt: skip
            seen = [(words, box) for words, box in seen if box]
            for line in (line for line in axes.lines if seen and line.get_transform() == axes.transData):
                points = line.get_transform().transform(line.get_xydata())
                joins = line.get_linestyle() not in ("None", "none", "", " ")
                path = matplotlib.path.Path(points) if joins and len(points) > 1 else None
                for words, box in seen:
                    on = path.intersects_bbox(box, filled=False) if path else any(box.contains(*at) for at in points)
                    self.assertFalse(on, f"{words!r} on a curve")

    def check_numbers(self, page):
        """Checks small texts in panels: they cover no marker and no other text, and each ring's number is nearest to
        its own ring.
        """
        for axes in page.axes:
            rings = {
                plot_style.three_digits(x): place
                for x, place, line in markers_of(axes)
                if line.get_markerfacecolor() == "none"
            }
            texts = small_texts(axes)
            for text, box in texts:
                for _, place, line in markers_of(axes):
                    self.assertGreater(distance(box, place), line.get_markersize() / 2, f"{text} over a marker")
                for other, other_box in texts:
                    self.assertTrue(other == text or not box.overlaps(other_box), f"{text} over {other}")
                if text in rings:
                    self.assertEqual(text, min(rings, key=lambda ring: distance(box, rings[ring])))

    def check_caption(self, caption):
        self.assertLessEqual(len(" ".join(caption.short()).split()), captions.WORDS)
        for words in (*caption.short(), *caption.plain()):
            self.assertNotRegex(words, "(Left|Right|Above|Below|Top):")

    def test_words_without_room_are_noticed(self):
        def side_by_side(page):
            page.text(0.1, page.height, "first")
            page.text(0.1 + plot_style.text_width("first "), page.height, "second")

        def on_a_curve(page):
            x, y = page.inches(page.axes[0], *page.axes[0].lines[0].get_xydata()[20])
            page.text(x - 0.05, y, "words")

        def over_the_edge(page):
            page.text(page.width - 0.1, page.height, "words")

        for plant, message in (
            (side_by_side, "'first' and 'second'"),
            (on_a_curve, "'words' on a curve"),
            (over_the_edge, "'words' leaves the page"),
        ):
            page = draw_one("nprf-prop1", "default", "column")
            self.check_room(page)
            plant(page)
            with self.subTest(message), self.assertRaisesRegex(AssertionError, message):
                self.check_room(page)

    def test_a_missing_letter_is_noticed(self):
        """A letter without a glyph shows in the warnings and in the PDF when the font with every letter is missing."""
        with unittest.mock.patch.object(plot_style, "font_family", lambda: (plot_style.look().font,)):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                page = draw_one("nprf-theorem3", "icml", "column")
                printed = pdf_text.words(plot_style.render(page.figure, "pdf"))
            self.assertTrue([warning for warning in seen if "missing from current font" in str(warning.message)])
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


FRONTIER = {  # synthetic seconds, errors and bytes at n = 256, 1024, 4096, 16384, close to one another where n differs
    "dense": ([5e-5, 9e-4, 1.8e-2, 0.3], [3.5e-5, 9e-5, 2.4e-4, 3e-4], [2**18, 2**22, 2**26, 2**30]),
    "fft": ([5e-5, 2e-4, 1e-3, 9e-3], [1.5e-5, 3.4e-5, 7.5e-5, 1.4e-4], [5e4, 1.8e5, 6.7e5, 2.8e6]),
    "fft_columns": ([9e-6, 4.5e-5, 2e-4, 9.5e-4], [1.7e-5, 3.7e-5, 9e-5, 1.7e-4], [5e4, 1.6e5, 6.2e5, 2.5e6]),
    "karatsuba": ([6e-4, 5e-3, 4.5e-2, 0.4], [2e-6, 7e-6, 1.4e-5, 1.5e-5], [1.2e5, 5.2e5, 2.1e6, 8.8e6]),
}


def made_up_frontier():
    content = figures_test.synthetic_results()
    content.update(records=[], algorithms=[], fits=[], crossovers=[])
    for name, (seconds, errors, sizes) in FRONTIER.items():
        for n, time, error, size in zip((256, 1024, 4096, 16384), seconds, errors, sizes):
            record = recipes_test.synthetic_record({"operator": "toeplitz_1d", "implementation": name, "n": str(n)})
            record["seconds"].update(median=time)
            record["check"].update(max_error=error)
            content["records"].append({**record, "workspace_bytes": round(size)})
    return content


class FrontierTest(unittest.TestCase):
    """Each n in a panel of several is written beside a point of that n, or not at all."""

    def setUp(self):
        self.addCleanup(plot_style.use_style)

    def check(self, results):
        recipe = next(recipe for recipe in RECIPES if recipe.name == "frontier")
        (sweep,) = recipe["sweeps"]
        panels = [{"y": "error_against_time"}, {"y": "memory_against_time"}]
        changes = {"panels": panels, "sweeps": [{**sweep, "n": "256:1048576:x4"}]}
        recipe = recipe_file.Recipe("frontier", {**recipe.content, **changes})
        labels = 0
        for look in itertools.product(plot_style.named_styles(), (*WIDTHS, 5.0), (False, True)):
            plot_style.use_style(plot_style.load_look(*look))
            (product,) = catalogue.build(results, [], [recipe], "none").products
            rows = list(csv.DictReader(io.StringIO(product.data["frontier.csv"])))
            for axes, y in zip(product.draw().axes, ("max_error", "workspace_bytes")):
                places = [
                    (float(row["n"]), axes.transData.transform((float(row["seconds"]), float(row[y]))) * 72 / axes.figure.dpi)
                    for row in rows if row["verdict"] == "passed"
                ]  # fmt: skip
                edges = axes.bbox.transformed(matplotlib.transforms.Affine2D().scale(72 / axes.figure.dpi))
                for words, box in small_texts(axes):
                    labels += 1
                    with self.subTest(words, look=look, y=y):
                        n = number_of(words.removeprefix("n = "))
                        own = min(distance(box, place) for size, place in places if size == n)
                        other = min(distance(box, place) for size, place in places if size != n)
                        self.assertLess(own, other)
                        self.assertGreater(own, plot_style.look().marker_size / 2)
                        self.assertTrue(
                            edges.x0 < box.x0 and box.x1 < edges.x1 and edges.y0 < box.y0 and box.y1 < edges.y1
                        )
        return labels / (2 * 2 * 3 * len(plot_style.named_styles()))

    def test_of_the_committed_results(self):
        self.assertGreater(self.check(RESULTS[0]), 2)

    def test_of_a_small_run(self):
        self.assertGreater(self.check([("made-up.json", made_up_frontier())]), 3)


CURVES = {  # synthetic seconds at n = 256, 1024, 4096
    "dense": [1.35e-4, 1.9e-3, 3.5e-2],
    "tiled": [7.4e-5, 1.15e-3, 1.9e-2],
    "linear": [7.7e-5, 3e-4, 1.25e-3],
    "fft": [2.3e-4, 1.1e-3, 5e-3],
}


class CrossingTest(unittest.TestCase):
    """Checks the numbers of crossings beside lines that are close to one another."""

    def setUp(self):
        self.addCleanup(plot_style.use_style)

    def drawn(self, look, *crossings):
        """Draws three panels side by side, as in a column."""
        plot_style.use_style(look)
        group = result_file.Group({}, "tokens", sources=[])
        for name, seconds in CURVES.items():
            group.rows += [
                {"implementation": name, "n": n, "seconds": time, "verdict": "passed", "case": f"{name} {n}", "reason": None}
                for n, time in zip((256, 1024, 4096), seconds)
            ]  # fmt: skip
        group.crossovers = [
            {"quantity": "seconds", "n": n, "value": value, "fast": "fft", "dense": "dense", "low": None, "high": None}
            for n, value in crossings
        ]
        panel = dataclasses.replace(quantities.QUANTITIES["seconds"], low="", high="", theory="")
        return panels.draw([(panel, group)] * 3, plot_style.look().text, "", 3)

    def test_a_number_is_nearest_to_its_own_ring(self):
        for name, width in itertools.product(plot_style.named_styles(), WIDTHS):
            for pair in (((633, 6.5e-4), (1000, 1.08e-3)), ((258, 2e-4), (312, 3e-4)), ((900, 1e-3), (1000, 1.1e-3))):
                page = self.drawn(plot_style.load_look(name, width), *pair)
                with self.subTest(name, width=width, pair=pair):
                    StylesTest.check_numbers(self, page)

    def test_a_number_is_over_no_line_where_there_is_room(self):
        for name, width in itertools.product(plot_style.named_styles(), WIDTHS):
            page = self.drawn(plot_style.load_look(name, width), (264, 8e-5))
            for axes in page.axes:
                ((words, box),) = small_texts(axes)
                self.assertEqual("264", words)
                for line in axes.lines:
                    for start, end in itertools.pairwise(
                        line.get_transform().transform(line.get_xydata()) * 72 / page.figure.dpi
                    ):
                        steps = [start + (end - start) * share / 500 for share in range(501)]
                        self.assertGreater(min(distance(box, place) for place in steps), 0, (name, width))


class CountsTest(unittest.TestCase):
    def test_one_convention_on_an_axis(self):
        for values, labels in (([256, 1024, 65536], "256 1Ki 64Ki"), ([1000, 4000], "1k 4k"), ([2500, 1048576], "2.5k 1.05M"),
                               ([1000, 4096, 16384], "1k 4096 16.4k"), ([1024, 2500], "1024 2.5k")):  # fmt: skip
            self.assertEqual(labels.split(), list(map(plot_style.counts_format(values), values)))


if __name__ == "__main__":
    unittest.main()
