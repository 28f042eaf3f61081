"""Tests `verify` and `sweep`: any fault of a function other than a wrong result becomes a row that names it."""

import json
import os
import pathlib
import signal
import sys

import numpy as np
import pytest

import subquad
from subquad import testing

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = {"n": [1, 5, 16]}


def toeplitz(weights, values, causal=False):
    n_k = values.shape[-2]
    n_q = weights.shape[-1] + 1 - n_k
    heads = max(values.shape[-3] if values.ndim > 2 else 1, weights.shape[-2] if weights.ndim > 1 else 1)
    if values.ndim > 2 and values.shape[-3] < heads:
        values = np.repeat(values, heads // values.shape[-3], -3)
    if weights.ndim > 1 and weights.shape[-2] < heads:
        weights = np.repeat(weights, heads // weights.shape[-2], -2)
    matrix = weights[..., np.arange(n_k)[None] - np.arange(n_q)[:, None] + n_q - 1]
    return (np.tril(matrix) if causal else matrix) @ values


def test_a_right_function_passes(tmp_path):
    result = subquad.verify(toeplitz, "toeplitz_1d", folder=tmp_path, **SMALL)
    assert result and result.passed and not result.failures and result.looks_like is None
    assert "0 failed" in str(result) and "called again" in str(result)


def test_an_eps_that_no_case_shows_is_no_failure(tmp_path):
    def linear(q, k, v, eps):
        q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
        weights = q @ np.swapaxes(k, -1, -2)
        return weights @ v / (weights.sum(-1, keepdims=True) + q.dtype.type(eps if eps > 1e-6 else 0))

    options = {"feature_map": "elu1", "eps": 1e-9, "n": [16, 33], "grouped_heads": False}
    result = subquad.verify(linear, "linear_attention", folder=tmp_path, **options)
    assert result and sum(row.mistrusted for row in result.rows) == 0, str(result)
    assert "eps left out" not in str(result)


def attention(q, k, v, scale=None, causal=False):
    """Computes attention correctly, with the same number of heads in every tensor, or one."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(scale or q.shape[-1] ** -0.5)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def test_grouped_heads_that_a_function_does_not_take_are_not_tested(tmp_path):
    result = subquad.verify(attention, "softmax_attention", folder=tmp_path)
    assert result, str(result)
    (remark,) = [remark for remark in result.remarks if "groups of heads" in remark]
    assert "raised ValueError" in remark and "k:2+v:2" in remark
    asked = subquad.verify(attention, "softmax_attention", grouped_heads=True, folder=tmp_path)
    assert asked.failures and all("leading=" in failure.case for failure in asked.failures), str(asked)


def test_grouped_heads_that_it_takes_now_and_then_are_failures(tmp_path):
    def sometimes(q, k, v, scale=None, causal=False):
        if k.ndim > 2 and k.shape[-3] < q.shape[-3]:
            if q.ndim == 4:
                raise ValueError("not with batch items")
            k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) if x.ndim > 2 else x for x in (k, v))
        return attention(q, k, v, scale, causal)

    result = subquad.verify(sometimes, "softmax_attention", folder=tmp_path)
    assert result.failures and all("not with batch items" in failure.reason for failure in result.failures), str(result)
    assert "groups of heads" not in str(result.remarks)


def test_what_is_given_is_that_of_every_case(tmp_path):
    def one_width(q, k, v, scale=None, causal=False):
        if q.shape[-1] != v.shape[-1]:
            raise ValueError(f"widths {q.shape[-1]} and {v.shape[-1]}")
        return attention(q, k, v, scale, causal)

    options = {"n": [1, 16, 33], "grouped_heads": False, "folder": tmp_path}
    assert subquad.verify(one_width, "softmax_attention", d=32, e=32, **options)
    assert not subquad.verify(one_width, "softmax_attention", d=32, **options)
    cases = subquad._subquad.cases("linear_attention", [("feature_map", "elu1"), ("eps", "0.25")], [16], "float32", 1)
    assert cases and all(case.params["eps"] == 0.25 for case in cases)


def test_what_few_failures_resemble_is_no_headline(tmp_path):
    def sometimes(weights, values, causal=False):
        n, out = values.shape[-2], toeplitz(weights, values, causal)
        wrong = -out if n in (16, 31) else out + np.sin(np.arange(out.size) ** 2).reshape(out.shape).astype(out.dtype)
        return out if values.ndim > 2 else wrong

    options = {"n": [16, 31, 33, 64, 97], "shrink": 0, "folder": tmp_path}
    result = subquad.verify(sometimes, "toeplitz_1d", **options)
    alike = sum(failure.looks_like == "sign flipped" for failure in result.failures)
    tried = sum(failure.diagnosed for failure in result.failures)
    assert 0 < 2 * alike <= tried, str(result)
    assert result.looks_like is None and "; looks like" not in str(result)
    assert str(result).endswith(f"; {alike} of {tried} failures look like: sign flipped"), str(result)
    result = subquad.verify(sometimes, "toeplitz_1d", **{**options, "n": [16, 31]})
    assert result.looks_like == "sign flipped" and str(result).endswith("; looks like: sign flipped"), str(result)


def test_one_row_resembles_nothing(tmp_path):
    def wrong(weights, values, causal=False):
        out = toeplitz(weights, values, causal)
        if min(out.shape[-2], values.shape[-2]) == 1 or values.shape[-2] == 2:
            return -out
        return out + np.sin(np.arange(out.size) ** 2).reshape(out.shape).astype(out.dtype)

    result = subquad.verify(wrong, "toeplitz_1d", n=[1, 3, 16], shrink=0, folder=tmp_path)
    assert any("n=1," in failure.case for failure in result.failures)
    assert result.looks_like is None and "like" not in str(result), str(result)


def takes_and_ignores(name):
    def function(q, k, v, scale=None, causal=False):
        options = {"scale": scale, "causal": causal, name: {"scale": None, "causal": False}[name]}
        return attention(q, k, v, options["scale"], options["causal"])

    return function


@pytest.mark.parametrize(
    "name, mistake", [("causal", "causal mask left out"), ("scale", "the default scale instead of the given one")]
)
def test_a_parameter_that_is_taken_is_tested(name, mistake, tmp_path):
    result = subquad.verify(takes_and_ignores(name), "softmax_attention", grouped_heads=False, folder=tmp_path)
    assert not result and result.looks_like == mistake, str(result)
    assert all(failure.kind in (f"{name}=1", f"{name}=0.3125", "called again", "pairs") for failure in result.failures)


def raises(weights, values, causal=False):
    if values.shape[-2] == 16:
        raise RuntimeError("no kernel for 16")
    return toeplitz(weights, values, causal)


def crashes(weights, values, causal=False):
    if values.shape[-2] == 16:
        os.kill(os.getpid(), signal.SIGSEGV)
    return toeplitz(weights, values, causal)


def leaves(weights, values, causal=False):
    if values.shape[-2] == 16:
        os._exit(3)
    return toeplitz(weights, values, causal)


def hangs(weights, values, causal=False):
    while values.shape[-2] == 16 and values.ndim == 2:
        pass
    return toeplitz(weights, values, causal)


def changes_inputs(weights, values, causal=False):
    out = toeplitz(weights, values, causal)
    values *= 2
    return out


def wrong_shape(weights, values, causal=False):
    return toeplitz(weights, values, causal)[..., :-1, :] if values.shape[-2] > 1 else toeplitz(weights, values, causal)


def wrong_type(weights, values, causal=False):
    return toeplitz(weights, values, causal).astype(np.float64)


def no_array(weights, values, causal=False):
    return toeplitz(weights, values, causal).tolist()


def other_name(weights, values, causal=False):
    return {"output": toeplitz(weights, values, causal)}


def nan(weights, values, causal=False):
    out = toeplitz(weights, values, causal)
    out[..., -1, -1] = np.nan
    return out


@pytest.mark.parametrize(
    "function, reason",
    [
        (raises, "raised RuntimeError: no kernel for 16 (verify_test.py:"),
        (crashes, "crashed: SIGSEGV"),
        (leaves, "ended the process with status 3"),
        (changes_inputs, "changed its input values"),
        (wrong_shape, "returned the wrong shape: out has [4, 19], expected [5, 19]"),
        (wrong_type, "returned the wrong type: out has float64, expected float32"),
        (no_array, "returned list as out"),
        (other_name, "returned no out"),
        (nan, "NaN or infinite"),
    ],
)
def test_what_a_function_does_is_named(function, reason, tmp_path):
    result = subquad.verify(function, "toeplitz_1d", folder=tmp_path, **SMALL)
    assert not result
    assert any(reason in failure.reason for failure in result.failures), str(result)
    assert reason in str(result)
    assert all(pathlib.Path(failure.folder, "case.json").exists() for failure in result.failures)
    if function in (raises, crashes, leaves):
        assert sum(row.passed for row in result.rows) > 0  # the cases after it were called nevertheless


def test_a_call_that_does_not_return_is_named(tmp_path):
    result = subquad.verify(hangs, "toeplitz_1d", n=[16], timeout=0.5, shrink=0.1, folder=tmp_path)
    assert any("did not return within 0.5 s" in failure.reason for failure in result.failures)


def test_a_failure_is_made_small(tmp_path):
    result = subquad.verify(
        lambda weights, values: 2 * toeplitz(weights, values), "toeplitz_1d", n=[33], shrink=2, folder=tmp_path
    )
    case = subquad.load_case(result.failures[0].folder)
    assert case.inputs["values"].shape[-2] < 10


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"array": "tensorflow"}, "array: expected one of numpy, torch, jax"),
        ({"colour": 1}, "colour"),
        ({"causal": 7}, "causal"),
        (
            {"d": 32},
            "d: unexpected argument; the names of toeplitz_1d are causal, query_offset, key_lengths, n_q, n_k, e",
        ),
        ({"e": 0}, "size e: expected an integer from 1 to 2147483647, found 0"),
        ({"n": [0]}, "n"),
        ({"scalars": ["float8"]}, "float8"),
        ({"like": "fastest"}, "fastest"),
    ],
)
def test_errors(options, expected):
    with pytest.raises(ValueError, match=expected) as error:
        subquad.verify(toeplitz, "toeplitz_1d", **{**SMALL, **options})
    assert "\n" not in str(error.value)


def test_an_assertion_says_where_and_what():
    draw = np.random.default_rng(1)
    weights, values = draw.standard_normal(99), draw.standard_normal((50, 8))
    out = toeplitz(weights, values)
    assert testing.assert_correct("toeplitz_1d", out=out, weights=weights, values=values)
    with pytest.raises(AssertionError) as error:
        testing.assert_correct("toeplitz_1d", out=toeplitz(weights[::-1], values), weights=weights, values=values)
    for words in ("worst at out", "tolerance", "margin", "looks like: offset i - j for j - i"):
        assert words in str(error.value)
    with pytest.raises(AssertionError, match="wrong shape"):
        testing.assert_correct(wrong_shape, "toeplitz_1d", **SMALL)
    assert np.abs(testing.verified("toeplitz_1d", out, weights=weights, values=values) - out).max() < 1e-12
    with pytest.raises(AssertionError):
        testing.verified("toeplitz_1d", 1.01 * out, weights=weights, values=values)


def test_a_sweep_times_what_is_right(tmp_path):
    def wrong(weights, values, causal=False):
        return 1.01 * toeplitz(weights, values, causal)

    def broken(weights, values):
        raise OSError("no device")

    file = tmp_path / "r.json"
    functions = {"mine": toeplitz, "wrong": wrong, "broken": broken}
    result = subquad.sweep(
        functions, "toeplitz_1d", n=[64, 256], baselines=["dense", "fft_columns"], out=file, budget=0.1
    )
    assert not result.passed
    for name in ("mine", "dense", "fft_columns"):
        assert set(result.seconds(name)) == {64, 256}
    assert not result.seconds("wrong") and not result.seconds("broken")
    assert "raised OSError: no device" in str(result)
    written = json.loads(file.read_text())
    assert written["format"] == "results/1" and len(written["records"]) == 10
    sys.path.insert(0, str(ROOT))
    schema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema.validate(written, json.loads((ROOT / "reports/files/results.schema.json").read_text()))


def test_an_implementation_that_the_build_lacks_is_refused():
    if "fft" in subquad.signature("toeplitz_1d")["implementations"]:
        pytest.skip("this build has FFTW")
    numbers = {"weights": np.ones(9), "values": np.ones((5, 2))}
    for call in (
        lambda: subquad.sweep({"mine": toeplitz}, "toeplitz_1d", n=[8], baselines=["fft"]),
        lambda: subquad.verify(toeplitz, "toeplitz_1d", like="fft"),
        lambda: subquad.run("toeplitz_1d", implementation="fft", **numbers),
    ):
        with pytest.raises(ValueError, match=r"toeplitz_1d/fft needs FFTW, .*-DSUBQUAD_FFTW=ON"):
            call()


def test_errors_of_sweeps():
    for options, expected in (
        ({"n": []}, "n: expected a list of sizes"),
        ({"n": [64], "baselines": ["fastest"]}, "baselines: expected one of dense"),
        ({"n": [64], "budget": 0}, "budget: expected a number of seconds above 0, found 0"),
        ({"n": [64], "budget": "a"}, "budget: expected a number of seconds above 0, found 'a'"),
        ({"n": "64"}, "n: expected a list of sizes"),
        ({"n": [64], "threads": 0}, "threads: expected an integer from 1 to 1024, found 0"),
        ({"n": [64], "threads": "a"}, "threads: expected an integer from 1 to 1024, found 'a'"),
        ({"n": [64], "seed": -1}, "seed: expected an integer from 0 to"),
        ({"n": [64], "sizes": 3}, "sizes: expected sizes by name"),
        ({"n": [64], "baselines": "dense"}, "baselines: expected a list of names"),
        ({"n": [64], "out": "/dev/null/a.json"}, "out: expected a file in a folder that exists"),
        ({"n": [64], "out": __file__}, "out: expected a file that does not exist, or force=True"),
        ({"n": [64], "like": "nope"}, "like: expected one of dense"),
        ({"n": [64], "array": "nmpy"}, "array: expected one of numpy, torch, jax; found 'nmpy'"),
        ({"n": [64], "sizes": {"n": 4}}, "sizes: expected sizes other than n"),
    ):
        with pytest.raises(ValueError, match=expected):
            subquad.sweep({"mine": toeplitz}, "toeplitz_1d", **options)
    with pytest.raises(ValueError, match="names of letters"):
        subquad.sweep({"my kernel": toeplitz}, "toeplitz_1d", n=[64])
    for functions, found in (({}, "an empty dict"), (toeplitz, "an object of type function")):
        with pytest.raises(ValueError, match=f"functions: expected functions by name, .* found {found}"):
            subquad.sweep(functions, "toeplitz_1d", n=[64])
    with pytest.raises(ValueError, match="functions: expected a callable for 'mine', found int"):
        subquad.sweep({"mine": 3}, "toeplitz_1d", n=[64])
    with pytest.raises(ValueError, match="function mine: expected parameters named weights, values .*, found a, b"):
        subquad.sweep({"mine": lambda a, b: a}, "toeplitz_1d", n=[64])


def test_errors_of_verifications():
    for options, expected in (
        ({"n": []}, "n: expected a list of sizes, such as \\[256, 1024\\], found \\[\\]"),
        ({"n": [True]}, "n: expected integers of at least 1, found True"),
        ({"seed": "a"}, "seed: expected an integer from 0 to"),
        ({"timeout": 0}, "timeout: expected a number of seconds above 0, found 0"),
        ({"shrink": "a"}, "shrink: expected a number of seconds of at least 0, found 'a'"),
        ({"folder": "/dev/null"}, "folder: expected a folder, found the file /dev/null"),
        ({"folder": 3}, "folder: expected a path, found 3"),
        ({"gradients": True}, "gradients: expected array=.torch. or .jax., which can differentiate, found .numpy."),
        ({"gradients": "yes"}, "gradients: expected True, False or None, found 'yes'"),
        ({"scalars": []}, "scalars: expected a list of types"),
        ({"timout": 3}, "timout: unexpected argument .did you mean timeout"),
    ):
        with pytest.raises(ValueError, match=expected):
            subquad.verify(toeplitz, "toeplitz_1d", **options)
    with pytest.raises(ValueError, match="function: expected parameters named q, k, v .*, found a, b"):
        subquad.verify(lambda a, b: a, "softmax_attention", n=[4])


def masked_attention(torch, q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    hidden = (scores == -torch.inf).all(-1, keepdim=True)
    weights = torch.where(hidden, 0, torch.softmax(scores.masked_fill(hidden, 0), -1))
    return weights @ v, torch.logsumexp(scores, -1)


def test_gradients_beside_a_mask(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def function(q, k, v, mask=None):
        return masked_attention(torch, q, k, v, mask)[0]

    result = subquad.verify(
        function, "softmax_attention", array="torch", seed=1, n=[5], grouped_heads=False, folder=tmp_path
    )
    assert result, str(result)
    assert any(row.kind == "gradients" and row.passed > 10 for row in result.rows), str(result)


def test_a_second_output_is_judged_in_any_order_and_in_float32(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def function(q, k, v):
        out, lse = masked_attention(torch, q.float(), k.float(), v.float())
        return {"lse": lse, "out": out.to(q.dtype)}

    options = {"array": "torch", "seed": 1, "n": [5], "grouped_heads": False, "folder": tmp_path}
    result = subquad.verify(function, "softmax_attention", scalars=["float32", "bfloat16"], **options)
    assert result, str(result)
    assert any(row.kind == "gradients" and row.scalar == "bfloat16" and row.passed for row in result.rows)
    assert "does not return it" not in str(result)


@pytest.mark.parametrize("change, reason", [(lambda lse: lse[..., None], "shape"), (lambda lse: lse.double(), "type")])
def test_a_malformed_second_output_is_a_failure(change, reason, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def function(q, k, v):
        out, lse = masked_attention(torch, q, k, v)
        return {"out": out, "lse": change(lse)}

    options = {"array": "torch", "n": [5], "gradients": False, "grouped_heads": False, "folder": tmp_path}
    result = subquad.verify(function, "softmax_attention", **options)
    assert not result
    assert f"returned the wrong {reason}: lse has" in str(result), str(result)


def test_an_output_of_none_is_not_returned(tmp_path):
    def function(q, k, v):
        return {"out": attention(q, k, v), "lse": None}

    result = subquad.verify(function, "softmax_attention", n=[5], grouped_heads=False, folder=tmp_path)
    assert result and "does not return it: lse" in str(result), str(result)


def test_an_output_of_an_unknown_name_is_refused(tmp_path):
    def function(q, k, v):
        return {"out": attention(q, k, v), "logsumexp": np.zeros(q.shape[:-1], q.dtype)}

    result = subquad.verify(function, "softmax_attention", n=[5], grouped_heads=False, folder=tmp_path)
    reasons = {failure.reason for failure in result.failures}
    assert not result and reasons == {"returned the unknown output logsumexp; expected out, lse"}, str(result)


@pytest.mark.parametrize("returned", [tuple, list])
def test_several_outputs_need_names(returned, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    expected = f'returned a {returned.__name__} of 2; expected several outputs as a dict, {{"out": .., "lse": ..}}'

    def function(q, k, v):
        return returned(masked_attention(torch, q, k, v))

    options = {"array": "torch", "n": [5], "grouped_heads": False, "shrink": 0, "folder": tmp_path}
    result = subquad.verify(function, "softmax_attention", **options)
    assert {failure.reason for failure in result.failures} == {expected}, str(result)
    assert {"forward", "gradients"} <= {failure.kind for failure in result.failures}, str(result)


def test_no_array_is_named_in_gradients_too(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def function(q, k, v):
        return {"out": masked_attention(torch, q, k, v)[0].tolist()}

    options = {"array": "torch", "n": [5], "grouped_heads": False, "shrink": 0, "folder": tmp_path}
    result = subquad.verify(function, "softmax_attention", **options)
    assert {failure.reason for failure in result.failures} == {"returned list as out; expected an array"}, str(result)


def test_a_single_output_needs_no_tuple(tmp_path):
    result = subquad.verify(
        lambda weights, values: (toeplitz(weights, values),), "toeplitz_1d", shrink=0, folder=tmp_path, **SMALL
    )
    reasons = {failure.reason for failure in result.failures}
    assert reasons == {"returned a tuple of 1; expected an array, out"}, str(result)


def test_a_mistrusted_case_says_why(tmp_path):
    def zeros(q, k, v, key_lengths, scale=None, causal=False):
        return np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)

    options = {"n": [1], "key_lengths": 0, "grouped_heads": False}
    result = subquad.verify(zeros, "softmax_attention", folder=tmp_path, **options)
    rows = [row for row in result.rows if row.mistrusted]
    assert rows and all(row.remark.startswith("mistrusted: softmax_attention:") for row in rows), str(result)


def test_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")

    def product(weights, values, causal=False):
        n_k = values.shape[-2]
        n_q = weights.shape[-1] + 1 - n_k
        matrix = weights[..., np.arange(n_k)[None] - np.arange(n_q)[:, None] + n_q - 1]
        return jax.numpy.matmul(matrix, values, precision="highest")

    inputs = {"weights": jax.numpy.arange(9.0), "values": jax.numpy.ones((5, 2))}
    assert subquad.check("toeplitz_1d", out=product(**inputs), **inputs)
    assert isinstance(subquad.run("toeplitz_1d", **inputs), jax.Array)
