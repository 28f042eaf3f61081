"""Single calls: an output judged, the definition evaluated, one of our programs run, cases on disk."""

from __future__ import annotations

import functools
import json
import math
import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from subquad import _arrays, _subquad

NARROW = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # types of two bytes, and what rounding to them costs


@dataclass(frozen=True)
class Worst:
    """The element of an output with the largest error over its tolerance."""

    output: str
    batch: int
    head: int
    row: int
    element: int
    expected: float
    found: float

    def __str__(self) -> str:
        return (
            f"{self.output}: batch {self.batch}, head {self.head}, row {self.row}, element {self.element}: "
            f"expected {self.expected:.9g}, found {self.found:.9g}"
        )


@dataclass(frozen=True)
class Check:
    """A verdict; true where it is `passed`.

    error, bound: the largest error, and the tolerance of the gate that decided, at the element nearest to failing.
    margin, nearest: how many tolerances away the nearest wrong answer is, and which it is.
    blind_to: of an output that passed, the wrong answers that would have passed too, the nearest first: on these tensors they
        cannot be told from the right answer.
    looks_like: of an output that failed, the wrong answer that it resembles, or None: it is like none of known_mistakes.
    wrong_share, where: of an output that failed, the share of elements beyond their tolerance, and where they are.
    arithmetic: of an output of two bytes, that whose errors it was held against: float32, or its own type.
    parts: of a check of outputs and gradients, the verdict on each.
    """

    operator: str
    verdict: str
    reason: str
    error: float
    bound: float
    margin: float
    nearest: str
    worst: Worst | None
    scalar: str
    rows: int
    all_rows: bool
    gate: int
    arithmetic: str = ""
    gates: str = ""
    error_over_bound: float = math.nan
    error_over_plain: float = math.nan
    blind_to: list[str] = field(default_factory=list)
    remedies: dict[str, str] = field(default_factory=dict)
    looks_like: str | None = None
    known_mistakes: int = 0
    wrong_share: float = 0.0
    where: list[str] = field(default_factory=list)
    parts: dict[str, Check] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"

    @property
    def over_tolerance(self) -> float:
        """error / bound."""
        return self.error / self.bound if self.bound > 0 else self.error_over_bound

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        rows = "all rows" if self.all_rows else f"{self.rows} rows"
        text = (
            f"{self.operator} {self.scalar}: {self.verdict}, error {self.error:.3e}, tolerance {self.bound:.3e} ({rows}"
        )
        if math.isfinite(self.margin):
            text += f", gate {self.gate}, margin {self.margin:.3g}: {self.nearest}"
        text += ")"
        if self.passed and self.arithmetic == self.scalar:
            text += f"\n  as arithmetic in {self.scalar}: not as near as float32 stored in it would be"
        if self.reason:
            text += f"\n  {self.reason}"
        if self.where:
            text += f"\n  {100 * self.wrong_share:.3g} % of elements are wrong: {'; '.join(self.where)}"
        if not self.passed and self.worst:
            text += f"\n  worst at {self.worst}" + (" (by gate 1)" if self.gate == 2 else "")
        if self.passed and self.blind_to:
            text += f"\n  passed, blind to: {', '.join(self.blind_to)}"
            for remedy in dict.fromkeys(self.remedies[name] for name in self.blind_to if self.remedies.get(name)):
                text += f"\n  {remedy} would show more"
        if self.looks_like:
            text += f"\n  looks like: {self.looks_like}"
        elif self.known_mistakes:
            text += f"\n  like none of {self.known_mistakes} known mistakes"
        return text


class Case(dict):
    """A case folder: operator, params, inputs, expected, expected_error, source; as keys and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def operators() -> list[str]:
    """The names of all operators."""
    return list(_subquad.operators())


@functools.lru_cache(maxsize=None)
def listing(op: str) -> dict:
    """What `subquad list --json` says of an operator."""
    if not isinstance(op, str):
        raise ValueError(f"operator: expected one of {', '.join(operators())}; found {type(op).__name__}")
    found = json.loads(_subquad.listing(op))
    return found[0] if isinstance(found, list) else found


def signature(op: str) -> dict[str, Any]:
    """What an operator takes and gives: a dict with formula, source, inputs, params, outputs, sizes, implementations.

    Each of the last five is a dict by name. An input or output has its shape in terms of the sizes, without the leading axes
    (batch, heads); `required`; and `when`, the parameters with which it is there. Where the shape depends on a parameter,
    `variants` has all of them. A parameter has type, default, meaning, and its choices or range.
    """
    found = json.loads(json.dumps(listing(op)))
    result = {key: found[key] for key in ("operator", "formula", "source")}
    for key in ("inputs", "params", "outputs", "sizes"):
        result[key] = _by_name(found[key], "name")
    result["implementations"] = _by_name(found["implementations"], "implementation")
    return result


def _by_name(entries: list[dict], key: str) -> dict[str, dict]:
    groups: dict[str, list[dict]] = {}
    for entry in entries:
        groups.setdefault(entry[key], []).append({name: value for name, value in entry.items() if name != key})
    return {name: group[0] if len(group) == 1 else {**group[0], "variants": group} for name, group in groups.items()}


def split(op: str, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments as (params, tensors). None stands for an argument that was not given."""
    names = {rule["name"] for rule in listing(op)["params"]}
    params, tensors = {}, {}
    for name, value in values.items():
        if value is None:
            continue
        if name in names or not (_arrays.is_array(value) or isinstance(value, (list, tuple))):
            params[name] = plain(value)
        else:
            tensors[name] = value
    return params, tensors


def plain(value: Any) -> Any:
    """A parameter's value without NumPy: True, 12, 0.25, "elu1", [0, 5]."""
    if _arrays.is_array(value):
        return np.asarray(value).tolist()
    return list(value) if isinstance(value, tuple) else value


def given_list(tensors: dict[str, Any]) -> list:
    return [_arrays.given(name, value) for name, value in tensors.items()]


def check(
    op: str,
    /,
    out: Any = None,
    *,
    grad: Any = None,
    grads: dict[str, Any] | None = None,
    expected_error: float = 0.0,
    arithmetic: str | None = None,
    **tensors: Any,
) -> Check:
    """Whether an output is what the definition of `op` gives on these tensors.

    out: the output, or a dict of outputs; shape and type as the program computed it. It is judged as the output of a program
        in that type: float32 by the error that a float32 program may have, float64 as one in float64.
    grad, grads: the gradient that came in, of the shape of `out`, and those that went out, by the names of the inputs:
        {"q": dq, "bias": db}.
    expected_error: how far each number of `out` may be off beside that, in units of the largest magnitude of its tensor.
    arithmetic: of an output in bfloat16 or float16. "float32": computed in it, stored in two bytes. None: where it is not
        that near it may be the answer of arithmetic in its own type, whose errors are larger; `arithmetic` of the verdict
        says which it was held against, and `blind_to` what that hides.
    tensors: inputs and parameters of the operator, by the names of `signature(op)`.
    """
    params, inputs = split(op, tensors)
    parts = {}
    if out is not None:
        outputs = out if isinstance(out, dict) else {"out": out}
        parts["out"] = _check_one(op, params, inputs, outputs, expected_error, arithmetic)
    if grads is not None or grad is not None:
        if grad is None or not grads:
            raise ValueError("gradients: expected grad (what came in) and grads (what went out), found one of them")
        named = {name if name.startswith("grad_") else f"grad_{name}": value for name, value in grads.items()}
        parts["grads"] = _check_one(op, params, {**inputs, "grad": grad}, named, expected_error, arithmetic)
    if not parts:
        raise ValueError("out: expected an array, found none")
    found = list(parts.values())
    if len(found) == 1:
        return found[0]
    order = {"failed": 0, "mistrusted": 1, "skipped": 2, "passed": 3}
    worst = min(found, key=lambda one: (order[one.verdict], -one.error_over_bound))
    return Check(**{**worst.__dict__, "parts": parts})


def _check_one(
    op: str, params: dict, inputs: dict, outputs: dict, expected_error: float, arithmetic: str | None
) -> Check:
    arrays, given = given_list(inputs), given_list(outputs)
    scalars = {scalar for _, _, scalar in given}
    narrow = next((scalar for scalar in NARROW if scalar in scalars), None)
    if narrow is None:
        raw = _subquad.check(op, params, arrays, given, float(expected_error))
        return check_of(op, raw, "float32" if "float32" in scalars else "float64")
    errors = {"float32": float(expected_error), narrow: max(float(expected_error), own_error(narrow, "grad" in inputs))}
    if arithmetic not in (None, *errors):
        raise ValueError(f"arithmetic: expected float32 or {narrow} for an output in {narrow}, found {arithmetic!r}")
    found = {}
    for kind, error in errors.items():
        if arithmetic in (None, kind):
            raw = _subquad.judge(op, params, arrays, given, error, narrow, "", False)
            found[kind] = replace(check_of(op, raw, narrow), arithmetic=kind)
            if found[kind].verdict != "failed":
                return found[kind]
    return next(iter(found.values()))


def own_error(narrow: str, backward: bool) -> float:
    """What arithmetic in a type of two bytes costs, every intermediate number rounded to it: a few roundings of the largest,
    of gradients those of the forward pass as well."""
    return (8 if backward else 4) * NARROW[narrow]


def check_of(op: str, raw: dict, scalar: str) -> Check:
    """The module's answer as a Check."""
    return Check(
        operator=op,
        verdict=raw["verdict"],
        reason=raw["reason"],
        error=raw["error"],
        bound=raw["bound"],
        margin=raw["margin"],
        nearest=raw["nearest"],
        worst=Worst(**raw["worst"]) if raw["worst"] else None,
        scalar=scalar,
        rows=raw["rows"],
        all_rows=raw["all_rows"],
        gate=raw["gate"],
        gates=raw["gates"],
        error_over_bound=raw["error_over_bound"],
        error_over_plain=raw["error_over_plain"],
        blind_to=[name for name, _, _ in raw["blind_to"]],
        remedies={name: remedy for name, _, remedy in raw["blind_to"]},
        looks_like=raw["looks_like"] or None,
        known_mistakes=raw["known_mistakes"],
        wrong_share=raw["wrong_share"],
        where=raw["where"],
    )


def reference(op: str, /, *, rows: list[int] | None = None, **tensors: Any) -> Any:
    """The definition in higher precision, rounded to float64: a NumPy array, or a dict of them where there are several outputs.

    rows: which rows (queries) of each head; all of them where it is left out. The other axes stay as they are.
    """
    params, inputs = split(op, tensors)
    if rows is not None and len(rows) == 0:
        raise ValueError("rows: expected at least one row, found none")
    chosen = [] if rows is None else [int(row) for row in rows]
    return _only(_subquad.definition(op, params, given_list(inputs), chosen))


def run(op: str, /, *, implementation: str = "", threads: int = 1, **tensors: Any) -> Any:
    """What one of our programs computes, in the type and library of the tensors. All tensors have one type.

    implementation: a name from `signature(op)`; left out, the first that can run this problem.
    """
    params, inputs = split(op, tensors)
    if not inputs:
        raise ValueError("tensors: expected those of signature(op), found none")
    arrays = given_list(inputs)
    timed = _subquad.Timed(op, params, arrays, implementation, threads)
    timed.run()
    kind, scalar = _arrays.kind_of(next(iter(inputs.values()))), arrays[0][2]
    return _only({name: _arrays.array_of(bits, scalar, kind) for name, bits in timed.take().items()})


def _only(outputs: dict[str, Any]) -> Any:
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def save_case(
    folder: str | os.PathLike,
    op: str,
    /,
    out: Any = None,
    *,
    grad: Any = None,
    grads: dict[str, Any] | None = None,
    expected_error: float | None = None,
    source: str = "",
    **tensors: Any,
) -> None:
    """Writes a case folder for `subquad check`. Outputs that are not given are the definition's.

    expected_error: how far each number of an output may be off beside its own tolerance, in units of the largest magnitude of
        its tensor. An output in bfloat16 or float16 needs it: the folder holds float32 numbers, and rounding to two bytes
        alone costs 2**-8 or 2**-11; arithmetic in them four times as much, of gradients eight times.
    """
    params, inputs = split(op, tensors)
    outputs = {} if out is None else dict(out) if isinstance(out, dict) else {"out": out}
    if grad is not None:
        inputs["grad"] = grad
        for name, value in (grads or {}).items():
            outputs[name if name.startswith("grad_") else f"grad_{name}"] = value
    given = given_list(outputs)
    for name, _, scalar in given:
        if scalar in NARROW and expected_error is None:
            raise ValueError(
                f"{name}: expected expected_error= beside an output in {scalar} "
                f"(at least {NARROW[scalar]}, which rounding to it costs; {own_error(scalar, bool(grads))} where it was also "
                "computed in it), found none"
            )
    _subquad.save_case(os.fspath(folder), op, params, given_list(inputs), given, float(expected_error or 0), source)


def load_case(folder: str | os.PathLike) -> Case:
    """A case folder: `case.operator`, `case.params`, `case.inputs`, `case.expected` (arrays of NumPy by name)."""
    return Case(_subquad.load_case(os.fspath(folder)))
