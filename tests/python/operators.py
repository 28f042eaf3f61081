"""Our operators reimplemented in PyTorch, correctly and with ten mistakes, as functions for tests of `verify`."""

import math

import torch


def grouped(x, heads):
    """Expands tensors with fewer heads than the output: head a of h reads head floor(a h_t / h)."""
    if x.dim() < 3 or x.shape[-3] == heads:
        return x
    return x.repeat_interleave(heads // x.shape[-3], -3)


def heads_of(*tensors):
    return max(x.shape[-3] if x.dim() >= 3 else 1 for x in tensors)


def offsets(n_q, n_k):
    """Returns j - i as indices into a vector by offset."""
    return torch.arange(n_k)[None] - torch.arange(n_q)[:, None] + n_q - 1


def by_offset(vector, n_q, n_k):
    """Expands [.., n_q + n_k - 1] to [.., n_q, n_k]; a vector of one head has an axis fewer than q."""
    return vector[..., offsets(n_q, n_k)]


def attend(q, k, v, scores, causal, mask_from=1):
    n_q, n_k = scores.shape[-2:]
    if causal:
        hidden = torch.ones(n_q, n_k, dtype=torch.bool).triu(mask_from)
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ v


def softmax_attention(q, k, v, bias=None, scale=None, causal=False):
    heads = heads_of(q, k, v, *([] if bias is None else [bias[..., None, :]]))
    k, v = grouped(k, heads), grouped(v, heads)
    scores = (q if q.dim() > 2 else q) @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        full = by_offset(bias, q.shape[-2], k.shape[-2])
        scores = scores + (grouped(full, heads) if full.dim() > 2 else full)
    return attend(q, k, v, scores, causal)


def elu1(x):
    # In 16-bit types, elu(x) + 1 would be 0 for x below -6.
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def linear_attention(q, k, v, scale=1.0, causal=False):
    heads = heads_of(q, k, v)
    k, v = grouped(k, heads), grouped(v, heads)
    root = math.sqrt(scale)
    weights = elu1(root * q) @ elu1(root * k).mT
    if causal:
        weights = weights.tril()
    return weights @ v / weights.sum(-1, keepdim=True)


def same_heads(weights, values):
    heads = heads_of(weights[..., None, :], values)
    return grouped(weights[..., None, :], heads)[..., 0, :], grouped(values, heads)


def toeplitz_1d(weights, values, causal=False):
    weights, values = same_heads(weights, values)
    n = values.shape[-2]
    matrix = by_offset(weights, weights.shape[-1] + 1 - n, n)
    if causal:
        matrix = matrix.tril()
    return matrix @ values


def toeplitz_fft(weights, values, causal=False, period=None):
    """Computes the product by a transform; a `period` of n wraps around."""
    weights, values = same_heads(weights, values)
    n_k = values.shape[-2]
    n_q = weights.shape[-1] + 1 - n_k
    kept = weights
    if causal:
        kept = torch.where(torch.arange(weights.shape[-1]) <= n_q - 1, weights, torch.zeros_like(weights))
    if period is None:
        full = torch.fft.irfft(
            torch.fft.rfft(kept.flip(-1), 2 * (n_q + n_k))[..., None] * torch.fft.rfft(values, 2 * (n_q + n_k), dim=-2),
            2 * (n_q + n_k),
            dim=-2,
        )
        return full[..., n_k - 1 : n_k - 1 + n_q, :]
    # On a circle of n, offsets d and d - n coincide.
    lags = torch.zeros(weights.shape[:-1] + (period,))
    for place in range(weights.shape[-1]):
        lags[..., (n_q - 1 - place) % period] += kept[..., place]
    spectrum = torch.fft.rfft(lags)[..., None] * torch.fft.rfft(values, period, dim=-2)
    return torch.fft.irfft(spectrum, period, dim=-2)[..., :n_q, :]
