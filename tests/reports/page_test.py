#!/usr/bin/env python3
"""Tests of reports/page.py, reports/gallery.py and reports/readme.py. Run: python3 tests/reports/page_test.py"""

import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
REPORTS = TESTS.parent.parent / "reports"
os.environ["PYTHONPATH"] = str(REPORTS.parent)  # for python3 -m reports.figures and the like
sys.path[:0] = [str(REPORTS.parent), str(TESTS)]

import figures_test  # noqa: E402
import recipes_test  # noqa: E402
from reports.files import result_file  # noqa: E402

VOID = {"meta", "br", "input", "path", "use", "rect", "image"}
CLAIMS = {
    "format": "claims/1",
    "claims": [
        {
            "id": "frpb-1d-time",
            "says": "fast <b>",
            "source": "FastRPB",
            "verdict": "not reproduced",
            "numbers": "made up",
        },
        {"id": "other", "says": "x", "source": "y", "verdict": "reproduced", "numbers": "made up"},
        {"id": "lacking", "says": "x", "source": "y", "verdict": "not measured", "numbers": "needs study spectra"},
    ],
}


class Reader(html.parser.HTMLParser):
    """Collects ids, links and texts, and checks that every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.remote, self.open, self.commands = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if "data-command" in attributes:
            self.commands.append(attributes["data-command"])
        for key in ("href", "src", "xlink:href"):
            if key in attributes and not attributes[key].startswith("data:"):
                (self.links if attributes[key].startswith("#") else self.remote).append(attributes[key])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open and self.open.pop() == tag, f"</{tag}> ends nothing"


class PageTest(figures_test.Workplace):
    def run_page(self, *arguments, out=None):
        command = [sys.executable, "-m", "reports.page", *map(str, arguments), "--out", str(out or self.out)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def content(self):
        recipes = [recipes_test.RECIPES[name] for name in ("fastrpb-toeplitz", "crossover-linear", "fastrpb-table3")]
        content = recipes_test.synthetic_results(recipes)
        content["records"][3]["check"].update(verdict="failed", reason="row <7> is wrong")
        content["records"][3]["seconds"] = None
        content["records"][4]["case"] = "toeplitz_1d:random=1+2;3,it's"
        return content

    def page(self):
        claims = self.write(CLAIMS, "claims.json")
        result = self.run_page(self.write(self.content()), "--claims", claims)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        return (self.out / "index.html").read_text(encoding="utf-8")

    def test_one_file_that_needs_nothing(self):
        text = self.page()
        reader = Reader(text)
        self.assertEqual([], reader.open)
        self.assertEqual([], reader.remote)
        self.assertNotRegex(re.sub(r'xmlns(:xlink)?="[^"]*"', "", text), r"https?://")
        self.assertEqual(["index.html"], [file.name for file in self.out.iterdir()])

    def test_ids_are_unique_and_links_lead_somewhere(self):
        reader = Reader(self.page())
        self.assertEqual(len(reader.ids), len(set(reader.ids)))
        self.assertEqual(set(), {link[1:] for link in reader.links} - set(reader.ids))

    def test_every_point_has_its_command(self):
        content = self.content()
        reader = Reader(self.page())
        self.assertEqual(len(content["records"]), len(reader.commands))
        first = content["records"][0]
        self.assertIn(f"--case {first['case']}", reader.commands[0].replace("'", ""))
        self.assertIn("""'toeplitz_1d:random=1+2;3,it'"'"'s'""", reader.commands[4])

    def test_words_of_files_are_no_markup(self):
        text = self.page()
        self.assertIn("row &lt;7&gt; is wrong", text)
        self.assertIn("fast &lt;b&gt;", text)
        self.assertNotIn("@BODY@", text)

    def test_a_gpu_stands_once_and_its_state_at_each_file(self):
        files = []
        for index in range(2):
            content = self.content()
            content["records"] = content["records"][index::2]
            content["environment"]["gpu"] = {
                "name": "GPU <1>", "driver": "1.2", "memory_bytes": 2**31, "emulated": False, "peak_flops_per_second": 0,
                "copy_bytes_per_second": (index + 1) * 1e12, "processor_mhz": 1000 + index, "throttled": "",
            }  # fmt: skip
            files.append(self.write(content, f"{index}.json"))
        result = self.run_page(*files)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        text = (self.out / "index.html").read_text(encoding="utf-8")
        self.assertEqual(1, text.count("GPU &lt;1&gt;, driver 1.2, memory 2 GiB<"))
        for words in ("; GPU: copy 1e+12 B/s, processor 1000 MHz", "; GPU: copy 2e+12 B/s, processor 1001 MHz"):
            self.assertEqual(1, text.count(words), words)

    def test_claims_stand_at_their_figures(self):
        text = self.page()
        self.assertIn('<a href="#claim-frpb-1d-time">', text)
        self.assertIn('<span class="bad">not reproduced</span>', text)
        self.assertIn('<span class="soft">not measured</span></td><td>needs study spectra</td>', text)
        self.assertIn("<b>1</b>claims not measured</div>", text)

    def test_twice_the_same(self):
        path = self.write(self.content())
        texts = []
        for name in ("first", "second"):
            self.assertEqual(0, self.run_page(path, out=self.folder / name).returncode)
            texts.append((self.folder / name / "index.html").read_bytes())
        self.assertEqual(*texts)

    def test_refusals(self):
        good = self.write(self.content())
        for arguments, word in (
            ([self.folder / "missing.json"], "No such file"),
            ([self.write({"benchmarks": []}, "foreign.json")], 'expected a result file (format "results/1")'),
            (
                [good, "--claims", self.write({"claims": []}, "claims.json")],
                'expected output of `subquad claims` (format "claims/1")',
            ),
            ([good, "--claims", self.write({"format": "claims/1", "claims": [{"id": 3}]}, "wrong.json")], "claims[0]"),
        ):
            with self.subTest(word):
                result = self.run_page(*arguments)
                self.assertEqual(2, result.returncode, result.stderr)
                self.assertEqual(1, len(result.stderr.splitlines()))
                self.assertIn(word, result.stderr)
                self.assertFalse(self.out.exists())


class GalleryTest(figures_test.Workplace):
    def setUp(self):
        super().setUp()
        self.results = self.folder / "results"
        self.results.mkdir()
        content = recipes_test.synthetic_results([recipes_test.RECIPES["fastrpb-toeplitz"]])
        content["environment"]["compiler"] = "GNU 1.2"
        (self.results / "run.json").write_text(json.dumps(content), encoding="utf-8")
        (self.results / "claims").mkdir()
        (self.results / "claims" / "claims.json").write_text(json.dumps(CLAIMS), encoding="utf-8")
        (self.results / "claims" / "claims.md").write_text("", encoding="utf-8")

    def gallery(self, *arguments):
        command = [sys.executable, "-m", "reports.gallery", str(self.results), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_writes_text_and_figures(self):
        self.assertEqual(1, self.gallery("--check").returncode)
        self.assertFalse((self.results / "README.md").exists())
        result = self.gallery()
        self.assertEqual(0, result.returncode, result.stderr)
        text = (self.results / "README.md").read_text(encoding="utf-8")
        self.assertIn("- `frpb-1d-time`: **not reproduced**. made up", text)
        self.assertIn(f"- **Shown here**: {recipes_test.RECIPES['fastrpb-toeplitz']['here']}", text)
        self.assertIn("GCC 1.2", text)
        links = re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)\"", text)
        self.assertIn(("", "figures/fastrpb-toeplitz.svg"), links)
        for link in links:
            self.assertTrue((self.results / "".join(link)).exists(), link)
        for name in re.findall(r'href="#([^"]+)"', text):
            self.assertIn(f'<a id="{name}">', text)
        self.assertEqual(0, self.gallery("--check").returncode)

    def test_names_the_gpu_of_records_that_are_all_of_one(self):
        file = self.results / "run.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        content["environment"]["gpu"] = {"name": "a GPU"}
        for backend, name in (("cpu", content["environment"]["cpu"]), ("cuda", "a GPU")):
            for record in content["records"] + content["algorithms"]:
                record["backend"] = backend
            file.write_text(json.dumps(content), encoding="utf-8")
            result = self.gallery()
            self.assertEqual(0, result.returncode, result.stderr)
            self.assertIn(f"Measured on {name}", (self.results / "README.md").read_text(encoding="utf-8"))

    def test_check_finds_what_changed(self):
        self.assertEqual(0, self.gallery().returncode)
        figure = self.results / "figures" / "fastrpb-toeplitz.svg"
        drawn = figure.read_bytes()
        faults = {
            "would change": lambda: figure.write_bytes(drawn.replace(b"stroke: #", b"stroke: #0", 1)),
            "would be removed": lambda: (self.results / "figures" / "gone.svg").write_bytes(drawn),
        }
        for words, plant in faults.items():
            plant()
            result = self.gallery("--check")
            self.assertEqual((1, True), (result.returncode, words in result.stdout), result.stdout)
            self.assertEqual(0, self.gallery().returncode)
        self.assertFalse((self.results / "figures" / "gone.svg").exists())
        figure.write_bytes(
            re.sub(rb"Matplotlib v[0-9.]+", b"Matplotlib v0.1", drawn).replace(b"stroke: #", b"stroke: #0", 1)
        )
        self.assertEqual(0, self.gallery("--check").returncode)  # drawn by another version, so not compared
        self.assertEqual(0, self.gallery().returncode)
        self.assertEqual(drawn, figure.read_bytes())  # but drawn again

    def test_refusals(self):
        (self.results / "run.json").unlink()
        result = self.gallery()
        self.assertEqual(2, result.returncode)
        self.assertIn("expected a folder with result files, found no .json file in it", result.stderr)


class ReadmeTest(figures_test.Workplace):
    """Tests the generated tables of the README on the committed results."""

    RESULTS = result_file.default_folder()
    LIST = [
        {"operator": "toeplitz_1d", "implementations": [
            {"implementation": "dense", "backend": "cpu", "scalars": ["float32", "float64"], "backward": True},
            {"implementation": "fft", "backend": "cuda", "scalars": ["float32"], "backward": False}]},
    ]  # fmt: skip

    def setUp(self):
        super().setUp()
        self.folder.mkdir(exist_ok=True)
        self.readme = self.folder / "README.md"
        parts = [f"<!-- {name} -->\nSTALE\n<!-- /{name} -->\n" for name in ("headline", "verified")]
        self.readme.write_text("before\n" + "".join(parts) + "after\n", encoding="utf-8")

    def run_readme(self, *arguments, operators=None):
        program = self.folder / "program"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(operators or self.LIST)}\nEND\n")
        program.chmod(0o755)
        command = [
            sys.executable,
            "-m",
            "reports.readme",
            "--readme",
            str(self.readme),
            "--program",
            str(program),
            *arguments,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_writes_both_tables_and_nothing_else(self):
        self.assertEqual(1, self.run_readme("--check").returncode)
        result = self.run_readme()
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        text = self.readme.read_text(encoding="utf-8")
        self.assertTrue(
            text.startswith("before\n<!-- headline -->\nProcessor: ") and text.endswith("<!-- /verified -->\nafter\n"),
            text,
        )
        self.assertNotIn("STALE", text)
        self.assertIn("| `toeplitz_1d` | `dense`; backward pass | `fft` |", text)
        self.assertEqual(0, self.run_readme("--check").returncode)
        self.readme.write_text(text.replace("× /", "9× /", 1), encoding="utf-8")
        self.assertEqual(1, self.run_readme("--check").returncode)

    def test_a_program_that_is_not_listed_yet_is_named_and_no_error(self):
        self.assertEqual(0, self.run_readme().returncode)
        old = self.LIST[0]["implementations"]
        new = {"implementation": "mine", "backend": "cpu", "scalars": ["float32", "float64"], "backward": False}
        result = self.run_readme("--check", operators=[{**self.LIST[0], "implementations": [*old, new]}])
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("not listed yet: toeplitz_1d mine", result.stdout)
        result = self.run_readme("--check", operators=[*self.LIST, {**self.LIST[0], "operator": "toeplitz_9d"}])
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("not listed yet: toeplitz_9d", result.stdout)
        # Implementations that it lists must exist.
        renamed = [{**old[0], "implementation": "mine"}, old[1]]
        forward = [{**old[0], "backward": False}, old[1]]
        for implementations in (renamed, forward):
            result = self.run_readme("--check", operators=[{**self.LIST[0], "implementations": implementations}])
            self.assertEqual(1, result.returncode, result.stdout)

    def test_cells_are_ratios_of_the_records(self):
        self.assertEqual(0, self.run_readme().returncode)
        text = self.readme.read_text(encoding="utf-8")
        records = json.loads((self.RESULTS / "paper.json").read_text(encoding="utf-8"))["records"]
        at = {
            name: next(record for record in records
                       if record["case"] == "toeplitz_1d:n=16384,e=64,causal=0,scalar=float32,seed=1"
                       and record["implementation"] == name)
            for name in ("dense", "fft_columns")
        }  # fmt: skip
        ratios = [at["dense"]["seconds"]["median"] / at["fft_columns"]["seconds"]["median"],
                  at["dense"]["workspace_bytes"] / at["fft_columns"]["workspace_bytes"]]  # fmt: skip
        row = next(line for line in text.splitlines() if line.startswith("| `toeplitz_1d`"))
        shown = [float(word.strip(" ×")) for word in row.split("|")[5].split("/")]
        for expected, cell in zip(ratios, shown):
            self.assertLess(abs(cell / expected - 1), 0.05)

    def test_refusals(self):
        cpu = [{**self.LIST[0], "implementations": self.LIST[0]["implementations"][:1]}]
        self.assertIn("lists no GPU implementation", self.run_readme(operators=cpu).stderr)
        self.readme.write_text("no place for it\n", encoding="utf-8")
        result = self.run_readme()
        self.assertEqual(2, result.returncode)
        self.assertIn("expected <!-- headline --> and <!-- /headline --> once each", result.stderr)

    def test_the_readme_is_short(self):
        """Counts only the text written by hand: generated tables grow with the operators."""
        text = (REPORTS.parent / "README.md").read_text(encoding="utf-8")
        by_hand = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", text, flags=re.S)
        self.assertLess(len(by_hand), len(text))
        self.assertLess(len(by_hand), 9000)


if __name__ == "__main__":
    unittest.main()
