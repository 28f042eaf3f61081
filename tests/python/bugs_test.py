"""Mistakes planted in operators written in PyTorch: one call of `verify` finds and names each."""

import math
import time

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import operators as right  # noqa: E402
import subquad  # noqa: E402

# pylint: disable=wrong-import-position


def bias_dropped(q, k, v, bias=None, scale=None, causal=False):
    return right.softmax_attention(q, k, v, None, scale, causal)


def bias_transposed(q, k, v, bias=None, scale=None, causal=False):
    return right.softmax_attention(q, k, v, None if bias is None else bias.flip(-1), scale, causal)


def bias_off_by_one(q, k, v, bias=None, scale=None, causal=False):
    return right.softmax_attention(q, k, v, None if bias is None else bias.roll(1, -1), scale, causal)


def scale_forgotten(q, k, v, bias=None, causal=False):
    return right.softmax_attention(q, k, v, bias, 1.0, causal)


def mask_off_by_one(q, k, v, bias=None, scale=None, causal=True):
    heads = right.heads_of(q, k, v)
    k, v = right.grouped(k, heads), right.grouped(v, heads)
    scores = q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
    return right.attend(q, k, v, scores, True, mask_from=2)


def eps_in_the_wrong_place(q, k, v, scale=1.0, causal=False):
    heads = right.heads_of(q, k, v)
    k, v = right.grouped(k, heads), right.grouped(v, heads)
    weights = right.elu1(math.sqrt(scale) * q) @ right.elu1(math.sqrt(scale) * k).mT
    weights = weights.tril() if causal else weights
    return weights @ v / (weights + 1e-2).sum(-1, keepdim=True)  # adds 1e-2 for every key


def head_order(q, k, v, bias=None, scale=None, causal=False):
    out = right.softmax_attention(q, k, v, bias, scale, causal)
    if out.dim() < 3:
        return out
    return out.transpose(-3, -2).reshape(out.shape)


def wrap_around(weights, values, causal=False):
    n_k = values.shape[-2]
    return right.toeplitz_fft(weights, values, causal, period=max(n_k, weights.shape[-1] + 1 - n_k))


def float16_accumulation(q, k, v, bias=None, scale=None, causal=False):
    heads = right.heads_of(q, k, v)
    k, v = right.grouped(k, heads), right.grouped(v, heads)
    half = [x.half() for x in (q, k, v)]
    return right.softmax_attention(*half, bias, scale, causal).float()


class StaleCache:
    """Caches the matrix of a bias by its shape."""

    __name__ = "stale_cache"

    def __init__(self):
        self.kept = {}

    def __call__(self, weights, values, causal=False):
        key = (weights.shape, values.shape, causal)
        if key not in self.kept:
            self.kept[key] = weights.clone()
        return right.toeplitz_1d(self.kept[key], values, causal)


class SameOutput:
    """Returns one tensor for every call of a shape."""

    __name__ = "same_output"

    def __init__(self):
        self.kept = {}

    def __call__(self, weights, values, causal=False):
        out = right.toeplitz_1d(weights, values, causal)
        kept = self.kept.setdefault(out.shape, torch.empty_like(out))
        return kept.copy_(out)


BUGS = [
    (bias_dropped, "softmax_attention", {}, "bias left out"),
    (bias_transposed, "softmax_attention", {}, "offset i - j for j - i"),
    (bias_off_by_one, "softmax_attention", {}, "bias shifted by 1"),
    (scale_forgotten, "softmax_attention", {}, "scale left out"),
    (mask_off_by_one, "softmax_attention", {"causal": True}, "mask off by one"),
    (eps_in_the_wrong_place, "linear_attention", {"feature_map": "elu1"}, "eps in the wrong place"),
    (head_order, "softmax_attention", {}, "heads and rows exchanged"),
    (wrap_around, "toeplitz_1d", {}, "wrap-around"),
    (float16_accumulation, "softmax_attention", {}, "float16"),
    (StaleCache(), "toeplitz_1d", {"gradients": False}, "a stale cache: weights"),
    (SameOutput(), "toeplitz_1d", {"gradients": False}, "a cached tensor"),
]


@pytest.mark.parametrize("function, op, options, name", BUGS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_bug_is_found_and_named(function, op, options, name, tmp_path):
    start = time.monotonic()
    result = subquad.verify(function, op, array="torch", folder=tmp_path, **options)
    assert time.monotonic() - start < 60
    assert not result
    assert result.looks_like and name in result.looks_like, str(result)
    first = result.failures[0]
    assert name in first.looks_like and first.case.startswith(op)
    assert subquad.load_case(first.folder).operator == op
    assert name in str(result)


@pytest.mark.parametrize(
    "function, op, options",
    [
        (right.softmax_attention, "softmax_attention", {}),
        (right.softmax_attention, "softmax_attention", {"causal": True}),
        (right.linear_attention, "linear_attention", {"feature_map": "elu1"}),
        (right.linear_attention, "linear_attention", {"feature_map": "elu1", "causal": True}),
        (right.toeplitz_1d, "toeplitz_1d", {}),
        (right.toeplitz_1d, "toeplitz_1d", {"causal": True}),
        (right.toeplitz_fft, "toeplitz_1d", {"like": "fft_columns"}),
    ],
)
def test_what_is_right_passes(function, op, options, tmp_path):
    result = subquad.verify(function, op, array="torch", folder=tmp_path, **options)
    assert result, str(result)
    assert not list(tmp_path.iterdir())


def test_arithmetic_in_bfloat16_is_counted(tmp_path):
    """The row of the type has the worst error and the nearest mistake, with the error that such arithmetic may have."""

    def narrow(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v

    result = subquad.verify(narrow, "softmax_attention", array="torch", gradients=False, folder=tmp_path)
    assert result, str(result)
    row = next(row for row in result.rows if row.scalar == "bfloat16")
    assert row.remark.startswith("passes as native bfloat16 arithmetic") and row.passed > 5
    assert 0.1 < row.over_bound < 1 and 0.5 < row.margin < 2 and row.nearest == "scaled by 1.02", row
    asked = subquad.verify(narrow, "softmax_attention", array="torch", scalars=["bfloat16"], folder=tmp_path)
    assert asked, str(asked)
    refused = subquad.verify(
        narrow, "softmax_attention", array="torch", scalars=["bfloat16"], arithmetic="float32", folder=tmp_path
    )
    assert not refused


def test_a_wrong_gradient_is_found(tmp_path):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, weights, values):
            ctx.save_for_backward(weights, values)
            return right.toeplitz_1d(weights, values)

        @staticmethod
        def backward(ctx, grad):
            weights, values = (x.detach().requires_grad_() for x in ctx.saved_tensors)
            with torch.enable_grad():
                right.toeplitz_1d(weights, values).backward(grad)
            return weights.grad, -values.grad

    def product(weights, values):
        return Wrong.apply(weights, values)

    result = subquad.verify(product, "toeplitz_1d", array="torch", scalars=["float32"], folder=tmp_path)
    assert {failure.kind for failure in result.failures} == {"gradients", "gradients, pairs"}, str(result)
    assert "grad_values" in result.failures[0].worst.output
