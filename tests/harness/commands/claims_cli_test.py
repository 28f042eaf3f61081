#!/usr/bin/env python3
"""`subquad claims` and `subquad summarize` from outside: python3 tests/harness/commands/claims_cli_test.py BUILD/subquad"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "reports/files/claims.schema.json").read_text(encoding="utf-8"))
SUMMARY_SCHEMA = json.loads((ROOT / "reports/files/summary.schema.json").read_text(encoding="utf-8"))
PROGRAM = ""  # set by main


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


class Claims(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.made = pathlib.Path(cls.temporary.name)
        sweep = run(
            "sweep",
            "--operator",
            "toeplitz_1d",
            "--implementation",
            "fft",
            "--n",
            "256:16384:x4",
            "--no-resident",
            "--budget",
            "0.05",
            "--out",
            cls.made / "sweep.json",
        )
        assert sweep.returncode == 0, sweep.stderr
        study = run("study", "prf_variance", "--tiny", "--out", cls.made)
        assert study.returncode in (0, 1), study.stderr

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "claims.json"

    def answers(self, *files):
        result = run("claims", *files, "--out", self.out, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        content = json.loads(self.out.read_text(encoding="utf-8"))
        jsonschema.validate(content, SCHEMA)
        return content, result.stdout

    def test_every_claim_is_answered(self):
        content, _ = self.answers(self.made)
        claims = {claim["id"]: claim for claim in content["claims"]}
        self.assertIn("frpb-1d-time", claims)
        self.assertEqual(sum(content["counts"].values()), sum(claim["same_as"] is None for claim in claims.values()))
        self.assertEqual({file["file"] for file in content["files"]}, {"sweep.json", "prf_variance.json"})
        # A folder's files are listed by name, without paths of this machine.
        self.assertNotIn(str(self.made), json.dumps(content["files"]))
        table = self.out.with_suffix(".md").read_text(encoding="utf-8")
        for name, claim in claims.items():
            self.assertIn(f"| `{name}` |", table)
            if claim["kind"] == "erratum" and claim["verdict"] != "not measured":
                self.assertEqual(claim["erratum"], "confirmed", claim)
                self.assertEqual(claim["verdict"], "wrong as printed", claim)
                self.assertIsNotNone(claim["class"], claim)
            if claim["verdict"] == "not measured":
                self.assertNotIn(claim["kind"], ("property", "none"))
                self.assertIn("subquad s", claim["needs"])
                self.assertRegex(claim["numbers"], "needs (recipe|study) ")
            if claim["kind"] == "none":
                self.assertIn(claim["verdict"], ("not attempted", "cannot be tested here"), claim)
        # Two claims use the sweep, one the study, and the others have no data.
        for name in ("frpb-1d-time", "frpb-1d-memory"):
            self.assertNotIn(claims[name]["verdict"], ("not measured", "cannot be tested here"))
        self.assertNotEqual(claims["nprf-lemma2"]["verdict"], "reproduced")  # tiny
        for name, needs in (("survey-decay", "study sinusoidal"), ("nprf-time", "recipe nprf-memory")):
            self.assertEqual(claims[name]["verdict"], "not measured")
            self.assertTrue(claims[name]["numbers"].endswith(f"; needs {needs}"), claims[name])
        for name, verdict, words in (
            ("frpb-table1", "cannot be tested here", "needs models trained"),
            ("survey-fig3", "not attempted", "the position tables"),
        ):
            self.assertEqual(claims[name]["verdict"], verdict)
            self.assertIn(words, claims[name]["numbers"])
        self.assertEqual(claims["survey-rotation"]["verdict"], "reproduced")
        rows = [line for line in table.splitlines() if line.startswith("| ")]
        self.assertEqual({len(re.findall(r"(?<!\\)\|", row)) for row in rows}, {6})

    def listed(self, text):
        """Returns the claims that have a line in the text, those that it names as lacking data, and its last two lines."""
        *lines, others, counts = text.splitlines()
        too_little = "the files have too little data (--all shows what is needed): "
        named = [line.removeprefix(too_little).split(", ") for line in lines if line.startswith(too_little)]
        own = [line.split()[0] for line in lines if not line.startswith((" ", too_little))]
        return [*own, *sum(named, [])], others, counts

    def test_the_text_lists_what_the_files_hold(self):
        content, text = self.answers(self.made / "sweep.json")
        listed, others, counts = self.listed(text)
        self.assertEqual(listed, ["frpb-1d-time", "frpb-1d-memory"])
        hidden = [claim for claim in content["claims"] if claim["id"] not in listed]
        self.assertIn("(--all lists them)", others)
        for verdict in ("not measured", "not attempted", "cannot be tested here"):
            self.assertIn(f" {sum(claim['verdict'] == verdict for claim in hidden)} {verdict}", others)
        for verdict, count in content["counts"].items():
            self.assertIn(f" {count} {verdict.replace('holds by', 'hold by')}", counts)
        study, _, _ = self.listed(self.answers(self.made / "prf_variance.json")[1])
        self.assertEqual(study, ["nprf-lemma2", "nprf-lemma2-trf"])

    def test_all_lists_all(self):
        content, text = self.answers(self.made / "sweep.json", "--all")
        self.assertNotIn("--all", text)
        for claim in content["claims"]:
            self.assertRegex(text, f"(?m)^{claim['id']} +{claim['verdict']} ")
            if claim["verdict"] == "not measured":
                self.assertIn(f"measured by: {claim['needs']}\n", text)

    def test_committed_files_fit(self):
        for path in ROOT.glob("reports/results/*/claims/claims.json"):
            jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)

    def test_the_same_files_give_the_same_answers(self):
        first, _ = self.answers(self.made)
        second, _ = self.answers(self.made / "prf_variance.json", self.made / "sweep.json")
        # Bytes on the heap may differ by a few blocks from run to run.
        kept = [
            [
                (claim["id"], claim["verdict"], claim["erratum"], claim["kind"] == "property" or claim["numbers"])
                for claim in content["claims"]
            ]
            for content in (first, second)
        ]
        self.assertEqual(*kept)

    def test_the_schema_refuses(self):
        content, _ = self.answers(self.made / "sweep.json")
        for change in (
            lambda c: c.update(format="claims/2"),
            lambda c: c.update(extra=1),
            lambda c: c["claims"][0].update(verdict="perhaps"),
            lambda c: c["claims"][0].update(numbers=""),
            lambda c: c["claims"][0].pop("needs"),
            lambda c: c["claims"].clear(),
        ):
            broken = json.loads(json.dumps(content))
            change(broken)
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(broken, SCHEMA)

    def refuse(self, arguments, *words):
        result = run("claims", *arguments)
        self.assertEqual(result.returncode, 2, (arguments, result.stderr, result.stdout))
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse(self.out.exists())

    def test_files_that_are_not_valid(self):
        sweep = json.loads((self.made / "sweep.json").read_text(encoding="utf-8"))
        study = json.loads((self.made / "prf_variance.json").read_text(encoding="utf-8"))

        def changed(content, change):
            copy = json.loads(json.dumps(content))
            change(copy)
            return json.dumps(copy)

        empty = self.folder / "empty"
        empty.mkdir()
        self.refuse([empty, "--out", self.out], "empty")
        self.refuse([self.folder / "none.json", "--out", self.out], "none.json")
        self.refuse(["--out", self.out], "FILE")
        self.refuse([self.made], "--out")
        self.refuse([self.made, "--out", self.folder / "claims.md"], "--out", ".json")
        for text in (
            "{",
            "[]",
            '{"format": "other/1"}',
            '{"format": 1}',
            "NaN",
            '{"format": "results/1"}',
            '{"format": "study/1"}',
            changed(sweep, lambda c: c.update(records=[1])),
            changed(sweep, lambda c: c["records"][0].pop("size")),
            changed(sweep, lambda c: c["records"][0].pop("check")),
            changed(sweep, lambda c: c["records"][0].update(operator=3)),
            changed(sweep, lambda c: c["records"][0]["size"].pop("n_k")),
            changed(sweep, lambda c: c["records"][0].update(threads="one")),
            changed(study, lambda c: c.update(tables=[])),
            changed(study, lambda c: c["tables"].pop("variance")),
            changed(study, lambda c: c["tables"]["variance"]["rows"][0].pop()),
            changed(study, lambda c: c["tables"]["variance"].pop("columns")),
        ):
            bad = self.folder / "bad.json"
            bad.write_text(text, encoding="utf-8")
            self.refuse([bad, "--out", self.out], "bad.json")
        # A summary alone holds no records.
        summary = self.folder / "alone.json"
        result = run("summarize", self.made, "--out", summary)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.refuse([summary, "--out", self.out], "only summaries")
        summary.unlink()
        # Broken JSON in a folder is reported; JSON files of other formats are ignored.
        self.refuse([self.folder, "--out", self.out], "bad.json")
        bad.write_text('{"format": "other/1"}', encoding="utf-8")
        (self.folder / "sweep.json").write_text(json.dumps(sweep), encoding="utf-8")
        self.answers(self.folder)

    def test_times_that_are_no_numbers_support_nothing(self):
        sweep = json.loads((self.made / "sweep.json").read_text(encoding="utf-8"))
        for record in sweep["records"]:
            record["seconds"] = None
            record["workspace_bytes"] = None
            record["flops"] = None
        file = self.folder / "planted.json"
        file.write_text(json.dumps(sweep), encoding="utf-8")
        content, _ = self.answers(file)
        claims = {claim["id"]: claim for claim in content["claims"]}
        for name in ("frpb-1d-time", "frpb-1d-memory"):
            self.assertEqual(claims[name]["verdict"], "not measured", claims[name])

    def test_output_that_cannot_be_written(self):
        result = run("claims", self.made, "--out", self.folder / "none" / "claims.json")
        self.assertEqual(result.returncode, 2)
        result = run("claims", self.made / "sweep.json", "--out", self.made / "sweep.json")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--out", result.stderr)

    def summary(self, *arguments):
        out = self.folder / "summary.json"
        result = run("summarize", *arguments, "--out", out, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        content = json.loads(out.read_text(encoding="utf-8"))
        jsonschema.validate(content, SUMMARY_SCHEMA)
        return content

    def test_a_summary_has_the_numbers_of_the_claims(self):
        content = self.summary(self.made)  # the study in it is ignored
        self.assertEqual([file["file"] for file in content["files"]], ["sweep.json"])
        (entry,) = [recipe for recipe in content["recipes"] if recipe["recipe"] == "fastrpb-toeplitz"]
        fits = {panel["quantity"]: panel["curves"][0]["fit"] for panel in entry["panels"]}
        claims = {claim["id"]: claim for claim in self.answers(self.made)[0]["claims"]}
        for claim, name, quantity in (
            ("frpb-1d-time", "exponent of time of fft", "seconds"),
            ("frpb-1d-memory", "exponent of workspace of fft", "workspace_bytes"),
        ):
            self.assertEqual(claims[claim]["recipes"], ["fastrpb-toeplitz"])
            (quantities,) = [quantity for quantity in claims[claim]["quantities"] if quantity["name"] == name]
            self.assertEqual(
                [quantities[key] for key in ("value", "low", "high")],
                [fits[quantity][key] for key in ("exponent", "low", "high")],
            )
        # A summary beside the results changes nothing.
        (self.folder / "sweep.json").write_text(
            (self.made / "sweep.json").read_text(encoding="utf-8"), encoding="utf-8"
        )
        again = self.summary(self.folder)
        self.assertEqual(again["recipes"], content["recipes"])
        self.answers(self.folder / "sweep.json", self.folder / "summary.json")

    def test_a_summary_of_a_recipe(self):
        recipe = ROOT / "reports/recipes/fastrpb-toeplitz.json"
        content = self.summary(self.made / "sweep.json", "--recipes", recipe)
        self.assertEqual([entry["recipe"] for entry in content["recipes"]], ["fastrpb-toeplitz"])
        self.assertEqual(
            content["recipes"],
            [
                entry
                for entry in self.summary(self.made / "sweep.json", "--recipes", recipe.parent)["recipes"]
                if entry["recipe"] == "fastrpb-toeplitz"
            ],
        )

    def test_what_cannot_be_summarized(self):
        self.out = self.folder / "summary.json"
        sweep, study = self.made / "sweep.json", self.made / "prf_variance.json"
        bad = self.folder / "bad.json"
        for text, arguments, words in (
            ("", [self.folder / "none.json"], ["none.json", "a readable file"]),
            ("{", [bad], ["bad.json", "a result file"]),
            ('{"format": "results/1", "records": [1], "environment": {}}', [bad], ["bad.json: record 0"]),
            ("", [study], ["FILE", "at least one result file"]),
            ((sweep.read_text(encoding="utf-8")), [sweep, bad], ["bad.json", "not in sweep.json"]),
            ('{"format": "recipe/1"}', [sweep, "--recipes", bad], ["recipe bad", "a kind"]),
            ("", [sweep, "--recipes", self.folder / "none.json"], ["none.json", "a recipe"]),
        ):
            bad.write_text(text, encoding="utf-8")
            result = run("summarize", *arguments, "--out", self.out, "--force")
            self.assertEqual(result.returncode, 2, (arguments, result.stdout, result.stderr))
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertFalse(self.out.exists())

    def test_help(self):
        result = run("claims", "--help")
        self.assertEqual(result.returncode, 0)
        for word in (
            "FILE",
            "--out",
            "lrpe-tail",
            "--all",
            "not measured",
            "cannot be tested here: needs models trained",
            "computed by this command, without files",
            "--preset paper",
            "subquad study rpe_rank",
            "130",
        ):
            self.assertIn(word, result.stdout)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
