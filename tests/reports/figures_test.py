#!/usr/bin/env python3
"""Tests of reports/: the schema, the figures of figures.py and the files that it refuses. Run: python3
tests/reports/figures_test.py

Every number in this file is synthetic; none was measured.
"""

import copy
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPORTS = pathlib.Path(__file__).resolve().parents[2] / "reports"
os.environ["PYTHONPATH"] = str(REPORTS.parent)  # for python3 -m reports.figures and the like
sys.path.insert(0, str(REPORTS.parent))

import jsonschema  # noqa: E402
from reports.drawing import panels  # noqa: E402
from reports.drawing import quantities  # noqa: E402
from reports.files import result_file  # noqa: E402

FORMATS = ("pdf", "svg", "png")


def synthetic_record(implementation, n, seconds, workspace, verdict="passed", reason=None):
    ran = verdict in ("passed", "failed")
    return {
        "operator": "toeplitz_1d",
        "implementation": implementation,
        "backend": "cpu",
        "scalar": "float32",
        "threads": 2,
        "program": "0" * 16,
        "size": {"n_q": n, "n_k": n, "e": 64, "heads": 1},
        "tokens": n,
        "length_axes": ["n_q", "n_k"],
        "params": {"causal": False},
        "case": f"toeplitz_1d:n={n},e=64,causal=0,scalar=float32,seed=1",
        "setup_seconds": 0.001,
        "first_seconds": None,
        "seconds": (
            {
                "median": seconds,
                "low": seconds * 0.9,
                "high": seconds * 1.2,
                "min": seconds * 0.8,
                "max": seconds * 1.5,
                "samples": [seconds * 0.8, seconds, seconds * 1.5],
                "stopped_by": "interval",
            }
            if verdict == "passed"
            else None
        ),
        "workspace_bytes": workspace if ran else None,
        "workspace_formula_bytes": workspace,
        "resident_bytes": None,
        "flops": 2.0 * n * n * 64,
        "bytes": 512.0 * n,
        "check": {
            "verdict": verdict,
            "reason": reason,
            "error": 0.1 if ran else None,
            "max_error": 1e-7 * n if ran else None,
            "bound": 1e-6 * n if ran else None,
            "error_ratio": None,
            "rows": "all" if ran else None,
            "gates": None,
        },
    }


def synthetic_results():
    """Returns a synthetic result file: two classes of growth, a skipped point, a failed point, an unknown name."""
    records = []
    for n in (256, 1024, 4096, 16384):
        records.append(synthetic_record("fft", n, 1e-7 * n, 400 * n))
        records.append(synthetic_record("in_place", n, 3e-7 * n, 0))
        if n < 16384:
            records.append(synthetic_record("dense", n, 1e-9 * n * n, 4 * n * n))
    records.append(synthetic_record("dense", 16384, 0, 2**30, "skipped", "needs 1.0 GiB, the limit is 0.5 GiB"))
    records.append(synthetic_record("backward", 1024, 0, 4096, "failed", "row 7 is 12 times its bound"))
    theory = {"fft": ("n log n", "n"), "dense": ("n^2", "n^2")}
    return {
        "format": "results/1",
        "command": "synthetic, nothing was measured",
        "created": "2000-01-01T00:00:00Z",
        "seed": 1,
        "environment": {
            "commit": "0123456789abcdef",
            "dirty": True,
            "program": "0" * 16,
            "compiler": "synthetic compiler 1.0",
            "flags": "-O0",
            "libraries": {"fftw": "0.0"},
            "cpu": "Synthetic CPU",
            "target": "avx2",
            "cores": 2,
            "memory_bytes": 2**30,
            "threads": 2,
            "os": "synthetic",
            "gpu": None,
            "measured": {"copy_bytes_per_second": 1e10, "fma_flops_per_second": {"float32": 1e11, "float64": None}},
        },
        "algorithms": [
            {
                "operator": "toeplitz_1d",
                "implementation": name,
                "backend": "cpu",
                "time": f"O(e {time})",
                "memory": f"O({memory})",
                "time_class": time,
                "memory_class": memory,
                "source": None,
            }
            for name, (time, memory) in theory.items()
        ],
        "records": records,
        "fits": [
            {
                "operator": "toeplitz_1d",
                "implementation": "fft",
                "backend": "cpu",
                "scalar": "float32",
                "quantity": "seconds",
                "exponent": 1.05,
                "low": 1.02,
                "high": 1.08,
                "n_min": 256,
                "n_max": 16384,
            }
        ],
        "crossovers": [
            {
                "operator": "toeplitz_1d",
                "fast": "fft",
                "dense": "dense",
                "backend": "cpu",
                "scalar": "float32",
                "quantity": "seconds",
                "n": 300,
                "low": 280,
                "high": 330,
            }
        ],
    }


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def write(self, content, name="run.json"):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def draw(self, *arguments, out=None):
        command = [sys.executable, "-m", "reports.figures", *map(str, arguments), "--out", str(out or self.out)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


class SchemaTest(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads(result_file.SCHEMA_PATH.read_text(encoding="utf-8"))
        self.validator = jsonschema.Draft202012Validator(self.schema)

    def test_schema_is_valid(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)

    def test_synthetic_file_is_valid(self):
        self.validator.validate(synthetic_results())

    def test_every_key_is_described(self):
        def undescribed(node, path):
            for key, value in node.get("properties", {}).items():
                target = value
                if "$ref" in value and "description" not in value:
                    target = self.schema["$defs"][value["$ref"].rsplit("/", 1)[1]]
                described = "description" in target or any("$ref" in part for part in target.get("allOf", []))
                if not described and key not in ("environment",):
                    yield f"{path}.{key}"
                yield from undescribed(value, f"{path}.{key}")

        for name, definition in {"top": self.schema, **self.schema["$defs"]}.items():
            with self.subTest(name):
                self.assertEqual([], list(undescribed(definition, name)))

    def test_each_required_key_is_needed_and_no_other_is_taken(self):
        places = {
            "top": lambda content: content,
            "environment": lambda content: content["environment"],
            "algorithm": lambda content: content["algorithms"][0],
            "record": lambda content: content["records"][0],
            "seconds": lambda content: content["records"][0]["seconds"],
            "check": lambda content: content["records"][0]["check"],
            "fit": lambda content: content["fits"][0],
            "crossover": lambda content: content["crossovers"][0],
        }
        for name, place in places.items():
            for key in place(synthetic_results()):
                with self.subTest(name, without=key):
                    content = synthetic_results()
                    del place(content)[key]
                    self.assertFalse(self.validator.is_valid(content))
            with self.subTest(name, unknown="hostname"):
                content = synthetic_results()
                place(content)["hostname"] = "x"
                self.assertFalse(self.validator.is_valid(content))

    def test_no_time_without_a_passed_check(self):
        for verdict in ("failed", "mistrusted", "skipped"):
            with self.subTest(verdict):
                content = synthetic_results()
                content["records"][0]["check"].update(verdict=verdict, reason="because")
                self.assertFalse(self.validator.is_valid(content))
                content["records"][0]["seconds"] = None
                self.assertTrue(self.validator.is_valid(content))
                content["records"][0]["check"]["reason"] = None
                self.assertFalse(self.validator.is_valid(content))


class DrawingTest(Workplace):
    def test_captions_have_the_smallest_margin(self):
        content = synthetic_results()
        passed = [record for record in content["records"] if record["check"]["verdict"] == "passed"]
        margins = [264.0] * len(passed)

        def captions():
            for record, margin in zip(passed, margins):
                record["check"].update(margin=margin, nearest="bias left out" if margin == 41.3 else "scaled by 1.001")
            result = self.draw(self.write(content), "--format", "svg", "--caption", "long")
            self.assertEqual((0, ""), (result.returncode, result.stderr))
            return "".join(path.read_text(encoding="utf-8") for path in self.out.glob("*.caption.md"))

        margins[3] = 41.3
        self.assertIn("the nearest wrong answer (bias left out) is 41 tolerances away", captions())
        margins[0] = None  # as from another program
        self.assertNotIn("wrong answer", captions())

    def test_a_short_caption_counts_what_a_long_one_explains(self):
        path, reason = self.write(synthetic_results()), "row 7 is 12 times its bound"
        for length, counted in (("short", True), ("long", False)):
            self.assertEqual(0, self.draw(path, "--format", "svg", "--caption", length).returncode)
            for end in ("md", "tex"):
                words = (self.out / f"toeplitz_1d-float32-time-memory.caption.{end}").read_text(encoding="utf-8")
                self.assertEqual((counted, not counted), ("1 failed" in words, reason in words))

    def test_same_file_gives_same_bytes(self):
        path = self.write(synthetic_results())
        first, second = self.folder / "first", self.folder / "second"
        for out in (first, second):
            result = self.draw(path, out=out)
            self.assertEqual((0, ""), (result.returncode, result.stderr))
        names = sorted(file.name for file in first.iterdir())
        expected = {
            f"toeplitz_1d-float32-{kind}.{end}"
            for kind in ("time-memory", "error", "error-time")
            for end in (*FORMATS, "csv", "tex", "caption.md", "caption.tex")
        }
        expected |= {f"toeplitz_1d-float32-{kind}-plot.csv" for kind in ("time-memory", "error", "error-time")}
        # Tables of exponents and crossovers need a summary, which these files lack.
        self.assertEqual(expected | {"toeplitz_1d-float32-time-memory-lines.csv"}, set(names))
        for name in names:
            self.assertEqual((first / name).read_bytes(), (second / name).read_bytes(), name)

    def test_every_file_written_is_printed(self):
        result = self.draw(self.write(synthetic_results()), "--format", "svg,tex")
        self.assertEqual(0, result.returncode, result.stderr)
        printed = set()
        for line in result.stdout.splitlines():
            if line.startswith(str(self.out)):
                start, _, ends = line.removesuffix("}").partition("{")
                printed |= {start + end for end in ends.split(",")}
        self.assertEqual({str(path) for path in self.out.iterdir()}, printed)

    def test_csv_holds_every_point_and_reason(self):
        content = synthetic_results()
        self.assertEqual(0, self.draw(self.write(content), "--format", "svg").returncode)
        with open(self.out / "toeplitz_1d-float32-time-memory.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(content["records"]), len(rows))
        fft = next(row for row in rows if (row["implementation"], row["n"]) == ("fft", "1024"))
        self.assertEqual(1e-7 * 1024, float(fft["seconds"]))
        skipped = next(row for row in rows if row["verdict"] == "skipped")
        self.assertEqual(("nan", "needs 1.0 GiB, the limit is 0.5 GiB"), (skipped["seconds"], skipped["reason"]))

    def test_only(self):
        path = self.write(synthetic_results())
        self.assertEqual(0, self.draw(path, "--format", "svg", "--only", "error").returncode)
        self.assertEqual(
            [f"toeplitz_1d-float32-error.{end}" for end in ("caption.md", "caption.tex", "csv", "svg")],
            sorted(file.name for file in self.out.iterdir()),
        )
        result = self.draw(path, "--only", "error,nothing", out=self.folder / "none")
        self.assertEqual(2, result.returncode)
        self.assertIn("--only nothing: expected one of the", result.stderr)
        result = self.draw(path, "--only", "eror", out=self.folder / "none")
        self.assertIn("for example error", result.stderr)
        self.assertFalse((self.folder / "none").exists())

    def test_a_folder_stands_for_its_files(self):
        path = self.write(synthetic_results())
        (path.parent / "notes.txt").write_text("no result")
        options = ("--format", "svg", "--only", "error,error-time")
        self.assertEqual(0, self.draw(path, *options).returncode)
        self.assertEqual(0, self.draw(path.parent, *options, out=self.folder / "again").returncode)
        for file in self.out.iterdir():
            self.assertEqual(file.read_bytes(), (self.folder / "again" / file.name).read_bytes())
        (self.folder / "empty").mkdir()
        result = self.draw(self.folder / "empty", out=self.folder / "none")
        self.assertEqual(2, result.returncode)
        self.assertIn("empty: expected a folder with result or study files, found no .json file in it", result.stderr)

    def test_groups_that_differ_get_names_that_differ(self):
        content = synthetic_results()
        for record in synthetic_results()["records"]:
            record["size"]["e"] = 32
            content["records"].append(record)
        result = self.draw(self.write(content), "--format", "svg", "--only", "error")
        self.assertEqual(0, result.returncode, result.stderr)
        names = {file.name for file in self.out.iterdir()}
        self.assertLessEqual({"toeplitz_1d-float32-e_32-error.svg", "toeplitz_1d-float32-e_64-error.svg"}, names)
        self.assertIn("fits[0] is not drawn", result.stderr)

    def test_a_panel_without_measurements_is_left_out(self):
        content = synthetic_results()
        for record in content["records"]:
            record["workspace_bytes"] = None  # only the formula's value is present
        path, name = self.write(content), "toeplitz_1d-float32-time-memory"
        self.assertEqual(0, self.draw(path, "--format", "svg", "--only", name).returncode)
        drawn = (self.out / f"{name}.svg").read_text(encoding="utf-8")
        self.assertIn(">time per run</text>", drawn)
        for words in ("no point to draw", ">workspace</text>", ">(b)</text>"):
            self.assertNotIn(words, drawn)

    def test_nothing_measured_is_drawn_as_such(self):
        content = synthetic_results()
        content["records"] = [record for record in content["records"] if record["check"]["verdict"] == "skipped"]
        result = self.draw(self.write(content), "--format", "svg")
        self.assertEqual((0, ""), (result.returncode, result.stderr))


class PanelsTest(unittest.TestCase):
    def test_a_panel_is_measured_if_it_would_show_a_point(self):
        def measured(*rows):
            rows = [{"implementation": "fft", "n": 256, "seconds": 1e-3, "reason": None, **row} for row in rows]
            group = result_file.Group({}, "tokens", sources=[])
            group.rows = rows
            return panels.is_measured(quantities.QUANTITIES["workspace_bytes"], group)

        formula = {"verdict": "passed", "workspace_bytes": None, "workspace_formula_bytes": 4096}
        skipped = {"verdict": "skipped", "workspace_bytes": None, "workspace_formula_bytes": 4096}
        self.assertFalse(measured(formula, skipped))
        for value in (0, 4096):
            self.assertTrue(measured(formula, {**formula, "workspace_bytes": value}))
        self.assertTrue(measured(formula, {**formula, "verdict": "failed", "workspace_bytes": 4096}))
        self.assertFalse(measured(formula, {**formula, "verdict": "failed"}))


class TicksTest(unittest.TestCase):
    def test_measured_sizes_with_the_last(self):
        self.assertEqual([16, 64, 256], panels.size_ticks({16, 64, 256}, (8, 512), 3.0, 0.3))
        self.assertEqual([256], panels.size_ticks({16, 256}, (8, 512), 0.1, 0.3))
        self.assertEqual([], panels.size_ticks(set(), (1, 4), 3.0, 0.3))

    def test_chosen_sizes_where_they_were_measured(self):
        chosen = [256, 1024, 2500, 16384]
        self.assertEqual({256, 2500, 16384}, panels.wanted_sizes({256, 576, 2500, 16384}, chosen))
        self.assertEqual({256, 1024, 4096}, panels.wanted_sizes({256, 1024, 4096}, chosen))
        self.assertEqual({256, 576}, panels.wanted_sizes({256, 576}, []))
        self.assertEqual(set(), panels.wanted_sizes(set(), chosen))


class RefusalTest(Workplace):
    def assert_refused(self, path, *words):
        result = self.draw(path)
        self.assertEqual(2, result.returncode, result.stderr)
        self.assertEqual(1, len(result.stderr.splitlines()), result.stderr)
        for word in (str(path), *words):
            self.assertIn(word, result.stderr)
        self.assertFalse(self.out.exists())

    def test_missing_file(self):
        self.assert_refused(self.folder / "missing.json", "No such file")

    def test_folder(self):
        self.assert_refused(self.folder, "expected a folder with result or study files")

    def test_not_text(self):
        path = self.folder / "binary.json"
        path.write_bytes(b"\xff\xfe\x00\x01")
        self.assert_refused(path, "not UTF-8")

    def test_foreign_json(self):
        self.assert_refused(self.write({"benchmarks": []}), 'expected a result file (format "results/1"), found JSON')
        self.assert_refused(self.write([1, 2]), 'expected a result file (format "results/1"), found JSON')

    def test_wrong_version(self):
        self.assert_refused(self.write({**synthetic_results(), "format": "results/2"}), '"results/2"', '"results/1"')

    def test_truncated(self):
        self.assert_refused(self.write(json.dumps(synthetic_results())[:-200]), "not valid JSON")

    def test_not_a_number(self):
        self.assert_refused(self.write(json.dumps(synthetic_results()).replace("1.05", "NaN")), "NaN")

    def test_time_of_a_failed_record(self):
        content = synthetic_results()
        content["records"][2]["check"].update(verdict="failed", reason="wrong")
        self.assert_refused(self.write(content), "records[2].seconds", "must be null")

    def test_unknown_verdict(self):
        content = synthetic_results()
        content["records"][1]["check"]["verdict"] = "fine"
        self.assert_refused(self.write(content), "records[1]")

    def test_missing_key(self):
        content = synthetic_results()
        del content["records"][1]["workspace_bytes"]
        self.assert_refused(self.write(content), "records[1]", "workspace_bytes")

    def test_no_records(self):
        self.assert_refused(self.write({**synthetic_results(), "records": []}), "no records")

    def test_same_point_twice(self):
        content = synthetic_results()
        content["records"].append(copy.deepcopy(content["records"][0]))
        self.assert_refused(self.write(content), "twice")

    def test_one_bad_file_among_good_ones(self):
        good, bad = self.write(synthetic_results()), self.write("{", "bad.json")
        result = self.draw(good, bad)
        self.assertEqual(2, result.returncode)
        self.assertIn(str(bad), result.stderr)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
