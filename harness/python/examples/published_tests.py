"""Rebuilds four published tests of attention kernels from their descriptions and lists the mistakes that each accepts.
Run: python harness/python/examples/published_tests.py

Where the published sizes take long, these are smaller: fewer heads, in the same groups."""

import inspect

import numpy as np

import subquad

BFLOAT16 = "bfloat16"


def uniform(draws, *shape, low=0.0, high=1.0):
    return draws.uniform(low, high, shape).astype(np.float32)


def normal(draws, *shape):
    return draws.standard_normal(shape).astype(np.float32)


def narrow_values():
    """https://github.com/Xilinx/mlir-air/issues/1427: a causal kernel passed although its output was unrelated to the right
    one. Inputs in [0.5, 1], atol 0.5, rtol 0.2, 2048 tokens of width 64, four query heads for each key head."""
    draws = np.random.default_rng(1)
    q, k, v = (uniform(draws, heads, 2048, 64, low=0.5) for heads in (4, 1, 1))
    return subquad.power("softmax_attention", rtol=0.2, atol=0.5, dtype=BFLOAT16, q=q, k=k, v=v, causal=True)


def gradients_of_a_mean():
    """https://github.com/aqlaboratory/openfold-3/pull/258: the loss is the mean of the output, so that gradients are smaller
    than the tolerance. float32, four heads of 200 tokens of width 32; the mean is over an output of 2 x 18 x 200 x 32. The
    tests of OpenFold on which these are based use atol 5e-4. The pair bias of standard deviation 0.1 is here a bias by
    offset."""
    draws = np.random.default_rng(2)
    q, k, v = (normal(draws, 4, 200, 32) for _ in range(3))
    bias = 0.1 * normal(draws, 4, 399)
    grad = np.full_like(v, 1 / (2 * 18 * 200 * 32))
    return subquad.power("softmax_attention", rtol=0.0, atol=5e-4, q=q, k=k, v=v, bias=bias, grad=grad)


def bias_of_zeros():
    """https://github.com/microsoft/onnxruntime/pull/29525: the attention bias was torch.zeros, until a reviewer asked for
    random numbers, so that a kernel that ignores it fails. float16, width 128, grouped heads, PyTorch's tolerance."""
    draws = np.random.default_rng(3)
    q, k, v = (normal(draws, heads, 240, 128) for heads in (6, 3, 3))
    bias = np.zeros(479, np.float32)
    return subquad.power("softmax_attention", dtype="float16", q=q, k=k, v=v, bias=bias, causal=True)


def one_unit_in_the_last_place(atol):
    """https://github.com/sgl-project/sgl-kernel-xpu/pull/470: a relative bias of zeros is compared with no bias, in bfloat16.
    One element of 264,192 differed by one unit in the last place, and atol was raised from 5e-4 to 1e-3. These 16 heads of
    129 tokens of width 128 have as many elements. Values are small, so that outputs are below 0.25, where a unit in the last
    place is 0.00098, as it was for that element."""
    draws = np.random.default_rng(4)
    q, k, v = (normal(draws, 16, 129, 128) for _ in range(3))
    v *= 0.2
    bias = np.zeros(257, np.float32)
    return subquad.power("softmax_attention", rtol=0.0, atol=atol, dtype=BFLOAT16, q=q, k=k, v=v, bias=bias)


def main():
    tests = (
        (narrow_values, {}),
        (gradients_of_a_mean, {}),
        (bias_of_zeros, {}),
        (one_unit_in_the_last_place, {"atol": 5e-4}),
        (one_unit_in_the_last_place, {"atol": 1e-3}),
    )
    for test, options in tests:
        print(inspect.cleandoc(test.__doc__), test(**options), "", sep="\n")


if __name__ == "__main__":
    main()
