"""Whether a test of somebody's own could fail: which wrong answers its tolerance takes for right."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from subquad import _arrays, _calls, _subquad

LISTED = 12  # wrong answers that are accepted, in a text; all are in `accepted`


@dataclass(frozen=True)
class Advice:
    """The smallest change to a test after which it refuses every wrong answer.

    changes: what to change, in words; empty where nothing of what was tried helps.
    rtol, atol: the tolerance after them.
    still_accepted: the wrong answers that are accepted all the same.
    nobody_tells: those that are too near to the right answer for our gates too, on the changed tensors.
    """

    changes: tuple[str, ...]
    rtol: float
    atol: float
    still_accepted: tuple[str, ...] = ()
    nobody_tells: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.changes:
            return "none of the changes that were tried helps"
        text = "; ".join(self.changes)
        text += f": leaves {', '.join(self.still_accepted)}" if self.still_accepted else ": refuses all of them"
        if self.nobody_tells:
            text += f" but {', '.join(self.nobody_tells)}, which no test of this type can tell"
        return text


@dataclass(frozen=True)
class Power:
    """What the test `|x - y| <= atol + rtol |y|` can see; true where it accepts no wrong answer.

    accepted, rejected: wrong answers, each with its largest error over the tolerance: up to 1, and above.
    ours: how many of our tolerances each of them is away, as `margin` of `check`.
    same: those of `accepted` that are the right answer on these tensors, to the last digit.
    right: the largest error over the tolerance of the plain program in this type, in two bytes at least a unit in the last place;
        above 1 the test refuses what is right.
    advice: what to change; None where nothing needs to.
    rows, all_rows: how many rows of outputs were compared. Of a sample, more may be rejected than is seen.
    """

    operator: str
    dtype: str
    rtol: float
    atol: float
    accepted: dict[str, float]
    rejected: dict[str, float]
    ours: dict[str, float]
    same: tuple[str, ...]
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
        listed = list(self.accepted.items())[:LISTED]
        nearest = sorted(self.rejected.items(), key=lambda one: one[1])[:3]
        width = max([len(name) for name, _ in listed + nearest] or [0])
        if listed or nearest:
            lines.append(f"  {'':8}  {'wrong answer':{width}}  error / tolerance  by our gates")
        for word, group in (("accepted", listed), ("rejected", nearest)):
            for name, over in group:
                note = "  (the right answer, on these tensors)" if name in self.same else ""
                lines.append(f"  {word}  {name:{width}}  {over:17.3g}  {self.ours[name]:12.3g}{note}")
        further = [
            f"{count} further ones {word}"
            for count, word in (
                (len(self.accepted) - len(listed), "accepted"),
                (len(self.rejected) - len(nearest), "rejected"),
            )
            if count
        ]
        if further:
            lines.append(f"  and {', '.join(further)}")
        right = f"  a right program: {self.right:.3g} of the tolerance"
        lines.append(right + (": the test refuses what is right" if self.right > 1 else ""))
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
    """Which wrong answers to `op` a test with this tolerance, on these tensors, would take for right.

    rtol, atol: the test accepts x for y where |x - y| <= atol + rtol |y| everywhere, as numpy.allclose and
        torch.testing.assert_close do. With neither it is that of torch.testing.assert_close's defaults for the type.
    dtype: the type in which the test compares, such as "bfloat16" or torch.bfloat16; left out, that of the first tensor.
    grad: the gradient that comes in, of the shape of the output, where the test compares gradients too.
    advise: look for the smallest change after which every wrong answer is rejected.
    tensors: inputs and parameters of the operator, by the names of `signature(op)`.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol, atol: expected both or neither, found one of them")
    params, inputs = _calls.split(op, tensors)
    if not inputs:
        raise ValueError("tensors: expected those of signature(op), found none")
    given = _calls.given_list(inputs)
    scalar = given[0][2] if dtype is None else _type_name(dtype)
    raw = _subquad.power(
        op,
        params,
        given,
        [] if grad is None else _calls.given_list({"grad": grad}),
        scalar,
        -1.0 if rtol is None else _number("rtol", rtol),
        -1.0 if atol is None else _number("atol", atol),
        advise,
    )
    return _power_of(op, scalar, raw)


def _type_name(dtype: Any) -> str:
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.rsplit(".", 1)[-1]


def _number(name: str, value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a number, found {type(value).__name__}") from None
    if not found >= 0 or math.isinf(found):
        raise ValueError(f"{name}: expected a finite number from 0, found {found}")
    return found


def _power_of(op: str, scalar: str, raw: dict) -> Power:
    parts = {"": raw["out"]}
    if "gradients" in raw:
        parts["gradients: "] = raw["gradients"]
    tried = [(prefix + name, *rest) for prefix, part in parts.items() for name, *rest in part["tried"]]
    accepted = {name: over for name, over, _, _ in tried if over <= 1}
    advice = None
    right = max(part["right"] for part in parts.values())
    if "advice" in raw and (accepted or right > 1):
        one = raw["advice"]
        advice = Advice(
            changes=tuple(one["changes"]),
            rtol=one["rtol"],
            atol=one["atol"],
            still_accepted=tuple(one["still_accepted"]),
            nobody_tells=tuple(one["nobody_tells"]),
        )
    return Power(
        operator=op,
        dtype=scalar,
        rtol=raw["rtol"],
        atol=raw["atol"],
        accepted=accepted,
        rejected={name: over for name, over, _, _ in tried if over > 1},
        ours={name: ours for name, _, ours, _ in tried},
        same=tuple(name for name, _, _, same in tried if same),
        right=right,
        advice=advice,
        rows=sum(part["rows"] for part in parts.values()),
        all_rows=all(part["all_rows"] for part in parts.values()),
    )
