"""Tests an attention function. Run: pytest harness/python/examples/attention_test.py"""

import numpy as np

from subquad.testing import assert_correct


def attention(q, k, v, causal=False):  # replace this by your function
    heads = max([x.shape[-3] for x in (q, k, v) if x.ndim > 2] or [1])
    k, v = (x if x.ndim < 3 or x.shape[-3] == heads else np.repeat(x, heads // x.shape[-3], -3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def test_one_output():
    q, k, v = np.random.default_rng(1).standard_normal((3, 4, 100, 16)).astype(np.float32)  # [heads, tokens, width]
    assert_correct("softmax_attention", out=attention(q, k, v, causal=True), q=q, k=k, v=v, causal=True)


def test_the_function():
    assert_correct(attention, "softmax_attention", causal=True)
