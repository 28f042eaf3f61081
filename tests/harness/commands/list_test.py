#!/usr/bin/env python3
"""Checks that `subquad list` describes everything that a case.json needs: python3 tests/harness/commands/list_test.py
BUILD/subquad
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "reports/files/list.schema.json").read_text(encoding="utf-8"))
CASES = sorted(ROOT.glob("tests/golden/*/case.json")) + sorted(ROOT.glob("reports/inputs/*/case.json"))
PROGRAM = ""  # set by main

TYPES = {
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "list of integers": list,
    "list of lists of integers": list,
}


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def holds(entry, case):
    """True if a parameter, size or tensor exists in this case.json."""
    values = {**case["inputs"], **case["params"]}
    return all(
        values.get(name) in choices or ("given" if name in values else "not given") in choices
        for name, choices in entry["when"].items()
    )


def extent(text, sizes):
    """Evaluates an extent such as n_q+n_k-1, n/block or ceil(n/block)."""
    text = re.sub(r"ceil\((\w+)/(\w+)\)", r"-(-\1//\2)", text)
    return eval(re.sub(r"/+", "//", text), {"__builtins__": {}}, sizes)  # pylint: disable=eval-used


def symbols_of(shape):
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(shape))) - {"ceil"}


def problems(operator, case, shapes):
    """Lists contradictions between a case.json and the description of its operator."""
    faults = []
    params = {entry["name"]: entry for entry in operator["params"] if holds(entry, case)}
    inputs = {entry["name"]: entry for entry in operator["inputs"] if holds(entry, case)}
    outputs = {entry["name"] for entry in operator["outputs"] if holds(entry, case)}
    for known, names in ((params, case["params"]), (inputs, case["inputs"])):
        faults += [f"{name} is not described" for name in names if name not in known]
        faults += [f"{name} is missing" for name, entry in known.items() if entry["required"] and name not in names]
    faults += [f"output {name} is not described" for name in case["expected"] if name not in outputs]
    for name, value in case["params"].items():
        entry = params.get(name, {"type": "boolean"})
        if entry.get("may_be_list") and isinstance(value, list):
            continue
        if not isinstance(value, TYPES[entry["type"]]):
            faults.append(f"{name} is no {entry['type']}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if not entry.get("min", -np.inf) <= value <= entry.get("max", np.inf) or value <= entry.get(
                "above", -np.inf
            ):
                faults.append(f"{name} is out of range")
        elif "choices" in entry and value not in entry["choices"]:
            faults.append(f"{name} is not one of the choices")
    sizes = {entry["name"] for entry in operator["sizes"] if holds(entry, case)}
    symbols = symbols_of(e for entry in inputs.values() for e in entry["shape"])
    faults += [f"size {name} is not described" for name in symbols - sizes - set(params)]
    known = {name: value for name, value in case["params"].items() if isinstance(value, int)}
    for name, shape in shapes.items():  # an extent that is a single symbol gives its value
        for text, size in zip(reversed(inputs.get(name, {"shape": []})["shape"]), reversed(shape)):
            if text in sizes:
                known.setdefault(text, size)
    for name, shape in shapes.items():
        entry = inputs.get(name)
        if not entry or not symbols_of(entry["shape"]) <= set(known):
            continue
        expected = [extent(text, known) for text in entry["shape"]]
        if entry["per_pair"]:  # an extent of 1 is shared
            expected = [1 if own == 1 else size for own, size in zip(shape[-2:], expected, strict=True)]
        if name == "bias" and "packed_q" in case["params"]:
            offsets = case["params"].get("query_offset", 0)
            offsets = offsets if isinstance(offsets, list) else [offsets] * len(case["params"]["packed_q"])
            expected = [
                max(q - 1 + p for q, p in zip(case["params"]["packed_q"], offsets, strict=True))
                + max(k - 1 - p for k, p in zip(case["params"]["packed_k"], offsets, strict=True))
                + 1
            ]
        heads = shape[: len(shape) - len(expected)]
        if list(shape[len(heads) :]) != expected or len(heads) > 2:
            faults.append(f"{name}: {expected} is described, {shape} is given")
    return faults


class List(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.list = json.loads(run("list", "--json").stdout)
        cls.by_name = {entry["operator"]: entry for entry in cls.list}

    def test_follows_its_schema(self):
        jsonschema.validate(self.list, SCHEMA)

    def test_describes_every_golden_case(self):
        self.assertGreater(len(CASES), 80)
        self.assertEqual(
            {json.loads(path.read_text(encoding="utf-8"))["operator"] for path in CASES}, set(self.by_name)
        )
        for path in CASES:
            case = json.loads(path.read_text(encoding="utf-8"))
            shapes = {name: np.load(path.parent / file).shape for name, file in case["inputs"].items()}
            with self.subTest(path.parent.name):
                self.assertEqual(problems(self.by_name[case["operator"]], case, shapes), [])

    def test_would_notice_what_is_left_out(self):
        path = ROOT / "tests/golden/linear_attention-prf/case.json"
        case = json.loads(path.read_text(encoding="utf-8"))
        shapes = {name: np.load(path.parent / file).shape for name, file in case["inputs"].items()}
        for field in ("params", "sizes", "inputs", "outputs"):
            operator = {**self.by_name["linear_attention"], field: []}
            self.assertNotEqual(problems(operator, case, shapes), [], field)
        elu1 = {**case, "params": {**case["params"], "feature_map": "elu1"}}
        self.assertIn("omega is not described", problems(self.by_name["linear_attention"], elu1, shapes))
        self.assertNotEqual(problems(self.by_name["linear_attention"], case, {**shapes, "q": (3, 5)}), [])

    def test_listing_describes_a_case_completely(self):
        for name, operator in self.by_name.items():
            case = operator["case"]
            sizes = {entry["name"]: 16 if entry["generated"] == "n" else 4 for entry in operator["sizes"]}
            sizes |= {key: value for key, value in case["params"].items() if isinstance(value, int)}
            random = np.random.default_rng(1)
            with self.subTest(name), tempfile.TemporaryDirectory() as text:
                folder = pathlib.Path(text)
                for kind in ("inputs", "outputs"):
                    for entry in operator[kind]:
                        if holds(entry, case):
                            shape = [extent(part, sizes) for part in entry["shape"]]
                            np.save(folder / f"{entry['name']}.npy", random.uniform(0.5, 1, shape))
                (folder / "case.json").write_text(json.dumps(case), encoding="utf-8")
                result = run("check", folder)
                # The wrong answer is rejected, which shows that the case was read.
                self.assertEqual((result.returncode, result.stderr), (1, ""), result.stdout)

    def test_text_says_the_same(self):
        for name, operator in self.by_name.items():
            text = run("list", "--operator", name).stdout
            for field in ("params", "sizes", "inputs", "outputs"):
                for entry in operator[field]:
                    self.assertIn(entry["name"], text)
                    for choice in entry.get("choices", []):
                        self.assertIn(choice, text)
            for implementation in operator["implementations"]:
                self.assertIn(implementation["what"], text)
        self.assertIn("if feature_map is prf", run("list", "--operator", "linear_attention").stdout)

    def test_says_what_a_tensor_without_axes_and_a_mask_may_be(self):
        text = run("list", "--operator", "softmax_attention").stdout
        for name in ("slopes", "sinks"):
            self.assertRegex(text, rf"(?m)^  {name} +\[h\], \[b, h\], or \[1\] for all heads; optional")
        self.assertRegex(text, r"(?m)^  mask .*a file may have booleans, integers or any floats")
        self.assertNotIn("a bias by offset", run("list", "--operator", "linear_attention").stdout)

    def test_says_what_programs_do_not_take(self):
        rows = {
            entry["implementation"]: entry
            for entry in self.by_name["linear_attention"]["implementations"]
            if entry["backend"] == "cpu"
        }
        self.assertEqual(rows["associative"]["not_taken"], ["window_left", "window_right"])
        self.assertEqual(rows["chunked"]["not_taken"], ["window_left"])
        self.assertEqual(rows["chunked"]["pairs_not_taken"], ["mask"])
        for name in ("dense", "tiled"):
            self.assertFalse({"not_taken", "pairs_not_taken"} & rows[name].keys())
        self.assertIn(
            "    recurrent on cpu does not take window_left, mask [.., n_q, n_k] (only [.., 1, n_k])\n",
            run("list", "linear_attention").stdout,
        )

    def test_offsets(self):
        first = {
            (name, entry["name"], entry["shape"][0]): entry["first_offsets"]
            for name, operator in self.by_name.items()
            for entry in operator["inputs"]
            if entry["first_offsets"]
        }
        for key, offsets in {
            ("toeplitz_1d", "weights", "n_q+n_k-1"): ["1-n_q"],
            ("toeplitz_2d", "weights", "2*height-1"): ["1-height", "1-width"],
            ("clipped_rpe_product", "rpe", "2*r+1"): ["-r"],
            ("fastrpb_attention", "bias", "height*width+height*width-1"): ["1-height*width"],
            ("transformer_xl_attention", "r", "M+L"): ["0"],
            ("position_attention", "rel", "2*n-1"): ["1-n"],
        }.items():
            self.assertEqual(first[key], offsets, key)

    def test_operators_by_name(self):
        names = ["toeplitz_2d", "linear_attention"]
        chosen = json.loads(run("list", "--json", *(word for name in names for word in ("--operator", name))).stdout)
        self.assertEqual(chosen, [self.by_name[name] for name in names])
        self.assertEqual(json.loads(run("list", "--json", *names).stdout), chosen)
        short = run("list").stdout
        self.assertNotIn("case.json", short)
        for name in self.by_name:
            self.assertIn(name, short)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
