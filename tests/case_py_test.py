#!/usr/bin/env python3
"""Tests of reports/case.py and of the cases in reports/inputs: python3 tests/case_py_test.py BUILD/subquad"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

REPORTS = pathlib.Path(__file__).resolve().parent.parent / "reports"
INPUTS = REPORTS / "inputs"
PROGRAM = ""  # set by main
sys.path.insert(0, str(REPORTS))

from case import write_case  # noqa: E402


def check(*folders):
    return subprocess.run([PROGRAM, "check", *map(str, folders)], capture_output=True, text=True, timeout=600, check=False)


def attention(q, k, v, bias, scale):
    """softmax_attention straight from its definition, one head, in float64."""
    n = len(q)
    offsets = np.arange(n)[None, :] - np.arange(n)[:, None]
    scores = scale * q.astype(float) @ k.astype(float).T + bias.astype(float)[offsets + n - 1]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(float)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "case"


class WriteCase(Folder):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.inputs = {name: random.standard_normal((9, width)).astype(np.float32)
                       for name, width in (("q", 4), ("k", 4), ("v", 3))}
        self.inputs["bias"] = random.standard_normal(17).astype(np.float32)
        self.params = {"causal": False, "scale": 0.5}
        self.out = attention(**self.inputs, scale=0.5)

    def write(self, inputs=None, expected=None, **options):
        options = {"params": self.params, "source": "a test", **options}
        write_case(self.folder, "softmax_attention", self.inputs if inputs is None else inputs,
                   {"out": self.out} if expected is None else expected, **options)

    def test_what_it_writes_passes(self):
        for out in (self.out, self.out.astype(np.float32), np.asfortranarray(self.out)):
            self.write(expected={"out": out})
            result = check(self.folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(result.stdout, "[4-9] passed, 0 failed")

    def test_layout_in_memory_does_not_matter(self):
        # As tensors come out of a model: a view of [n, heads, d] seen as [heads, n, d].
        together = np.stack([self.inputs["q"], self.inputs["q"]], axis=1)
        q = together.transpose(1, 0, 2)
        self.assertFalse(q.flags.c_contiguous)
        twice = {name: np.stack([self.inputs[name]] * 2) for name in ("k", "v")}
        self.write({"q": q, **twice, "bias": self.inputs["bias"]}, {"out": np.stack([self.out] * 2)})
        self.assertEqual(check(self.folder).returncode, 0)

    def test_a_wrong_answer_fails(self):
        wrong = self.out.copy()
        wrong[5, 1] += 1e-3
        self.write(expected={"out": wrong})
        self.assertEqual(check(self.folder).returncode, 1)

    def test_minus_infinity_is_for_biases_alone(self):
        bias = self.inputs["bias"].copy()
        bias[0] = -np.inf
        inputs = {**self.inputs, "bias": bias}
        self.write(inputs, {"out": attention(**inputs, scale=0.5)})
        self.assertEqual(check(self.folder).returncode, 0)
        with self.assertRaisesRegex(ValueError, "inputs: q: expected finite"):
            self.write({**self.inputs, "q": np.full((9, 4), -np.inf, np.float32)})

    def test_what_would_not_be_read_is_not_written(self):
        q, v = self.inputs["q"], self.inputs["v"]
        nan = v.copy()
        nan[2, 1] = np.nan
        for name, array, words in (
            ("q", q.astype(np.float16), "q: .*float16"),
            ("q", q.astype(">f4"), "q: .*>f4"),
            ("q", np.ones((9, 4), int), "q: .*int64"),
            ("q", q.astype(complex), "q: .*complex"),
            ("q", q.tolist(), "q: .*list"),
            ("q", q[None, None], r"q: .*\(1, 1, 9, 4\)"),
            ("q", np.float32(1) * np.ones((), np.float32), "q: .*found"),
            ("q", q[:0], r"q: .*\(0, 4\)"),
            ("v", nan, r"v: .*nan at \[2, 1\]"),
            ("../v", v, "a word"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                self.write({**self.inputs, name: array})
            with self.assertRaisesRegex(ValueError, words):
                self.write(expected={name: array})
        with self.assertRaisesRegex(ValueError, "expected"):
            self.write(expected={})
        with self.assertRaises(ValueError):
            self.write(params={"scale": float("nan")})
        with self.assertRaises(ValueError):
            self.write(params={"stride": np.int64(3)})
        with self.assertRaises(ValueError):
            self.write(source=None)
        self.assertFalse(self.folder.exists())

    def test_the_program_refuses_the_same(self):
        nan = self.inputs["v"].copy()
        nan[2, 1] = np.nan
        for array, word in ((self.inputs["v"].astype(np.float16), "f2"), (self.inputs["v"].astype(">f4"), ">f4"),
                            (np.asfortranarray(self.inputs["v"]), "ortran"), (nan, "nan"),
                            (self.inputs["v"][None, None], "dimensions")):
            self.write()
            np.save(self.folder / "v.npy", array)
            result = check(self.folder)
            self.assertEqual(result.returncode, 2, word)
            self.assertIn(word.lower(), result.stderr.lower())


class RealInputs(Folder):
    def test_files_are_those_that_were_exported(self):
        listed = {}
        for line in (INPUTS / "SHA256SUMS").read_text(encoding="ascii").splitlines():
            digest, name = line.split("  ")
            listed[name] = digest
        there = {path.relative_to(INPUTS).as_posix(): path for path in INPUTS.rglob("*") if path.is_file()}
        self.assertEqual(sorted(listed), sorted(name for name in there if name.endswith((".npy", "case.json")) or
                                                name == "declaration.txt"))
        for name, digest in listed.items():
            self.assertEqual(hashlib.sha256(there[name].read_bytes()).hexdigest(), digest, name)
        self.assertLess(sum(path.stat().st_size for path in there.values()), 20 << 20)

    def test_buckets_give_the_biases(self):
        """T5's ranges of distances: 0, 1, .., 7 alone, then from these on to the next; rows 16.. are keys after the query."""
        begins = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]
        offsets = np.arange(-511, 512)
        rows = np.searchsorted(begins, np.abs(offsets), side="right") - 1 + 16 * (offsets > 0)
        table = np.load(INPUTS / "mpnet_buckets.npy")
        self.assertEqual((table.shape, table.dtype.str), ((32, 12), "<f4"))
        # All of them are seen but row 16, distance 0 after the query.
        self.assertEqual(sorted(set(rows)), [row for row in range(32) if row != 16])
        for layer in (0, 6, 11):
            bias = np.load(INPUTS / f"mpnet-layer{layer}" / "bias.npy")
            np.testing.assert_array_equal(bias, table[rows][:, [0, 4, 7, 11]].T)

    def test_every_case_passes(self):
        cases = sorted(path.parent for path in INPUTS.glob("*/case.json"))
        self.assertEqual(len(cases), 8)
        result = check(*cases)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for case in cases:
            for scalar in ("float32", "float64"):
                self.assertRegex(result.stdout, f"{case.name} .*{scalar} .*pass")

    def test_other_conventions_fail(self):
        """The tolerances are tight enough to tell this operator from one that is almost it."""
        for name in ("mpnet-layer0", "mpnet-layer11"):
            source = INPUTS / name
            case = json.loads((source / "case.json").read_text(encoding="utf-8"))
            # Two heads are enough.
            inputs = {key: np.load(source / file)[:2] for key, file in case["inputs"].items()}
            out = np.load(source / case["expected"]["out"])[:2]
            forgotten = {key: array for key, array in inputs.items() if key != "bias"}
            reversed_bias = {**inputs, "bias": inputs["bias"][:, ::-1].copy()}
            shifted = {**inputs, "bias": np.roll(inputs["bias"], 1, axis=1)}
            wrong_heads = {**inputs, "bias": inputs["bias"][::-1].copy()}
            shared = {**inputs, "bias": inputs["bias"][0].copy()}
            scaled = {**inputs, "bias": inputs["bias"] / np.float32(8)}
            for wrong, params in ((forgotten, {}), (reversed_bias, {}), (shifted, {}), (wrong_heads, {}), (shared, {}),
                                  (scaled, {}), (inputs, {"causal": True}), (inputs, {"scale": 0.126})):
                write_case(self.folder, case["operator"], wrong, {"out": out}, {**case["params"], **params}, "wrong")
                result = check(self.folder)
                self.assertEqual(result.returncode, 1, (name, params, result.stdout))
                self.assertIn("0 passed", result.stdout)

    def test_sources_name_no_machine(self):
        for path in INPUTS.glob("*/case.json"):
            case = json.loads(path.read_text(encoding="utf-8"))
            self.assertNotRegex(case["source"], r"(^|\s)/|https?:")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
