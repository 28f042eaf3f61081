"""Measures the power of a test: which wrong answers its tolerance would accept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from subquad import _calls, _report, _subquad

Array = NDArray[Any]

LISTED = 12  # the text lists at most this many accepted wrong answers; `accepted` has all of them


@dataclass(frozen=True)
class Advice:
    """The smallest change of a test after which it rejects every wrong answer, or as many as possible.

    changes: the changes in words; empty if no change that was tried helps.
    rtol, atol: the tolerance after the changes.
    still_accepted: wrong answers that the changed test still accepts.
    indistinguishable: wrong answers so close to the right one that even our gates accept them on the changed tensors.
    """

    changes: tuple[str, ...]
    rtol: float
    atol: float
    still_accepted: tuple[str, ...] = ()
    indistinguishable: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.changes:
            return "no change that was tried helps"
        text = "; ".join(self.changes)
        text += f": still accepts {', '.join(self.still_accepted)}" if self.still_accepted else ": rejects all of them"
        if self.indistinguishable:
            text += f" except {', '.join(self.indistinguishable)}, which no test in this type can distinguish"
        return text


@dataclass(frozen=True)
class Power(_report.Report):
    """The mistakes that the test `|x - y| <= atol + rtol |y|` accepts; true if there are none.

    accepted, rejected: each wrong answer with its largest error divided by the tolerance, which is at most 1 if it is accepted.
    ours: each wrong answer with its largest error divided by our tolerance, as `margin` of `check`.
    same: accepted wrong answers that equal the right answer on these tensors, to the last digit.
    hidden: those of `same` that the shapes hide from all values, each with shapes that would reveal it, in words.
    right: the error of a correct program divided by the tolerance; if it is above 1, the test rejects correct programs. The
        error is the plain program's largest error in this type; in 16-bit types it is at least one unit in the last place.
    advice: what to change; None if no change is needed.
    rows, all_rows: the number of rows compared. If only a sample was compared, the test may reject more than is shown.
    """

    format = "power/1"

    operator: str
    dtype: str
    rtol: float
    atol: float
    accepted: dict[str, float]
    rejected: dict[str, float]
    ours: dict[str, float]
    same: tuple[str, ...]
    hidden: dict[str, str]
    right: float
    advice: Advice | None
    rows: int
    all_rows: bool = field(default=True)

    @property
    def passed(self) -> bool:
        return not self.accepted and self.right <= 1

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        rows = "all rows" if self.all_rows else f"{self.rows} rows"
        lines = [
            f"{self.operator} {self.dtype}, rtol {self.rtol:.3g}, atol {self.atol:.3g} ({rows}): accepts "
            f"{len(self.accepted)} of {len(self.accepted) + len(self.rejected)} wrong answers"
        ]
        listed = [item for item in self.accepted.items() if item[0] not in self.hidden][:LISTED]
        nearest = sorted(self.rejected.items(), key=lambda item: item[1])[:3]
        width = max([len(name) for name, _ in listed + nearest] or [0])
        if listed or nearest:
            lines.append(f"  {'':8}  {'wrong answer':{width}}  error / tolerance  by our gates")
        for word, group in (("accepted", listed), ("rejected", nearest)):
            for name, over in group:
                note = "  (equals the right answer on these tensors)" if name in self.same else ""
                lines.append(f"  {word}  {name:{width}}  {over:17.3g}  {self.ours[name]:12.3g}{note}")
        further = [
            f"{count} more {word}"
            for count, word in (
                (len(self.accepted) - len(self.hidden) - len(listed), "accepted"),
                (len(self.rejected) - len(nearest), "rejected"),
            )
            if count
        ]
        if further:
            lines.append(f"  and {', '.join(further)}")
        by_shapes: dict[str, list[str]] = {}
        for name, shapes in self.hidden.items():
            by_shapes.setdefault(shapes, []).append(name)
        for shapes, names in by_shapes.items():
            lines.append(
                f"  hidden by the shapes: {', '.join(names)}; {shapes} would reveal {'it' if len(names) == 1 else 'them'}"
            )
        right = f"  a correct program: error {self.right:.3g} times the tolerance"
        lines.append(right + (": this test rejects correct programs" if self.right > 1 else ""))
        if self.advice:
            lines.append(f"  advice: {self.advice}")
        return "\n".join(lines)


def power(
    op: str,
    /,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    dtype: Any = None,
    grad: Any = None,
    advise: bool = True,
    **tensors: Any,
) -> Power:
    """Tells which wrong answers to `op` a test with this tolerance would accept on these tensors.

    rtol, atol: the test accepts x for y if |x - y| <= atol + rtol |y| everywhere, as numpy.allclose and
        torch.testing.assert_close do. Without them, the defaults of torch.testing.assert_close for the type are used.
    dtype: the type in which the test compares, such as "bfloat16" or torch.bfloat16; by default that of the first tensor.
    grad: the incoming gradient, of the shape of the output, if the test compares gradients too.
    advise: find the smallest change after which every wrong answer is rejected.
    tensors: inputs and parameters of the operator, by the names of `signature(op)`.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"rtol, atol: expected both or neither, found only {'atol' if rtol is None else 'rtol'}")
    params, arrays, scalar = _inputs_of(op, dtype, tensors)
    measured = _subquad.power(
        op,
        params,
        arrays,
        [] if grad is None else _calls.named_arrays({"grad": grad}),
        scalar,
        None if rtol is None else _number("rtol", rtol),
        None if atol is None else _number("atol", atol),
        advise,
    )
    return _power_of(op, scalar, measured)


@dataclass(frozen=True)
class Answer:
    """An answer to a problem, as a program would return it.

    name: the mistake, or the arithmetic of a right program.
    outputs: float64 arrays [rows, width] of numbers that the type of the test can hold.
    expected: the exact right answer on the same rows.
    same: the answer equals the right one to the last digit: these tensors hide the mistake.
    """

    name: str
    outputs: dict[str, Array]
    expected: dict[str, Array]
    same: bool


@dataclass(frozen=True)
class Answers:
    """What right and wrong programs answer, to test a test by.

    expected: the exact right answer, float64 arrays [rows, width] by output: all rows, or a sample of them.
    heads, rows: the head (counted over all leading axes) and the row within it of each row of `expected`.
    all_rows: whether these are all rows.
    right: answers of right programs. The first is computed pair by pair in the arithmetic of the type, float32 for 16-bit
        types. In these, two follow with sums in float32, unless they would take too long: one with factors of the type,
        as tensor cores compute, and one that also rounds every result to the type, as a program of several kernels does.
    wrong: answers of programs with a known mistake. A mistake may have several answers.
    """

    operator: str
    dtype: str
    expected: dict[str, Array]
    heads: dict[str, Array]
    rows: dict[str, Array]
    all_rows: bool
    right: tuple[Answer, ...]
    wrong: tuple[Answer, ...]

    def accepted(self, test: Callable[[Array, Array], bool]) -> list[str]:
        """Returns the mistakes that a test accepts. It is called with an output and the right answer, [rows, width]."""
        accepted = dict.fromkeys(answer.name for answer in self.wrong if _accepts(test, answer))
        return list(accepted)

    def refused(self, test: Callable[[Array, Array], bool]) -> list[str]:
        """Returns the right programs that a test refuses."""
        return [answer.name for answer in self.right if not _accepts(test, answer)]


def _accepts(test: Callable[[Array, Array], bool], answer: Answer) -> bool:
    return all(test(output, answer.expected[name]) for name, output in answer.outputs.items())


def answers(op: str, /, *, dtype: Any = None, grad: Any = None, most_work: float = 1e9, **tensors: Any) -> Answers:
    """Returns what right and wrong programs answer to `op` on these tensors, to find out which of them a test accepts.

    dtype: the type of the outputs, such as "bfloat16" or torch.bfloat16; by default that of the first tensor. The tensors
        are rounded to it first.
    grad: the incoming gradient, of the shape of the output. With it, the outputs are the gradients.
    most_work: about how many multiply-adds all answers may cost together. If all rows would cost more, some are sampled.
    tensors: inputs and parameters of the operator, by the names of `signature(op)`.

    For a test by a formula of your own; `power` answers for allclose:
        def cosine(out, expected):
            return (out * expected).sum() / (numpy.linalg.norm(out) * numpy.linalg.norm(expected)) > 0.99
        subquad.answers("softmax_attention", q=q, k=k, v=v).accepted(cosine)
    """
    params, arrays, scalar = _inputs_of(op, dtype, tensors)
    incoming = [] if grad is None else _calls.named_arrays({"grad": grad})
    listed = _subquad.answers(op, params, arrays, incoming, scalar, _number("most_work", most_work))
    expected = {part.output: part.values for part in listed.expected}

    def answer_of(one: _subquad.ListedAnswer) -> Answer:
        outputs = {part.output: part for part in one.outputs}
        return Answer(
            name=one.name,
            outputs={name: part.values for name, part in outputs.items()},
            expected={name: expected[name][part.rows] for name, part in outputs.items()},
            same=one.same,
        )

    return Answers(
        operator=op,
        dtype=scalar,
        expected=expected,
        heads={name: heads for name, (heads, _) in zip(expected, listed.sampled)},
        rows={name: rows for name, (_, rows) in zip(expected, listed.sampled)},
        all_rows=listed.all_rows,
        right=tuple(map(answer_of, listed.right)),
        wrong=tuple(map(answer_of, listed.wrong)),
    )


def _inputs_of(op: str, dtype: Any, tensors: dict[str, Any]) -> tuple[dict[str, Any], list[Any], str]:
    """Returns the parameters, the inputs and the type of the test. Raises ValueError for outputs."""
    if "out" in tensors or "grads" in tensors:
        raise ValueError("out: unexpected argument; right and wrong outputs are computed here, from the inputs")
    params, inputs = _calls.split(op, tensors)
    if not inputs:
        raise ValueError(f"tensors: expected the inputs in signature({op!r}), found none")
    arrays = _calls.named_inputs(op, inputs)
    return params, arrays, arrays[0][2] if dtype is None else _type_name(dtype)


def _type_name(dtype: Any) -> str:
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rsplit(".", 1)[-1]
    types = ("float64", "float32", *_calls.NARROW)
    if name not in types:
        raise ValueError(f"dtype: expected one of {', '.join(types)}, found {name}")
    return name


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a number, found {type(value).__name__}") from None
    if not number >= 0 or math.isinf(number):
        raise ValueError(f"{name}: expected a finite number of at least 0, found {number}")
    return number


def _power_of(op: str, scalar: str, measured: _subquad.MeasuredPower) -> Power:
    parts = {"": measured.out}
    if measured.gradients is not None:
        parts["gradients: "] = measured.gradients
    tried = [(prefix + answer.name, answer) for prefix, part in parts.items() for answer in part.tried]
    accepted = {name: answer.over for name, answer in tried if answer.over <= 1}
    advice = None
    right = max(part.right for part in parts.values())
    advised = measured.advice
    hidden = {name: answer.revealing_shapes for name, answer in tried if name in accepted and answer.revealing_shapes}
    if advised is not None and (len(hidden) < len(accepted) or right > 1):
        advice = Advice(
            changes=tuple(advised.changes),
            rtol=advised.rtol,
            atol=advised.atol,
            still_accepted=tuple(advised.still_accepted),
            indistinguishable=tuple(advised.indistinguishable),
        )
    return Power(
        operator=op,
        dtype=scalar,
        rtol=measured.rtol,
        atol=measured.atol,
        accepted=accepted,
        rejected={name: answer.over for name, answer in tried if answer.over > 1},
        ours={name: answer.ours for name, answer in tried},
        same=tuple(name for name, answer in tried if answer.same),
        hidden=hidden,
        right=right,
        advice=advice,
        rows=sum(part.rows for part in parts.values()),
        all_rows=all(part.all_rows for part in parts.values()),
    )
