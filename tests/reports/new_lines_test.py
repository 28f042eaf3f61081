#!/usr/bin/env python3
"""Tests of lines that no recipe names: where they are drawn and mentioned. Run: python3 tests/reports/new_lines_test.py
SUBQUAD

Every number in this file is synthetic; none was measured.
"""

import csv
import io
import json
import pathlib
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parents[1]), str(TESTS)]

import figures_test  # noqa: E402
import recipes_test  # noqa: E402
from reports import figures  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.drawing import recipe_figure  # noqa: E402
from reports.files import recipe_file  # noqa: E402
from reports.files import result_file  # noqa: E402

SUBQUAD = None  # the executable, from the command line
SIZES = (256, 1024, 4096)
GENERAL = "toeplitz_1d-float32"
WORDS = {"format": "recipe/1", "title": "t", "source": "this project", "shows": "s", "here": "h"}
SWEEPS = [{"operator": "toeplitz_1d", "implementation": ["dense", "fft"], "n": "256:4096:x4"}]
CURVES = {
    **WORDS, "kind": "curves", "sweeps": SWEEPS, "panels": [{"y": "seconds"}],
    "series": [{"match": {"implementation": name}, "label": f"the {name}"} for name in ("dense", "fft")],
}  # fmt: skip
OTHERS = {
    "match": {"operator": "toeplitz_1d"},
    "others": True,
    "by": "implementation",
    "label": "also {implementation}",
}
WITH_OTHERS = {
    **CURVES,
    "series": [*CURVES["series"], {**OTHERS, "id": "others"}],
    "crossovers": [["others", "the dense"]],
}
TABLE = {
    **WORDS, "kind": "table", "sweeps": SWEEPS, "quantities": ["seconds"], "columns": ["dense", "fft"],
    "blocks": [{"label": "", "match": {}}],
    "rows": [{"label": "256", "cells": [{"implementation": name, "n": 256} for name in ("dense", "fft")]}],
}  # fmt: skip


def records_of(*implementations, sizes=SIZES, **settings):
    made = [
        recipes_test.synthetic_record({"operator": "toeplitz_1d", "implementation": name, "n": str(n)})
        for name in implementations for n in sizes
    ]  # fmt: skip
    return [{**record, **settings} for record in made]


def content_of(*records):
    content = figures_test.synthetic_results()
    content.update(records=list(records), fits=[], crossovers=[])
    return content


def build(content, *recipes, general="rest"):
    made = [recipe_file.Recipe(f"made-{index}", recipe) for index, recipe in enumerate(recipes)]
    return catalogue.build([("made.json", content)], [], made, general)


def general_names(made):
    return [product.name for product in made.products if product.recipe is None]


def csv_of(made, name):
    product = next(product for product in made.products if product.name == name)
    return list(csv.DictReader(io.StringIO(product.data[f"{name}.csv"])))


class GeneralTest(unittest.TestCase):
    def test_a_line_that_no_recipe_takes_is_drawn_beside_those_of_its_group(self):
        made = build(content_of(*records_of("dense", "fft", "blocked")), CURVES)
        kinds = ("time-memory", "error", "error-time")
        self.assertEqual([f"{GENERAL}-{kind}" for kind in kinds], general_names(made))
        rows = csv_of(made, f"{GENERAL}-time-memory")
        self.assertEqual({"dense", "fft", "blocked"}, {row["implementation"] for row in rows})
        self.assertEqual([["blocked"]], [rest.implementations for rest in made.rest])
        self.assertEqual(f"{GENERAL}-time-memory", made.rest[0].figure)

    def test_lines_that_recipes_take_have_no_general_figure(self):
        content = content_of(*records_of("dense", "fft"))
        made = build(content, CURVES)
        self.assertEqual(([], []), (general_names(made), made.rest))
        self.assertEqual(3, len(general_names(build(content, CURVES, general="all"))))
        made = build(content_of(*records_of("dense", "fft", "blocked")), CURVES, general="none")
        self.assertEqual(([], []), (general_names(made), made.rest))

    def test_the_same_case_on_other_threads_is_another_line(self):
        content = content_of(*records_of("dense", "fft"), *records_of("dense", "fft", threads=2))
        self.assertEqual(len(content["records"]), 2 * len({record["case"] for record in content["records"]}))
        made = build(content, CURVES)
        self.assertEqual([2], [rest.identity["threads"] for rest in made.rest])
        self.assertEqual(3, len(general_names(made)))
        self.assertIn("threads_2", general_names(made)[0])

    def test_a_table_takes_only_lines_that_are_all_in_it(self):
        made = build(content_of(*records_of("dense", "fft", sizes=(256,))), TABLE)
        self.assertEqual(([], []), (general_names(made), made.rest))
        made = build(content_of(*records_of("dense", sizes=(256,)), *records_of("fft")), TABLE)
        self.assertEqual([["fft"]], [rest.implementations for rest in made.rest])

    def test_tables_of_a_summary_take_nothing(self):
        content = recipes_test.synthetic_results([recipes_test.RECIPES["nprf-fig1a"]])
        summary = recipes_test.summary_file.Summary([("s.json", recipes_test.synthetic_summary(content))])
        recipes = [recipes_test.RECIPES["exponents"], recipes_test.RECIPES["crossovers"]]
        made = catalogue.build([("made.json", content)], [], recipes, "rest", summary)
        groups, _ = result_file.group_records([("made.json", content)])
        self.assertEqual([], made.unserved)
        self.assertEqual(len(groups), len(made.rest))


class MissingTest(unittest.TestCase):
    """Lines of a recipe that the files lack, one of which is drawn."""

    def missing(self, *features):
        content = recipes_test.synthetic_results([recipes_test.RECIPES["nprf-fig1a"]])
        content["records"] = [record for record in content["records"] if record["operator"] == "softmax_attention"
                              or record["size"].get("f") in features]  # fmt: skip
        made = catalogue.build([("made.json", content)], [], [recipes_test.RECIPES["nprf-fig1a"]])
        (product,) = [product for product in made.products if product.recipe]
        return product.missing, product.caption(product.draw())

    def test_lines_by_a_setting_are_named(self):
        missing, caption = self.missing(16, 64)
        self.assertEqual(["ours, m = 32", "ours, m = 128"], missing)
        self.assertIn("Lines that are not in these files: 2", caption.markdown("short"))
        self.assertIn("Not in these files: ours, m = 32, ours, m = 128.", caption.markdown("long"))

    def test_nothing_is_missing_where_all_are_there(self):
        missing, caption = self.missing(16, 32, 64, 128)
        self.assertEqual([], missing)
        self.assertNotIn("not in these files", caption.markdown("long").lower())


class PrintedTest(figures_test.Workplace):
    def setUp(self):
        super().setUp()
        content = recipes_test.synthetic_results([recipes_test.RECIPES["nprf-fig1a"]])
        flash = {"operator": "softmax_attention", "implementation": "flash"}
        content["records"] += [recipes_test.synthetic_record({**flash, "n": str(n)}) for n in (1000, 2000, 4000)]
        self.path = self.write(content)

    def test_one_line_for_what_no_recipe_shows_and_one_for_recipes_not_drawn(self):
        result = self.draw(self.path, "--format", "svg")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        lines = [line for line in result.stdout.splitlines() if not line.startswith(str(self.out))]
        self.assertEqual(
            "drawn only in general figures, such as softmax_attention-float32-time-memory: softmax_attention flash",
            lines[0],
        )
        self.assertTrue((self.out / "softmax_attention-float32-time-memory.svg").exists())
        drawn = {path.stem for path in self.out.glob("*.svg")} & set(recipes_test.RECIPES)
        count = len(recipes_test.RECIPES) - len(drawn)
        self.assertEqual(2, len(lines), lines)
        self.assertRegex(
            lines[1],
            rf"^{count} recipes are not drawn, because these files have too little data for them \(--only NAME says what is missing\): "
            rf"([a-z0-9-]+, ){{5}}[a-z0-9-]+ and {count - 6} more$",
        )

    def test_only_says_why_and_nothing_else(self):
        result = self.draw(self.path, "--format", "svg", "--only", "nprf-fig1a")
        self.assertEqual([str(self.out / "nprf-fig1a.{svg,caption.md,caption.tex,csv}")], result.stdout.splitlines())
        result = self.draw(self.path, "--only", "frontier")
        self.assertEqual(2, result.returncode)
        self.assertIn("frontier cannot be drawn from these files: no measurements of toeplitz_1d dense", result.stderr)

    def test_settings_that_tell_groups_apart(self):
        def rest(*names, **settings):
            identity = {
                "operator": "toeplitz_1d",
                "backend": "cpu",
                "scalar": "float32",
                "threads": 1,
                "e": 64,
                "causal": False,
            }
            return catalogue.Rest({**identity, **settings}, list(names), "first")

        self.assertEqual(
            "drawn only in general figures, such as first: toeplitz_1d blocked, fft; toeplitz_1d fft (float64, 2 threads, "
            "e = 16, causal); toeplitz_1d fft (cuda)",
            figures.rest_words([
                rest("blocked"), rest("blocked", "fft", block=8),
                rest("fft", scalar="float64", threads=2, e=16, causal=True), rest("fft", backend="cuda", threads=None),
            ]),
        )  # fmt: skip

    def test_a_list_ends_after_six(self):
        names = list("abcdefgh")
        self.assertEqual("a, b, c, d, e, f", figures.listed(names[:6], ", "))
        self.assertEqual("a, b, c, d, e, f and 2 more", figures.listed(names, ", "))
        sentence = figures.unserved_words([(recipe_file.Recipe("a", {}), "why")])
        self.assertEqual(
            "1 recipe is not drawn, because these files have too little data for it (--only NAME says what is missing): a",
            sentence,
        )

    def test_a_page_shows_it_too(self):
        command = [sys.executable, "-m", "reports.page", self.path, "--out", self.out]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        text = (self.out / "index.html").read_text(encoding="utf-8")
        for name in ("nprf-fig1a", "softmax_attention-float32-time-memory"):
            self.assertIn(f'href="#{name}"', text)


class OthersTest(figures_test.Workplace):
    def picture(self, content, recipe=WITH_OTHERS):
        return recipe_figure.curves(recipe_file.Recipe("made", recipe), recipe_file.points_of([("made.json", content)]))

    def lines(self, content, recipe=WITH_OTHERS):
        _, group = self.picture(content, recipe).content[0]
        return {name: [row["n"] for row in group.rows if row["implementation"] == name] for name in group.order}

    def test_they_are_what_no_named_series_takes(self):
        content = content_of(
            *records_of("dense", "fft", "blocked", "karatsuba"), *records_of("blocked", scalar="float64")
        )
        expected = {name: list(SIZES) for name in ("the dense", "the fft", "also blocked", "also karatsuba")}
        self.assertEqual(expected, self.lines(content))
        excepted = [{**OTHERS, "except": {"implementation": "blocked"}}]
        del expected["also blocked"]
        self.assertEqual(expected, self.lines(content, {**CURVES, "series": [*CURVES["series"], *excepted]}))
        self.assertEqual([], build(content_of(*content["records"][:12]), WITH_OTHERS).rest)  # drawn already

    def test_they_have_the_sizes_of_the_sweeps(self):
        extra = records_of("dense", "blocked", sizes=(512,))
        lines = self.lines(content_of(*records_of("dense", "fft", "blocked"), *extra))
        self.assertEqual(list(SIZES), lines["also blocked"])
        self.assertEqual([512], self.lines(content_of(*records_of("dense", "fft"), *extra[1:]))["also blocked"])

    def test_without_them_nothing_is_missing(self):
        self.assertEqual([], self.picture(content_of(*records_of("dense", "fft"))).missing)
        self.assertEqual(["dense"], self.picture(content_of(*records_of("fft", "blocked"))).missing)
        with self.assertRaisesRegex(recipe_figure.Unserved, "no measurements of dense, fft"):
            self.picture(content_of(*records_of("blocked", "karatsuba")))

    def test_their_looks_differ(self):
        names = ("dense", "fft", "fft_columns", "karatsuba", "blocked")
        records = [record for scalar in ("float32", "float64") for record in records_of(*names, scalar=scalar)]
        for record in records:
            record["case"] += record["scalar"]
        for name, count in (("frontier", 10), ("fastrpb-toeplitz", 5)):
            for _, group in self.picture(content_of(*records), recipes_test.RECIPES[name].content).content:
                looks = {(style.color, style.dashes) for style in group.styles.values()}
                self.assertEqual(count, len(looks), name)
        own_style = plot_style.style_of("fft")
        self.assertEqual(own_style, plot_style.apart(own_style, [plot_style.style_of("dense")]))
        self.assertEqual(own_style.color, plot_style.apart(own_style, [own_style]).color)

    def test_wrong_use_is_refused(self):
        series = {
            "others needs": {key: value for key, value in OTHERS.items() if key != "by"},
            'others needs "by": "implementation"': {**OTHERS, "by": "causal"},
            "others needs a label with {implementation}": {**OTHERS, "label": "the rest"},
            "takes no style": {**OTHERS, "style": "fft"},
            "others: must be true": {**OTHERS, "others": False},
        }
        wrong = {words: {**CURVES, "series": [entry]} for words, entry in series.items()}
        wrong["kind curves"] = {**WITH_OTHERS, "kind": "bars", "at": 256}
        for words, content in wrong.items():
            with self.subTest(words), self.assertRaises(result_file.InputError) as caught:
                recipe_file.load(self.write(content, "wrong.json"))
            self.assertIn(words, str(caught.exception))
        baselines = {**WITH_OTHERS, "kind": "map", "y": "f", "series": CURVES["series"][:1], "baselines": [OTHERS]}
        with self.assertRaisesRegex(result_file.InputError, "kind curves"):
            recipe_file.load(self.write(baselines, "wrong.json"))
        self.assertTrue(recipe_file.load(self.write(WITH_OTHERS, "right.json")))

    def test_the_program_finds_the_same_lines(self):
        content = content_of(
            *records_of("dense", "fft", "blocked", "karatsuba"), *records_of("karatsuba", sizes=(512,))
        )
        recipes = self.folder / "recipes"
        recipes.mkdir()
        (recipes / "made.json").write_text(json.dumps(WITH_OTHERS), encoding="utf-8")
        run, summary = self.write(content), self.folder / "summary.json"
        command = [SUBQUAD, "summarize", run, "--recipes", recipes, "--out", summary]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(0, result.returncode, result.stderr)
        (panel,) = json.loads(summary.read_text(encoding="utf-8"))["recipes"][0]["panels"]
        self.assertEqual(self.lines(content), {curve["label"]: curve["n"] for curve in panel["curves"]})
        result = self.draw(run, summary, "--recipes", recipes, "--format", "svg")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        printed = str(self.out / "made{.svg,.caption.md,.caption.tex,.csv,-lines.csv}")
        self.assertEqual([printed], result.stdout.splitlines())
        with open(self.out / "made-lines.csv", encoding="utf-8", newline="") as file:
            pairs = {
                (row["implementation"], row["dense"]) for row in csv.DictReader(file) if row["kind"] == "crossover"
            }
        self.assertEqual({("also blocked", "the dense"), ("also karatsuba", "the dense")}, pairs)


if __name__ == "__main__":
    SUBQUAD = sys.argv.pop(1)
    unittest.main()
