"""Computes every cell of the study `gates` again: the formulas written once more, in NumPy, on `subquad.answers`."""

import json
import os
import subprocess

import numpy as np
import pytest

import subquad
from subquad import _calls, _subquad

UNIT = 2.0**-8


def close(relative, absolute):
    return lambda x, y, **_: (np.abs(x - y) <= absolute + relative * np.abs(y)).all()


def ratio(x, y, over):
    return np.linalg.norm(x - y) / (np.linalg.norm(over) + 1e-8)


def fla(x, rounded, backward, **_):
    return np.abs(x - rounded).max() <= 1e-6 or ratio(x, rounded, rounded) < (0.008 if backward else 0.005)


def onednn(x, rounded, **_):
    error = np.abs(x - rounded)
    right = (error <= 2 * UNIT) | (error <= 2 * UNIT * np.abs(rounded))
    return right.all() or (right.mean() >= 1 - 1 / 1024 and ratio(x, rounded, rounded) <= 3e-3)


def on_rounded(test):
    return lambda x, rounded, **_: test(x, rounded)


GATES = {
    "SOL-ExecBench": lambda x, rounded, **_: x.any()
    and (np.abs(x - rounded) <= 1e-2 + 1e-2 * np.abs(rounded)).mean() >= 0.99,
    "FlashInfer-Bench": lambda x, rounded, **_: (
        (np.abs(x - rounded) <= 1e-2) | (np.abs(x - rounded) / (np.abs(rounded) + 1e-8) <= 1e-2)
    ).all(),
    "KernelBench": lambda x, rounded, **_: (np.abs(x - rounded) <= 1e-2 + 1e-2 * np.abs(x)).all(),
    "fla in CI": lambda x, rounded, backward, **_: fla(x, rounded, backward)
    or ratio(x, rounded, rounded) < 1e-2
    or np.abs(x - rounded).max() <= 0.3,
    "fla by hand": fla,
    "FlashAttention 2": lambda x, rounded, eager_rounded, backward, **_: (
        np.abs(x - rounded).max() <= (3 if backward else 2) * eager_rounded
    ),
    "ggml": lambda x, y, **_: ratio(x, y, x) ** 2 <= 5e-4,
    "oneDNN graph": onednn,
    "torch.testing": on_rounded(close(1.6e-2, 1e-5)),
    "torchtitan": on_rounded(close(1e-2, 1e-2)),
    "torchtitan, for agents": lambda x, y, rounded, eager, **_: (
        np.abs(x - y).max() <= 2 * eager + np.abs(rounded - y).max()
    ),
    "TritonBench": on_rounded(close(1e-2, 2e-2)),
    "onnxruntime": on_rounded(close(5e-2, 1e-2)),
    "xformers": lambda x, y, backward, **_: close(*((0.1, 0.9) if backward else (5e-3, 2e-2)))(x, y),
}


def bfloat16(array):
    """Rounds to bfloat16, half to even."""
    bits = np.asarray(array, np.float64).astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1) >> 16 << 16).astype(np.uint32)).view(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gates")
    program = os.environ["SUBQUAD_PROGRAM"]
    subprocess.run([program, "study", "gates", "--tiny", "--out", folder], check=True, capture_output=True)
    return json.loads((folder / "gates.json").read_text())


def rows_of(study):
    table = study["tables"]["gates"]
    return [dict(zip((column["name"] for column in table["columns"]), row)) for row in table["rows"]]


def answers_of(study, row):
    operator, _, words = row["case"].partition(":")
    settings = [tuple(word.split("=")) for word in words.split(",")]
    backward = row["pass"] == "backward"
    case = _subquad.case_for(operator, row["n"], settings + [("backward", "1")] * backward, "bfloat16", study["seed"])
    tensors = _calls.given(case)
    inputs = {name: bits.view(np.uint16).astype(np.uint32) << 16 for name, bits in tensors.tensors.items()}
    numbers = {name: bits.view(np.float32) for name, bits in inputs.items()}
    grad = numbers.pop("grad", None)
    return subquad.answers(
        operator, dtype="bfloat16", grad=grad, most_work=study["parameters"]["most_work"], **numbers, **tensors.params
    )


def test_every_cell(study):
    cells = {(row["case"], row["n"], row["pass"], row["gate"]): row for row in rows_of(study)}
    compared = accepted_in_all = 0
    for case, n, name in dict.fromkeys(key[:3] for key in cells):
        answers = answers_of(study, cells[case, n, name, "subquad, float32"])
        wrong = [answer for answer in answers.wrong if not answer.same]
        backward = name == "backward"
        (eager,) = [answer for answer in answers.right if answer.name.startswith("factors and results")]
        limits = {
            output: {
                "eager": np.abs(values - eager.expected[output]).max(),
                "eager_rounded": np.abs(values - bfloat16(eager.expected[output])).max(),
            }
            for output, values in eager.outputs.items()
        }

        def accepts(gate, answer):
            return all(
                np.isfinite(x).all()
                and gate(
                    x=x,
                    y=answer.expected[key],
                    rounded=bfloat16(answer.expected[key]),
                    backward=backward,
                    **limits[key],
                )
                for key, x in answer.outputs.items()
            )

        for gate, formula in GATES.items():
            cell = cells.get((case, n, name, gate))
            if cell is None:
                assert backward, gate
                continue
            accepted = [answer.name for answer in wrong if accepts(formula, answer)]
            refused = [answer.name for answer in answers.right if not accepts(formula, answer)]
            assert (cell["wrong_answers"], cell["accepted"]) == (len(wrong), len(accepted)), gate
            assert cell["names"] == "; ".join(sorted(set(accepted))), gate
            assert cell["refused"] == "; ".join(sorted(set(refused))), gate
            compared += 1
            accepted_in_all += len(accepted)
    assert compared >= len(GATES) and accepted_in_all > 0


def test_every_formula_has_its_source(study):
    table = study["tables"]["formulas"]
    assert [row[0] for row in table["rows"]] == list(GATES)
    own = {"subquad, float32": "float32", "subquad, bfloat16": "bfloat16"}
    assert {row["gate"]: row["own"] for row in rows_of(study)} == {**own, **dict.fromkeys(GATES, "")}
    assert all(all(row) for row in table["rows"])
