"""Computes kernelized attention with relative positions (NPRF, eq. 10) by FFT, with a mistake, which `verify` finds and names.
Then repairs it and times the result. Run: python3 harness/python/examples/repair.py"""

import numpy as np

import subquad


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def same_heads(x, heads):
    """Repeats the heads of x for grouped queries: head a of h reads head floor(a h_x / h)."""
    return x if x.ndim < 3 or x.shape[-3] == heads else np.repeat(x, heads // x.shape[-3], -3)


def attention(q, k, v, bias, scale, by_offset):
    """Computes out_i = sum_j c(j - i) phi(q_i) phi(k_j) v_j / sum_j c(j - i) phi(q_i) phi(k_j), c = exp(bias)."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    heads = max([x.shape[-3] for x in (q, k, v, bias[..., None, :]) if x.ndim > 2] or [1])
    q, k, v = (same_heads(x, heads) for x in (q, k, v))
    c = same_heads(np.exp(bias)[..., None, :], heads)[..., 0, :]
    phi_q, phi_k = elu1(np.sqrt(scale) * q), elu1(np.sqrt(scale) * k)
    ones = np.concatenate([v, np.ones(v.shape[:-1] + (1,), v.dtype)], -1)
    products = phi_k[..., :, None] * ones[..., None, :]  # [.., n_k, d, e + 1]
    # sum_j c(j - i) x_j is a convolution with c in reverse order; a period of 2 (n_q + n_k) avoids wrap-around.
    period = 2 * (n_q + n_k)
    spectrum = np.fft.rfft(by_offset(c), period)[..., None, None] * np.fft.rfft(products, period, axis=-3)
    sums = np.fft.irfft(spectrum, period, axis=-3)[..., n_k - 1 : n_k - 1 + n_q, :, :]
    out = np.einsum("...d,...de->...e", phi_q, sums)
    return (out[..., :-1] / out[..., -1:]).astype(v.dtype)


def wrong(q, k, v, bias, scale=1.0):
    """Reads the bias by i - j instead of j - i."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_q != n_k:
        return repaired(q, k, v, bias, scale)
    return attention(q, k, v, bias, scale, lambda c: c)


def repaired(q, k, v, bias, scale=1.0):
    return attention(q, k, v, bias, scale, lambda c: c[..., ::-1])


def main():
    options = {"feature_map": "elu1", "like": "fft_streamed"}
    verification = subquad.verify(wrong, "kernelized_rpe_attention", n=[5, 33], shrink=2, **options)
    print(verification)
    print(f"\nThe mistake: {verification.looks_like}\n")
    print(subquad.verify(repaired, "kernelized_rpe_attention", n=[5, 33], **options), "\n")
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
