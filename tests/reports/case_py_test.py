#!/usr/bin/env python3
"""Tests of reports/case.py and of the cases in reports/inputs: python3 tests/reports/case_py_test.py BUILD/subquad"""

import hashlib
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

REPORTS = pathlib.Path(__file__).resolve().parents[2] / "reports"
INPUTS = REPORTS / "inputs"
PROGRAM = ""  # set by main
sys.path.insert(0, str(REPORTS.parent))

from reports.case import write_case  # noqa: E402


def check(*folders):
    return subprocess.run(
        [PROGRAM, "check", *map(str, folders)], capture_output=True, text=True, timeout=600, check=False
    )


def attention(q, k, v, bias, scale):
    """Computes softmax_attention directly from its definition, one head, in float64."""
    n = len(q)
    offsets = np.arange(n)[None, :] - np.arange(n)[:, None]
    scores = scale * q.astype(float) @ k.astype(float).T + bias.astype(float)[offsets + n - 1]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(float)


class Tensor:
    """Imitates a tensor of PyTorch: its values can be read if it has no gradient, is on the CPU, and has a type of
    NumPy.
    """

    def __init__(self, array, scalar=None, layout="torch.strided", ready=0):
        if scalar == "bfloat16":  # values cut to 8 bits
            array = (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        self.array, self.layout, self.ready = array, layout, ready
        self.dtype = f"torch.{scalar or ('float32' if array is None else array.dtype)}"

    def then(self, step):
        assert self.ready == step
        return Tensor(self.array, self.dtype[6:], ready=step + 1)

    def detach(self):
        return self.then(0)

    def cpu(self):
        return self.then(1)

    def float(self):
        return Tensor(self.array, "float32", ready=self.ready)

    def numpy(self):
        if self.ready != 2 or self.dtype == "torch.bfloat16":
            raise TypeError("Can't call numpy()")
        if self.array is None:
            raise RuntimeError("no storage\nmore")
        return self.array

    def __array__(self, *_):
        raise AssertionError("asked for before it is detached")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "case"


class WriteCase(Folder):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.inputs = {
            name: random.standard_normal((9, width)).astype(np.float32)
            for name, width in (("q", 4), ("k", 4), ("v", 3))
        }
        self.inputs["bias"] = random.standard_normal(17).astype(np.float32)
        self.params = {"causal": False, "scale": 0.5}
        self.out = attention(**self.inputs, scale=0.5)

    def write(self, inputs=None, expected=None, **options):
        options = {"params": self.params, "source": "a test", "overwrite": True, **options}
        write_case(
            self.folder,
            "softmax_attention",
            self.inputs if inputs is None else inputs,
            {"out": self.out} if expected is None else expected,
            **options,
        )

    def test_what_it_writes_passes(self):
        for out in (self.out, self.out.astype(np.float32), np.asfortranarray(self.out)):
            self.write(expected={"out": out})
            result = check(self.folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(result.stdout, "[4-9] passed, 0 failed")

    def test_layout_in_memory_does_not_matter(self):
        # Uses the strides of tensors that come out of a model: a view of [n, heads, d] as [heads, n, d].
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
        with self.assertRaisesRegex(ValueError, r"^input q: expected finite numbers, found -inf at \[0, 0\]$"):
            self.write({**self.inputs, "q": np.full((9, 4), -np.inf, np.float32)})
        with self.assertRaisesRegex(ValueError, r"^input bias: expected finite numbers or -inf, found inf at \[0\]$"):
            self.write({**self.inputs, "bias": -bias})

    def test_masks_and_rows_without_keys(self):
        mask = np.ones((9, 9), bool)
        mask[4] = False
        pair_bias = np.where(mask, 0, -np.inf).astype(np.float32)
        inputs = {name: self.inputs[name] for name in ("q", "k", "v")}
        scores = 0.5 * inputs["q"].astype(float) @ inputs["k"].astype(float).T
        out = np.exp(scores) @ inputs["v"] / np.exp(scores).sum(-1, keepdims=True)
        lse = np.log(np.exp(scores).sum(-1))
        out[4], lse[4] = 0, -np.inf
        for hiding in ({"mask": mask}, {"mask": mask.astype(np.int32)}, {"pair_bias": pair_bias}):
            self.write({**inputs, **hiding}, {"out": out, "lse": lse})
            result = check(self.folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with self.assertRaisesRegex(ValueError, r"^input mask: expected numbers 0 and 1, found 2.0 at \[0, 0\]$"):
            self.write({**inputs, "mask": mask + 1}, {"out": out})
        with self.assertRaisesRegex(ValueError, r"^output lse: expected finite numbers or -inf, found nan at \[4\]$"):
            self.write({**inputs, "mask": mask}, {"out": out, "lse": np.where(np.isinf(lse), np.nan, lse)})

    def test_a_folder_with_files_is_replaced_only_if_told_so(self):
        self.folder.mkdir()
        self.write(overwrite=False)  # an empty folder
        before = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        with self.assertRaisesRegex(
            ValueError, r"^folder .*/case: expected a new or empty folder, found 6 files in it; "
        ):
            self.write({**self.inputs, "q": 2 * self.inputs["q"]}, overwrite=False)
        self.assertEqual(before, {path.name: path.read_bytes() for path in self.folder.iterdir()})
        self.write({**self.inputs, "q": 2 * self.inputs["q"]}, overwrite=True)
        np.testing.assert_array_equal(self.numbers(), 2 * self.inputs["q"])
        case = self.folder
        self.folder = case / "case.json"
        with self.assertRaisesRegex(ValueError, "case.json: expected a folder, found a file$"):
            self.write()
        for self.folder in (case / "case.json" / "below", pathlib.Path("/proc/no/such/place")):
            with self.assertRaisesRegex(ValueError, "^folder .*: expected a writable folder, found an error: "):
                self.write()

    def test_names_are_checked_by_the_program(self):
        self.write(program=PROGRAM, overwrite=False)
        self.assertEqual(check(self.folder).returncode, 0)
        self.folder = self.folder / "new"
        for words, change in (
            ("'softmax_atention' .did you mean 'softmax_attention'", {"operator": "softmax_atention"}),
            ("^parameter of softmax_attention: expected one of .*, found 'casual'$", {"params": {"casual": True}}),
            ("^input of softmax_attention: expected one of .*, found 'key'$", {"inputs": {"key": self.inputs["k"]}}),
            (
                "^output of softmax_attention: expected one of out.*, found 'output'$",
                {"expected": {"output": self.out}},
            ),
        ):
            arguments = {
                "operator": "softmax_attention",
                "inputs": self.inputs,
                "expected": {"out": self.out},
                **change,
            }
            with self.assertRaisesRegex(ValueError, words):
                write_case(self.folder, **arguments, program=PROGRAM)
        for program, words in (("no/such/program", "No such file"), ("/bin/false", "exit status 1"),
                               ("/bin/echo", "found other output")):  # fmt: skip
            with self.assertRaisesRegex(ValueError, f"^program {program}: .*{words}"):
                self.write(program=program)
        self.assertFalse(self.folder.exists())

    def test_what_would_not_be_read_is_not_written(self):
        q, v = self.inputs["q"], self.inputs["v"]
        nan = v.copy()
        nan[2, 1] = np.nan
        for name, array, words in (
            ("q", np.ones((9, 4), int), "q: .*found int64"),
            ("q", q.astype(complex), "q: .*found complex"),
            ("q", q.astype(np.longdouble), "q: .*found float128"),
            ("q", q.tolist(), "q: .*found list"),
            ("q", "q.npy", "q: .*found str"),
            ("q", None, "q: .*found NoneType"),
            ("q", Tensor(q.astype(int)), "q: .*found torch.int64"),
            ("q", Tensor(q, layout="torch.sparse_coo"), "q: .*dense.*found a tensor of layout torch.sparse_coo"),
            ("q", Tensor(None), r"q: .*found Tensor \(no storage\)$"),
            ("q", q[None, None, None, None], r"q: expected 1 to 5 dimensions, .*found the shape \[1, 1, 1, 1, 9, 4\]"),
            ("q", np.float32(1) * np.ones((), np.float32), "q: .*found"),
            ("q", q[:0], r"q: .*\[0, 4\]"),
            ("v", nan, r"v: .*nan at \[2, 1\]"),
            ("../v", v, "expected a word such as q or weights_rows, found '../v'"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                self.write({**self.inputs, name: array})
            with self.assertRaisesRegex(ValueError, words):
                self.write(expected={name: array})
        with self.assertRaisesRegex(ValueError, "expected"):
            self.write(expected={})
        with self.assertRaisesRegex(ValueError, "expected: expected a dictionary from names to arrays, found ndarray"):
            self.write(expected=self.out)
        for params, words in (
            ({"scale": float("nan")}, "parameter scale: .*a finite number.*found nan"),
            ({"scale": np.float32("inf")}, "parameter scale: .*found inf"),
            ({"causal": {1}}, "parameter causal: .*found {1}"),
            ({"is causal": True}, "name of parameter: expected a word such as causal, found 'is causal'"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                self.write(params=params)
        for error in (1, -1e-9, float("nan"), "1e-3", True):
            with self.assertRaisesRegex(ValueError, "expected_error: expected a number from 0 to below 1, found"):
                self.write(expected_error=error)
        with self.assertRaisesRegex(ValueError, "^source: expected a string, found NoneType$"):
            self.write(source=None)
        for operator, found in ((None, "NoneType"), ("softmax attention", "'softmax attention'")):
            with self.assertRaisesRegex(ValueError, f"^name of operator: expected a word .*, found {found}$"):
                write_case(self.folder, operator, self.inputs, {"out": self.out})
        self.assertFalse(self.folder.exists())

    def numbers(self, name="q"):
        return np.load(self.folder / f"{name}.npy")

    def test_types_of_two_bytes_are_written_exactly(self):
        half = self.inputs["q"].astype(np.float16)
        half[0, 0], half[0, 1] = 65504, 2.0**-24  # the largest value, and the smallest above 0
        self.write({**self.inputs, "q": half})
        self.assertEqual(self.numbers().dtype.str, "<f4")
        np.testing.assert_array_equal(self.numbers().astype(np.float16).view(np.uint16), half.view(np.uint16))

    def test_bytes_in_another_order(self):
        self.write({name: array.astype(">f4") for name, array in self.inputs.items()}, {"out": self.out.astype(">f8")})
        self.assertEqual(check(self.folder).returncode, 0)
        np.testing.assert_array_equal(self.numbers(), self.inputs["q"])

    def test_tensors_as_pytorch_has_them(self):
        inputs = {name: Tensor(array) for name, array in self.inputs.items()}
        inputs["v"] = Tensor(self.inputs["v"], "bfloat16")
        out = attention(**{**self.inputs, "v": inputs["v"].array}, scale=0.5)
        self.write(inputs, {"out": Tensor(out)})
        self.assertEqual(check(self.folder).returncode, 0)
        np.testing.assert_array_equal(self.numbers("v"), inputs["v"].array)
        self.assertEqual(self.numbers("expected_out").dtype.str, "<f8")

    def test_arrays_of_other_libraries(self):
        class Array:
            def __init__(self, array):
                self.array = array

            def __array__(self, dtype=None, copy=None):
                return self.array

        class Cupy:
            __cuda_array_interface__ = {}

            def __init__(self, array):
                self.get = lambda: array

        class Dlpack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        for kind in (Array, Cupy, Dlpack):
            self.write({name: kind(array) for name, array in self.inputs.items()})
            self.assertEqual(check(self.folder).returncode, 0)
            np.testing.assert_array_equal(self.numbers(), self.inputs["q"])

    def test_no_library_is_imported(self):
        text = (
            "import sys; from reports import case; print({'torch', 'jax', 'ml_dtypes', 'subquad'} & set(sys.modules))"
        )
        result = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=REPORTS.parent
        )
        self.assertEqual(result.stdout, "set()\n", result.stderr)

    def test_an_answer_of_two_bytes_needs_expected_error(self):
        half = self.out.astype(np.float16)
        with self.assertRaisesRegex(
            ValueError, r"^output out: expected_error= is missing; expected at least 0.00048828125 .* in float16, "
        ):
            self.write(expected={"out": half})
        for factor, error, code in ((1, 2.0**-11, 0), (1, 0, 1), (1.01, 2.0**-11, 1)):
            self.write(expected={"out": half * np.float16(factor)}, expected_error=error)
            case = json.loads((self.folder / "case.json").read_text(encoding="utf-8"))
            self.assertEqual(case["expected_error"], error)
            self.assertEqual(check(self.folder).returncode, code, (factor, error))

    def test_expected_error_is_that_of_the_program(self):
        wrong = self.out + 1e-4 * np.abs(self.out).max()
        for error, code in ((None, 1), (0.99e-4, 1), (np.float32(1.01e-4), 0)):
            self.write(expected={"out": wrong}, expected_error=error)
            self.assertEqual(check(self.folder).returncode, code, error)

    def test_parameters_may_be_numpys(self):
        self.write(params={"causal": np.bool_(False), "scale": np.float64(0.5), "query_offset": None})
        self.assertEqual(check(self.folder).returncode, 0)
        case = json.loads((self.folder / "case.json").read_text(encoding="utf-8"))
        self.assertEqual(case["params"], {"causal": False, "scale": 0.5})

    def test_batches_heads_and_grouped_keys(self):
        """Tests [b, h, n, d] with half as many heads of k and v: query head a reads head a // 2."""
        random = np.random.default_rng(3)
        q, k, v = (random.standard_normal((2, heads, 9, 4)).astype(np.float32) for heads in (4, 2, 2))
        bias = self.inputs["bias"]
        for heads, code in ((lambda a: a // 2, 0), (lambda a: a % 2, 1)):
            out = np.stack(
                [[attention(q[b, a], k[b, heads(a)], v[b, heads(a)], bias, 0.5) for a in range(4)] for b in range(2)]
            )
            self.write({"q": q, "k": k, "v": v, "bias": bias}, {"out": out})
            self.assertEqual(check(self.folder).returncode, code)

    def test_five_dimensions(self):
        golden = REPORTS.parent / "tests" / "golden" / "stochastic_position_attention-sine-softmax"
        case = json.loads((golden / "case.json").read_text(encoding="utf-8"))
        inputs, expected = (
            {name: np.load(golden / file) for name, file in case[kind].items()} for kind in ("inputs", "expected")
        )
        inputs["z"] = np.broadcast_to(inputs["z"], (2, 1, *inputs["z"].shape[-3:]))
        expected["out"] = np.stack([expected["out"]] * 2).reshape(2, -1, *expected["out"].shape[-2:])
        self.assertEqual(inputs["z"].ndim, 5)
        write_case(self.folder, case["operator"], inputs, expected, case["params"])
        result = check(self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_shapes_are_the_programs_rules(self):
        self.write({**self.inputs, "q": self.inputs["q"][None, None, None]})
        result = check(self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"q: .*found \[1, 1, 1, 9, 4\]")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_pytorch(self):
        import torch

        q = torch.randn(2, 9, 3, 4, requires_grad=True)
        k, v = (torch.nn.Parameter(torch.randn(2, 9, 3, 4)) for _ in range(2))
        for scalar, error in ((torch.float32, None), (torch.float64, None), (torch.bfloat16, 2.0**-8)):
            heads = [tensor.transpose(1, 2).to(scalar) for tensor in (q, k, v)]
            out = torch.nn.functional.scaled_dot_product_attention(*(head.double() for head in heads)).to(scalar)
            self.assertTrue(out.requires_grad and not heads[0].is_contiguous())
            self.write(
                dict(zip("qkv", heads)), {"out": out}, params={"scale": q.shape[-1] ** -0.5}, expected_error=error
            )
            self.assertEqual(check(self.folder).returncode, 0, scalar)
            self.assertTrue(torch.equal(torch.from_numpy(self.numbers()).to(scalar), heads[0]))
        for wrong, words in (
            (torch.ones(9, 4, dtype=torch.int32), "found torch.int32"),
            (torch.ones(9, 4).to_sparse(), "found a tensor of layout torch.sparse_coo"),
            (torch.ones(9, 4, device="meta"), r"found Tensor \(.*meta"),
            (torch.ones(9, 4).to(torch.float8_e5m2), "found torch.float8_e5m2"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                self.write({**self.inputs, "q": wrong})

    @unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
    def test_jax(self):
        import jax

        for scalar, error in (("float32", None), ("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
            inputs = {name: jax.numpy.asarray(self.inputs[name], dtype=scalar) for name in ("q", "k", "v")}
            wide = {name: np.asarray(array).astype(float) for name, array in inputs.items()}
            out = jax.numpy.asarray(attention(**wide, bias=np.zeros(17), scale=0.5), dtype=scalar)
            self.write(inputs, {"out": out}, expected_error=error)
            self.assertEqual(check(self.folder).returncode, 0, scalar)
            np.testing.assert_array_equal(self.numbers(), wide["q"])
        # Gives the same arrays as NumPy arrays with the type of ml_dtypes.
        self.write({name: np.asarray(array) for name, array in inputs.items()}, {"out": out}, expected_error=error)
        np.testing.assert_array_equal(self.numbers(), wide["q"])

    def test_the_program_refuses_the_same(self):
        nan = self.inputs["v"].copy()
        nan[2, 1] = np.nan
        for array, word in (
            (self.inputs["v"].astype(np.float16), "f2"),
            (self.inputs["v"].astype(">f4"), ">f4"),
            (np.asfortranarray(self.inputs["v"]), "ortran"),
            (nan, "nan"),
            (self.inputs["v"][None, None], "expected the shape [1, 1, 9, 3]"),
            (self.inputs["v"][None, None, None, None], "1 to 5 dimensions"),
        ):
            self.write()
            np.save(self.folder / "v.npy", array)
            result = check(self.folder)
            self.assertEqual(result.returncode, 2, word)
            self.assertIn(word.lower(), result.stderr.lower())


# Imitates PyTorch: the parts that the guide uses, and a model of four layers.
PYTORCH = """
import contextlib
import sys
import types

import numpy as np


class Tensor:
    def __init__(self, array):
        self.array = np.asarray(array)
        self.dtype = f"torch.{self.array.dtype}"

    def detach(self):
        return self

    cpu = detach

    def unflatten(self, axis, sizes):
        assert axis == -1
        return Tensor(self.array.reshape(*self.array.shape[:-1], *sizes))

    def transpose(self, first, second):
        return Tensor(self.array.swapaxes(first, second))

    def numpy(self):
        return self.array


class Linear:
    def __init__(self, random, d):
        self.weight = random.standard_normal((d, d)) / d**0.5
        self.after, self.before = [], []

    def register_forward_hook(self, hook):
        self.after.append(hook)

    def register_forward_pre_hook(self, hook):
        self.before.append(hook)

    def __call__(self, x):
        for hook in self.before:
            hook(self, (x,))
        y = Tensor(x.array @ self.weight)
        for hook in self.after:
            hook(self, (x,), y)
        return y


class Attention:
    heads, d, wrong = 8, 512, WRONG

    def __init__(self, random):
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (Linear(random, self.d) for _ in range(4))

    def __call__(self, x):
        q, k, v = (projection(x).array[0].reshape(-1, self.heads, self.d // self.heads).swapaxes(0, 1)
                   for projection in (self.q_proj, self.k_proj, self.v_proj))
        scores = self.wrong * q @ k.swapaxes(1, 2) / (self.d // self.heads) ** 0.5
        scores[:, ~np.tri(scores.shape[1], dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        out = weights / weights.sum(axis=2, keepdims=True) @ v
        return self.out_proj(Tensor(out.swapaxes(0, 1).reshape(1, -1, self.d)))


class Model:
    def __init__(self):
        random = np.random.default_rng(1)
        self.layers = [types.SimpleNamespace(attention=Attention(random)) for _ in range(4)]

    def __call__(self, x):
        for layer in self.layers:
            x = Tensor(x.array + layer.attention(x).array)
        return x


sys.modules["torch"] = types.SimpleNamespace(inference_mode=contextlib.nullcontext)
model, tokens = Model(), Tensor(np.random.default_rng(2).standard_normal((1, 30, 512)))
"""


class Guide(unittest.TestCase):
    """Runs the commands and the program of reports/inputs/README.md and of README.md unchanged."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "build").mkdir()
        (self.folder / "build" / "subquad").symlink_to(pathlib.Path(PROGRAM).resolve())
        (self.folder / "reports").symlink_to(REPORTS)
        self.text = (INPUTS / "README.md").read_text(encoding="utf-8")

    def run_here(self, command):
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=self.folder)

    def own_model(self, wrong):
        (program,) = re.findall(r"```python\n(.*?)```", self.text, re.DOTALL)
        script = self.folder / "script.py"
        script.write_text(PYTORCH.replace("WRONG", str(wrong)) + program, encoding="utf-8")
        result = self.run_here([sys.executable, str(script)])
        self.assertEqual(result.returncode, 0, result.stderr)
        (command,) = re.findall(r"`(build/subquad check my_case)`", self.text)
        return self.run_here(command.split())

    def test_your_own_model(self):
        result = self.own_model(1)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, "[4-9] passed, 0 failed")
        shapes = {path.stem: np.load(path).shape for path in (self.folder / "my_case").glob("*.npy")}
        self.assertEqual(shapes, {name: (1, 8, 30, 64) for name in ("q", "k", "v", "expected_out")})

    def test_a_model_that_computes_something_else_fails(self):
        result = self.own_model(1.01)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("0 passed", result.stdout)

    def test_the_program_is_short(self):
        (program,) = re.findall(r"```python\n(.*?)```", self.text, re.DOTALL)
        self.assertLessEqual(len([line for line in program.splitlines() if line.strip()]), 22)

    def test_commands_work_as_typed(self):
        self.assertEqual(self.own_model(1).returncode, 0)  # makes my_case
        text = self.text.replace("\\\n", " ")
        commands = re.findall(r"^    (build/subquad .*)$", text, re.MULTILINE)
        self.assertTrue(any(" check " in command for command in commands), commands)
        for command in commands:
            # Unchanged except for a shorter time.
            if " sweep " in command:
                command = command.replace("512:8192:x2", "512:1024:x2") + " --budget 0.02 --no-resident"
            if " study " in command:
                command += " --tiny"
            result = self.run_here(["bash", "-c", command])
            if " study " in command:  # at these settings a claim may fail
                self.assertIn(result.returncode, (0, 1), command + result.stderr)
                folder = self.folder / re.search("--out ([a-z_]+)", command)[1]
                self.assertTrue((folder / "verdicts.md").exists())
            else:
                self.assertEqual(result.returncode, 0, command + result.stdout + result.stderr)
        for name in ("real.json", "features.json", "matter.json"):
            records = json.loads((self.folder / name).read_text(encoding="utf-8"))["records"]
            verdicts = {record["check"]["verdict"] for record in records}
            self.assertIn("passed", verdicts, name)
            self.assertLessEqual(verdicts, {"passed", "skipped"}, name)  # causal algorithms are not applicable here
        ratios = json.loads((self.folder / "matter.json").read_text(encoding="utf-8"))["input_ratios"]
        self.assertTrue(ratios and all(ratio["in_turns"] for ratio in ratios))
        sources = json.loads((self.folder / "studies_of_my_case" / "conversion.json").read_text(encoding="utf-8"))
        self.assertEqual(["my_case"], [row[0] for row in sources["tables"]["sources"]["rows"]])
        self.assertTrue((REPORTS / "recipes" / "real-inputs.json").exists())

    def test_the_example_of_the_readme(self):
        text = (REPORTS.parent / "README.md").read_text(encoding="utf-8")
        programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        (program,) = [program for program in programs if "write_case" in program]
        (command,) = re.findall(r"`(build/subquad check my-case)`", text)
        for factor, status in ((1, 0), (1.01, 1)):
            shutil.rmtree(self.folder / "my-case", ignore_errors=True)
            script = self.folder / "script.py"
            script.write_text(
                program.replace("write_case(", f"out *= np.float32({factor})\nwrite_case("), encoding="utf-8"
            )
            result = self.run_here([sys.executable, str(script)])
            self.assertEqual(result.returncode, 0, result.stderr)
            result = self.run_here(command.split())
            self.assertEqual(result.returncode, status, result.stdout + result.stderr)


class RealInputs(Folder):
    def test_files_are_those_that_were_exported(self):
        listed = {}
        for line in (INPUTS / "SHA256SUMS").read_text(encoding="ascii").splitlines():
            digest, name = line.split("  ")
            listed[name] = digest
        there = {path.relative_to(INPUTS).as_posix(): path for path in INPUTS.rglob("*") if path.is_file()}
        self.assertEqual(
            sorted(listed),
            sorted(name for name in there if name.endswith((".npy", "case.json")) or name == "declaration.txt"),
        )
        for name, digest in listed.items():
            self.assertEqual(hashlib.sha256(there[name].read_bytes()).hexdigest(), digest, name)
        self.assertLess(sum(path.stat().st_size for path in there.values()), 20 << 20)

    def test_a_softmax_that_replaces_itself_leaves_embeddings_as_they_are(self):
        rows = [line.split(",") for line in (INPUTS / "embeddings.csv").read_text(encoding="ascii").splitlines()[1:]]
        self.assertEqual(1, len({len(row) for row in rows}))
        same = {row[0]: min(map(float, row[5:])) for row in rows if row[1] == "softmax"}
        self.assertEqual({"minilm", "mpnet"}, set(same))
        self.assertGreater(min(same.values()), 0.9999)

    def test_buckets_give_the_biases(self):
        """Lists T5's ranges of distances: 0, 1, .., 7 have one row each, then each row reaches up to the next begin;
        rows 16.. are keys after the query.
        """
        begins = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]
        offsets = np.arange(-511, 512)
        rows = np.searchsorted(begins, np.abs(offsets), side="right") - 1 + 16 * (offsets > 0)
        table = np.load(INPUTS / "mpnet_buckets.npy")
        self.assertEqual((table.shape, table.dtype.str), ((32, 12), "<f4"))
        # All rows occur except row 16, distance 0 after the query.
        self.assertEqual(sorted(set(rows)), [row for row in range(32) if row != 16])
        for layer in (0, 6, 11):
            bias = np.load(INPUTS / f"mpnet-layer{layer}" / "bias.npy")
            np.testing.assert_array_equal(bias, table[rows][:, [0, 4, 7, 11]].T)

    def test_every_case_passes(self):
        cases = sorted(path.parent for path in INPUTS.glob("*/case.json"))
        self.assertIn(INPUTS / "mpnet-layer0", cases)
        result = check(*cases)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for case in cases:
            for scalar in ("float32", "float64"):
                self.assertRegex(result.stdout, f"{case.name} .*{scalar} .*pass")

    def test_other_conventions_fail(self):
        """The tolerances are tight enough to distinguish this operator from similar ones."""
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
            for wrong, params in (
                (forgotten, {}),
                (reversed_bias, {}),
                (shifted, {}),
                (wrong_heads, {}),
                (shared, {}),
                (scaled, {}),
                (inputs, {"causal": True}),
                (inputs, {"scale": 0.126}),
            ):
                write_case(
                    self.folder,
                    case["operator"],
                    wrong,
                    {"out": out},
                    {**case["params"], **params},
                    "wrong",
                    overwrite=True,
                )
                result = check(self.folder)
                self.assertEqual(result.returncode, 1, (name, params, result.stdout))
                self.assertIn("0 passed", result.stdout)

    def test_sources_name_no_machine(self):
        for path in INPUTS.glob("*/case.json"):
            case = json.loads(path.read_text(encoding="utf-8"))
            self.assertNotRegex(case["source"], r"(^|\s)/|https?:")


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
