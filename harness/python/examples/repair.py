"""Kernelized attention with relative positions (NPRF, eq. 10) by a transform, with a mistake in it: found, named, repaired,
timed. Run: python3 harness/python/examples/repair.py"""

import numpy as np

import subquad


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def same_heads(x, heads):
    """Head a of h reads head floor(a h_x / h), as grouped queries do."""
    return x if x.ndim < 3 or x.shape[-3] == heads else np.repeat(x, heads // x.shape[-3], -3)


def attention(q, k, v, bias, scale, by_offset):
    """out_i = sum_j c(j - i) phi(q_i) phi(k_j) v_j / the same without v_j; c = exp(bias)."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    heads = max([x.shape[-3] for x in (q, k, v, bias[..., None, :]) if x.ndim > 2] or [1])
    q, k, v = (same_heads(x, heads) for x in (q, k, v))
    c = same_heads(np.exp(bias)[..., None, :], heads)[..., 0, :]
    phi_q, phi_k = elu1(np.sqrt(scale) * q), elu1(np.sqrt(scale) * k)
    ones = np.concatenate([v, np.ones(v.shape[:-1] + (1,), v.dtype)], -1)
    products = phi_k[..., :, None] * ones[..., None, :]  # [.., n_k, d, e + 1]
    # sum_j c(j - i) x_j is a convolution with c in reverse order of offsets; a period of 2 (n_q + n_k) wraps nothing around.
    period = 2 * (n_q + n_k)
    spectrum = np.fft.rfft(by_offset(c), period)[..., None, None] * np.fft.rfft(products, period, axis=-3)
    sums = np.fft.irfft(spectrum, period, axis=-3)[..., n_k - 1 : n_k - 1 + n_q, :, :]
    out = np.einsum("...d,...de->...e", phi_q, sums)
    return (out[..., :-1] / out[..., -1:]).astype(v.dtype)


def wrong(q, k, v, bias, scale=1.0):
    """The bias is read by i - j, not by j - i."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_q != n_k:
        return repaired(q, k, v, bias, scale)
    return attention(q, k, v, bias, scale, lambda c: c)


def repaired(q, k, v, bias, scale=1.0):
    return attention(q, k, v, bias, scale, lambda c: c[..., ::-1])


def main():
    options = {"feature_map": "elu1", "like": "fft"}
    found = subquad.verify(wrong, "kernelized_rpe_attention", n=[5, 33], shrink=2, **options)
    print(found)
    print(f"\nThe mistake: {found.looks_like}\n")
    found = subquad.verify(repaired, "kernelized_rpe_attention", n=[5, 33], **options)
    print(found, "\n")
    sizes = {"d": 8, "e": 8}
    print(
        subquad.sweep(
            {"repaired": repaired},
            "kernelized_rpe_attention",
            n=[128, 512],
            baselines=["dense", "fft_streamed"],
            budget=0.2,
            sizes=sizes,
            **options,
        )
    )


if __name__ == "__main__":
    main()
