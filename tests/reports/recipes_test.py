#!/usr/bin/env python3
"""Tests of the recipes: their files, the points that they use from result files, and a drawing of each.

Run: python3 tests/reports/recipes_test.py. Every number in this file is synthetic; none was measured.
"""

import copy
import csv
import io
import itertools
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest

REPORTS = pathlib.Path(__file__).resolve().parents[2] / "reports"
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "reports/results"
sys.path.insert(0, str(REPORTS.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from reports.drawing import catalogue  # noqa: E402
import figures_test  # noqa: E402
from reports.drawing import panel_notes  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.drawing import quantities  # noqa: E402
from reports.drawing import ratio_panels  # noqa: E402
from reports.drawing import recipe_figure  # noqa: E402
from reports.drawing import tables  # noqa: E402
from reports.files import recipe_file  # noqa: E402
from reports.files import result_file  # noqa: E402
from reports.files import summary_file  # noqa: E402

RECIPES = {recipe.name: recipe for recipe in recipe_file.load_all()}
SIZES = {"d", "e", "f", "p", "r", "heads", "components", "taps", "draws"}
TINY = 3  # sizes of each sweep


def typed(text):
    return int(text) if re.fullmatch("-?[0-9]+", text) else text


def synthetic_results(recipes, sizes=TINY):
    """Returns a result file with the data for the recipes: each point of their sweeps, at the first few sizes."""
    records, seen = [], set()
    for recipe in recipes:
        for sweep in recipe.get("sweeps", []):
            axes = {key: recipe_file.axis_values(value) for key, value in sweep.items()
                    if key not in ("comment", "interleave")}  # fmt: skip
            axes["n"] = axes["n"][:sizes]
            axes.setdefault("implementation", ["dense", "fft"])
            for values in itertools.product(*axes.values()):
                point = {"causal": "0", "scalar": "float32", **dict(zip(axes, values, strict=True))}
                key = json.dumps(point, sort_keys=True)
                if key not in seen:
                    seen.add(key)
                    records.append(synthetic_record(point))
    content = figures_test.synthetic_results()
    content.update(records=records, fits=[], crossovers=[], algorithms=[])
    ratios = [
        synthetic_ratio(record, place)
        for place, record in enumerate(records)
        if record.get("input", "normal") != "normal"
    ]
    if ratios:
        content["input_ratios"] = ratios
    return content


def synthetic_ratio(record, place=0):
    """Returns 1, 1.1, 1.2 ... with an interval of 1 %."""
    ratio = 1 + 0.1 * (place % 5)
    keys = (
        "operator",
        "implementation",
        "backend",
        "scalar",
        "threads",
        "size",
        "tokens",
        "length_axes",
        "params",
        "input",
    )
    return {**{key: record[key] for key in keys}, "against": "normal", "ratio": ratio, "low": 0.99 * ratio,
            "high": 1.01 * ratio, "in_turns": True}  # fmt: skip


def synthetic_record(point):
    n = int(point["n"])
    quadratic = point["implementation"] in ("dense", "tiled")
    seconds = 1e-9 * n * n if quadratic else 2e-7 * n * (1 + int(point.get("f", 64)) / 64)
    record = figures_test.synthetic_record(point["implementation"], n, seconds, 4 * n * n if quadratic else 256 * n)
    flags = {key: point.get(key, "0") == "1" for key in ("causal", "backward", "normalize", "per_head")
             if key in point or key == "causal"}  # fmt: skip
    size = {"n_q": n, "n_k": n, "e": 64, "d": 64, "heads": 1}
    size.update({key: int(value) for key, value in point.items() if key in SIZES})
    if "height" in point:
        size.update(height=int(point["height"]), width=n // int(point["height"]))
    known = {"operator", "implementation", "n", "scalar", "height", "with", "threads", "input", *SIZES, *flags}
    params = {**flags, **{key: typed(value) for key, value in point.items() if key not in known}}
    if "with" in point:
        params["with"] = [point["with"]]
    if "input" in point:
        record["input"] = point["input"]
    axes = next((axes for axes in (["height", "width"], ["L", "M"]) if set(axes) <= set(size)), ["n_q", "n_k"])
    record.update(operator=point["operator"], scalar=point.get("scalar", "float32"), threads=1, size=size, params=params,
                  length_axes=axes,
                  case=":".join(f"{key}={value}" for key, value in sorted(point.items())))  # fmt: skip
    return record


class FilesTest(unittest.TestCase):
    def test_names_are_file_names(self):
        for name in RECIPES:
            self.assertRegex(name, "^[a-z0-9][a-z0-9-]*$")

    def test_a_wrong_recipe_is_refused_in_one_line(self):
        good = json.loads((recipe_file.FOLDER / "nprf-fig1a.json").read_text(encoding="utf-8"))
        wrong = {
            "not a recipe": {"title": "x"},
            "kind": {**good, "kind": "pie"},
            "series": {key: value for key, value in good.items() if key != "series"},
            "panels": {**good, "panels": []},
            "unknown": {**good, "unknown": 1},
            "gone.json": {**good, "like": "gone"},
            "sweeps of its own": {**good, "like": "wrong"},
        }
        with tempfile.TemporaryDirectory() as folder:
            for word, content in wrong.items():
                with self.subTest(word):
                    path = pathlib.Path(folder) / "wrong.json"
                    path.write_text(json.dumps(content), encoding="utf-8")
                    with self.assertRaises(result_file.InputError) as caught:
                        recipe_file.load(path)
                    self.assertIn(str(path), str(caught.exception))
                    self.assertNotIn("\n", str(caught.exception))

    def test_a_recipe_like_another_differs_in_what_it_says(self):
        other, plain = RECIPES["error-n"], RECIPES["error-plain"]
        for key in ("sweeps", "series", "per_row"):
            self.assertEqual(plain[key], other[key])
        self.assertNotEqual(plain["title"], other["title"])
        self.assertEqual([panel["y"] for panel in plain["panels"]], ["error_ratio"] * 2)
        self.assertEqual([panel["where"] for panel in plain["panels"]], [panel["where"] for panel in other["panels"]])

    def test_an_open_series_takes_a_new_algorithm(self):
        recipe = RECIPES["error-n"]
        points = recipe_file.points_of([("made-up.json", synthetic_results([recipe]))])
        for point in points:
            if point.settings["operator"] == "toeplitz_1d" and point.settings["implementation"] == "fft":
                point.settings["implementation"] = "karatsuba"
        measured = recipe_file.measured_for(recipe, points, ("n",))
        labels = [line.label for line in recipe_file.lines_of(recipe["series"][0], measured, ("n",))]
        self.assertEqual(["Toeplitz 1-D, fft_columns", "Toeplitz 1-D, karatsuba"], labels)  # without dense

    def test_words_and_names_hold(self):
        for name, recipe in RECIPES.items():
            with self.subTest(name):
                for panel in recipe.get("panels", []):
                    self.assertIn(panel["y"], quantities.QUANTITIES)
                series = recipe.get("series", [])
                ids = {line.get("id", line["label"]) for line in series}
                for pair in recipe.get("crossovers", []):
                    self.assertLessEqual(set(pair), ids)
                for line in [*series, *recipe.get("baselines", [])]:
                    if "style" in line:
                        self.assertIn(line["style"], plot_style.STYLES)
                for key in ("shows", "here", "title"):
                    self.assertEqual(recipe[key], recipe[key].strip())

    def test_claims_exist(self):
        answers = json.loads(next(RESULTS.glob("*/claims/claims.json")).read_text(encoding="utf-8"))
        known = {claim["id"] for claim in answers["claims"]}
        for name, recipe in RECIPES.items():
            self.assertLessEqual(set(recipe.get("claims", [])), known, name)

    def test_axis_values(self):
        self.assertEqual(["256", "1024", "4096"], recipe_file.axis_values("256:4096:x4"))
        self.assertEqual(["1", "3", "5", "9"], recipe_file.axis_values(["1:5:+2", 9]))
        self.assertEqual(["0", "1", "1"], recipe_file.axis_values([False, True, "true"]))


class SelectionTest(unittest.TestCase):
    def setUp(self):
        self.recipe = RECIPES["nprf-fig1a"]
        self.content = synthetic_results([self.recipe])

    def points(self):
        return recipe_file.points_of([("made.json", self.content)])

    def lines(self, label):
        asked = recipe_file.measured_for(self.recipe, self.points(), ("n",))
        return [line for series in self.recipe["series"] for line in recipe_file.lines_of(series, asked, ("n",))
                if line.label.startswith(label)]  # fmt: skip

    def test_one_line_for_each_value(self):
        self.assertEqual([f"ours, m = {m}" for m in (16, 32, 64, 128)], [line.label for line in self.lines("ours")])

    def test_other_settings_are_left_out(self):
        before = len(self.lines("softmax, dense")[0].points)
        for change in ({"scalar": "float64"}, {"threads": 2}, {"params": {"causal": True}}, {"input": "wide"},
                       {"size": {"n_q": 7, "n_k": 7, "d": 32, "e": 64, "heads": 1}},
                       {"params": {"causal": False, "with": ["bias"]}}):  # fmt: skip
            record = synthetic_record({"operator": "softmax_attention", "implementation": "dense", "n": "512"})
            record.update(change)
            self.content["records"].append(record)
        self.assertEqual(before, len(self.lines("softmax, dense")[0].points))

    def test_a_short_run_serves_too(self):
        for record in self.content["records"]:
            record["size"].update(n_q=record["size"]["n_q"] + 24, n_k=record["size"]["n_k"] + 24)
        self.assertEqual(TINY, len(self.lines("softmax, dense")[0].points))

    def test_a_line_never_holds_two_things(self):
        extra = synthetic_record({"operator": "softmax_attention", "implementation": "dense", "n": "512"})
        extra["params"]["novelty"] = 3
        other = synthetic_record({"operator": "softmax_attention", "implementation": "dense", "n": "1024"})
        other["params"]["novelty"] = 4
        self.content["records"] += [extra, other]
        with self.assertRaisesRegex(result_file.InputError, "novelty = 3 and novelty = 4"):
            self.lines("softmax, dense")

    def test_the_same_point_twice(self):
        self.content["records"].append(dict(self.content["records"][0]))
        with self.assertRaisesRegex(result_file.InputError, "twice"):
            self.lines("softmax, dense")


def synthetic_summary(content, recipe="nprf-fig1a", backend="cpu"):
    """Returns a synthetic summary of a result file: an exponent for each line of the recipe, and a crossover for each
    pair.
    """
    points = recipe_file.points_of([("made.json", content)])
    picture = recipe_figure.curves(RECIPES[recipe], points)
    panels = []
    for panel, group in picture.content:
        if not panel.quantity:
            continue
        labels = {name: [row["n"] for row in group.rows if row["implementation"] == name] for name in group.order}
        curves = [{"label": name, "operator": "toeplitz_1d", "implementation": "fft", "n": sizes,
                   "fit": {"exponent": 1.05, "low": 1.0234, "high": 1.08, "n_min": 1000, "n_max": 4000}}
                  for name, sizes in labels.items()]  # fmt: skip
        crossovers = [{"fast": "ours, m = 16", "dense": "softmax, dense", "n": 1421.6, "low": 1387.2, "high": None, "value": 1e-3,
                       "reason": "the curves cross once"},
                      {"fast": "ours, m = 32", "dense": "softmax, dense", "n": None, "low": None, "high": None, "value": None,
                       "reason": "better at every size from n = 1000 on"}]  # fmt: skip
        ratios = [
            {"fast": "ours, m = 16", "dense": "softmax, dense", "n": 1000, "ratio": 2.5, "low": 2.25, "high": 2.75}
        ]
        panels.append(
            {
                "title": panel.title,
                "quantity": panel.quantity,
                "curves": curves,
                "crossovers": crossovers,
                "ratios": ratios,
            }
        )
    return {
        "format": "summary/1",
        "command": "synthetic",
        "created": "2000-01-01T00:00:00Z",
        "commit": "0123456789abcdef",
        "dirty": False,
        "files": [{"file": "run.json", "created": content["created"], "records": len(content["records"])}],
        "recipes": [
            {
                "recipe": recipe,
                "machine": "{cpu}, {target}".format(**content["environment"]),
                "backend": backend,
                "panels": panels,
                "cells": [],
            }
        ],
    }


class SummaryTest(figures_test.Workplace):
    def setUp(self):
        super().setUp()
        self.content = synthetic_results([RECIPES["nprf-fig1a"]])
        self.summary = synthetic_summary(self.content)

    def draw_both(self, *arguments):
        return self.draw(
            self.write(self.content), self.write(self.summary, "summary.json"), "--format", "svg", *arguments
        )

    def test_a_figure_prints_the_numbers_of_the_summary(self):
        result = self.draw_both("--only", "nprf-fig1a")
        self.assertEqual(0, result.returncode, result.stderr)
        with open(self.out / "nprf-fig1a-lines.csv", encoding="utf-8", newline="") as file:
            rows = {
                (row["kind"], row["implementation"], row["dense"], row["quantity"]): row for row in csv.DictReader(file)
            }
        row = rows["crossover", "ours, m = 16", "softmax, dense", "seconds"]
        self.assertEqual(("1421.6", "1387.2", "nan"), (row["value"], row["low"], row["high"]))
        self.assertEqual("1.05", rows["fit", "softmax, tiled", "", "seconds"]["value"])
        self.assertEqual("2.5", rows["ratio", "ours, m = 16", "softmax, dense", "seconds"]["value"])

    def test_a_speed_up_is_a_ratio_of_the_summary(self):
        for panel in self.summary["recipes"][0]["panels"]:
            panel["ratios"].append({**panel["ratios"][0], "dense": "softmax, tiled", "ratio": 3.25})
        self.assertEqual(0, self.draw_both("--only", "nprf-fig1a").returncode)
        with open(self.out / "nprf-fig1a.csv", encoding="utf-8", newline="") as file:
            speedups = {row["speedup"] for row in csv.DictReader(file) if row["speedup"] != "nan"}
        self.assertEqual({"3.25"}, speedups)  # without 2.5, which has another baseline
        with self.assertRaisesRegex(result_file.InputError, "against: expected one of .*, found 'softmax'"):
            wrong = copy.deepcopy(RECIPES["nprf-fig1a"])
            wrong.content["panels"][-1]["against"] = "softmax"
            recipe_figure.curves(wrong, recipe_file.points_of([("made.json", self.content)]), {})

    def test_three_digits_in_words(self):
        points = recipe_file.points_of([("made.json", self.content)])
        panels = summary_file.Summary([("summary.json", self.summary)]).panels(
            "nprf-fig1a", ("Synthetic CPU, avx2", "cpu")
        )
        picture = recipe_figure.curves(RECIPES["nprf-fig1a"], points, panels)
        notes = " ".join(panel_notes.sentences(picture.content))
        self.assertIn("Less time than softmax, dense: ours, m = 16 from n = 1420 [1390, unknown].", notes)
        self.assertIn("ours, m = 32 needs less time than softmax, dense at every size measured.", notes)
        self.assertNotIn("summarize", notes)

    def test_without_a_summary_a_figure_says_where_the_numbers_are(self):
        points = recipe_file.points_of([("made.json", self.content)])
        picture = recipe_figure.curves(RECIPES["nprf-fig1a"], points)
        self.assertIn("run `subquad summarize`", " ".join(panel_notes.sentences(picture.content)))
        self.assertEqual([], picture.lines)
        result = self.draw(self.write(self.content), "--only", "exponents", "--format", "svg")
        self.assertEqual(2, result.returncode)
        self.assertIn("subquad summarize", result.stderr)

    def refuse(self, words):
        result = self.draw_both()
        self.assertEqual(2, result.returncode, result.stdout)
        self.assertIn(words, result.stderr)
        self.assertEqual(1, result.stderr.count("\n"))

    def test_a_summary_of_other_files_is_refused(self):
        self.summary["files"][0]["records"] += 1
        self.refuse("run `subquad summarize` again")

    def test_a_summary_of_other_sizes_is_refused(self):
        self.summary["recipes"][0]["panels"][0]["curves"][0]["n"][0] += 1
        self.refuse("softmax, dense has the sizes")

    def test_a_wrong_summary_is_refused(self):
        self.summary["recipes"][0]["panels"][0]["crossovers"][0]["n"] = "early"
        self.refuse("crossovers[0].n")

    def test_two_summaries_of_one_figure_are_refused(self):
        self.write(self.summary, "older.json")
        result = self.draw(
            self.write(self.content), self.write(self.summary, "summary.json"), self.folder / "older.json"
        )
        self.assertEqual(2, result.returncode)
        self.assertIn("in another of the summary files", result.stderr)


class DigitsTest(unittest.TestCase):
    def test_three_digits(self):
        for value, text in (
            (0.05434, "0.0543"),
            (1.0, "1"),
            (23.46, "23.5"),
            (999.4, "999"),
            (999.6, "1000"),
            (1235, "1240"),
            (1625, "1630"),
            (-1234, "-1230"),
            (9.9999e6, "10000000"),
            (1.234e7, "1.23e+07"),
            (3.5123e-9, "3.51e-09"),
        ):
            self.assertEqual(text, plot_style.three_digits(value))

    def test_intervals(self):
        self.assertEqual("23.5 [22.6, 24]", plot_style.with_interval(23.46, 22.62, 24.01))
        self.assertEqual("23.5", plot_style.with_interval(23.46, None, None))
        self.assertEqual("1420 [unknown, 1450]", plot_style.with_interval(1421, None, 1450))


class SentenceTest(unittest.TestCase):
    def test_words_for_pairs_that_do_not_cross(self):
        def told(*entries):
            crossovers = [
                {"fast": fast, "dense": "dense", "quantity": "seconds", "n": None, "reason": reason}
                for fast, reason in entries
            ]
            panel = types.SimpleNamespace(quantity="seconds", title="causal")
            return panel_notes._crossover_sentences([panel], types.SimpleNamespace(crossovers=crossovers))

        ahead, behind = "better at every size from n = 256 on", "not better at the largest size, n = 512"
        self.assertEqual(["causal: fft needs less time than dense at every size measured."], told(("fft", ahead)))
        self.assertEqual(
            ["causal: a; b; c need less time than dense at every size measured."],
            told(("a", ahead), ("b", ahead), ("c", "better at every size from n = 1024 on")),
        )
        self.assertEqual(
            ["causal: a does not need less time than dense at the largest size.",
             "causal: b needs less time than dense at every size measured."],
            told(("a", behind), ("b", ahead)),
        )  # fmt: skip
        self.assertEqual([], told(("a", "sizes in common: 1, a crossover takes at least 2")))


def backend_of(recipe):
    return next((sweep["backend"] for sweep in recipe.get("sweeps", []) if "backend" in sweep), "cpu")


class DrawingTest(figures_test.Workplace):
    def test_every_recipe_is_drawn_and_twice_the_same(self):
        first, second = self.folder / "first", self.folder / "second"
        for backend in ("cpu", "cuda"):
            own = [recipe for recipe in RECIPES.values() if backend_of(recipe) == backend]
            path = self.write(synthetic_results(own, 4))
            for out in (first, second):
                result = self.draw(path, "--format", "svg", "--general", "none", out=out)
                self.assertEqual(0, result.returncode, result.stderr)
        for name, recipe in RECIPES.items():
            if recipe.kind in ("study", "fits", "crossovers") or name == "error-f":  # made from other files
                continue
            end = "md" if recipe.kind == "table" else "svg"
            self.assertTrue((first / f"{name}.{end}").exists(), f"{name}\n{result.stdout}")
        for file in first.iterdir():
            self.assertEqual(file.read_bytes(), (second / file.name).read_bytes(), file.name)

    def test_error_f(self):
        self.one("error-f")

    def one(self, name, change=lambda content: None):
        content = synthetic_results([RECIPES[name]])
        change(content)
        result = self.draw(self.write(content), "--format", "svg", "--only", name)
        self.assertEqual(0, result.returncode, result.stderr)
        with open(self.out / f"{name}.csv", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def test_csv_holds_every_point(self):
        rows = self.one("nprf-fig1a")
        self.assertEqual(len({row["series"] for row in rows}) * TINY, len(rows))
        row = next(row for row in rows if row["series"] == "ours, m = 128" and row["n"] == "1000")
        self.assertEqual(2e-7 * 1000 * 3, float(row["seconds"]))

    def test_lines_look_different(self):
        files = [("made.json", synthetic_results(RECIPES.values()))]
        points = recipe_file.points_of(files)
        for name, recipe in RECIPES.items():
            if recipe.kind != "curves" or name == "error-f":
                continue
            with self.subTest(name):
                own = [point for point in points if point.identity["backend"] == backend_of(recipe)]
                for _, group in recipe_figure.curves(recipe, own).content:
                    looks = [(style.color, style.dashes) for style in group.styles.values()]
                    self.assertEqual(len(looks), len(set(looks)), group.styles)

    def picture(self, name, keep):
        """Returns the Picture of a recipe from those synthetic records that `keep` selects."""
        content = synthetic_results([RECIPES[name]])
        content["records"] = [record for record in content["records"] if keep(record)]
        return recipe_figure.curves(RECIPES[name], recipe_file.points_of([("made.json", content)]))

    def test_a_remark_names_a_series_without_measurements(self):
        picture = self.picture("fastrpb-fig3a", lambda record: record["implementation"] != "softmax_xy")
        self.assertEqual(["fastrpb_attention softmax_xy"], picture.missing)
        self.assertIn("Not in these files", picture.content[0][1].remarks[0])

    def test_a_comparison_without_one_of_its_sides_is_not_drawn(self):
        for name, operator in (("fastrpb-fig3a", "fastrpb_attention"), ("attention-long", "kernelized_rpe_attention"),
                               ("nprf-fig1a", "softmax_attention")):  # fmt: skip
            with self.assertRaisesRegex(recipe_figure.Unserved, f"no measurements of {operator}, which it compares"):
                self.picture(name, lambda record, operator=operator: record["operator"] != operator)
        for recipe in ("error-n", "machine-floor"):  # their lines are compared with nothing
            self.picture(recipe, lambda record: record["operator"] != "kernelized_rpe_attention")

    def test_each_value_of_a_series_is_a_line(self):
        def of(implementations, features):
            return lambda record: record["implementation"] in implementations or record["size"].get("f") in features

        with self.assertRaisesRegex(recipe_figure.Unserved, "no measurements of ours, m = 16, .* m = 128"):
            self.picture("nprf-fig1a", of(("dense", "tiled"), ()))
        with self.assertRaisesRegex(recipe_figure.Unserved, "no measurements of softmax_attention tiled, ours"):
            self.picture("nprf-fig1a", of(("dense",), (16,)))
        self.assertEqual(3, len(self.picture("nprf-fig1a", of(("dense", "tiled", "fft"), (16,))).missing))

    def test_a_panel_without_measurements_is_left_out(self):
        content = synthetic_results([RECIPES["nprf-memory"]])
        for record in content["records"]:
            record["workspace_bytes"] = None
        path = self.write(content)
        picture = recipe_figure.curves(RECIPES["nprf-memory"], recipe_file.points_of([("made.json", content)]))
        self.assertEqual(["time per run"], [panel.label for panel, _ in picture.content])
        self.assertIn("Not measured: workspace.", picture.content[0][1].remarks)
        full = self.write(synthetic_results([RECIPES["nprf-memory"]]), "full.json")
        result = self.draw("--compare", path, full, "--format", "svg", "--only", "nprf-memory")
        self.assertEqual(0, result.returncode, result.stderr)
        drawn = (self.out / "nprf-memory-compare.svg").read_text(encoding="utf-8")
        self.assertIn(">time per run</text>", drawn)
        self.assertNotIn(">workspace</text>", drawn)

    def test_a_recipe_that_cannot_be_drawn_says_why(self):
        content = synthetic_results([RECIPES["fastrpb-toeplitz"]])
        path = self.write(content)
        result = self.draw(path, "--format", "svg", "--general", "none")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("nprf-fig1a", result.stdout)
        result = self.draw(path, "--only", "nprf-fig1a", out=self.folder / "none")
        self.assertEqual(2, result.returncode)
        self.assertIn("no measurements of softmax_attention dense", result.stderr)

    def test_table_cells(self):
        rows = self.one("fastrpb-table3")
        cell = next(row for row in rows if (row["row"], row["column"], row["quantity"], row["block"])
                    == ("softmax", "none", "seconds", "n = 1024 (as CIFAR10)"))  # fmt: skip
        self.assertEqual(1e-9 * 1024**2, float(cell["value"]))
        latex = (self.out / "fastrpb-table3.tex").read_text(encoding="utf-8")
        for word in ("\\toprule", "\\midrule", "\\bottomrule"):
            self.assertIn(word, latex)
        body = [line for line in latex.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
        self.assertEqual({10}, {line.count("&") for line in body})
        for line in latex.splitlines():
            if not line.startswith("%"):
                self.assertNotRegex(line, r"(?<!\\)[_%#]")

    def of_lines(self, **lines):
        """Makes a (Panel, Group) pair: values by name, at n = 1, 2, 4 .."""
        group = result_file.Group({}, "n", sources=[])
        for name, values in lines.items():
            for step, value in enumerate(values):
                group.rows.append(
                    {
                        "implementation": name,
                        "n": 2**step,
                        "verdict": "passed" if value else "skipped",
                        "seconds": value,
                    }
                )
        return quantities.QUANTITIES["seconds"], group

    def test_lines_that_lie_on_one_another_are_named(self):
        first = self.of_lines(a=[1, 2, 4], b=[1.04, 2, 4.1], c=[1.06, 2, 4], d=[1, 2, None])
        self.assertEqual(["a and b coincide within 5 %."], panel_notes._alike_sentences([first]))
        two = self.of_lines(a=[1, 2, 4], e=[1, 3, 4])
        self.assertEqual(["(a) a and b coincide within 5 %."], panel_notes._alike_sentences([first, two]))

    def test_how_far_lines_go_is_said_where_it_differs(self):
        self.assertEqual("", panel_notes._reach_sentence([self.of_lines(a=[1, 2, 4], b=[2, 3, 5])]))
        content = [self.of_lines(a=[1, 2, 4], b=[2, 3, 5], c=[2, 3, None], d=[2])]
        self.assertEqual("Largest measured n: 2 of c; 1 of d; 4 of the rest.", panel_notes._reach_sentence(content))

    def test_ratios_are_those_of_the_file(self):
        rows = self.one("real-inputs")
        content = synthetic_results([RECIPES["real-inputs"]])
        self.assertEqual(len(content["input_ratios"]), len(rows))
        entry = content["input_ratios"][3]
        row = next(row for row in rows if (row["operator"], row["implementation"], row["n"], row["input"]) ==
                   (entry["operator"], entry["implementation"], str(entry["size"]["n_k"]), entry["input"]))  # fmt: skip
        for key in ("ratio", "low", "high"):
            self.assertEqual(entry[key], float(row[key]))
        table = (self.out / "real-inputs.md").read_text(encoding="utf-8")
        self.assertIn("| mpnet-layer0 |", table)
        before = (self.out / "real-inputs.svg").read_bytes()

        def plant(content):
            content["input_ratios"][0].update(ratio=7.5, low=7.25, high=7.75)

        rows = self.one("real-inputs", plant)
        self.assertIn("7.5", [row["ratio"] for row in rows])
        self.assertIn("| 7.5 [7.25, 7.75] | slower |", (self.out / "real-inputs.md").read_text(encoding="utf-8"))
        self.assertNotEqual(before, (self.out / "real-inputs.svg").read_bytes())

    def test_inputs_that_do_not_matter_are_a_sentence(self):
        def same(content):
            for place, entry in enumerate(content["input_ratios"]):
                entry.update(ratio=1.0, low=0.99, high=1.01)
            content["input_ratios"][0].update(ratio=7.5, low=7.25, high=7.75)

        self.one("real-inputs")
        self.assertTrue((self.out / "real-inputs.svg").exists())
        (self.out / "real-inputs.svg").unlink()
        self.one("real-inputs", same)
        self.assertFalse((self.out / "real-inputs.svg").exists())
        content = synthetic_results([RECIPES["real-inputs"]])
        same(content)
        (product,) = catalogue.build([("made.json", content)], [], [RECIPES["real-inputs"]]).products[:1]
        count = product.finding.split(" of ")
        self.assertEqual(int(count[0]) + 1, int(count[1].split(" ")[0]))
        self.assertIn("rows are within 5 %; all but softmax_attention dense", product.finding)

    def test_workspaces_that_are_not_as_their_formulas_say_are_counted(self):
        content = synthetic_results([RECIPES["txl-time"]])
        platform = ("Synthetic CPU, avx2", "cpu")
        for record in content["records"]:
            record["workspace_bytes"] = record["workspace_formula_bytes"] = 1e6
        count = len(content["records"])
        self.assertEqual(f"workspaces of {count} of {count} records are within 10 % or 64 KiB of their formulas",
                         tables.workspace_finding([content], platform))  # fmt: skip
        content["records"][0]["workspace_bytes"] = 1.2e6
        sentence = tables.workspace_finding([content], platform)
        self.assertIn(f"of {count - 1} of {count} records", sentence)
        self.assertTrue(sentence.endswith("others are of transformer_xl_attention/dense"), sentence)
        self.assertEqual("", tables.workspace_finding([content], ("Synthetic CPU", "cuda")))

    def test_what_a_ratio_says(self):
        for low, high, words in ((0.99, 1.01, "the same"), (0.953, 1.05, "the same"), (0.9, 1.01, "undecided"),
                                 (1.0, 1.06, "undecided"), (1.051, 1.2, "slower"), (0.5, 0.952, "faster"),
                                 (0.5, 2, "undecided"), (None, None, "too few samples")):  # fmt: skip
            self.assertEqual(words, ratio_panels.says({"low": low, "high": high}), (low, high))

    def test_ratios_of_other_settings_and_none(self):
        def other(content):
            for entry in content["input_ratios"][1:]:
                entry["scalar"] = "float64"

        self.assertEqual(1, len(self.one("real-inputs", other)))
        content = synthetic_results([RECIPES["real-inputs"]])
        del content["input_ratios"]
        result = self.draw(self.write(content), "--format", "svg", "--only", "real-inputs")
        self.assertEqual(2, result.returncode)
        self.assertIn("no ratios", result.stderr)

    def test_ratios_without_intervals_or_turns_are_drawn(self):
        def plant(content):
            content["input_ratios"][0].update(low=None, high=None)
            content["input_ratios"][1]["in_turns"] = False

        self.one("real-inputs", plant)
        table = (self.out / "real-inputs.md").read_text(encoding="utf-8")
        self.assertIn("too few samples", table)
        self.assertIn("one after the other", table)

    def test_map_cells(self):
        rows = self.one("crossover-linear")
        cell = next(row for row in rows if (row["baseline"], row["n"], row["f"]) == ("softmax, dense", "512", "64"))
        self.assertAlmostEqual(1e-9 * 512**2 / (2e-7 * 512 * 2), float(cell["baseline_seconds_over_seconds"]))

    def test_a_map_has_the_sizes_of_its_recipe(self):
        sweeps = [{**sweep, "n": [1000, 3000]} for sweep in RECIPES["crossover-linear"]["sweeps"]]
        other = synthetic_results([{"sweeps": sweeps}])

        def join(content):
            content["records"] += other["records"]

        self.assertNotIn("1000", {row["n"] for row in self.one("crossover-linear", join)})

        def replace(content):
            content["records"] = other["records"]

        self.assertEqual({"1000", "3000"}, {row["n"] for row in self.one("crossover-linear", replace)})

    def test_a_map_has_two_axes(self):
        path = self.write(synthetic_results([RECIPES["crossover-linear"]]))
        kept = json.loads(path.read_text(encoding="utf-8"))
        kept["records"] = [record for record in kept["records"] if record["size"].get("f", 64) == 64]
        result = self.draw(self.write(kept), "--format", "svg", "--general", "none", "--only", "crossover-linear")
        self.assertEqual(2, result.returncode, result.stdout)
        self.assertIn("crossover-linear cannot be drawn from these files: they have only one value of f", result.stderr)

    def test_two_machines_are_never_in_one_figure(self):
        here, there = synthetic_results([RECIPES["txl-time"]]), synthetic_results([RECIPES["txl-time"]])
        there["environment"]["cpu"] = "Other CPU"
        result = self.draw(self.write(here), self.write(there, "there.json"), "--format", "svg", "--only", "txl-time")
        self.assertEqual(0, result.returncode, result.stderr)
        names = {file.name for file in self.out.iterdir() if file.suffix == ".svg"}
        self.assertEqual({"txl-time-synthetic-cpu-avx2.svg", "txl-time-other-cpu-avx2.svg"}, names)


class GeneralTest(unittest.TestCase):
    def test_fits_of_other_settings_are_not_taken(self):
        fit = {"operator": "a", "backend": "cpu", "scalar": "float32", "threads": 1, "size": {"e": 64}, "params": {}}
        identity = {"operator": "a", "backend": "cpu", "scalar": "float32", "threads": 1, "machine": "m", "e": 64}
        self.assertTrue(result_file.speaks_about(fit, identity))
        self.assertFalse(result_file.speaks_about(fit, {**identity, "with": ["bias"]}))
        self.assertFalse(result_file.speaks_about(fit, {**identity, "e": 32}))

    def test_tables_of_a_summary(self):
        content = synthetic_results([RECIPES["nprf-fig1a"]])
        content["algorithms"] = figures_test.synthetic_results()["algorithms"]
        summary = summary_file.Summary([("summary.json", synthetic_summary(content))])
        table = tables.exponents(summary, [content], ("Synthetic CPU, avx2", "cpu"))
        rows = list(csv.DictReader(io.StringIO(table.csv())))
        self.assertEqual({("nprf-fig1a", "1.05", "n log n")},
                         {(row["recipe"], row["exponent"], row["class"]) for row in rows if row["quantity"] == "seconds"})  # fmt: skip
        self.assertIn("1.05 [1.02, 1.08]", table.markdown())
        table = tables.crossovers(summary, ("Synthetic CPU, avx2", "cpu"))
        self.assertIn("| ours, m = 16 against softmax, dense | time | 1420 [1390, unknown] |", table.markdown())

    def test_tables_keep_backends_apart(self):
        content = synthetic_results([RECIPES["nprf-fig1a"]])
        both = [synthetic_summary(content), synthetic_summary(content, backend="cuda")]
        for panel in both[1]["recipes"][0]["panels"]:
            for curve in panel["curves"]:
                curve["operator"] = "on_the_gpu"
        summary = summary_file.Summary([("cpu.json", both[0]), ("cuda.json", both[1])])
        for backend, operator in (("cpu", "toeplitz_1d"), ("cuda", "on_the_gpu")):
            rows = csv.DictReader(
                io.StringIO(tables.exponents(summary, [content], ("Synthetic CPU, avx2", backend)).csv())
            )
            self.assertEqual({operator}, {row["operator"] for row in rows})
        for make in (
            lambda: tables.exponents(summary, [content], ("Other", "cpu")),
            lambda: tables.crossovers(summary, ("Other", "cpu")),
        ):
            with self.assertRaises(recipe_figure.Unserved):
                make()


if __name__ == "__main__":
    unittest.main()
