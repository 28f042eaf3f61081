"""Single calls: they return the program's numbers, errors have one line, and nothing is stored or copied unnecessarily.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import subquad

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*/case.json"))
PROGRAM = os.environ.get("SUBQUAD_PROGRAM", "")


def tensors(n=50, heads=2, d=16, dtype=np.float32, seed=1):
    draw = np.random.default_rng(seed)
    return {name: draw.standard_normal((heads, n, d)).astype(dtype) for name in "qkv"}


def softmax(q, k, v, bias=None, scale=None, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(scale or 1 / np.sqrt(q.shape[-1]))
    if bias is not None:
        n_q, n_k = scores.shape[-2:]
        scores = scores + bias[np.arange(n_k)[None] - np.arange(n_q)[:, None] + n_q - 1]
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def program(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module", name="lines")
def told_by_the_program():
    """Returns the program's line `reference` for every golden case, by folder."""
    if not PROGRAM:
        pytest.skip("SUBQUAD_PROGRAM is not set")
    code, out, err = program("check", "--json", *(file.parent for file in GOLDEN))
    assert code == 0, err
    return {
        pathlib.Path(case["case"]).name: next(line for line in case["lines"] if line["implementation"] == "reference")
        for case in json.loads(out)["cases"]
    }


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.parent.name)
def test_the_numbers_are_the_programs(file, lines):
    line = lines[file.parent.name]
    case = subquad.load_case(file.parent)
    inputs = dict(case.inputs)
    if "grad" in inputs:
        grads = {name[len("grad_") :]: value for name, value in case.expected.items()}
        result = subquad.check(case.operator, grads=grads, expected_error=case.expected_error, **inputs, **case.params)
    else:
        result = subquad.check(
            case.operator, out=case.expected, expected_error=case.expected_error, **inputs, **case.params
        )
    assert result.verdict == "passed"
    assert (result.error, result.bound) == (line["deciding"]["error"], line["deciding"]["tolerance"])
    assert (result.margin, result.nearest) == (line["check"]["margin"], line["check"]["nearest"])


def test_an_output_like_nothing_known_says_so():
    inputs = tensors()
    out = softmax(**inputs)
    out[0, 3, 1] += 1
    result = subquad.check("softmax_attention", out=out, **inputs)
    assert not result and result.looks_like is None
    assert f"resembles none of the {result.known_mistakes} mistakes tried" in str(result) and result.known_mistakes > 10


@pytest.mark.skipif(not PROGRAM, reason="SUBQUAD_PROGRAM is not set")
def test_a_wrong_output_is_told_as_the_program_tells_it(tmp_path):
    inputs = tensors()
    out = softmax(**inputs, scale=1.0)
    result = subquad.check("softmax_attention", out=out, **inputs)
    assert not result and result.looks_like == "scale left out"
    assert result.worst.found == out[result.worst.head, result.worst.row, result.worst.element]
    subquad.save_case(tmp_path / "case", "softmax_attention", out=out, source="a test", **inputs)
    code, text, _ = program("check", "--json", tmp_path / "case")
    assert code == 1
    line = next(line for line in json.loads(text)["cases"][0]["lines"] if line["implementation"] == "reference")
    assert (result.error, result.bound) == (line["deciding"]["error"], line["deciding"]["tolerance"])


def half(x):
    return x.astype(np.float16).astype(np.float32)


def test_outputs_of_two_bytes_may_be_of_arithmetic_in_it():
    inputs = tensors(dtype=np.float16)
    q, k, v = (value.astype(np.float32) for value in inputs.values())
    scores = half(half(q @ np.swapaxes(k, -1, -2)) * np.float32(0.25))
    weights = half(np.exp(half(scores - scores.max(-1, keepdims=True))))
    out = half(half(weights @ v) / half(weights.sum(-1, keepdims=True))).astype(np.float16)
    result = subquad.check("softmax_attention", out=out, **inputs)
    assert result.passed and result.arithmetic == "float16", str(result)
    assert "passes as native float16 arithmetic" in str(result)
    strict = subquad.check("softmax_attention", out=out, arithmetic="float32", **inputs)
    assert strict.verdict == "failed" and strict.arithmetic == "float32", str(strict)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    stored = subquad.check("softmax_attention", out=softmax(**wide).astype(np.float16), **inputs)
    assert stored.passed and stored.arithmetic == "float32", str(stored)
    wrong = subquad.check("softmax_attention", out=softmax(**wide, scale=1.0).astype(np.float16), **inputs)
    assert wrong.verdict == "failed" and wrong.looks_like == "scale left out", str(wrong)
    with pytest.raises(ValueError, match="arithmetic: expected float32 or float16 for an output in float16"):
        subquad.check("softmax_attention", out=out, arithmetic="bfloat16", **inputs)


@pytest.mark.skipif(not PROGRAM, reason="SUBQUAD_PROGRAM is not set")
def test_outputs_of_two_bytes_are_saved_with_their_error(tmp_path):
    inputs = tensors(dtype=np.float16)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    out = softmax(**wide).astype(np.float16)
    with pytest.raises(
        ValueError, match="output out: expected_error= is missing; expected at least 0.000488.* in float16"
    ):
        subquad.save_case(tmp_path / "none", "softmax_attention", out=out, **inputs)
    assert not (tmp_path / "none").exists()
    for name, error in (("little", 2.0**-20), ("enough", 2.0**-11)):
        subquad.save_case(tmp_path / name, "softmax_attention", out=out, expected_error=error, **inputs)
        assert subquad.load_case(tmp_path / name).expected_error == error
        code, text, _ = program("check", "--scalar", "float32", tmp_path / name)
        assert (code == 0) == (name == "enough"), text
    with pytest.raises(ValueError, match="expected_error: expected a number from 0 to below 1"):
        subquad.save_case(tmp_path / "none", "softmax_attention", out=out, expected_error=1.5, **inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_right_outputs_pass(dtype):
    inputs = tensors(dtype=dtype)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    result = subquad.check("softmax_attention", out=softmax(**wide).astype(dtype), **inputs)
    assert result, str(result)
    assert result.margin > 1 and result.nearest and result.scalar == np.dtype(dtype).name


def linear_attention(q, k, v, eps=0.0, causal=False):
    weights = elu1(q) @ np.swapaxes(elu1(k), -1, -2)
    weights = np.tril(weights) if causal else weights
    return weights @ v / (weights.sum(-1, keepdims=True) + eps)


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("eps, causal", [(1e-2, False), (1e-6, True), (1e-6, False)])
def test_an_eps_too_small_to_be_seen_is_told(eps, causal, dtype):
    inputs = tensors(n=150, heads=1, d=32, dtype=dtype)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    options = {"feature_map": "elu1", "eps": eps, "causal": causal, **inputs}
    for own in (eps, 0):  # both are accepted
        out = linear_attention(**wide, eps=own, causal=causal).astype(dtype)
        result = subquad.check("linear_attention", out=out, **options)
        assert result.passed and result.blind_to == ["eps left out"], str(result)
        assert result.margin > 1 and result.nearest != "eps left out"
        assert "passed, blind to: eps left out\n  a larger eps would reveal more" in str(result)


def test_an_eps_that_is_seen_is_not_told():
    inputs = tensors(n=150, heads=1, d=32)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    options = {"feature_map": "elu1", "eps": 5.0, **inputs}
    assert subquad.check("linear_attention", out=linear_attention(**wide, eps=5.0), **options).blind_to == []
    wrong = subquad.check("linear_attention", out=linear_attention(**wide).astype(np.float32), **options)
    assert not wrong and wrong.looks_like == "eps left out", str(wrong)
    # An eps has no effect without a normaliser, and omitting it is correct.
    sums = elu1(wide["q"]) @ np.swapaxes(elu1(wide["k"]), -1, -2) @ wide["v"]
    result = subquad.check("linear_attention", out=sums, **options, normalized=False)
    assert result and result.blind_to == [], str(result)


@pytest.mark.parametrize("factor", [1 + 3e-7, 1 + 3e-6, 1.01])
def test_the_numbers_of_a_message_agree(factor):
    inputs = tensors(n=150, heads=1, d=32)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    result = subquad.check("softmax_attention", out=factor * softmax(**wide), expected_error=1e-9, **inputs)
    assert not result
    error, tolerance = (
        float(re.search(rf"{name} (\S+) ?", str(result))[1].strip(",(")) for name in ("error", "tolerance")
    )
    message = r"the error is (\S+) times (?:the tolerance|that of a plain program of this precision \(allowed: (\S+)\))"
    times, allowed = re.search(message, result.reason).groups()
    assert float(times) / float(allowed or 1) == pytest.approx(error / tolerance, rel=1e-2), str(result)
    assert result.gate == (2 if allowed else 1), str(result)


def test_memory_of_any_layout_is_read():
    inputs = tensors()
    out = softmax(**inputs)
    inputs["q"] = np.asfortranarray(inputs["q"])
    inputs["k"] = np.repeat(inputs["k"], 2, -1)[..., ::2]
    inputs["v"] = inputs["v"].astype(">f4")
    inputs["v"].flags.writeable = False
    assert subquad.check("softmax_attention", out=out, **inputs)


def test_gradients():
    draw = np.random.default_rng(2)
    weights, values, grad = draw.standard_normal(99), draw.standard_normal((50, 8)), draw.standard_normal((50, 8))
    place = np.arange(50)[None] - np.arange(50)[:, None] + 49
    matrix = weights[place]
    products = grad @ values.T
    grads = {"values": matrix.T @ grad, "weights": np.array([products[place == t].sum() for t in range(99)])}
    result = subquad.check("toeplitz_1d", out=matrix @ values, grad=grad, grads=grads, weights=weights, values=values)
    assert result, str(result)
    assert set(result.parts) == {"out", "grads"}
    grads["weights"] = grads["weights"][::-1]
    wrong = subquad.check("toeplitz_1d", out=matrix @ values, grad=grad, grads=grads, weights=weights, values=values)
    assert not wrong and wrong.parts["out"] and wrong.worst.output == "grad_weights"


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("mask", 0.5, r"mask: expected numbers 0 and 1, found 0.5 at \[0, 0\]"),
        ("mask", np.nan, r"mask: expected numbers 0 and 1, found NaN at \[0, 0\]"),
        ("pair_bias", np.inf, r"pair_bias: expected finite numbers or -inf, found infinity at \[0, 0\]"),
        ("q", np.nan, r"q: expected finite numbers, found NaN at \[0, 0\]"),
    ],
)
def test_run_refuses_what_the_definition_refuses(name, value, expected):
    inputs = {key: np.ones((3, 4), np.float32) for key in ("q", "k", "v")}
    inputs[name] = np.full((3, 4) if name == "q" else (3, 3), value, np.float32)
    for call in (subquad.run, subquad.reference):
        with pytest.raises(ValueError, match=expected):
            call("softmax_attention", **inputs)


def test_reference_and_run():
    inputs = tensors()
    whole = subquad.reference("softmax_attention", **inputs)
    assert whole.dtype == np.float64 and whole.shape == (2, 50, 16)
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    assert np.abs(whole - softmax(**wide)).max() < 1e-14
    some = subquad.reference("softmax_attention", rows=[0, 17], **inputs)
    assert np.array_equal(some, whole[:, [0, 17]])
    for name in ("dense", "tiled"):
        out = subquad.run("softmax_attention", implementation=name, **inputs)
        assert out.dtype == np.float32 and subquad.check("softmax_attention", out=out, **inputs)


def test_signature():
    assert "softmax_attention" in subquad.operators()
    for op in subquad.operators():
        result = subquad.signature(op)
        assert result["inputs"] and result["outputs"] and "dense" in result["implementations"]
    result = subquad.signature("softmax_attention")
    assert result["inputs"]["bias"]["shape"] == ["n_q+n_k-1"] and not result["inputs"]["bias"]["required"]
    assert result["params"]["causal"]["default"] == "false"


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"bias": np.zeros(7, np.float32)}, "bias"),
        (
            {"q": np.zeros((2, 50, 16), np.int32)},
            "q: expected an array of float64, float32, bfloat16 or float16, found int32; convert it by x.astype(numpy.float32)",
        ),
        ({"scale": [1.0]}, "parameter scale: expected a finite number greater than 0, found [1.0]"),
        ({"scale": {"a": 1}}, "parameter scale: expected a finite number greater than 0, found the object {'a': 1}"),
        ({"causal": [[1], 2]}, "parameter causal: expected true or false, found [[1], 2]"),
        ({"key_lengths": [4, 2.5]}, "parameter key_lengths: expected a list of integers, found [4, 2.5]"),
        (
            {"query_offset": 2**70},
            "parameter query_offset: expected integers of at most 64 bits, found 1180591620717411303424",
        ),
        ({"window_left": 20.0}, "parameter window_left: expected an integer, found 20.0"),
        ({"causal": "true"}, 'parameter causal: expected true or false, found "true"'),
        ({"window_left": "3"}, 'parameter window_left: expected an integer, found "3"'),
        (
            {"height": 10, "width": 5, "window_left": 3},
            "parameter window_left: it is not taken together with height and width",
        ),
        (
            {"height": 10, "width": 5, "slopes": np.ones(2, np.float32)},
            "input slopes: it is not taken together with height",
        ),
        (
            {"lse": np.zeros((2, 50), np.float32)},
            'since it is an output: check and save_case take it as out={"out": .., "lse": ..}',
        ),
        ({"grad_q": np.zeros((2, 50, 16), np.float32)}, 'check and save_case take it as grads={"q": ..}'),
        (
            {
                "grad": np.zeros((2, 50, 16), np.float32),
                "grads": {"q": np.zeros((2, 50, 16), np.float32)},
                "grad_lse": np.ones((2, 50, 1), np.float32),
            },
            "grad_lse: expected [h, n_q] = [2, 50], found [2, 50, 1]",
        ),
        ({"buckets": np.ones(1, np.float32)}, "buckets: expected [B] for some B of at least 2, found [1]"),
        (
            {"packed_q": [20, 30], "packed_k": [30, 20], "bias": np.ones(99, np.float32)},
            "= [59], an entry for each offset key - query from -29 to 29, as the longest of the packed sequences have, "
            "found [99]",
        ),
        (
            {"packed_q": [32], "packed_k": [32]},
            "expected lengths with the sum 50, the number of queries, found 32 in a single length (on the command line, "
            "+ joins lengths: 32+32)",
        ),
        (
            {"out": {"outt": np.zeros((2, 50, 16))}},
            "output: expected one of out, lse, found 'outt' (did you mean 'out'?)",
        ),
        ({"q": "text"}, "q"),
        ({"q": None}, "q"),
        ({"colour": 3}, "colour"),
        ({"scale": -1.0}, "scale"),
        ({"v": np.zeros((2, 51, 16), np.float32)}, "n_k"),
        ({"k": np.full((2, 50, 16), np.nan, np.float32)}, "k: expected finite numbers, found NaN at [0, 0, 0]"),
        ({"out": np.zeros((2, 50, 15), np.float32)}, "output out: expected the shape [2, 50, 16], found [2, 50, 15]"),
        (
            {"q": np.zeros((0, 50, 16), np.float32)},
            "q: expected 1 to 5 dimensions, each of size 1 or more, found the shape [0, ",
        ),
        ({"expected_error": 2.0}, "expected_error"),
        ({"grad": np.zeros((2, 50, 16), np.float32)}, "those that you computed), found only grad="),
        ({"grad_lse": np.ones((2, 50), np.float32)}, "those that you computed), found only grad_lse="),
        (
            {"grad_lse": np.ones((2, 50), np.float32), "grads": {"q": np.zeros((2, 50, 16), np.float32)}},
            "those that you computed), found only grad_lse=, grads=",
        ),
    ],
)
def test_errors_are_one_line(change, expected):
    inputs = {**tensors(), "out": np.zeros((2, 50, 16), np.float32), **change}
    with pytest.raises(ValueError) as error:
        subquad.check("softmax_attention", **inputs)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_a_parameter_that_the_pattern_excludes_is_named():
    with pytest.raises(ValueError, match="parameter query_offset: it is not taken together with pattern=strided"):
        subquad.reference("sparse_attention", pattern="strided", window=2, stride=4, query_offset=3, **tensors())


def test_an_unknown_operator_is_a_value_error():
    for call in (subquad.signature, lambda op: subquad.check(op, out=np.zeros(3)), lambda op: subquad.verify(len, op)):
        with pytest.raises(ValueError, match="operator"):
            call("softmax")


def test_nan_is_found():
    inputs = tensors()
    out = softmax(**inputs)
    out[1, 3, 2] = np.nan
    result = subquad.check("softmax_attention", out=out, **inputs)
    assert not result and (result.worst.head, result.worst.row, result.worst.element) == (1, 3, 2)
    assert "NaN" in str(result)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_200_calls_leak_nothing():
    draw = np.random.default_rng(1)
    inputs = {"weights": draw.standard_normal(63), "values": draw.standard_normal((32, 128))}
    place = np.arange(32)[None] - np.arange(32)[:, None] + 31
    out = inputs["weights"][place] @ inputs["values"]
    before_references = [sys.getrefcount(value) for value in (*inputs.values(), out)]

    def calls(count):
        for _ in range(count):
            subquad.check("toeplitz_1d", out=out, **inputs)
            subquad.run("toeplitz_1d", **inputs)
            subquad.reference("toeplitz_1d", rows=[1], **inputs)

    calls(20)
    before = resident()
    calls(200)
    assert [sys.getrefcount(value) for value in (*inputs.values(), out)] == before_references
    # An output has 32 KiB: storing 200 of them would take 6.4 MiB.
    assert resident() - before < 3 << 20


def test_the_lock_of_python_is_released():
    inputs = tensors(n=1200, heads=1, d=64)
    count, running = 0, True

    def work():
        nonlocal running
        subquad.reference("softmax_attention", **inputs)
        running = False

    thread = threading.Thread(target=work)
    gaps, last = [], time.perf_counter()
    start = last
    thread.start()
    while running:
        count += 1
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    thread.join()
    # A call that kept the GIL would stop the loop for nearly all of the time.
    assert count > 100 and max(gaps) < 0.7 * (time.perf_counter() - start)


def test_threads_get_their_own_answers():
    all_inputs = [tensors(seed=seed) for seed in range(8)]
    results = [None] * 8

    def work(i):
        results[i] = subquad.check("softmax_attention", out=softmax(**all_inputs[i]), **all_inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results) and [result.error for result in results] == [
        subquad.check("softmax_attention", out=softmax(**inputs), **inputs).error for inputs in all_inputs
    ]


def test_nothing_is_imported_that_is_not_there():
    code = (
        "import subquad, sys; print([m for m in ('torch', 'jax', 'pytest', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_tolerance_above_every_value_is_mistrusted():
    q, k, v = np.random.default_rng(0).standard_normal((3, 12, 8)).astype(np.float32)
    bias = np.full(23, 1e30, np.float32)
    out = np.full((12, 8), 1e6, np.float32)
    verdict = subquad.check("softmax_attention", out=out, q=q, k=k, v=v, bias=bias)
    assert verdict.verdict == "mistrusted" and "could not have failed" in verdict.reason


@pytest.mark.parametrize("op, params", [("softmax_attention", {}), ("linear_attention", {"feature_map": "elu1"})])
def test_nan_in_rows_without_keys(op, params):
    draws = np.random.default_rng(1)
    q, k, v = draws.standard_normal((3, 2, 16, 8)).astype(np.float32)
    mask = draws.random((16, 16)) > 0.5
    mask[[3, 9]] = False
    out = subquad.run(op, q=q, k=k, v=v, mask=mask, **params)
    assert subquad.check(op, out=out, q=q, k=k, v=v, mask=mask, **params)
    out[:, [3, 9]] = np.nan
    check = subquad.check(op, out=out, q=q, k=k, v=v, mask=mask, **params)
    assert not check and "32 of 256 elements are NaN" in check.reason
    assert "NaN in rows that should be zero, as of 0/0 where no key is seen" in str(check)
    assert "12.5 % of elements are wrong: out: rows 3 to 9 of 16" in str(check)
