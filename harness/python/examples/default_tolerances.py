"""Tells which mistakes in attention the default tolerances of torch.testing.assert_close accept, by type: the table in
harness/python/README.md. Run: python harness/python/examples/default_tolerances.py"""

import numpy as np

import subquad

TYPES = ("float64", "float32", "float16", "bfloat16")
TOKENS, WIDTH = 192, 32
QUERIES = 160  # with a causal mask: as many queries as keys would hide a mask that is aligned at the last ones


def normal(draws, *shape):
    return draws.standard_normal(shape)


def problems():
    """Returns operators with their tensors and parameters, by their names in the table."""
    draws = np.random.default_rng(1)
    q, k, v = (normal(draws, 2, TOKENS, WIDTH) for _ in range(3))
    by_offset = normal(draws, 2, 2 * TOKENS - 1)
    softmax = {"q": q, "k": k, "v": v, "bias": by_offset}
    return {
        "`softmax_attention`": ("softmax_attention", softmax),
        "`softmax_attention`, gradients too": ("softmax_attention", {**softmax, "grad": normal(draws, *v.shape)}),
        "`linear_attention`": (
            "linear_attention",
            {"q": q[:, :QUERIES], "k": k, "v": v, "feature_map": "elu1", "causal": True},
        ),
        "`kernelized_rpe_attention`": ("kernelized_rpe_attention", {**softmax, "feature_map": "elu1"}),
        "`toeplitz_1d`": ("toeplitz_1d", {"weights": by_offset, "values": v}),
    }


def table(wanted=lambda name: True):
    """Returns the table of the problems that `wanted` selects, in Markdown."""
    lines = [
        "| operator | type | rtol, atol | accepted | mistakes accepted | error / tolerance of a correct program (`right`) |",
        "|---|---|---|---|---|---|",
    ]
    for name, (op, arguments) in problems().items():
        for dtype in TYPES if wanted(name) else ():
            power = subquad.power(op, dtype=dtype, advise=False, **arguments)
            count = f"{len(power.accepted)} of {len(power.accepted) + len(power.rejected)}"
            lines.append(
                f"| {name} | {dtype} | {power.rtol:.2g}, {power.atol:.2g} | {count} | {', '.join(power.accepted) or '–'} "
                f"| {power.right:.2g} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
