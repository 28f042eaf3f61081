"""Tests `power`: which mistakes a user's own test accepts, and what would catch them."""

import numpy as np
import pytest

import subquad


def tensors(n=140, heads=2, width=8, bias=1.0):
    draws = np.random.default_rng(1)
    q, k, v = draws.standard_normal((3, heads, n, width)).astype(np.float32)
    return {"q": q, "k": k, "v": v, "bias": (bias * draws.standard_normal(2 * n - 1)).astype(np.float32)}


def test_a_test_that_sees_everything():
    result = subquad.power("softmax_attention", **tensors())
    assert result and result.passed and not result.accepted and result.advice is None
    assert (result.dtype, result.rtol, result.atol) == ("float32", 1.3e-6, 1e-5)
    assert result.all_rows and result.rows == 280 and 0 < result.right < 1
    assert set(result.ours) == set(result.rejected) and min(result.ours.values()) > 1
    assert "accepts 0 of" in str(result) and "advice" not in str(result)


def test_a_bias_of_zeros():
    result = subquad.power("softmax_attention", **tensors(bias=0))
    assert not result
    assert {"bias left out", "bias shifted by 1", "offset i - j for j - i"} <= set(result.accepted) & set(result.same)
    assert "scale left out" in result.rejected
    assert result.advice.changes == ("bias drawn from N(0, 1)",) and not result.advice.still_accepted
    assert "equals the right answer on these tensors" in str(result) and "rejects all of them" in str(result)


@pytest.mark.parametrize(
    "option, value, hidden",
    [
        ("pair_bias", np.zeros((40, 40)), "pair_bias left out"),
        ("slopes", np.zeros(2), "slopes left out"),
        ("sinks", np.full(2, -100), "sinks left out"),
        ("sinks", np.full(2, 0.5), "another head's sink"),
        ("mask", np.ones((40, 40)), "mask left out"),
        ("buckets", np.zeros(16), "buckets left out"),
    ],
)
def test_options_without_effect(option, value, hidden):
    given = tensors(40)
    del given["bias"]
    params = {"max_distance": 32} if option == "buckets" else {}
    blind = subquad.power(
        "softmax_attention", **given, **params, **{option: value.astype(np.float32)}, rtol=1e-6, atol=1e-6
    )
    assert not blind and hidden in blind.same and hidden in blind.accepted
    if option != "mask":
        assert blind.advice.changes[0].startswith(f"{option} drawn") and hidden not in blind.advice.still_accepted


def test_one_packed_sequence_hides_its_neighbours():
    given = {name: values[0] for name, values in tensors(40).items() if name != "bias"}
    blind = subquad.power("softmax_attention", **given, packed_q=[40], packed_k=[40])
    assert blind.hidden == {
        mistake: "two packed sequences or more"
        for mistake in ("packed sequences that see their neighbours", "lengths of the next packed sequence")
    }
    assert subquad.power("softmax_attention", **given, packed_q=[15, 25], packed_k=[15, 25]).hidden == {}


def test_gradients_below_the_tolerance():
    inputs = tensors()
    grad = np.full_like(inputs["v"], 1e-6)
    result = subquad.power("softmax_attention", rtol=0, atol=1e-4, grad=grad, **inputs)
    assert result.accepted and all(name.startswith("gradients: ") for name in result.accepted)
    assert "gradients: all zero (grad_q)" in result.accepted
    assert "gradients: last row left out (grad_q)" in result.rejected
    assert any("random cotangent" in change for change in result.advice.changes)
    assert len(str(result).split("\n")) < 25 and " more accepted, " in str(result)


def test_the_distances_are_those_of_allclose():
    inputs = tensors()
    right = subquad.reference("softmax_attention", **inputs)
    rtol, atol = 0.05, 0.5
    result = subquad.power("softmax_attention", rtol=rtol, atol=atol, dtype="float64", advise=False, **inputs)
    without = subquad.reference("softmax_attention", **{**inputs, "bias": None})
    for name, wrong in (("all zero", 0 * right), ("sign flipped", -right), ("bias left out", without)):
        over = np.max(np.abs(wrong - right) / (atol + rtol * np.abs(right)))
        tried = {**result.accepted, **result.rejected}[name]
        assert tried == pytest.approx(over, rel=1e-9), name
        assert (name in result.accepted) == np.allclose(wrong, right, rtol=rtol, atol=atol)


def test_the_type_of_the_test():
    inputs = tensors(n=70)
    by_type = {
        name: subquad.power("softmax_attention", dtype=name, advise=False, **inputs) for name in ("float16", np.float64)
    }
    assert [power.dtype for power in by_type.values()] == ["float16", "float64"]
    assert by_type["float16"].rtol == 1e-3 and "products of float32" in by_type[np.float64].accepted
    # An error of one unit in the last place is refused, and so are correct outputs.
    tight = subquad.power("softmax_attention", rtol=0, atol=1e-7, dtype="bfloat16", **inputs)
    assert not tight and tight.right > 1000 and "this test rejects correct programs" in str(tight)
    assert "a wider tolerance" in tight.advice.changes[-1]


def test_an_eps_is_seen_or_not():
    inputs = {name: value for name, value in tensors().items() if name != "bias"}
    for eps, dtype, seen in ((1e-6, "float32", False), (1e-2, "bfloat16", False), (1.0, "float32", True)):
        result = subquad.power("linear_attention", feature_map="elu1", eps=eps, dtype=dtype, **inputs)
        assert ("eps left out" in result.rejected, "eps left out" in result.accepted) == (seen, not seen), str(result)
        # Other tensors would not reveal it.
        assert result.passed == seen and (seen or not result.advice.changes), str(result)


def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    inputs = {name: torch.tensor(value).bfloat16() for name, value in tensors().items()}
    result = subquad.power("softmax_attention", advise=False, **inputs)
    assert result.dtype == "bfloat16" and result.rtol == 1.6e-2 and result.passed
    assert subquad.power("softmax_attention", dtype=torch.bfloat16, advise=False, **tensors()).dtype == "bfloat16"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"rtol": 1e-2}, "rtol, atol: expected both or neither, found only rtol"),
        ({"rtol": -1, "atol": 0}, "rtol: expected a finite number of at least 0"),
        ({"rtol": float("nan"), "atol": 0}, "rtol: expected a finite number of at least 0"),
        ({"rtol": "tight", "atol": 0}, "rtol: expected a number"),
        ({"dtype": "int8"}, "dtype: expected one of float64, float32, bfloat16, float16, found int8"),
        ({"grad": np.ones((2, 3), np.float32)}, "grad"),
        ({"q": np.full((2, 140, 8), 1e6), "dtype": "float16"}, "numbers in the range of float16"),
    ],
)
def test_errors_are_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as raised:
        subquad.power("softmax_attention", **{**tensors(), **arguments})
    assert "\n" not in str(raised.value)


def test_without_tensors():
    with pytest.raises(ValueError, match="tensors: expected the inputs in signature"):
        subquad.power("softmax_attention")


def test_shapes_that_hide_a_mistake():
    draws = np.random.default_rng(1)
    q, k, v = draws.standard_normal((3, 2, 40, 16)).astype(np.float32)
    blind = subquad.power("softmax_attention", q=q, k=k, v=v, causal=True)
    mistake = "causal mask aligned at the last query and key instead of the first"
    assert not blind and blind.hidden == {mistake: "fewer queries than keys (n_q < n_k)"}
    assert mistake in blind.same and blind.advice is None
    assert f"hidden by the shapes: {mistake}; fewer queries than keys (n_q < n_k) would reveal it" in str(blind)
    able = subquad.power("softmax_attention", q=q[:, :30], k=k, v=v, causal=True)
    assert able and not able.hidden and mistake in able.rejected


def allclose(out, expected):
    return np.allclose(out, expected, rtol=0, atol=0.05)


def cosine(out, expected):
    return (out * expected).sum() > 0.99 * np.linalg.norm(out) * np.linalg.norm(expected)


def test_answers_to_a_formula_of_ones_own():
    inputs = tensors()
    for grad in (None, np.ones_like(inputs["v"])):
        answers = subquad.answers("softmax_attention", grad=grad, **inputs)
        assert answers.all_rows and answers.dtype == "float32"
        # The formula of `power` accepts the same mistakes.
        power = subquad.power("softmax_attention", rtol=0, atol=0.05, grad=grad, advise=False, **inputs)
        of_gradients = "gradients: "
        expected = {
            name.removeprefix(of_gradients)
            for name in power.accepted
            if name.startswith(of_gradients) == (grad is not None)
        }
        assert set(answers.accepted(allclose)) == expected and expected
        accepted = answers.accepted(cosine)
        assert any(name.startswith("scaled by 1.001") for name in accepted) and not answers.refused(cosine)
        assert not any(name.startswith("sign flipped") for name in accepted)
    assert list(answers.expected) == ["grad_q", "grad_k", "grad_v", "grad_bias"]


def test_answers_are_those_of_programs():
    inputs = tensors(n=60)
    answers = subquad.answers("softmax_attention", dtype="bfloat16", **inputs)
    right = subquad.reference("softmax_attention", **{name: rounded(x) for name, x in inputs.items()})
    heads, rows = answers.heads["out"], answers.rows["out"]
    assert np.allclose(answers.expected["out"], right[heads, rows], rtol=0, atol=1e-13)
    sums = "sums in float32"
    assert [answer.name for answer in answers.right] == [
        "float32",
        f"factors in its type, {sums}",
        f"factors and results in its type, {sums}",
    ]
    errors = [np.abs(answer.outputs["out"] - answer.expected["out"]).max() for answer in answers.right]
    assert 2**-12 < errors[0] < errors[1] < errors[2] < 2**-4
    without = subquad.reference("softmax_attention", **{name: rounded(inputs[name]) for name in "qkv"})
    (left_out,) = [answer for answer in answers.wrong if answer.name == "bias left out"]
    assert np.array_equal(left_out.outputs["out"], rounded(without)[heads, rows]) and not left_out.same
    # One wrong row among right ones is shown with them.
    (zero,) = [answer for answer in answers.wrong if answer.name == "one row zeroed"]
    assert len(zero.outputs["out"]) == len(rows) and (zero.outputs["out"] == 0).all(1).sum() == 1


def test_answers_on_a_sample():
    inputs = tensors(n=500, heads=1)
    answers = subquad.answers("softmax_attention", most_work=1e5, **inputs)
    count = len(answers.rows["out"])
    assert not answers.all_rows and 8 <= count < 100
    assert all(
        out.shape == answer.expected[name].shape for answer in answers.wrong for name, out in answer.outputs.items()
    )
    for change, message in (
        ({"out": inputs["v"]}, "out: unexpected"),
        ({"dtype": "int8"}, "dtype: expected one of"),
        ({"most_work": -1}, "most_work: expected a finite number of at least 0, found -1"),
    ):
        with pytest.raises(ValueError, match=message):
            subquad.answers("softmax_attention", **inputs, **change)


def rounded(array):
    """Rounds to bfloat16, half to even."""
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1) >> 16 << 16).astype(np.uint32)).view(np.float32).astype(np.float64)
