"""Single calls: judge an output, evaluate the definition, run one of our implementations, read and write case folders."""

from __future__ import annotations

import copy
import functools
import math
import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from subquad import _arguments, _arrays, _report, _subquad

# Settings of generated cases that every operator has (`subquad list --operator X` describes them).
SETTINGS = ("n", "heads", "batch", "per_head", "leading", "shared", "with", "backward", "omega")
NARROW = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # the 16-bit types and their rounding errors


@dataclass(frozen=True)
class Worst:
    """The element of an output with the largest error divided by its tolerance."""

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
class Check(_report.Report):
    """A verdict on an output; true if it passed.

    error, bound: the error and the tolerance of the gate that decided, at the element with the largest ratio of the two.
    margin, nearest: the smallest ratio of error to tolerance among the known mistakes, and the name of that mistake.
    blind_to: if the output passed, the mistakes that would have passed too, since these tensors cannot reveal them; the
        nearest first.
    looks_like: if the output failed, the mistake that it resembles; None if it resembles none of the known_mistakes tried.
    wrong_share, where: if the output failed, the share and the positions of the elements beyond their tolerance.
    arithmetic: for an output in a 16-bit type, the type of the arithmetic that it was judged as: float32 or its own type.
    parts: if outputs and gradients were checked, the verdict on each.
    """

    format = "verdict/1"

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
        """The error divided by the tolerance."""
        return self.error / self.bound if self.bound > 0 else self.error_over_bound

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        rows = "all rows" if self.all_rows else f"{self.rows} rows"
        text = f"{self.operator} {self.scalar}: {self.verdict}"
        if math.isfinite(self.error):
            text += f", error {self.error:.3e}, tolerance {self.bound:.3e}"
        text += f" ({rows}"
        if math.isfinite(self.margin):
            text += f", gate {self.gate}, margin {self.margin:.3g}: {self.nearest}"
        text += ")"
        if self.passed and self.arithmetic == self.scalar:
            text += f"\n  passes as native {self.scalar} arithmetic; less accurate than float32 rounded once"
        if self.reason:
            text += f"\n  {self.reason}"
        if self.where:
            text += f"\n  {100 * self.wrong_share:.3g} % of elements are wrong: {'; '.join(self.where)}"
        if not self.passed and self.worst:
            text += f"\n  worst at {self.worst}" + (" (by gate 1)" if self.gate == 2 else "")
        if self.passed and self.blind_to:
            text += f"\n  passed, blind to: {', '.join(self.blind_to)}"
            for remedy in dict.fromkeys(self.remedies[name] for name in self.blind_to if self.remedies.get(name)):
                text += f"\n  {remedy} would reveal more"
        if self.looks_like:
            text += f"\n  looks like: {self.looks_like}"
        elif self.known_mistakes:
            text += f"\n  resembles none of the {self.known_mistakes} mistakes tried"
        return text


class Case(dict[str, Any]):
    """A case folder with operator, params, inputs, expected, expected_error and source, as keys and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def operators() -> list[str]:
    """Returns the names of all operators."""
    return list(_subquad.operators())


@functools.lru_cache(maxsize=None)
def listing(op: str) -> dict[str, Any]:
    """Returns the entry of an operator in `subquad list --json`."""
    if not isinstance(op, str):
        raise ValueError(
            f"operator: expected a name, one of {', '.join(operators())}; found an object of type {type(op).__name__}"
        )
    return _subquad.listing(op)


def signature(op: str) -> dict[str, Any]:
    """Describes an operator: a dict with formula, source, inputs, params, outputs, sizes and implementations.

    The last five are dicts by name. An input or output has a shape in terms of the sizes, without the leading axes
    (batch, heads; an empty shape means a number for each head, [h], [b, h], or [1] for all of them); `required`; and
    `when`, the parameters with which it exists. If the shape depends on a parameter, `variants` lists all shapes. A
    parameter has type, default, meaning, and its choices or range. An implementation says in `not_taken` which of these
    it refuses, and in `pairs_not_taken` which inputs it takes with one entry for all queries only.
    """
    entry = copy.deepcopy(listing(op))
    result = {key: entry[key] for key in ("operator", "formula", "source")}
    for key in ("inputs", "params", "outputs", "sizes"):
        result[key] = _by_name(entry[key], "name")
    result["implementations"] = _by_name(entry["implementations"], "implementation")
    return result


def check_implementation(subject: str, op: str, name: str) -> None:
    """Raises ValueError unless this is the name of an implementation of the operator that this build has."""
    known = signature(op)["implementations"]
    if name in known:
        return
    if why := _subquad.why_missing(op, name):
        raise ValueError(f"{subject}: {op}/{name} {why}")
    raise ValueError(f"{subject}: expected one of {', '.join(known)}; found {name!r}")


def _by_name(entries: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(entry[key], []).append({name: value for name, value in entry.items() if name != key})
    return {name: group[0] if len(group) == 1 else {**group[0], "variants": group} for name, group in groups.items()}


def split(op: str, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits keyword arguments into (params, tensors). An argument of None counts as not given."""
    names = {rule["name"] for rule in listing(op)["params"]}
    inputs = {rule["name"] for rule in listing(op)["inputs"]} - names
    known = list(dict.fromkeys(rule["name"] for key in ("inputs", "params") for rule in listing(op)[key]))
    outputs = list(dict.fromkeys(rule["name"] for rule in listing(op)["outputs"]))
    for name in values:
        if name in outputs and name not in known:
            forward = ", ".join(f'"{output}": ..' for output in outputs if not output.startswith("grad_"))
            is_grad = name.startswith("grad_")
            argument = f'grads={{"{name[5:]}": ..}}' if is_grad else f"out={{{forward}}}"
            wanted = "" if is_grad else f'; reference and run return it with outputs=["{name}"]'
            raise ValueError(
                f"{name}: unexpected argument, since it is an output: check and save_case take it as {argument}{wanted}"
            )
    _arguments.check_names(values, known, ["out", "grad", "grads", "expected_error", "arithmetic", "rows", "dtype"], op)
    params, tensors = {}, {}
    for name, value in values.items():
        if value is None:
            continue
        is_tensor = _arrays.is_array(value) or isinstance(value, (list, tuple))
        if name in inputs and not is_tensor:
            raise ValueError(f"{name}: expected an array, found {type(value).__name__}")
        if name in names or not is_tensor:
            params[name] = plain(value)
        else:
            tensors[name] = value
    return params, tensors


def is_cotangent(name: str) -> bool:
    """Tells whether an input is an incoming gradient: "grad" of the first output, "grad_X" of output X."""
    return name == "grad" or name.startswith("grad_")


def plain(value: Any) -> Any:
    """Returns a parameter's value without NumPy: True, 12, 0.25, "elu1", [0, 5]."""
    if _arrays.is_array(value):
        return np.asarray(value).tolist()
    return list(value) if isinstance(value, tuple) else value


@functools.lru_cache(maxsize=None)
def masks(op: str) -> frozenset[str]:
    """Returns the names of the inputs whose numbers are 0 or 1."""
    return frozenset(rule["name"] for rule in listing(op)["inputs"] if rule["zero_or_one"])


def named_inputs(op: str, tensors: dict[str, Any]) -> list[_arrays.NamedArray]:
    return [_arrays.named_array(name, value, name in masks(op)) for name, value in tensors.items()]


def named_arrays(tensors: dict[str, Any]) -> list[_arrays.NamedArray]:
    return [_arrays.named_array(name, value) for name, value in tensors.items()]


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
    """Judges whether an output agrees with the definition of `op` on these tensors.

    out: the output, or a dict of outputs, in the shape and type that the program returned. An output in float32 may have the
        errors of a float32 program, one in float64 those of a float64 program.
    grad, grads: the incoming gradient, of the shape of `out`, and the gradients that you computed, by the names of the inputs:
        {"q": dq, "bias": db}. That of a second output X is `grad_X`, and counts as zero if it is not given.
    expected_error: an additional error that each element of `out` may have, in units of the largest magnitude of its tensor.
    arithmetic: for an output in bfloat16 or float16. "float32" judges it as computed in float32 and rounded once. None also
        accepts the larger errors of arithmetic in the type itself; then `arithmetic` of the verdict tells as which of the two
        it was judged, and `blind_to` which mistakes the larger errors can hide.
    tensors: inputs and parameters of the operator, by the names of `signature(op)`.
    """
    params, inputs = split(op, tensors)
    expected_error = _arguments.error("expected_error", expected_error)
    if arithmetic not in (None, "float32", *NARROW):
        raise ValueError(f"arithmetic: expected float32, {', '.join(NARROW)} or None, found {arithmetic!r}")
    check_grads(grads)
    parts = {}
    if out is not None:
        outputs = out if isinstance(out, dict) else {"out": out}
        if not outputs:
            raise ValueError("out: expected at least one output, found an empty dict")
        forward = {name: tensor for name, tensor in inputs.items() if not is_cotangent(name)}
        parts["out"] = _check_one(op, params, forward, outputs, expected_error, arithmetic)
    others = [name for name in inputs if is_cotangent(name)]
    if grads is not None or grad is not None or others:
        if grad is None or not grads:
            given = [*(["grad"] if grad is not None else []), *others, *(["grads"] if grads else [])]
            found = "only " + ", ".join(f"{name}=" for name in given) if given else "neither"
            raise ValueError(
                f"gradients: expected grad= (the incoming gradient) and grads= (those that you computed), found {found}"
            )
        named = {name if name.startswith("grad_") else f"grad_{name}": value for name, value in grads.items()}
        parts["grads"] = _check_one(op, params, {**inputs, "grad": grad}, named, expected_error, arithmetic)
    if not parts:
        raise ValueError("out: expected an output to check, or gradients in grad= and grads=, found none")
    verdicts = list(parts.values())
    if len(verdicts) == 1:
        return verdicts[0]
    order = {"failed": 0, "mistrusted": 1, "skipped": 2, "passed": 3}
    worst = min(verdicts, key=lambda verdict: (order[verdict.verdict], -verdict.error_over_bound))
    return Check(**{**worst.__dict__, "parts": parts})


def check_grads(grads: Any) -> None:
    if grads is not None and not isinstance(grads, dict):
        raise ValueError(
            f"grads: expected gradients by the names of the inputs, such as {{'q': dq}}, found {type(grads).__name__}"
        )


def _check_one(
    op: str,
    params: dict[str, Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    expected_error: float,
    arithmetic: str | None,
) -> Check:
    input_arrays, output_arrays = named_inputs(op, inputs), named_arrays(outputs)
    scalars = {scalar for _, _, scalar in output_arrays}
    narrow = next((scalar for scalar in NARROW if scalar in scalars), None)
    if narrow is None:
        judged = _subquad.check(op, params, input_arrays, output_arrays, expected_error)
        return check_of(op, judged, "float32" if "float32" in scalars else "float64")
    errors = {"float32": expected_error, narrow: max(expected_error, own_error(narrow, "grad" in inputs))}
    if arithmetic not in (None, *errors):
        raise ValueError(f"arithmetic: expected float32 or {narrow} for an output in {narrow}, found {arithmetic!r}")
    verdicts = {}
    for kind, error in errors.items():
        if arithmetic in (None, kind):
            judged = _subquad.judge(op, params, input_arrays, output_arrays, error, narrow, "", False)
            verdicts[kind] = replace(check_of(op, judged, narrow), arithmetic=kind)
            if verdicts[kind].verdict != "failed":
                return verdicts[kind]
    return next(iter(verdicts.values()))


def own_error(narrow: str, backward: bool) -> float:
    """Returns the error to expect if every intermediate value was rounded to a 16-bit type: four roundings of the largest
    value, and eight for gradients, which include those of the forward pass."""
    return (8 if backward else 4) * NARROW[narrow]


@functools.lru_cache(maxsize=2)
def drawn(case: _subquad.Case) -> _subquad.Problem:
    """Returns the tensors of a case. Two are kept, so that judging draws no tensor again that a call has used."""
    return case.draw()


@dataclass(frozen=True)
class Given:
    """The tensors and parameters of a call. Those of 16-bit types are arrays of uint16. types: the scalar type of every tensor,
    bool for a mask."""

    scalar: str
    params: dict[str, Any]
    tensors: dict[str, _arrays.Array]
    types: dict[str, str]
    outputs: dict[str, tuple[int, ...]]
    backward: bool

    def named(self) -> list[_arrays.NamedArray]:
        return [(name, bits, self.types[name]) for name, bits in self.tensors.items()]


def given(case: _subquad.Case) -> Given:
    """Returns the tensors and parameters of a generated case."""
    problem = drawn(case)
    tensors = dict(problem.tensors)
    types = {name: _arrays.BOOLEAN if bits.dtype == np.bool_ else problem.scalar for name, bits in tensors.items()}
    return Given(problem.scalar, problem.params, tensors, types, problem.outputs, problem.backward)


def check_of(op: str, judged: _subquad.Verdict, scalar: str) -> Check:
    """Converts the module's verdict to a Check."""
    worst = judged.worst
    return Check(
        operator=op,
        verdict=judged.verdict,
        reason=judged.reason,
        error=judged.error,
        bound=judged.bound,
        margin=judged.margin,
        nearest=judged.nearest,
        worst=(
            Worst(worst.output, worst.batch, worst.head, worst.row, worst.element, worst.expected, worst.found)
            if worst
            else None
        ),
        scalar=scalar,
        rows=judged.rows,
        all_rows=judged.all_rows,
        gate=judged.gate,
        gates=judged.gates,
        error_over_bound=judged.error_over_bound,
        error_over_plain=judged.error_over_plain,
        blind_to=[spot.name for spot in judged.blind_to],
        remedies={spot.name: spot.remedy for spot in judged.blind_to},
        looks_like=judged.looks_like or None,
        known_mistakes=judged.known_mistakes,
        wrong_share=judged.wrong_share,
        where=judged.where,
    )


def reference(op: str, /, *, rows: list[int] | None = None, outputs: list[str] | None = None, **tensors: Any) -> Any:
    """Evaluates the definition in higher precision and returns the output as a NumPy array of float64; several outputs are
    returned as a dict.

    rows: the rows (queries) of each head to compute; by default all of them. The other axes are not reduced.
    outputs: optional outputs to compute too, such as ["lse"].
    """
    params, inputs = split(op, tensors)
    chosen = [] if rows is None else _arguments.rows(rows)
    return _only(
        _subquad.definition(op, params, named_inputs(op, inputs), chosen, _arguments.names("outputs", outputs))
    )


def run(
    op: str, /, *, implementation: str = "", threads: int = 1, outputs: list[str] | None = None, **tensors: Any
) -> Any:
    """Runs one of our implementations. Its output has the type and library of the tensors, whose types must be equal; a mask may
    have booleans.

    implementation: a name from `signature(op)`; by default the first one that can run this problem.
    outputs: optional outputs to compute too, such as ["lse"]; several outputs are returned as a dict.
    """
    params, inputs = split(op, tensors)
    if not inputs:
        raise ValueError(f"tensors: expected the inputs in signature({op!r}), found none")
    arrays = named_inputs(op, inputs)
    timed = _subquad.Timed(
        op,
        params,
        arrays,
        _arguments.text("implementation", implementation),
        _arguments.threads(threads),
        _arguments.names("outputs", outputs),
    )
    timed.run()
    name, _, scalar = next((array for array in arrays if array[2] != _arrays.BOOLEAN), arrays[0])
    kind = _arrays.kind_of(inputs[name])
    return _only({name: _arrays.array_of(bits, scalar, kind) for name, bits in timed.take().items()})


def _only(outputs: dict[str, Any]) -> Any:
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def save_case(
    folder: str | os.PathLike[str],
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
    """Writes a case folder for `subquad check`. Missing outputs are computed by the definition.

    folder: a new folder. ValueError is raised if it exists, and for any name, parameter or tensor that does not fit the
        operator; nothing is written then.
    expected_error: an additional error that each element of an output may have, in units of the largest magnitude of its
        tensor. An output in bfloat16 or float16 needs it, since the folder stores float32 values: 2**-8 or 2**-11 is the error
        of rounding to the type; arithmetic in the type has an error of four times as much, gradients of eight times as much.
    source: the origin of the tensors, shown when a check fails.
    """
    params, inputs = split(op, tensors)
    check_grads(grads)
    source = _arguments.text("source", source)
    outputs = {} if out is None else dict(out) if isinstance(out, dict) else {"out": out}
    if grad is not None:
        inputs["grad"] = grad
        for name, value in (grads or {}).items():
            outputs[name if name.startswith("grad_") else f"grad_{name}"] = value
    output_arrays = named_arrays(outputs)
    for name, _, scalar in output_arrays:
        if scalar in NARROW and expected_error is None:
            raise ValueError(
                f"output {name}: expected_error= is missing; expected at least {NARROW[scalar]} for an output in {scalar}, the "
                f"error of rounding to it, or {own_error(scalar, bool(grads))} if it was also computed in {scalar}"
            )
    error = _arguments.error("expected_error", expected_error or 0)
    _subquad.save_case(
        _arguments.path("folder", folder), op, params, named_inputs(op, inputs), output_arrays, error, source
    )


def load_case(folder: str | os.PathLike[str]) -> Case:
    """Reads a case folder: `case.operator`, `case.params`, `case.inputs`, `case.expected` (NumPy arrays by name)."""
    return Case(_subquad.load_case(_arguments.path("folder", folder)))
