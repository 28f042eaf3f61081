"""Operators in plain NumPy: right programs for the tests of `sweep`, by name in PROGRAMS."""

import numpy as np


def softmax_attention(q, k, v, causal=False, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(scale or 1 / np.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def linear_attention(q, k, v):
    left, right = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    return left @ (np.swapaxes(right, -1, -2) @ v) / (left @ right.sum(-2)[..., None])


def toeplitz_1d(weights, values):
    n = values.shape[-2]
    return weights[np.arange(n)[None] - np.arange(n)[:, None] + n - 1] @ values


PROGRAMS = {program.__name__: program for program in (softmax_attention, linear_attention, toeplitz_1d)}
