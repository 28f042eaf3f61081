"""Makes the cases under tests/cases, from the formulas alone, for properties that the cases under tests/golden do not
cover.

It shares no code with the program: plain sums in NumPy's long double, rounded to float64 at the end.

    python3 tests/make_cases.py        rewrites tests/cases (the numbers are the same on every run)
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reports.case import write_case  # noqa: E402

EXACT = np.longdouble
PI = EXACT("3.14159265358979323846264338327950288")


def draw(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def linear(q, k, v, causal):
    weights = elu1(q) @ elu1(k).T
    if causal:
        weights = np.tril(weights)
    return weights @ v / weights.sum(axis=1, keepdims=True)


def fastrpb_image(rng):
    height, width, d, e = 4, 6, 5, 3
    n = height * width
    inputs = {name: draw(rng, n, e if name == "v" else d) for name in ("q", "k", "v")}
    inputs["weights_rows"], inputs["weights_cols"] = draw(rng, 2 * height - 1), draw(rng, 2 * width - 1)
    x = {name: array.astype(EXACT) for name, array in inputs.items()}
    out = softmax(x["q"] @ x["k"].T / np.sqrt(EXACT(d))) @ x["v"]
    for i in range(n):
        for j in range(n):
            row, column = j // width - i // width, j % width - i % width
            out[i] += (x["weights_rows"][row + height - 1] + x["weights_cols"][column + width - 1]) * x["v"][j]
    write_case(
        HERE / "cases" / "fastrpb_attention-softmax-2d",
        "fastrpb_attention",
        inputs,
        {"out": out.astype(np.float64)},
        {"attention": "softmax", "causal": False, "height": height, "width": width},
        "FastRPB eq. 10, section 3.2.2",
        overwrite=True,
    )


def stochastic(rng, kind):
    n, d, e, draws, steps = 29, 4, 3, 10, 3
    inputs = {name: draw(rng, n, e if name == "v" else d) for name in ("q", "k", "v")}
    if kind == "sine":
        for name in ("freqs", "phases", "gains"):
            inputs[name] = draw(rng, d, steps)
        inputs["z"] = draw(rng, d, 2 * steps, draws)
    else:
        inputs["filters_q"], inputs["filters_k"] = draw(rng, d, steps), draw(rng, d, steps)
        inputs["z"] = draw(rng, d, n + steps - 1, draws)
    x = {name: array.astype(EXACT) for name, array in inputs.items()}

    def noise(a, i, query):
        if kind == "conv":
            taps = x["filters_q" if query else "filters_k"][a]
            return sum(taps[p] * x["z"][a, i + p] for p in range(steps))
        total = np.zeros(draws, EXACT)
        for c in range(steps):
            angle = 2 * PI * x["freqs"][a, c] * i + (x["phases"][a, c] if query else 0)
            total += x["gains"][a, c] * (np.cos(angle) * x["z"][a, 2 * c] + np.sin(angle) * x["z"][a, 2 * c + 1])
        return total

    def noisy(name):
        return np.array([sum(x[name][i, a] * noise(a, i, name == "q") for a in range(d)) for i in range(n)]) / np.sqrt(
            EXACT(draws)
        )

    out = linear(noisy("q"), noisy("k"), x["v"], causal=True)
    write_case(
        HERE / "cases" / f"stochastic_position_attention-{kind}-causal",
        "stochastic_position_attention",
        inputs,
        {"out": out.astype(np.float64)},
        {"kind": kind, "attention": "linear", "feature_map": "elu1", "causal": True},
        "FastRPB eq. 8",
        overwrite=True,
    )


if __name__ == "__main__":
    fastrpb_image(np.random.Generator(np.random.Philox(1)))
    stochastic(np.random.Generator(np.random.Philox(2)), "sine")
    stochastic(np.random.Generator(np.random.Philox(3)), "conv")
