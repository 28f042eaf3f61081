#!/usr/bin/env python3
"""Tests of the figures of files that `subquad study` writes. Run: python3 tests/reports/studies_figures_test.py SUBQUAD
"""

import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REPORTS = pathlib.Path(__file__).resolve().parents[2] / "reports"
os.environ["PYTHONPATH"] = str(REPORTS.parent)  # for python3 -m reports.figures and the like
SUBQUAD = None  # the executable, from the command line
FORMATS = ("pdf", "svg", "png")


def studies():
    """Returns the names that the program lists."""
    text = subprocess.run([SUBQUAD, "study", "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  (\w+)  +\S", text.partition("\nStudies:\n")[2], re.M)


class Studies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.made.name)
        cls.result = subprocess.run(
            [SUBQUAD, "study", "all", "--tiny", "--threads", "2", "--out", folder],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        cls.files = sorted(folder.glob("*.json"))

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.out = self.folder / "out"

    def tearDown(self):
        self.temporary.cleanup()

    def draw(self, *files, out=None, formats=None):
        """Draws every study under its own name: without recipes."""
        recipes = self.folder / "recipes"
        recipes.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "reports.figures", *files, "--out", out or self.out, "--recipes", recipes,
                   "--caption", "long"]  # fmt: skip
        if formats:
            command += ["--format", formats]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def content(self, name="spe_convergence"):
        return json.loads(next(path for path in self.files if path.stem == name).read_text())

    def write(self, content, name="bad.json"):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def assert_refused(self, path, *words):
        result = self.draw(path)
        self.assertEqual(2, result.returncode, result.stderr)
        self.assertEqual(1, len(result.stderr.strip().splitlines()), result.stderr)
        for word in (str(path), *words):
            self.assertIn(word, result.stderr)
        self.assertFalse(self.out.exists())

    def test_exit_status_says_whether_verdicts_hold(self):
        holds = all(
            verdict["holds"] for path in self.files for verdict in json.loads(path.read_text())["verdicts"]
        )  # fmt: skip
        self.assertEqual(0 if holds else 1, self.result.returncode, self.result.stderr)
        self.assertIn("prf_variance", studies())
        self.assertEqual(sorted(studies()), [path.stem for path in self.files])

    def test_every_file_follows_the_schema(self):
        sys.path.insert(0, str(REPORTS.parent))
        from reports.files import study_file

        for path in self.files:
            study_file.load(path)

    def test_every_study_is_drawn_and_twice_to_the_same_bytes(self):
        first, second = self.folder / "first", self.folder / "second"
        for out in (first, second):
            result = self.draw(*self.files, out=out)
            self.assertEqual(0, result.returncode, result.stderr)
            self.assertEqual("", result.stderr)
        names = sorted(path.name for path in first.iterdir())
        self.assertEqual(names, sorted(path.name for path in second.iterdir()))
        for path in self.files:
            for file_format in FORMATS:
                self.assertIn(f"{path.stem}.{file_format}", names)
            for table in json.loads(path.read_text())["tables"]:
                self.assertIn(f"{path.stem}-{table}.csv", names)
        for name in names:
            self.assertEqual((first / name).read_bytes(), (second / name).read_bytes(), name)

    def test_a_folder_stands_for_its_studies(self):
        result = self.draw(self.files[0].parent, formats="png")
        self.assertEqual(0, result.returncode, result.stderr)
        drawn = {path.stem for path in self.out.glob("*.png")}
        self.assertLessEqual(set(studies()), drawn)
        # Each model has figures of its own.
        self.assertLessEqual({"conversion-minilm", "conversion-mpnet"}, drawn)

    def picture(self, content, name):
        out = self.folder / f"picture{len(list(self.folder.iterdir()))}"
        result = self.draw(self.write(content), out=out, formats="png")
        self.assertEqual(0, result.returncode, result.stderr)
        return (out / name).read_bytes()

    def test_each_model_has_a_figure_of_its_own_numbers(self):
        content = self.content("conversion")
        before = {model: self.picture(content, f"conversion-{model}.png") for model in ("minilm", "mpnet")}
        for table, column, factor in (("head_error", "median", 1.5), ("heads", "q_norm", 2)):
            changed = copy.deepcopy(content)
            place = [entry["name"] for entry in changed["tables"][table]["columns"]].index(column)
            for row in changed["tables"][table]["rows"]:
                if row[0].startswith("mpnet"):
                    row[place] *= factor
            self.assertNotEqual(before["mpnet"], self.picture(changed, "conversion-mpnet.png"), column)
        # A caption has the sentence about its own model.
        changed = copy.deepcopy(content)
        for verdict in changed["verdicts"]:
            if verdict["claim"].endswith("/mpnet"):
                verdict["numbers"] = "something else"
        self.assertIn(b"something else", self.picture(changed, "conversion-mpnet.caption.md"))
        self.assertNotIn(b"something else", self.picture(changed, "conversion-minilm.caption.md"))

    def test_what_needs_no_features_is_drawn(self):
        """Its numbers change the picture, and no other number of its table does."""
        for study, table, column, maps in (
            ("approximation_error", "error", "uniform", None),
            ("feature_maps", "baseline", "median", ("uniform", "bias", "taylor1")),
            ("conversion", "head_baseline", "error", ("uniform", "bias", "taylor1")),
        ):
            content = self.content(study)
            names = [entry["name"] for entry in content["tables"][table]["columns"]]
            before = self.picture(content, f"{study}.png")
            for map_name in maps or (None,):
                changed = copy.deepcopy(content)
                for row in changed["tables"][table]["rows"]:
                    if map_name in (None, row[names.index("map")] if maps else None):
                        row[names.index(column)] *= 0.5
                self.assertNotEqual(before, self.picture(changed, f"{study}.png"), (study, map_name))
            for row in content["tables"][table]["rows"]:
                if maps and row[names.index("map")] not in maps:
                    row[names.index(column)] *= 0.5
            self.assertEqual(before, self.picture(content, f"{study}.png"), study)

    def test_models_of_any_name_and_depth(self):
        """Tests a user's own folders: no layer in the name, unusual letters, more layers than fit side by side."""
        content = self.content("conversion")
        heads, errors = content["tables"]["heads"], content["tables"]["head_error"]
        columns = [column["name"] for column in heads["columns"]]
        pattern = dict(zip(columns, heads["rows"][0]))
        some = [row for row in errors["rows"] if row[0] == pattern["head"]]
        heads["rows"], errors["rows"] = [], []

        def add(folder, model, layer, index):
            row = {**pattern, "head": f"{folder}/{index}", "model": model, "layer": layer, "index": index}
            heads["rows"].append([row[name] for name in columns])
            errors["rows"].extend([row["head"], *line[1:]] for line in some)

        add("my model, ünïcode", "my model, ünïcode", None, 0)
        for layer in range(6):
            for index in range(2):
                add(f"deep-layer{layer}", "deep", layer, index)
        result = self.draw(self.write(content), formats="png")
        self.assertEqual(0, result.returncode, result.stderr)
        names = sorted(path.name for path in self.out.glob("conversion-*.png"))
        self.assertEqual(["conversion-deep-2.png", "conversion-deep.png", "conversion-my_model_n_code.png"], names)

    def test_heads_of_an_approximation_error(self):
        inputs = [REPORTS / "inputs" / name for name in ("minilm-layer0", "mpnet-layer0")]
        made = self.folder / "made"
        result = subprocess.run([SUBQUAD, "study", "approximation_error", "--tiny", "--out", made, "--input",
                                 *inputs], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertIn(result.returncode, (0, 1), result.stderr)
        content = json.loads((made / "approximation_error.json").read_text())
        self.assertEqual(
            ["reports/inputs/minilm-layer0", "reports/inputs/mpnet-layer0"], content["parameters"]["input"]
        )
        self.assertIn("nprf-fig1b/mpnet", [verdict["claim"] for verdict in content["verdicts"]])
        drawn = self.draw(made, formats="png")
        self.assertEqual(0, drawn.returncode, drawn.stderr)
        self.assertEqual(["approximation_error-minilm.png", "approximation_error-mpnet.png", "approximation_error.png"],
                         sorted(path.name for path in self.out.glob("*.png")))  # fmt: skip

    def test_figures_draws_models_under_the_recipe_s_name(self):
        path = next(path for path in self.files if path.stem == "conversion")
        command = [sys.executable, "-m", "reports.figures", "--out", self.out, "--format", "png", path]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual(["nprf-fig2-minilm.png", "nprf-fig2-mpnet.png", "nprf-fig2.png"],
                         sorted(path.name for path in self.out.glob("*.png")))  # fmt: skip

    def test_a_model_without_norms_is_refused(self):
        content = self.content("conversion")
        next(column for column in content["tables"]["heads"]["columns"] if column["name"] == "k_norm")["name"] = "other"
        self.assert_refused(self.write(content), "no column k_norm")

    def test_a_folder_without_studies_is_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assert_refused(empty, "found no .json file in it")

    def test_figures_takes_studies_too(self):
        other = self.write({"format": "study/1"})
        command = [sys.executable, "-m", "reports.figures", "--out", self.out, "--format", "png"]
        result = subprocess.run([*command, self.files[0], self.files[1]], capture_output=True, text=True, check=False)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual(2, len(list(self.out.glob("*.png"))))
        result = subprocess.run([*command, other], capture_output=True, text=True, check=False)
        self.assertEqual(2, result.returncode)
        self.assertIn(str(other), result.stderr)

    def test_verdicts_are_in_a_table(self):
        text = (self.files[0].parent / "verdicts.md").read_text()
        for path in self.files:
            for verdict in json.loads(path.read_text())["verdicts"]:
                self.assertIn(f"| {path.stem} | {verdict['claim']} | ", text)
                self.assertIn(f"**{verdict['verdict']}**", text)

    def test_missing_numbers_are_nan_in_the_csv(self):
        content = self.content()
        content["tables"]["error"]["rows"][0][3] = None
        result = self.draw(self.write(content), formats="png")
        self.assertEqual(0, result.returncode, result.stderr)
        lines = (self.out / "spe_convergence-error.csv").read_text().splitlines()
        self.assertEqual("nan", lines[1].split(",")[3])

    def test_no_such_file(self):
        self.assert_refused(self.folder / "none.json", "cannot be read")

    def test_truncated(self):
        self.assert_refused(self.write(json.dumps(self.content())[:-100]), "not valid JSON")

    def test_not_a_study(self):
        self.assert_refused(self.write({"format": "other/1"}), "results/1")

    def test_missing_key(self):
        content = self.content()
        del content["verdicts"][0]["numbers"]
        self.assert_refused(self.write(content), "verdicts[0]", "numbers")

    def test_unknown_verdict(self):
        content = self.content()
        content["verdicts"][0]["verdict"] = "fine"
        self.assert_refused(self.write(content), "verdicts[0].verdict")

    def test_short_row(self):
        content = self.content()
        content["tables"]["error"]["rows"][1].pop()
        self.assert_refused(self.write(content), "tables.error.rows[1]")

    def test_missing_table(self):
        content = self.content()
        del content["tables"]["slope"]
        self.assert_refused(self.write(content), "no table slope")

    def test_missing_column(self):
        content = self.content()
        content["tables"]["error"]["columns"][1]["name"] = "draws"
        self.assert_refused(self.write(content), "no column R")

    def test_same_study_twice(self):
        result = self.draw(self.write(self.content(), "a.json"), self.write(copy.deepcopy(self.content()), "b.json"))
        self.assertEqual(2, result.returncode)
        self.assertIn("two of these files", result.stderr)

    def test_ctrl_c_keeps_what_is_finished(self):
        command = [SUBQUAD, "study", "sinusoidal", "shifted_scores", "approximation_error", "--out", self.out]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            deadline = time.monotonic() + 120
            while not (self.out / "shifted_scores.json").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, words = process.communicate(timeout=120)
        self.assertEqual(130, process.returncode, words)
        # The signal may arrive before the next study has begun.
        self.assertRegex(words, "interrupted (in approximation_error|after shifted_scores); 2 studies are finished")
        self.assertEqual(["shifted_scores.json", "sinusoidal.json", "verdicts.md"],
                         sorted(path.name for path in self.out.iterdir()))  # fmt: skip
        self.assertIn("| shifted_scores |", (self.out / "verdicts.md").read_text())

    def test_help_names_every_study(self):
        words = subprocess.run([SUBQUAD, "study", "--help"], capture_output=True, text=True, check=True).stdout
        for path in self.files:
            self.assertRegex(words, rf"(?m)^  {path.stem} +\S")

    def test_a_bad_request_is_refused_by_name(self):
        result = subprocess.run(
            [SUBQUAD, "study", "prf_varianc", "--out", self.out], capture_output=True, text=True, check=False
        )
        self.assertEqual(2, result.returncode)
        self.assertIn("prf_varianc", result.stderr)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    SUBQUAD = sys.argv.pop(1)
    unittest.main()
