#!/usr/bin/env python3
"""`subquad check` on cases from other people's programs: python3 tests/harness/commands/check_cli_test.py BUILD/subquad"""

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
PROGRAM = ""  # set by main


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False, **options
    )


def toeplitz(weights, values, causal):
    """Computes out_i = sum_j w(j - i) v_j by a transform of twice the length, as SciPy and PyTorch programs do."""
    n = len(values)
    kernel = np.concatenate([weights[n - 1 :: -1], np.zeros(1, weights.dtype), weights[: n - 1 : -1]])
    if causal:
        kernel[n:] = 0
    spectrum = np.fft.rfft(kernel)[:, None] * np.fft.rfft(values, 2 * n, axis=0)
    return np.fft.irfft(spectrum, 2 * n, axis=0)[:n]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def case(self, name, operator, inputs, out, params, **more):
        folder = self.folder / name
        folder.mkdir(parents=True)
        for key, array in {**inputs, "out": out}.items():
            np.save(folder / f"{key}.npy", np.ascontiguousarray(array))
        content = {
            "format": "case/1",
            "operator": operator,
            "params": params,
            "inputs": {key: f"{key}.npy" for key in inputs},
            "expected": {"out": "out.npy"},
            "source": "a test",
            **more,
        }
        (folder / "case.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    def toeplitz_case(self, name, n, spoil=lambda out: out, scalar=np.float64, causal=True, **more):
        random = np.random.default_rng(1)
        weights, values = random.standard_normal(2 * n - 1), random.standard_normal((n, 3))
        weights, values = weights.astype(scalar), values.astype(scalar)
        out = toeplitz(weights, values, causal).astype(scalar)
        return self.case(
            name, "toeplitz_1d", {"weights": weights, "values": values}, spoil(out), {"causal": causal}, **more
        )

    def check(self, status, *arguments):
        result = run("check", *arguments)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout


class ExpectedError(Case):
    def test_a_transform_passes_once_it_says_how_exact_it_is(self):
        # Gives expected_error 1e-12 for float64 and 1e-5 for float32; without it, float64 counts as exact and float32
        # as a plain program's.
        for scalar, error in ((np.float64, 1e-12), (np.float32, 1e-5)):
            name = np.dtype(scalar).name
            text = self.check(0, self.toeplitz_case(f"{name}", 300, scalar=scalar, expected_error=error))
            for line in text.splitlines()[:-1]:
                if "error" in line:
                    self.assertIn(f"expected_error {error:g}", line)
        # An answer that counts as exact must not have such errors.
        for name, more in (("said", {"expected_error": 1e-12}), ("silent", {})):
            case = self.toeplitz_case(name, 300, lambda out: out + 1e-13 * np.abs(out).max(), **more)
            self.check(0 if more else 1, case)

    def test_wrong_answers_still_fail(self):
        def scaled(out):
            return out * 1.001

        def one_row(out):
            out[150] = out[151]
            return out

        for scalar, error in ((np.float64, 1e-12), (np.float32, 1e-5)):
            for spoil in (scaled, one_row):
                name = f"{spoil.__name__}-{np.dtype(scalar).name}"
                text = self.check(1, self.toeplitz_case(name, 300, spoil, scalar, expected_error=error))
                self.assertNotIn("pass  ", text)
                self.assertIn("0 passed", text)

    def test_it_widens_the_tolerance_by_exactly_that(self):
        plain = self.toeplitz_case("plain", 40)
        wider = self.toeplitz_case("wider", 40, expected_error=1e-3)
        largest = np.abs(np.load(plain / "out.npy")).max()
        tolerances = [
            {
                (line["implementation"], line["scalar"]): line["check"]["bound"]
                for line in json.loads(run("check", "--json", case).stdout)["cases"][0]["lines"]
            }
            for case in (plain, wider)
        ]
        self.assertGreaterEqual(len(tolerances[0]), 4)
        for program, tolerance in tolerances[0].items():
            # The worst element may be another one, whose own bound is a little different.
            self.assertAlmostEqual(
                tolerances[1][program] - tolerance, 1e-3 * largest, delta=1e-3 * tolerance + 1e-4 * largest
            )

    def test_no_line_fails_within_the_tolerance_that_it_prints(self):
        def off_a_little(out):
            # The error is beyond 8 times the plain program's, but well within its bound.
            return out + 5e-13

        text = self.check(1, self.toeplitz_case("gate-two", 300, off_a_little, causal=False))
        matches = re.findall(r"error +(\S+) +tolerance +(\S+) +(pass|FAIL) +\((\d+) rows, gate (\d)", text)
        self.assertIn("2", {gate for _, _, verdict, _, gate in matches if verdict == "FAIL"})
        self.assertIn("1", {gate for _, _, _, _, gate in matches})
        for error, tolerance, verdict, rows, _ in matches:
            self.assertEqual(float(error) <= float(tolerance), verdict == "pass", text)
            self.assertEqual(int(rows), 300)


class AllRows(Case):
    N = 6000

    def test_every_row_of_a_long_toeplitz_case_is_compared(self):
        good = self.check(0, self.toeplitz_case("good", self.N, expected_error=1e-12))
        self.assertIn(f"({self.N} rows", good)
        self.assertNotIn("a sample", good.replace("reference", "", 1).split("dense", 1)[1])

        def zeroed(out):
            out[2777] = 0
            return out

        text = self.check(1, self.toeplitz_case("zeroed", self.N, zeroed, expected_error=1e-12))
        self.assertIn("row 2777", text)
        self.assertIn("0 passed", text)

    def test_every_row_of_a_long_attention_case_is_compared(self):
        random = np.random.default_rng(2)
        n = 4500
        q, k, v = random.standard_normal((3, n, 4))
        scores = q @ k.T / 2
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out = weights @ v / weights.sum(-1, keepdims=True)
        inputs = {"q": q, "k": k, "v": v}
        self.check(0, self.case("right", "softmax_attention", inputs, out, {"scale": 0.5}, expected_error=1e-14))
        out[3001] = out[3002]
        text = self.check(1, self.case("wrong", "softmax_attention", inputs, out, {"scale": 0.5}, expected_error=1e-14))
        self.assertIn("row 3001", text)
        self.assertIn("0 passed", text)


class OtherTypes(Case):
    def test_implementations_are_skipped_in_a_type_in_which_the_definition_has_no_value(self):
        ones = np.array([[1.0]])
        for tiny in (1e-9, 1e-50):  # in float16; in float32 too
            case = self.case(
                f"tiny{tiny:g}",
                "linear_attention",
                {"q": ones, "k": tiny * ones, "v": 2 * ones},
                2 * ones,
                {"feature_map": "relu"},
            )
            text = self.check(0, case)
            self.assertRegex(text, r"dense +float64 +error .* pass")
        self.assertRegex(text, r"dense +float32 +skipped: the formula has no value in float32: query 0")

    def test_implementations_are_skipped_in_a_type_in_which_the_answer_overflows(self):
        huge = 1e30 * np.array([[1.0, 2.0], [3.0, 4.0]])
        case = self.case(
            "huge",
            "toeplitz_1d",
            {"weights": 1e30 * np.ones(3), "values": huge},
            1e30 * (huge * [[1]] + huge[::-1]),
            {},
        )
        text = self.check(0, case)
        self.assertRegex(text, r"dense +float32 +skipped: the answer has values beyond the range of float32")
        # An answer beyond float32 in a float32 file is skipped, too: no program could be right.
        case = self.case(
            "asked",
            "toeplitz_1d",
            {"weights": 1e30 * np.ones(3, np.float32), "values": huge.astype(np.float32)},
            1e30 * (huge + huge[::-1]),
            {},
            expected_error=1e-6,
        )
        self.assertRegex(
            self.check(0, case), r"dense +float32 +skipped: the answer has values beyond the range of float32"
        )

    def test_subnormal_answers(self):
        n = 50
        random = np.random.default_rng(1)
        weights = random.standard_normal(2 * n - 1).astype(np.float32)
        values = (random.standard_normal((n, 2)) * 1e-40).astype(np.float32)
        matrix = np.array([[weights[j - i + n - 1] for j in range(n)] for i in range(n)], dtype=np.float64)
        inputs = {"weights": weights, "values": values}
        out = matrix @ values.astype(np.float64)
        self.check(0, self.case("right", "toeplitz_1d", inputs, out, {}))
        out[20] = 0
        self.check(1, self.case("wrong", "toeplitz_1d", inputs, out, {}))


class Reading(Case):
    def test_shapes_are_checked_before_numbers_are_read(self):
        case = self.toeplitz_case("large", 8)
        rows = 1 << 27  # eight GiB of zeros that use no space on the disk
        header = str({"descr": "<f8", "fortran_order": False, "shape": (rows, 8)})
        header = header.ljust(117) + "\n"
        with open(case / "values.npy", "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            file.truncate(128 + rows * 64)
        start = time.monotonic()
        result = subprocess.run(
            [PROGRAM, "check", str(case)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (100 << 20, 100 << 20)),
        )
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("weights", result.stderr)
        self.assertLess(time.monotonic() - start, 5)

    def test_cases_of_one_name_are_told_apart(self):
        for parent in ("a", "b"):
            self.toeplitz_case(f"{parent}/same", 4)
        text = run("check", self.folder / "a/same", self.folder / "b/same").stdout
        for parent in ("a", "b"):
            self.assertIn(str(self.folder / parent / "same"), text)
        (self.folder / "b/same/values.npy").unlink()
        line = run("check", self.folder / "a/same", self.folder / "b/same").stderr
        self.assertIn(f"case {self.folder / 'b/same'}: ", line)

    def test_it_starts_in_little_memory(self):
        for arguments in (["--help"], ["check", "--help"], ["check", str(GOLDEN / "toeplitz_1d-one")]):
            code = (
                "import resource, subprocess, sys\n"
                "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
            )
            kib = subprocess.run(
                [sys.executable, "-c", code, PROGRAM, *arguments],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            self.assertLess(int(kib), 64 << 10, arguments)


class Sharing(Case):
    def test_flattened_batch_items_are_told(self):
        random = np.random.default_rng(1)
        n, batch, heads = 12, 2, 3
        weights, values = random.standard_normal((heads, 2 * n - 1)), random.standard_normal((batch, heads, n, 4))
        out = np.stack([[toeplitz(weights[h], values[b, h], False) for h in range(heads)] for b in range(batch)])
        flat = self.case("flat", "toeplitz_1d", {"weights": weights, "values": values.reshape(-1, n, 4)},
                         out.reshape(-1, n, 4), {"causal": False}, expected_error=1e-12)  # fmt: skip
        note = "each slice of weights [3, 23] is shared by 2 neighbouring heads of 6; if the heads are batch items times heads"
        self.assertIn(f"    note: {note}", self.check(1, flat))
        (notes,) = json.loads(self.check(1, "--json", flat))["cases"][0]["notes"]
        self.assertTrue(notes.startswith(note), notes)
        whole = self.case("whole", "toeplitz_1d", {"weights": weights, "values": values}, out, {"causal": False},
                          expected_error=1e-12)  # fmt: skip
        self.assertNotIn("note:", self.check(0, whole))
        single = self.case("one", "toeplitz_1d", {"weights": weights[0], "values": values[0]},
                        np.stack([toeplitz(weights[0], value, False) for value in values[0]]), {"causal": False}, expected_error=1e-12)  # fmt: skip
        self.assertNotIn("note:", self.check(0, single))


class Choosing(Case):
    CASES = sorted(GOLDEN.glob("toeplitz_1d-*")) + [GOLDEN / "softmax_attention-plain"]

    def test_filters(self):
        text = self.check(0, *self.CASES, "--implementation", "dense", "--scalar", "float32")
        lines = text.splitlines()
        self.assertEqual(len([line for line in lines if " pass  " in line]), len(self.CASES))
        self.assertTrue(all("dense" in line and "float32" in line for line in lines if " pass  " in line))
        text = self.check(0, *self.CASES, "--operator", "softmax_attention")
        self.assertIn(f"{len(self.CASES) - 1} cases of other operators", text)
        self.assertNotIn("toeplitz", text)
        for option, value in (
            ("--operator", "toeplits_1d"),
            ("--implementation", "ffd"),
            ("--scalar", "float8"),
            ("--backend", "tpu"),
        ):
            result = run("check", *self.CASES, option, value)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn(value, result.stderr)
        result = run("check", GOLDEN / "toeplitz_1d-square", "--implementation", "tiled")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(
            "the filters (--implementation tiled) select no implementation of the operator of these cases",
            result.stderr,
        )
        # The exit status is 1, because none of the requested checks was possible.
        self.check(1, GOLDEN / "toeplitz_1d-square", "--operator", "softmax_attention")

    def test_json(self):
        result = json.loads(self.check(0, *self.CASES, "--json"))
        self.assertEqual(result["format"], "check/1")
        self.assertEqual([case["case"] for case in result["cases"]], [str(case) for case in self.CASES])
        passed = sum(line["check"]["verdict"] == "passed" for case in result["cases"] for line in case["lines"])
        self.assertEqual(result["passed"], passed)
        for case in result["cases"]:
            for line in case["lines"]:
                if line["check"]["verdict"] == "passed":
                    self.assertLessEqual(line["deciding"]["error"], line["deciding"]["tolerance"])
                    self.assertEqual(line["check"]["rows"], "all")
        result = run("check", "--json", GOLDEN / "toeplitz_1d-one", self.folder / "nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere", json.loads(result.stdout)["cases"][1]["invalid"])

    def test_missing_devices_are_one_line(self):
        if json.loads(run("env").stdout)["gpu"] is not None:
            self.skipTest("there is a device")
        text = self.check(0, *self.CASES)
        self.assertNotIn("(cuda)", text)
        self.assertLessEqual(text.count("not checked:"), 1)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
