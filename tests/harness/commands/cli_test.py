#!/usr/bin/env python3
"""Tests of the command line, against the built program: python3 tests/harness/commands/cli_test.py BUILD/subquad"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "reports/files/results.schema.json").read_text(encoding="utf-8"))
GOLDEN = ROOT / "tests" / "golden"
REAL = ROOT / "reports" / "inputs" / "mpnet-layer0"
PROGRAM = ""  # set by main

COMMANDS = ("list", "check", "verify", "sweep", "claims", "env")
FILTERS = ("--operator", "--implementation", "--backend", "--scalar")
OPTIONS = {
    "list": ("--json", "--operator"),
    "check": ("CASE",),
    "verify": FILTERS + ("--n", "--case", "--input", "--seed", "--threads"),
    "sweep": FILTERS
    + (
        "--preset",
        "--config",
        "--out",
        "--resume",
        "--threads",
        "--time-limit",
        "--memory-limit",
        "--shard",
        "--seed",
        "--n",
        "--d",
        "--e",
        "--f",
        "--heads",
        "--param",
        "--input",
        "--interleave",
    ),
    "claims": ("FILE", "--out"),
    "env": (),
}
SMALL = ("--operator", "toeplitz_1d", "--e", "4", "--no-resident", "--budget", "0.02")


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options
    )


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuse(self, arguments, *words, **options):
        """Expects exit status 2 and one line on stderr that names the problem."""
        result = run(*arguments, **options)
        line = result.stderr
        self.assertEqual(result.returncode, 2, (arguments, line, result.stdout))
        self.assertEqual(line.count("\n"), 1, (arguments, line))
        self.assertLess(len(line), 2100)
        for word in words:
            self.assertIn(word, line, arguments)

    def fine(self, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, 0, (arguments, result.stderr, result.stdout))
        return result.stdout


class Help(Cli):
    def test_every_command_explains_itself(self):
        text = self.fine("--help")
        for command in COMMANDS:
            self.assertIn(command, text)
        self.assertIn("130", text)
        for command, options in OPTIONS.items():
            text = self.fine(command, "--help")
            for option in options:
                self.assertIn(option, text, command)

    def test_help_mentions_every_option_that_is_taken(self):
        # Reads the options from the sources, so that a new option without help is noticed.
        for command in ("verify", "sweep", "list"):
            source = (ROOT / "harness" / "commands" / f"{command}.cc").read_text(encoding="utf-8")
            text = self.fine(command, "--help")
            for option in re.findall(r'add_(?:option|flag)\(\s*"(--[a-z-]+)"', source):
                self.assertIn(option, text, command)


class Refusals(Cli):
    def test_commands_and_options(self):
        self.refuse([], "expected a command (list, check, verify, ", "subquad --help")
        self.refuse(["bogus"], "bogus")
        self.refuse(["verify", "toeplitz_1d"], "to select an operator, use --operator toeplitz_1d")
        self.refuse(["--bogus"], "--bogus")
        for command in COMMANDS:
            self.refuse([command, "--bogus"], "--bogus" if command not in ("check", "sweep", "claims") else "")
        self.refuse(["list", "extra"], "extra")
        self.refuse(["check"], "CASE")
        self.refuse(["sweep"], "--out")
        self.refuse(["verify", "--n", "5", "--n", "6"], "--n")

    def test_values(self):
        for arguments, word in (
            (["--operator", "nope"], "nope"),
            (["--implementation", "nope"], "nope"),
            (["--operator", "toeplitz_1d", "--implementation", "fft2"], "fft2"),
            (["--scalar", "float8"], "float8"),
            (["--backend", "tpu"], "tpu"),
            (["--input", "nope"], "nope"),
            (["--threads", "0"], "--threads"),
            (["--threads", "x"], "--threads"),
            (["--seed", "-1"], "--seed"),
            (["--seed", "x"], "--seed"),
            (["--seed", "9223372036854775808"], "--seed"),
            (["--seed"], "--seed"),
            (["--n", ""], "--n"),
            (["--n="], "--n"),
            (["--n", "99999999", "--operator", "softmax_attention"], "of free memory, found"),
        ):
            self.refuse(["verify", *arguments], word)
        for axis, expected in (
            ("256:4096", "START:END:STEP, such as 1024:4096:x2 or 16:64:+8"),
            ("256:4096:2", "a step such as x2 (factor) or +256"),
            ("4096:256:x2", "a range whose end is not below its start"),
            ("4096:256:+1", "a range whose end is not below its start"),
            ("4:8:x1", "a factor of at least 2 after the x"),
            ("4:8:+0", "a step of at least 1 after the +"),
            ("0:8:x2", "a range with a factor that begins above 0"),
            ("1k", "a list like 1024,4096"),
        ):
            self.refuse(["verify", "--operator", "toeplitz_1d", "--n", axis], f"--n: expected {expected}")
        for backend, scalar, meant in (
            ("gpu", "float32", "cuda"),
            ("cpu", "fp16", "float16"),
            ("cpu", "bf16", "bfloat16"),
        ):
            self.refuse(["verify", "--backend", backend, "--scalar", scalar], f"did you mean '{meant}'?")
        for axis in (
            "0",
            "-3",
            "abc",
            "4:",
            "4:8",
            "4:8:",
            "4:8:2",
            "4:8:x1",
            "4:8:x",
            "4:8:+0",
            "8:4:x2",
            "4,,5",
            "4,",
            ",4",
            "4.5",
            "1e3",
            "99999999999999999999",
            "2147483648",
            "1:99999999:+1",
        ):
            self.refuse(["verify", "--operator", "toeplitz_1d", "--n", axis], "--n")

    def test_usage(self):
        self.refuse(["power", "--help"], "unknown name 'power'; expected one of list, check")
        self.refuse(["--bogus"], "option: expected one of --help, --version, found '--bogus'")
        self.refuse(["--version", "extra"], "--version: expected no other argument, found 'extra'")
        self.refuse(["compare", "nowhere-1", "nowhere-2"], "nowhere-1")
        for arguments, words in (
            (["check"], "CASE: expected a value (case folders, each with case.json and .npy files), found none"),
            (["verify", "--n"], "--n: expected a value, found none"),
            (["verify", "--operator", "--n", "4"], "--operator: expected a value, found none"),
            (["verify", "--threads", "0"], "--threads: expected an integer from 1 to 1024, found '0'"),
            (["verify", "--n", "4", "--case", "x"], "expected at most one of --n and --case, found both"),
            (["verify", "--out", "x"], "--out: expected together with --random, found alone"),
            (["verify", "--nn", "4"], "option: unknown name '--nn' (did you mean '--n'?)"),
            (["verify", "extra"], "expected only options, found 'extra'"),
            (["compare", "a", "b", "c"], "expected no argument after OLD and NEW, found 'c'"),
            (["verify", "--n", "4", "--n", "8"], "--n: expected once, found twice"),
            (["verify", "--verbose=3"], "--verbose: expected no value, found '3'"),
            (["check", ".", "--require-margin", "-1"], "expected a number of at least 0, found '-1'"),
        ):
            self.refuse(arguments, words, f"; see subquad {arguments[0]} --help")

    def test_unknown_names_list_the_choices_and_suggest_the_nearest(self):
        tiny = ("sweep", "--n", "8", "--out", self.folder / "x.json", "--operator")
        for arguments, wrong, choices, nearest in (
            (["lits"], "lits", ("list", "check", "verify", "sweep"), "list"),
            (["list", "--operator", "toeplits_1d"], "toeplits_1d", ("toeplitz_2d", "linear_attention"), "toeplitz_1d"),
            (["verify", "--operator", "fastrpb"], "fastrpb", ("toeplitz_2d",), "fastrpb_attention"),
            (
                ["verify", "--operator", "toeplitz_1d", "--implementation", "fft_colums"],
                "fft_colums",
                ("dense", "karatsuba"),
                "fft_columns",
            ),
            (["verify", "--scalar", "float23"], "float23", ("float32", "float64", "bfloat16", "float16"), "float32"),
            (["verify", "--backend", "cud"], "cud", ("cpu", "cuda"), "cuda"),
            (["verify", "--input", "sprase"], "sprase", ("normal", "masked"), "sparse"),
            (["verify", "--case", "linear_attention:n=4,feature_map=prff"], "prff", ("elu1", "trf"), "prf"),
            (
                ["verify", "--case", "linear_attention:n=4,feature_map=prf,omega=sphery"],
                "sphery",
                ("gaussian", "orthogonal"),
                "sphere",
            ),
            (["verify", "--case", "position_attention:n=4,scheme=shav"], "shav", ("untied", "deberta"), "shaw"),
            (["verify", "--case", "sparse_attention:n=4,pattern=bigbyrd"], "bigbyrd", ("local",), "bigbird"),
            (["verify", "--case", "toeplitz_1d:n=4,causl=1"], "causl", ("causal", "n_q"), "causal"),
            ([*tiny, "toeplitz_1d", "--input", "normall"], "normall", ("case folder", "integers"), "normal"),
            (["sweep", "--preset", "quik", "--out", self.folder / "x.json"], "quik", ("paper", "threads"), "quick"),
            (["study", "precison", "--out", self.folder], "precison", ("all", "rpe_rank"), "precision"),
        ):
            self.refuse(arguments, f"'{wrong}' (did you mean '{nearest}'?)", *choices)
        # Distant names get no suggestion, and neither does the empty text.
        for wrong in ("zzzzzzzz", "x" * 5000):
            line = run("verify", "--operator", wrong).stderr
            self.assertNotIn("did you mean", line)
        missing = run("check", self.case("linear_attention", {"q": "q.npy"})).stderr
        self.assertIn("feature_map: expected one of elu1, relu", missing)

    def case(self, operator, inputs, **params):
        folder = self.folder / "case"
        folder.mkdir()
        (folder / "case.json").write_text(
            json.dumps(
                {
                    "format": "case/1",
                    "operator": operator,
                    "params": params,
                    "inputs": inputs,
                    "expected": {},
                    "source": "a test",
                }
            ),
            encoding="utf-8",
        )
        return folder

    def test_scripts(self):
        result = subprocess.run(
            [ROOT / "run-sweeps", "nprf-fig1x"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SUBQUAD_SETUP": "0"},
        )
        self.assertEqual(result.returncode, 2)
        for word in ("quick paper", "error-n", "did you mean nprf-fig1"):
            self.assertIn(word, result.stderr)
        for script in ("run-sweeps", "run-tests", "setup"):
            text = subprocess.run(
                [ROOT / script, "--help"], capture_output=True, text=True, timeout=60, check=True
            ).stdout
            for word in ("minute", "Exit status"):
                self.assertIn(word, text, script)

    def test_version(self):
        text = self.fine("--version")
        for field in ("subquad 0.", "commit: ", "compiler: ", "flags: ", "libraries: eigen", "CUDA: "):
            self.assertIn(field, text)
        commit = json.loads(self.fine("env"))["commit"]
        self.assertIn(commit, text)

    def test_case_ids(self):
        for case, word in (
            ("nope", "nope"),
            ("nope:n=4", "nope"),
            ("toeplitz_1d:n", "'n'"),
            ("toeplitz_1d:n=4,bogus=3", "bogus"),
            ("toeplitz_1d:n=4,e=x", "e"),
            ("toeplitz_1d:n=4,e=0", "e"),
            ("toeplitz_1d:n=4,causal=2", "causal"),
            ("toeplitz_1d:n=4,scalar=int8", "int8"),
            ("toeplitz_1d:n=4,seed=-1", "seed"),
            ("toeplitz_1d:n=4,input=odd", "odd"),
            ("toeplitz_1d:n=4,heads=-1", "heads"),
            ("toeplitz_1d:n=4,e=2147483648", "size e: expected an integer from 1 to 2147483647, found 2147483648"),
            ("toeplitz_2d:height=0,width=3", "height"),
            ("toeplitz_1d:n=4\nx=5", "x"),
            ("toeplitz_1d:n=4,n=5", "expected each name once, found 'n' twice"),
            ("toeplitz_2d:n=12,width=5", "n: expected 10 (height = 2 * width = 5), found 12"),
            ("toeplitz_2d:n=12,height=3,width=5", "n: expected 15 (height = 3 * width = 5), found 12"),
        ):
            self.refuse(["verify", "--case", case], word)
        self.refuse(["verify", "--case", "toeplitz_1d:n=4", "--n", "5"], "--n")

    def test_a_filter_that_matches_nothing(self):
        self.refuse(
            ["verify", "--operator", "toeplitz_1d", "--scalar", "float16", "--backend", "cpu"],
            "leave no implementation of this combination",
        )
        self.refuse(
            ["verify", "--case", "toeplitz_1d:n=4", "--operator", "toeplitz_2d"],
            "--case: expected a case that --operator toeplitz_2d selects, found one of toeplitz_1d in float32",
        )
        self.refuse(
            ["verify", "--spikes", "--operator", "linformer_attention"],
            "operators with an input indexed by offset (toeplitz_1d",
        )
        self.refuse(
            ["sweep", "--operator", "toeplitz_1d", "--scalar", "bfloat16", "--out", self.folder / "x.json"],
            "of the planned cases",
        )

    def test_sweeps(self):
        out = self.folder / "x.json"
        good = ["sweep", "--operator", "toeplitz_1d", "--n", "4"]
        self.refuse(["sweep", "--out", out], "--preset")
        self.refuse([*good, "--out", self.folder / "no" / "x.json"], "--out")
        self.refuse([*good, "--out", self.folder], "--out")
        self.refuse([*good, "--preset", "quick", "--out", out], "found both --preset and --n")
        self.refuse(["sweep", "--d", "4", "--out", out], "found only --d, without an operator or --n")
        self.refuse(["sweep", "--preset", "nope", "--out", out], "nope")
        self.refuse(["sweep", "--config", self.folder / "no.json", "--out", out], "no.json")
        for option, value in (
            ("--param", "foo=3"),
            ("--param", "foo"),
            ("--param", "=3"),
            ("--param", "causal=7"),
            ("--shard", "3/2"),
            ("--shard", "0/2"),
            ("--shard", "1"),
            ("--shard", "9/9"),
            ("--time-limit", "0"),
            ("--time-limit", "nan"),
            ("--memory-limit", "nan"),
            ("--memory-limit", "inf"),
            ("--memory-limit", "-1"),
            ("--threads", "0"),
            ("--threads", "2000"),
            ("--input", "nope"),
        ):
            self.refuse(
                [*good, option, value, "--out", out],
                value.split("=")[0] if option == "--param" and value[0] != "=" else option.strip("-"),
            )
        for extra, word in (
            (["--input", REAL, "--d", "32"], "q: expected d = 32"),
            (["--input", REAL, "--heads", "5"], "5 heads"),
            (["--input", ROOT / "reports"], "case.json"),
            (["--input", self.folder / "none"], "none"),
            (["--input", "a,b"], "commas"),
        ):
            self.refuse(["sweep", "--operator", "softmax_attention", *extra, "--out", out], word)
        self.refuse([*good, "--input", REAL, "--out", out], "found q, k, v, bias")
        self.refuse(["sweep", "--preset", "quick", "--input", REAL, "--out", out], "found both --preset and --input")
        self.refuse(["verify", "--case", f"toeplitz_1d:n=4,input={REAL}"], "found q, k, v, bias")
        self.refuse(
            ["study", "feature_maps", "--input", REAL, "--out", self.folder / "study"], "--input", "reads case folders"
        )
        for study in ("conversion", "approximation_error"):
            self.refuse(
                ["study", study, "--input", REAL, REAL.parent / "photograph-blur", "--out", self.folder / "study"],
                "photograph-blur",
                "q and k",
            )
        self.assertFalse((self.folder / "study").exists())
        self.refuse([*good, "--interleave", "--out", out], "--interleave", "two or more inputs")
        self.refuse([*good, "--interleave", "--input", "wide", "--out", out], "--interleave", "two or more inputs")
        self.refuse(
            ["sweep", "--operator", "softmax_attention", "--interleave", "--input", "normal", REAL, "--out", out],
            "interleave",
            "mpnet-layer0",
            "heads",
        )
        self.assertFalse(out.exists())
        for text in (
            "",
            "[]",
            "{",
            '{"sweeps": []}',
            '{"sweeps": [3]}',
            '{"sweeps": [{"operator": {"a": 1}}]}',
            '{"sweeps": [{"operator": "nope"}]}',
            '{"sweeps": [{"operator": "toeplitz_1d", "n": "x"}]}',
            '{"sweeps": [{"operator": "toeplitz_1d", "input": []}]}',
            '{"sweeps": [{"operator": "toeplitz_1d", "n": 4, "interleave": "yes"}]}',
            '{"sweeps": [{"operator": "toeplitz_1d", "n": 4, "bogus": 1}]}',
        ):
            config = self.folder / "config.json"
            config.write_text(text, encoding="utf-8")
            self.refuse(["sweep", "--config", config, "--out", out])


class Lists(Cli):
    def test_json_is_complete(self):
        operators = json.loads(self.fine("list", "--json"))
        text = self.fine("list")
        names = [entry["operator"] for entry in operators]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("toeplitz_1d", names)
        # Every definition in reference/ that has a description is listed.
        for header in (ROOT / "reference").glob("*.h"):
            if "description() const override" in header.read_text(encoding="utf-8"):
                self.assertIn(header.stem, names)
        for entry in operators:
            self.assertTrue(entry["formula"] and entry["source"], entry["operator"])
            self.assertTrue(entry["implementations"], entry["operator"])
            self.assertIn(entry["operator"], text)
            for implementation in entry["implementations"]:
                for field in ("implementation", "time", "memory", "what", "source"):
                    self.assertTrue(implementation[field], (entry["operator"], field))
                self.assertIn(implementation["backend"], ("cpu", "cuda"))
                self.assertTrue(set(implementation["scalars"]) <= {"float32", "float64", "bfloat16", "float16"})
                self.assertTrue(implementation["scalars"])
                self.assertIn(implementation["implementation"], text)

    def test_env_is_json(self):
        environment = json.loads(self.fine("env"))
        definition = {**SCHEMA["$defs"]["environment"], "$defs": SCHEMA["$defs"]}
        jsonschema.Draft202012Validator(definition).validate(environment)


class Checks(Cli):
    def test_exit_status(self):
        good = GOLDEN / "toeplitz_1d-square"
        self.assertIn("pass", self.fine("check", good))
        self.refuse(["check", good, self.folder / "nowhere"], "nowhere")
        wrong = self.folder / "wrong"
        wrong.mkdir()
        for file in good.iterdir():
            (wrong / file.name).write_bytes(file.read_bytes())
        out = bytearray((wrong / "out.npy").read_bytes())
        out[-9] ^= 0x10  # the sign or the exponent of a value
        (wrong / "out.npy").write_bytes(bytes(out))
        result = run("check", wrong, good)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("FAIL", result.stdout)

    def test_a_closed_pipe_or_full_disk_is_not_success(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([PROGRAM, "list"], stdout=full, stderr=subprocess.PIPE, check=False, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertNotEqual(result.stderr, "")


class Sweeps(Cli):
    def sweep(self, *arguments, status=0):
        out = self.folder / "out.json"
        replace = () if "--resume" in arguments else ("--force",)
        result = run("sweep", *SMALL, "--out", out, *replace, *arguments)
        self.assertEqual(result.returncode, status, result.stderr + result.stdout)
        return self.read(out)

    def read(self, out):
        file = json.loads(out.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(SCHEMA).validate(file)
        for record in file["records"]:
            passed = record["check"]["verdict"] == "passed"
            self.assertEqual(record["seconds"] is not None, passed, record["case"])
            if not passed:
                self.assertTrue(record["check"]["reason"], record["case"])
            else:
                samples = record["seconds"]["samples"]
                self.assertLessEqual(min(samples), record["seconds"]["median"])
                self.assertLessEqual(record["check"]["error"], 1)
        return file

    def test_records(self):
        file = self.sweep("--n", "16,64", "--scalar", "float32", "--scalar", "float64", "--threads", "1,2")
        keys = {(r["case"], r["implementation"], r["threads"]) for r in file["records"]}
        self.assertEqual(len(keys), len(file["records"]))
        programs = {(r["implementation"], r["scalar"]) for r in file["records"]}
        self.assertEqual({scalar for _, scalar in programs}, {"float32", "float64"})
        self.assertEqual(len(keys), 4 * len(programs))  # two sizes, two numbers of threads
        self.assertFalse((self.folder / "out.json.journal").exists())
        for record in file["records"]:
            self.assertEqual(record["check"]["verdict"], "passed")
            self.assertIsNotNone(record["setup_seconds"])
            self.assertGreater(record["workspace_bytes"], 0)
        # A case id repeats the check, with the same result.
        record = file["records"][-1]
        command = ["verify", "--case", record["case"], "--implementation", record["implementation"]]
        first, second = self.fine(*command), self.fine(*command)
        self.assertEqual(first, second)
        self.assertIn(record["case"], first)
        self.assertIn("1 passed", first)
        ratio = float(re.search(r"error/bound ([0-9.e+-]+)", first).group(1))
        self.assertAlmostEqual(ratio, record["check"]["error"], delta=0.005 + 0.01 * ratio)

    def test_drawn_numbers_without_an_answer(self):
        # One key with 70 channels, none of which is active for some query: 0 / 0.
        text = self.fine(
            "verify",
            "--operator",
            "kernelized_rpe_attention",
            "--implementation",
            "dense",
            "--backend",
            "cpu",
            "--scalar",
            "float32",
            "--n",
            "70",
        )
        lines = [line for line in text.splitlines() if line.startswith("skipped")]
        self.assertTrue(lines, text)
        self.assertRegex(lines[0], "the reference is undefined: query [0-9]+: expected a normaliser")
        self.assertRegex(text, rf"\n[1-9][0-9]* passed, 0 failed, 0 mistrusted, {len(lines)} skipped\n$")
        case = lines[0].split()[2]
        self.refuse(["verify", "--case", case, "--implementation", "dense", "--backend", "cpu"], "normaliser")

    def test_inputs_from_case_folders(self):
        folders = [f"reports/inputs/{name}" for name in ("mpnet-layer0", "minilm-layer5")]
        out = self.folder / "real.json"
        command = [
            "sweep",
            "--operator",
            "softmax_attention",
            "--no-resident",
            "--budget",
            "0.02",
            "--heads",
            "2",
            "--out",
            out,
        ]
        self.fine(*command, "--n", "100", "--input", *folders, "normal", cwd=ROOT)
        records = self.read(out)["records"]
        self.assertEqual({r["input"] for r in records}, {*folders, "normal"})
        for record in records:
            self.assertEqual(record["check"]["verdict"], "passed")
            if record["input"] == "normal":
                self.assertNotIn("inputs", record)
                continue
            biased = "mpnet" in record["input"]
            inputs = dict(record["inputs"])
            self.assertRegex(inputs.pop("digest"), "^[0-9a-f]{16}$")
            self.assertEqual(record["size"]["d"], 64 if biased else 32)
            self.assertEqual(
                inputs,
                {
                    "source": record["input"],
                    "rows": 512,
                    "fitted": "cropped",
                    "offsets": "cropped" if biased else None,
                    "taken": ["q", "k", "v", "bias"] if biased else ["q", "k", "v"],
                    "generated": [],
                },
            )
            # The id repeats the check, with the same result.
            text = self.fine("verify", "--case", record["case"], "--implementation", record["implementation"], cwd=ROOT)
            self.assertIn("1 passed", text)
            ratio = float(re.search(r"error/bound ([0-9.e+-]+)", text).group(1))
            self.assertAlmostEqual(ratio, record["check"]["error"], delta=0.005 + 0.01 * ratio)
        # Another spelling of a folder names the same folder; another length is another case.
        self.fine(
            *command,
            "--n",
            "100,600",
            "--input",
            "./" + folders[0] + "/",
            ROOT / folders[1],
            "normal",
            "--resume",
            cwd=ROOT,
        )
        more = self.read(out)
        old = [r for r in more["records"] if r["size"]["n_q"] == 100]
        self.assertEqual(sorted(map(json.dumps, old)), sorted(map(json.dumps, records)))
        new = [r for r in more["records"] if r["size"]["n_q"] == 600 and "inputs" in r]
        self.assertEqual(len(new), 4)
        self.assertEqual({r["inputs"]["fitted"] for r in new}, {"tiled"})
        # A configuration file gives the same result.
        config = self.folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "sweeps": [
                        {"operator": "softmax_attention", "n": [100, 600], "heads": 2, "input": [*folders, "normal"]}
                    ]
                }
            ),
            encoding="utf-8",
        )
        self.fine("sweep", "--config", config, "--no-resident", "--resume", "--out", out, cwd=ROOT)
        self.assertEqual(self.read(out)["records"], more["records"])

    def test_what_an_implementation_chose_is_in_its_record(self):
        out = self.folder / "out.json"
        for n, chosen, other in ((8, "tiled", "fft_streamed"), (3000, "fft_streamed", "tiled")):
            self.fine(
                "sweep",
                "--operator",
                "kernelized_rpe_attention",
                "--implementation",
                "auto",
                "tiled",
                "--n",
                n,
                "--f",
                "16",
                "--d",
                "4",
                "--e",
                "64",
                "--param",
                "feature_map=prf",
                "--no-resident",
                "--budget",
                "0.02",
                "--out",
                out,
            )
            records = {record["implementation"]: record for record in self.read(out)["records"]}
            self.assertRegex(
                records["auto"]["choice"],
                rf"^{chosen}, by estimate for vectors of (16|32|64) bytes \d+ % of the time of {other}; .* cross near n = \d+$",
            )
            self.assertNotIn("choice", records["tiled"])
            out.unlink()

    def test_settings_whose_values_have_colons(self):
        settings = {"with": "mask", "heads": 2, "leading": "k:1+v:1", "shared": "mask:queries,mask:keys"}
        config = self.folder / "config.json"
        config.write_text(
            json.dumps({"sweeps": [{"operator": "softmax_attention", "n": 16, **settings}]}), encoding="utf-8"
        )
        typed = ["--operator", "softmax_attention", "--n", 16]
        for name, value in settings.items():
            typed += ["--param", f"{name}={value}"]
        for number, arguments in enumerate((typed, ["--config", config])):
            out = self.folder / f"{number}.json"
            self.fine("sweep", *arguments, "--budget", "0.02", "--no-resident", "--out", out)
            cases = {record["case"] for record in self.read(out)["records"]}
            self.assertEqual(len(cases), 2, cases)
            for shared in ("queries", "keys"):
                self.assertTrue(any(f"leading=k:1+v:1,shared=mask:{shared}," in case for case in cases), cases)

    def test_inputs_are_timed_in_turns(self):
        real = "reports/inputs/mpnet-layer0"
        config = self.folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "sweeps": [
                        {
                            "operator": "softmax_attention",
                            "n": [20, 40],
                            "heads": 2,
                            "with": "bias",
                            "per_head": True,
                            "input": ["normal", "wide", real],
                            "interleave": True,
                        }
                    ]
                }
            ),
            encoding="utf-8",
        )
        out = self.folder / "out.json"
        # The folder is found from any working directory.
        command = ["sweep", "--config", config, "--no-resident", "--budget", "0.02", "--out", out]
        self.fine(*command, cwd=self.folder)
        file = self.read(out)
        inputs = {"normal", "wide", real}
        for record in file["records"]:
            self.assertEqual(record["check"]["verdict"], "passed", record["case"])
            self.assertEqual({record["input"], *record["timed_with"]}, inputs)
            self.assertEqual(len(record["timed_with"]), 2)
        self.assertEqual(len(file["input_ratios"]), len(file["records"]) * 2 // 3)
        for ratio in file["input_ratios"]:
            self.assertTrue(ratio["in_turns"])
            self.assertEqual(ratio["against"], "normal")
            # interleave_test.cc checks, without a clock, which times the ratio uses.
            self.assertGreater(ratio["ratio"], 0)
        before = out.read_bytes()
        again = run(*command, "--resume", cwd=self.folder)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads(before)["records"], self.read(out)["records"])
        # Cases that are measured later were not timed alternately, and the file says so.
        file["records"] = [r for r in file["records"] if r["input"] == "normal"]
        out.write_text(json.dumps(file), encoding="utf-8")
        self.fine(*command, "--resume", cwd=self.folder)
        later = self.read(out)
        self.assertEqual({ratio["in_turns"] for ratio in later["input_ratios"]}, {False})
        for record in later["records"]:
            if record["input"] == "wide":
                self.assertEqual(record["timed_with"], [real])

    def test_shards_keep_together_what_is_timed_in_turns(self):
        axes = ["--n", "4,5,6", "--input", "normal", "wide", "--interleave"]
        whole = self.sweep(*axes)
        parts = []
        for shard in ("1/2", "2/2"):
            records = self.sweep(*axes, "--shard", shard)["records"]
            self.assertEqual({len(r["timed_with"]) for r in records}, {1})
            parts += records
        self.assertEqual(self.points(parts), self.points(whole["records"]))
        self.refuse(["sweep", *SMALL, *axes, "--shard", "4/4", "--out", self.folder / "x.json"], "at most 3")

    def test_a_failure_in_turns_costs_its_own_case(self):
        """The operator refuses one input (rows of length zero to be normalised); the other is measured nevertheless."""
        case = self.folder / "zeros"
        sys.path.insert(0, str(ROOT))
        from reports.case import write_case

        random = np.random.default_rng(1)
        q, k, v = (random.standard_normal((6, 4)).astype(np.float32) for _ in range(3))
        q[2] = 0
        write_case(case, "softmax_attention", {"q": q, "k": k, "v": v}, {"out": v}, source="a test")
        config = self.folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "sweeps": [
                        {
                            "operator": "kernelized_rpe_attention",
                            "implementation": ["dense", "fft_streamed"],
                            "feature_map": "prf",
                            "f": 3,
                            "normalize": True,
                            "n": 6,
                            "d": 4,
                            "e": 4,
                            "input": ["normal", str(case)],
                            "interleave": True,
                        }
                    ]
                }
            ),
            encoding="utf-8",
        )
        out = self.folder / "out.json"
        result = run("sweep", "--config", config, "--no-resident", "--budget", "0.02", "--out", out)
        self.assertEqual(result.returncode, 1, result.stderr)
        verdicts = {
            (r["input"] == "normal", r["implementation"]): r["check"]["verdict"] for r in self.read(out)["records"]
        }
        self.assertEqual(
            verdicts,
            {
                (True, "dense"): "passed",
                (True, "fft_streamed"): "passed",
                (False, "dense"): "failed",
                (False, "fft_streamed"): "failed",
            },
        )

    def test_curves_of_different_inputs_stay_apart(self):
        file = self.sweep("--n", "8:512:x2", "--input", "normal", "equal")
        self.assertTrue(file["fits"] and file["crossovers"])
        for entry in file["fits"] + file["crossovers"]:
            self.assertIn(entry["input"], ("normal", "equal"))
        for kind in ("fits", "crossovers"):
            keys = [
                json.dumps(
                    [
                        entry[key]
                        for key in ("implementation", "fast", "dense", "scalar", "quantity", "input")
                        if key in entry
                    ]
                )
                for entry in file[kind]
            ]
            self.assertEqual(len(keys), len(set(keys)), kind)

    def test_shards_are_the_whole(self):
        axes = ["--n", "4,5,6,7,8"]
        whole = self.sweep(*axes)
        parts = []
        for shard in ("1/2", "2/2"):
            parts += self.sweep(*axes, "--shard", shard)["records"]
        self.assertEqual(self.points(parts), self.points(whole["records"]))
        self.assertEqual(len(parts), len(whole["records"]))

    @staticmethod
    def points(records):
        return {(r["case"], r["implementation"], r["backend"], r["threads"], r["check"]["verdict"]) for r in records}

    def test_memory_limit(self):
        file = self.sweep("--n", "64,16384", "--memory-limit", "0.5")
        verdicts = {(r["size"]["n_q"], r["implementation"]): r["check"] for r in file["records"]}
        self.assertEqual(verdicts[64, "dense"]["verdict"], "passed")
        self.assertEqual(verdicts[16384, "fft_columns"]["verdict"], "passed")
        skipped = verdicts[16384, "dense"]
        self.assertEqual(skipped["verdict"], "skipped")
        self.assertIn("does not fit in memory", skipped["reason"])

    def test_time_limit(self):
        # The larger size takes minutes on any processor and little memory.
        out = self.folder / "out.json"
        self.fine("sweep", "--operator", "softmax_attention", "--implementation", "tiled", "--n", "64,262144",
                  "--time-limit", "10", "--budget", "0.02", "--no-resident", "--out", out)  # fmt: skip
        verdicts = {record["size"]["n_q"]: record["check"] for record in self.read(out)["records"]}
        self.assertEqual(verdicts[64]["verdict"], "passed")
        self.assertEqual(verdicts[262144]["verdict"], "skipped")
        self.assertIn("exceeds the limit of 10 s for a case", verdicts[262144]["reason"])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
