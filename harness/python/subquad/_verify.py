"""Verifies a user's function on generated problems and reports what failed, by how much, and which mistake it looks like."""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import numpy as np

from subquad import _arguments, _arrays, _calls, _pairs, _report, _subquad
from subquad._child import MIDDLE, Bits, Call, Caller, Fault, FaultKind, Reply

STRIDES = "strides ignored: right with row-major arrays"
_LAYOUTS = {
    "transposed": "transposed views",
    "packed": "slices of wider arrays",
    "expanded": "expanded arrays (a stride of 0)",
}
_RANKS = ("[n, d]", "[h, n, d]", "[b, h, n, d]")
_CHEAP = 2e6  # multiply-adds; cases that need more are shrunk without margins
STALE = "the answer to an earlier call"

PAIR_CASES_OF_OTHERS = 12  # for further scalar types, and for gradients
# Multiply-adds of the reference for a case of pairs. If a case needs more, rows are sampled.
MOST_WORK = 2e7
DIAGNOSES = 6  # failing cases of pairs that are compared with the known mistakes, in each row
FEW = 10  # if fewer calls were judged and more were not tested, the result says that it is narrow


@dataclass
class Failure:
    """A case on which the function failed.

    case: its id, for `subquad verify --case`. folder: a case folder with the smallest case found for this kind of failure.
    reason: the failure in words. error, bound, margin, worst: as in Check; NaN if nothing was compared. looks_like: the
    mistake that the output resembles, or None.
    """

    case: str
    reason: str
    looks_like: str | None = None
    folder: str = ""
    error: float = float("nan")
    bound: float = float("nan")
    margin: float = float("nan")
    worst: _calls.Worst | None = None
    kind: str = "forward"
    smallest: str = ""
    fault: Fault | None = field(default=None, repr=False)  # nothing was compared
    fits: str | None = field(default=None, repr=False)  # an implementation of ours whose error bound allows the error
    shown: bool = field(
        default=False, repr=False
    )  # a call revealed the mistake, without a comparison with a wrong answer
    diagnosed: bool = field(default=True, repr=False)  # the output was compared with the known mistakes
    call: Call = field(repr=False, kw_only=True)

    @property
    def generated(self) -> _subquad.Case:
        return self.call.case

    def __str__(self) -> str:
        text = f"{self.case}\n    {self.reason}"
        if self.worst:
            text += f"\n    worst at {self.worst}"
        if self.looks_like:
            text += f"\n    looks like: {self.looks_like}"
        if self.smallest and self.smallest != self.case:
            text += f"\n    smallest case found: {self.smallest}"
        return text + (f"\n    kept in {self.folder}" if self.folder else "")


@dataclass
class Row:
    """A line of the table: one kind of call in one scalar type."""

    kind: str
    scalar: str
    passed: int = 0
    failed: int = 0
    mistrusted: int = 0
    over_bound: float = 0.0
    margin: float = float("inf")
    nearest: str = ""
    remark: str = ""
    refusals: Counter[str] = field(default_factory=Counter)  # why calls were not tested

    @property
    def not_tested(self) -> int:
        return sum(self.refusals.values())

    def count(self, verdict: _calls.Check) -> None:
        """Counts a verdict that is not a failure."""
        if not verdict.passed:
            self.mistrusted += 1
            return
        self.passed += 1
        self.over_bound = max(self.over_bound, verdict.over_tolerance)
        if verdict.margin < self.margin:
            self.margin, self.nearest = verdict.margin, verdict.nearest


@dataclass
class Verification(_report.Report):
    """The result of `verify`; true if everything passed. `str()` is the table."""

    format = "verification/1"
    derived = ("passed", "looks_like")

    operator: str
    name: str
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    seed: int = 1
    coverage: list[str] = field(default_factory=list)  # which pairs of properties and which sizes were covered

    @property
    def passed(self) -> bool:
        return not self.failures and sum(row.passed for row in self.rows) > 0

    def __bool__(self) -> bool:
        return self.passed

    @property
    def looks_like(self) -> str | None:
        """The mistake that more than half of the failures resemble, or None. If outputs are wrong too, failures of gradients do
        not count, since wrong outputs cause them. Without such a majority, a mistake that a call revealed directly."""
        name, count, of = self._commonest()
        return (
            name if 2 * count > of else next((failure.looks_like for failure in self.failures if failure.shown), None)
        )

    def _commonest(self) -> tuple[str | None, int, int]:
        """Returns the mistake that most failures resemble, how many do, and the number of failures counted: those for which known
        mistakes were tried."""
        counted = [failure for failure in self.failures if not failure.generated.backward] or self.failures
        counted = [failure for failure in counted if failure.diagnosed]
        names = Counter(failure.looks_like for failure in counted if failure.looks_like)
        return *(names.most_common(1)[0] if names else (None, 0)), len(counted)

    def __str__(self) -> str:
        lines = [f"{self.name} as {self.operator}, seed {self.seed}"]
        width = max([len(row.kind) for row in self.rows] or [0])
        for row in self.rows:
            text = f"  {row.kind:{width}}  {row.scalar:8}  {row.passed:3} passed  {row.failed} failed  {row.mistrusted} mistrusted"
            if row.passed:
                text += f"  error/tolerance <= {row.over_bound:.3g}"
                if row.nearest:
                    text += f"  margin >= {row.margin:.3g} ({row.nearest})"
            if row.not_tested:
                text += f"  {row.not_tested} not tested: {_pairs.count_words(row.refusals)}"
            lines.append(text + (f"  {row.remark}" if row.remark else ""))
        lines += [f"  {remark}" for remark in [*self.coverage, *self.remarks]]
        shown: set[tuple[str, str | None, str]] = set()
        for failure in self.failures:
            group = (failure.kind, failure.looks_like, failure.smallest)
            if group not in shown and len(shown) < 5:
                shown.add(group)
                lines.append(f"  {failure}")
        counts = [sum(getattr(row, name) for row in self.rows) for name in ("passed", "failed", "mistrusted")]
        lines.append("{} passed, {} failed, {} mistrusted".format(*counts))
        not_tested = sum(row.not_tested for row in self.rows)
        if not_tested:
            lines[-1] += f", {not_tested} not tested"
            if sum(counts) < FEW or 10 * sum(counts) < not_tested:
                lines[-1] += " (a narrow verification: the function refused most calls)"
        name, count, of = self._commonest()
        if self.looks_like:
            lines[-1] += f"; looks like: {self.looks_like}"
        elif name:
            backward = {failure.generated.backward for failure in self.failures}
            without = " (gradients not counted)" if len(backward) > 1 else ""
            lines[-1] += f"; {count} of {of} failures{without} look like: {name}"
        return "\n".join(lines)


def verify(
    function: Callable[..., Any],
    op: str,
    /,
    *,
    array: str = "numpy",
    scalars: list[str] | None = None,
    gradients: bool | None = None,
    n: list[int] | None = None,
    tensors: dict[str, Callable[..., Any]] | None = None,
    like: str = "",
    folder: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    device: str | None = None,
    isolate: bool | None = None,
    timeout: float = 30.0,
    shrink: float = 10.0,
    grouped_heads: bool | None = None,
    arithmetic: str | None = None,
    **params: Any,
) -> Verification:
    """Runs a function on generated problems and judges its outputs like those of our implementations.

    function: called with the inputs and parameters of the case by name (`signature(op)`), as arrays of the library `array`;
        returns the output, or a dict of outputs.
    params: parameters and sizes of every case, such as feature_map="elu1", causal=True, d=32, e=32; cases that need another
        value are left out. Other flags and scales are tested at their defaults and at another value, if the function accepts
        them by name.
    array: "numpy", "torch" or "jax".
    scalars: the types to test; by default float32, and with "torch" and "jax" also bfloat16 if the function accepts it.
    arithmetic: for 16-bit types, as in check(). With None, a function whose errors are those of arithmetic in the type itself
        passes, and the table says so. With "float32", it fails: the type may be used for storage only.
    gradients: True tests gradients by the framework's automatic differentiation, False does not; None tests them if the
        framework has it.
    n: the numbers of tokens; by default awkward ones. The cases also include n_q != n_k, heads, batches, grouped heads, hard
        inputs, second calls with new values in the same arrays, which reveal stale caches, and cases in which several of these
        and other memory layouts meet (`coverage` of the result).
    tensors: functions that make tensors which the function under test makes itself, such as {"bias": alibi}. The reference uses
        their results, and the function is called without these tensors. They are called with the sizes, axes and parameters of
        the case that they name (`shape` of the tensor, n_q, n_k, heads, ..) and return an array of this shape. Every head then
        has a tensor of its own unless you pass per_head=False.
    like: the name of one of our implementations, by whose error bound the function is judged, such as "fft_columns" for a transform.
    folder: the folder for failing cases; by default a new temporary folder.
    device: the device of PyTorch's tensors.
    isolate: makes calls in a forked child process, so that a crash becomes a line of the table; this is not possible with JAX
        or once PyTorch uses a GPU.
    timeout: the largest number of seconds for one call.
    shrink: the number of seconds for making failing cases smaller.
    seed: repeats the cases of an earlier call, whose first line has it; by default a fresh one.
    grouped_heads: True if the function must accept tensors that groups of heads share. With None, they are not tested if the
        function raises on all of them, and a remark says so.

    A call is not tested, rather than failed, if the function raises NotImplementedError, lacks an argument that the case does not
    have, or returns an output without a gradient. ValueError is raised if this is true of all calls.
    """
    if not callable(function):
        raise ValueError(f"function: expected a callable, found {type(function).__name__}")
    sizes = [] if n is None else _arguments.lengths("n", n)
    seed = random.SystemRandom().randrange(1, 1_000_000) if seed is None else _arguments.seed(seed)
    timeout = _arguments.seconds("timeout", timeout)
    shrink = _arguments.seconds("shrink", shrink, or_zero=True)
    if folder is not None:
        folder = _arguments.path("folder", folder)
        _subquad.check_output_folder("folder", folder)
    if isinstance(scalars, str):
        raise ValueError(f"scalars: expected a list of types, such as ['float32'], found {scalars!r}")
    if scalars is not None and not list(scalars):
        raise ValueError("scalars: expected a list of types, such as ['float32'], found an empty list")
    _arrays.check_kind(array)
    gradients, isolate = _arguments.flag("gradients", gradients), _arguments.flag("isolate", isolate)
    grouped_heads = _arguments.flag("grouped_heads", grouped_heads)
    if gradients and array == "numpy":
        raise ValueError('gradients: expected array="torch" or "jax", which can differentiate, found "numpy"')
    if device is not None and array != "torch":
        raise ValueError(f'device: expected array="torch", whose tensors have a device, found {array!r}')
    if device is not None:
        _arrays.check_device(device)
    if array == "numpy" and "bfloat16" in (scalars or []):
        _arrays.numpy_type("bfloat16")  # raises if NumPy has no such type
    known = list(dict.fromkeys([*_calls.signature(op)["params"], *_calls.signature(op)["sizes"], *_calls.SETTINGS]))
    _arguments.check_names(params, known, _arguments.own_names(verify), op)
    if like:
        _calls.check_implementation("like", op, like)
    if arithmetic not in (None, "float32"):
        raise ValueError(f"arithmetic: expected float32 or None, found {arithmetic!r}")
    if array != "numpy":
        __import__(array)
    if isolate is None:
        isolate = hasattr(os, "fork") and array != "jax" and not holds_gpu(device)
    caller = Caller(function, array, device, isolate, timeout)
    plain = {name: _calls.plain(value) for name, value in params.items()}
    own = _own_tensors(op, tensors, function)
    if own:
        inputs = _calls.signature(op)["inputs"]
        optional = [name for name in own if not inputs[name]["required"]]
        if optional:
            plain.setdefault("with", optional)
        plain.setdefault("per_head", True)
    work = _Work(caller, op, plain, sizes, seed, like)
    work.own = own
    work.check_choices()
    work.accepts_shared = grouped_heads
    work.narrow_arithmetic = arithmetic is None
    if scalars is None:
        work.run("float32", gradients)
        if array != "numpy" and work.accepts("bfloat16"):
            work.run("bfloat16", False)
    else:
        for scalar in scalars:
            work.run(scalar, gradients)
    work.settle()
    rows = work.result.rows
    if not sum(row.passed + row.failed + row.mistrusted for row in rows):
        refusals = sum((row.refusals for row in rows), Counter[str]())
        if refusals:
            raise ValueError(
                f"function: expected one that computes {op} for some case, found one that refused all "
                f"{sum(refusals.values())} calls, so that nothing was tested: {_pairs.count_words(refusals)}"
            )
        reason = (
            f"it does not accept {', '.join(sorted(work.not_accepted))}; add these arguments, or pass values of parameters"
            if work.not_accepted
            else "no case has these parameters and sizes"
        )
        raise ValueError(f"{op}: expected at least one case that fits the function, found none: {reason}")
    if work.result.failures:
        work.keep(folder, shrink)
    return work.result


def holds_gpu(device: str | None) -> bool:
    torch = sys.modules.get("torch")
    return (device or "cpu") != "cpu" or (
        torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    )


def _own_tensors(
    op: str, tensors: dict[str, Callable[..., Any]] | None, function: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """Returns the functions that make tensors. Raises ValueError unless they are functions by the names of inputs."""
    if tensors is None:
        return {}
    names = [name for name in _calls.signature(op)["inputs"] if not _calls.is_cotangent(name)]
    if not isinstance(tensors, dict):
        raise ValueError(
            f'tensors: expected functions by name, such as {{"bias": alibi}}, found {type(tensors).__name__}'
        )
    for name, make in tensors.items():
        if name not in names:
            raise ValueError(f"tensors: expected inputs of {op} ({', '.join(names)}), found {name!r}")
        if not callable(make):
            raise ValueError(
                f'tensors["{name}"]: expected a function that makes the tensor, such as lambda shape: .., '
                f"found {type(make).__name__}"
            )
        if name in (_arguments.required_names(function) or []):
            raise ValueError(
                f'tensors["{name}"]: expected a function under test that makes {name} itself, found one that requires it'
            )
    return dict(tensors)


def text_of(value: Any) -> str:
    """Formats a parameter as in the id of a case."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return "+".join(text_of(entry) for entry in value)
    return repr(value) if isinstance(value, float) else str(value)


def _literal_default(listing: dict[str, Any], name: str) -> Any:
    """Returns the default of a parameter if it is a number or a flag, otherwise None."""
    for rule in listing["params"]:
        default = str(rule.get("default", ""))
        if rule["name"] != name or not default:
            continue
        if rule["type"] == "boolean":
            return default == "true"
        try:
            return int(default) if rule["type"] == "integer" else float(default)
        except ValueError:
            return None  # a formula
    return None


class _Work:
    """One function under test."""

    def __init__(self, caller: Caller, op: str, params: dict[str, Any], n: list[int], seed: int, like: str):
        self.caller, self.op, self.params, self.n, self.seed, self.like = caller, op, params, n, seed, like
        self.result = Verification(op, getattr(caller.function, "__name__", type(caller.function).__name__), seed=seed)
        self.texts = [(name, text_of(value)) for name, value in params.items()]
        self.listing = _calls.listing(op)
        self.accepts_name = _arguments.accepted(caller.function)
        self.not_accepted: set[str] = set()  # names that the function does not accept
        self.only_default: set[str] = set()  # parameters that the function accepts and that are not tested
        self.narrow_arithmetic = True
        self.accepts_shared: bool | None = None  # tensors that groups of heads share; None: not known yet
        self.raised: list[tuple[Row, Failure]] = []  # failures on such tensors
        self.own: dict[str, Callable[..., Any]] = {}  # tensors that the function makes itself
        outputs = [rule["name"] for rule in self.listing["outputs"]]
        self.forward_outputs = tuple(name for name in dict.fromkeys(outputs) if not name.startswith("grad_"))
        self.optional_outputs = {rule["name"] for rule in self.listing["outputs"] if not rule.get("required", True)}
        self.computed: set[str] = set()  # optional outputs that the function returns
        names = {rule["name"] for key in ("params", "inputs") for rule in self.listing[key]}
        self.known_names = tuple(sorted(names))
        required = _arguments.required_names(caller.function) or []
        self.defaults = {
            name: value for name in required if (value := _literal_default(self.listing, name)) is not None
        }
        self.required = (set(required) & names) - set(self.defaults)
        self.lacking: set[str] = set()  # arguments that the function requires and that some cases do not have
        self.returned: Counter[int] = Counter()  # calls that returned, by number of leading axes
        self.returned_layouts: Counter[str] = Counter()
        self.refused_groups = False
        self.raised_on_layouts: list[tuple[Row, Failure]] = []
        self.cases: dict[str, _subquad.Case] = {}  # all that were called, by id
        self.diagnoses: Counter[str] = Counter()
        self.is_first = True  # no scalar type was tested before
        self.start = time.monotonic()

    # ---- cases

    def check_choices(self) -> None:
        """Raises ValueError if a required choice is neither given nor accepted by the function."""
        given = {name for name, _ in self.texts}
        for rule in self.listing["params"]:
            name = rule["name"]
            if (
                rule.get("choices")
                and rule["required"]
                and not rule["when"]
                and name not in given
                and not self.accepts_name(name)
            ):
                raise ValueError(
                    f"{name}: expected one of {', '.join(rule['choices'])}, since {self.op} requires it, found none; pass "
                    f'{name}="{rule["choices"][0]}" to verify, or add the argument {name} to the function'
                )

    def accepts(self, scalar: str) -> bool:
        """Tells whether the function returns without a fault for a small case of this type."""
        cases = _subquad.cases(self.op, self.texts, self.n[:1] or [16, 33], scalar, self.seed)
        case = next((case for case in cases if self._wanted(case)), None)
        if case is None:
            return False
        (_, reply), *_ = self.caller([self._call(case)])
        if reply.fault:
            self.result.rows.append(Row("forward", scalar, remark=f"not accepted: {reply.fault}"))
        return not reply.fault

    def _wanted(self, case: _subquad.Case) -> bool:
        """Tells whether the function accepts the arguments of a case, and remembers those that it does not."""
        optional = {name for name in case.optional_inputs if not self._is_output(name)}
        if set(case.optional_inputs) - optional - self.computed - {f"grad_{name}" for name in self.computed}:
            return False
        needed = [*optional, *case.params]
        fixed = {name for name, _ in self.texts} | set(self.own)
        missing = {name for name in needed if name not in fixed and not self.accepts_name(name)}
        missing = {name for name in missing if not self._is_default(name, case.params.get(name))}
        self.not_accepted |= missing
        lacking = self.required - set(case.params) - set(case.input_shapes)
        self.lacking |= lacking
        return not missing and not lacking and self._has_own(case)

    def _is_output(self, name: str) -> bool:
        """Tells whether this is an optional output, or the incoming gradient of one."""
        return name in self.optional_outputs or (name.startswith("grad_") and name[5:] in self.optional_outputs)

    def _find_computed(self, scalar: str) -> None:
        """Finds the optional outputs that the function returns."""
        cases = _subquad.cases(self.op, self.texts, self.n[:1] or [16, 33], scalar, self.seed)
        plain = next((case for case in cases if not case.optional_inputs and self._wanted(case)), None)
        if plain is None:
            return
        for name in self.optional_outputs:
            (_, reply), *_ = self.caller([self._call(plain.with_values([("with", name)]))])
            # An output of a wrong shape or type is returned, and judged.
            if not reply.fault or reply.fault.kind in (
                FaultKind.WRONG_SHAPE,
                FaultKind.WRONG_TYPE,
                FaultKind.NOT_AN_ARRAY,
            ):
                self.computed.add(name)

    def _has_own(self, case: _subquad.Case) -> bool:
        return not (self.own and case.backward) and set(self.own) <= set(case.input_shapes)

    def _is_default(self, name: str, value: Any) -> bool:
        for rule in self.listing["params"]:
            if rule["name"] == name and value is not None:
                default = str(rule.get("default", ""))
                if {"true": "1", "false": "0"}.get(default, default) == text_of(value):
                    return True
        return False

    def _call(self, case: _subquad.Case, again: _subquad.Case | None = None, **options: Any) -> Call:
        names = {rule["name"] for rule in self.listing["params"]}
        return Call(
            case,
            again,
            tuple(sorted(name for name in names if self.accepts_name(name))),
            own=self.own,
            defaults=self.defaults,
            known_names=self.known_names,
            known_outputs=self.forward_outputs,
            **options,
        )

    def run(self, scalar: str, gradients: bool | None) -> None:
        if self.is_first:
            self._find_computed(scalar)
        cases = _subquad.cases(self.op, self.texts, self.n, scalar, self.seed)
        cases = [case for case in dict.fromkeys(cases) if self._wanted(case) and _has_output_axes(self.listing, case)]
        backward = [case for case in cases if case.backward]
        forward = [case for case in cases if not case.backward]
        if not forward:
            return
        optional_names = {rule["name"] for rule in self.listing["inputs"] if not rule["required"]} | set(self.own)
        needed = [name for name in forward[0].input_shapes if name not in optional_names]
        _arguments.check_accepts("function", self.caller.function, self.op, needed)
        if scalar == "bfloat16":
            forward = forward[::2] if len(forward) > 8 else forward
        counts = Counter(case.length for case in forward)
        middle = counts.most_common(1)[0][0]  # heads and options are tested at this size
        plain = [case for case in forward if case.length == middle]
        optional = [case for case in plain if case.optional_inputs and not case.heads]
        plain = plain[:1] + optional
        self._judge_all("forward", scalar, [self._call(case) for case in forward])
        least = self._least_rank()
        if least:
            forward, backward, cases = (
                [c for c in some if _rank_of(c) >= least] for some in (forward, backward, cases)
            )
            plain = forward[:2]
        self._judge_hard(scalar, plain)
        if self.is_first:
            twice = [(case, case.with_other_numbers(self.seed + 1, "")) for case in plain]
            again = [self._call(case, other) for case, other in twice]
            self._judge_all("called again", scalar, again + self._calls_with_kept_numbers(scalar, plain))
            for name, text in self._other_values(cases, scalar):
                others = self._with_value(name, text, middle, scalar)
                if not others:  # this value needs other parameters
                    self.only_default.add(name)
                self._judge_all(f"{name}={text}", scalar, [self._call(case) for case in others if not case.backward])
                backward += [case for case in others if case.backward]
        self._judge_pairs(scalar)
        if self.caller.kind != "numpy" and gradients is not False:
            self._judge_all("gradients", scalar, [self._call(case) for case in backward])
            if backward and self.is_first and not self._refuses("gradients"):
                self._judge_gradients_again(scalar, backward)
                self._judge_pairs(scalar, backward=True)
        self.is_first = False
        self.result.remarks = []
        if self.not_accepted:
            self.result.remarks.append(
                f"not tested, because the function does not accept it: {', '.join(sorted(self.not_accepted))}"
            )
        if missing := self.optional_outputs - self.computed:
            self.result.remarks.append(
                f"not tested, because the function does not return it: {', '.join(sorted(missing))}"
            )
        if self.lacking:
            self.result.remarks.append(
                f"not tested: cases without {', '.join(sorted(self.lacking))}, which the function requires"
            )
        if self.only_default:
            self.result.remarks.append(f"tested only at the default: {', '.join(sorted(self.only_default))}")
        if self.caller.kind == "numpy":
            self.result.remarks.append(
                "not tested: gradients, because NumPy cannot differentiate; check(.., grad=, grads=) judges yours"
            )
        elif self.own and gradients is not False:
            self.result.remarks.append(
                f"not tested: gradients, because the function makes {', '.join(self.own)} itself"
            )

    def _judge_gradients_again(self, scalar: str, cases: list[_subquad.Case]) -> None:
        """Judges gradients on hard inputs, and in second calls with other numbers, which a stale forward pass gets wrong."""
        case = cases[len(cases) // 2]
        hard = []
        for name in _subquad.hard_inputs():
            try:
                hard.append(self._call(case.with_other_numbers(self.seed, name)))
            except ValueError:
                continue  # this kind of values does not apply to the operator
        self._judge_all("gradients, hard inputs", scalar, hard)
        twice = [self._call(case, case.with_other_numbers(self.seed + 1, "")) for case in cases[:2]]
        self._judge_all("gradients, called again", scalar, twice)

    def _refuses(self, kind: str) -> bool:
        """Tells whether the function refused all calls of the last row of this kind."""
        row = next((row for row in reversed(self.result.rows) if row.kind == kind), None)
        return row is not None and row.not_tested > 0 and row.passed + row.failed + row.mistrusted == 0

    def _judge_hard(self, scalar: str, plain: list[_subquad.Case]) -> None:
        """Judges hard inputs: all of them in the first scalar type, and on one case in the others."""
        calls = []
        for case in plain if self.is_first else plain[:1]:
            for name in _subquad.hard_inputs():
                try:
                    hard = case.with_other_numbers(self.seed, name)
                except ValueError:
                    continue  # this kind of values does not apply to the operator
                if hard not in plain:
                    calls.append(self._call(hard))
        # In float32, elu(x) + 1 has few digits left there, which is no fault.
        if scalar in _calls.NARROW and plain and (low := self._mapped_inputs(plain[0])):
            calls.append(self._call(plain[0], low=low))
        self._judge_all("hard inputs", scalar, calls)

    def _mapped_inputs(self, case: _subquad.Case) -> tuple[str, ...]:
        """Returns the data that a map of features reads number by number: inputs that are not as wide as the output."""
        if "feature_map" not in case.params or "omega" in case.input_shapes:
            return ()
        widths = {rule["name"]: rule["shape"][-1] for rule in self.listing["inputs"]}
        of_output = self.listing["outputs"][0]["shape"][-1]
        return tuple(name for name in case.data_inputs if name in widths and widths[name] != of_output)

    def _calls_with_kept_numbers(self, scalar: str, plain: list[_subquad.Case]) -> list[Call]:
        """Returns second calls that a cache mistakes for the first if its key is a shape, or a few numbers of each tensor: numbers in the
        middle change, or only a parameter does."""
        calls = [self._call(case, case, keeps=MIDDLE) for case in plain[:2]]
        rules: dict[str, dict[str, Any]] = {}
        for rule in self.listing["params"]:
            if rule["name"] not in self.params and self.accepts_name(rule["name"]):
                rules.setdefault(rule["name"], rule)
        flags = [name for name, rule in rules.items() if rule["type"] == "boolean"]
        on = [(name, "1") for name in flags]
        changes = [(name, "0") for name in flags]
        changes += [("query_offset", "5")] if "query_offset" in rules else []
        changes += [
            (name, _pairs.factors(scalar)[0])
            for name, rule in rules.items()
            if rule["type"] == "number" and rule.get("above") == 0
        ]
        for name, text in changes:
            try:
                first = plain[0].with_values(on)
                second = first.with_values([(name, text)])
            except ValueError:
                continue
            if first.input_shapes == second.input_shapes and self._wanted(first) and self._wanted(second):
                calls.append(self._call(first, second, keeps="all"))
        return calls

    def _judge_pairs(self, scalar: str, backward: bool = False) -> None:
        """Judges cases in which two or more properties of a problem meet, and long ones."""
        drawing = _pairs.Drawing(
            self.op,
            self.listing,
            self.texts,
            self._accepts_param,
            lambda case: self._wanted(case) and _has_output_axes(self.listing, case),
            sizes=self.n,
            scalar=scalar,
            seed=self.seed,
            backward=backward,
            least_rank=self._least_rank(),
            groups=self._tries_groups(),
            layouts=self.caller.kind != "jax",
        )
        count = drawing.count() if self.is_first and not backward else PAIR_CASES_OF_OTHERS
        cases, coverage = drawing.draw(count)
        long = drawing.long_cases() if self.is_first and not backward else []
        kind = "gradients, pairs" if backward else "pairs"
        self._judge_all(kind, scalar, [self._call(drawn.case, layout=drawn.layout) for drawn in cases], quick=True)
        if long:
            self._judge_all("long", scalar, [self._call(drawn.case) for drawn in long], quick=True)
        if self.is_first and not backward:
            self._say_coverage(coverage, len(cases), long)

    def _accepts_param(self, name: str) -> bool:
        if self._is_output(name):
            return name in self.computed
        return self.accepts_name(name) and name not in self.own

    def _say_coverage(self, coverage: _pairs.Coverage, count: int, long: list[_pairs.Drawn]) -> None:
        if count:
            text = (
                f"pairs: {count} cases in which {', '.join(coverage.factors)} meet; {coverage.met} of {coverage.possible} pairs of "
                "their levels covered"
            )
            if coverage.not_met:
                shown = "; ".join(coverage.not_met[:2])
                further = len(coverage.not_met) - 2
                text += f", too few cases for {shown}" + (f" and {further} others" if further > 0 else "")
            self.result.coverage.append(text)
        cases = list(self.cases.values())
        text = f"sizes: {_pairs.summary(cases)}"
        if long:
            text += f"; {len(long)} cases beyond 257 tokens, on which rows are sampled"
        self.result.coverage.append(f"{text}; longer windows, chunks or tiles are not tested")

    def _tries_groups(self) -> bool:
        """Tells whether the function may accept tensors that groups of heads share: unless it refused or raised on all so far."""
        refused = any(failure.generated.shared_axes for _, failure in self.raised) or self.refused_groups
        return bool(self.accepts_shared) or not (refused or self.accepts_shared is False)

    def _other_values(self, cases: list[_subquad.Case], scalar: str) -> list[tuple[str, str]]:
        """Returns another value for each parameter that the function accepts and all cases leave at its default: flags are
        inverted, positive numbers become 0.3125, in 16-bit types 0.0625. The other parameters are remembered."""
        fixed = {name for name, _ in self.texts}
        values: list[tuple[str, str]] = []
        for rule in self.listing["params"]:
            name, default = rule["name"], rule.get("default")
            if default is None or name in fixed or not self.accepts_name(name) or name in dict(values):
                continue
            plain = {"false": "0", "true": "1"}.get(str(default), str(default))
            if {text_of(case.params.get(name, plain)) for case in cases} != {plain}:
                continue  # the cases have several values already
            if rule["type"] == "boolean" and plain in ("0", "1"):
                values.append((name, "1" if plain == "0" else "0"))
            elif rule["type"] == "number" and rule.get("above") == 0:
                values.append((name, _pairs.factors(scalar)[0]))
            else:
                self.only_default.add(name)
        return values

    def _with_value(self, name: str, text: str, length: int | None, scalar: str) -> list[_subquad.Case]:
        """Returns the cases with this value of a parameter; square ones only of one size."""
        inputs = {rule["of_input"] for rule in self.listing["params"] if rule["name"] == name and "of_input" in rule}
        values = [(name, text), *(("with", input) for input in inputs)]
        try:
            cases = _subquad.cases(self.op, [*self.texts, *values], self.n, scalar, self.seed)
        except ValueError:
            return []
        least = self._least_rank()
        cases = [
            case for case in cases if case.length in (None, length) and _rank_of(case) >= least and self._wanted(case)
        ]
        return [case for case in cases if _has_output_axes(self.listing, case)]

    # ---- judging

    def _judge_all(self, kind: str, scalar: str, calls: list[Call], quick: bool = False) -> None:
        """Adds a row with the verdicts on these calls. quick: margins are not computed, and only a few failures are diagnosed."""
        row = Row(kind, scalar)
        for call in calls if self.own else ():
            call.first()  # raises ValueError if a tensor that the user makes does not fit
        for index, (call, reply) in enumerate(self.caller(calls)):
            self._say_progress(f"{kind} {scalar}: {index} of {len(calls)}")
            self.cases.setdefault(call.case.id, call.case)
            self._judge(row, call, reply, quick)
        self._say_progress("")
        if calls:
            self.result.rows.append(row)

    def _say_progress(self, text: str) -> None:
        """Rewrites a line of a terminal once a verification takes longer than 5 s."""
        seconds = time.monotonic() - self.start
        if seconds > 5 and sys.stderr.isatty():
            line = f"{self.result.name}: {text}, {seconds:.0f} s" if text else ""
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def _judge(self, row: Row, call: Call, reply: Reply, quick: bool) -> None:
        shared = call.case.shared_axes
        if reply.fault:
            self._judge_fault(row, call, reply.fault)
            return
        self.returned[_rank_of(call.case)] += 1
        self.returned_layouts[call.layout] += 1
        if shared and self.accepts_shared is None:
            self.accepts_shared = True
        outputs = reply.second if call.again else reply.outputs
        failure = self._failure(call, bool(call.again), outputs, row, quick)
        if failure is None and reply.overwritten:
            row.passed -= 1
            failure = Failure(
                call.case.id,
                "a later call overwrote the output of an earlier one",
                "a cached tensor is returned",
                shown=True,
                call=call,
            )
        if failure is None:
            return
        if self._passes_as_narrow(call, bool(call.again), outputs, row, quick):
            row.remark = f"passes as native {row.scalar} arithmetic; less accurate than float32 rounded once"
            return
        failure.kind = row.kind
        if call.again and self._failure(call, False, reply.outputs, None, quick) is None:
            stale = self._stale(call, reply)
            if stale is None and call.keeps:
                stale = "a stale cache: its key leaves out " + (
                    "numbers in the middle of a tensor" if call.keeps == MIDDLE else "a parameter"
                )
            if stale:
                failure.looks_like, failure.shown = stale, True
                what = "other parameters" if call.keeps == "all" else "new values"
                failure.reason = (
                    f"the first call was right, a second call with {what} in the same arrays was not: {failure.reason}"
                )
        failure.fits = self._fitting_bound(call, bool(call.again), outputs)
        if call.layout and self._is_right_if_fresh(call, quick):
            failure.reason = f"right with row-major arrays, wrong with {_LAYOUTS[call.layout]}: {failure.reason}"
            failure.looks_like, failure.shown, failure.diagnosed = STRIDES, True, True
        self._fail(row, failure)

    def _judge_fault(self, row: Row, call: Call, fault: Fault) -> None:
        """Counts a call that returned nothing to compare."""
        if fault.kind is FaultKind.REFUSED:
            row.refusals[fault.text] += 1
            self.refused_groups = self.refused_groups or bool(call.case.shared_axes)
            return
        changed = fault.kind is FaultKind.CHANGED_INPUT
        name = "an input that was written to" if changed else None
        failure = Failure(call.case.id, fault.text, name, kind=row.kind, fault=fault, shown=changed, call=call)
        raised = fault.kind is FaultKind.RAISED
        on_layout = raised and bool(call.layout) and self._is_right_if_fresh(call, True)
        if on_layout:
            failure.reason = f"right with row-major arrays, with {_LAYOUTS[call.layout]} it {failure.reason}"
        if on_layout and not self.returned_layouts[call.layout]:
            self.raised_on_layouts.append((row, failure))
        elif raised and call.case.shared_axes:
            self.raised.append((row, failure))
        else:
            self._fail(row, failure)

    def _is_right_if_fresh(self, call: Call, quick: bool) -> bool:
        """Tells whether the function is right on the same numbers in row-major arrays."""
        fresh = replace(call, fresh=True)
        (_, reply), *_ = self.caller([fresh])
        if reply.fault:
            return False
        right = self._failure(fresh, False, reply.outputs, None, quick) is None
        return right or self._passes_as_narrow(fresh, False, reply.outputs, None, quick)

    def _fail(self, row: Row, failure: Failure) -> None:
        row.failed += 1
        self.result.failures.append(failure)

    def _least_rank(self) -> int:
        """Returns the least number of leading axes with which a call returned, if all calls with fewer raised an exception."""
        lower = self._raised_by_rank()
        return min(self.returned) if lower and self.returned and max(lower) < min(self.returned) else 0

    def _raised_by_rank(self) -> set[int]:
        """Returns the numbers of leading axes with which every call raised an exception."""
        ranks: dict[int, bool] = {}
        for failure in self.result.failures:
            raised = failure.fault is not None and failure.fault.kind is FaultKind.RAISED
            rank = _rank_of(failure.generated)
            ranks[rank] = ranks.get(rank, True) and raised
        return {rank for rank, raised in ranks.items() if raised and not self.returned[rank]}

    def settle(self) -> None:
        """Decides about exceptions on tensors that groups of heads share: they are failures if the function accepts some such
        tensors, and otherwise these tensors are not tested. The same holds for memory layouts, and for tensors without the batch and
        head axes that other tensors have."""
        if self.accepts_shared:
            for row, failure in self.raised:
                self._fail(row, failure)
        elif self.raised:
            leading = dict.fromkeys(failure.generated.shared_axes for _, failure in self.raised)
            self.result.remarks.append(
                f"not tested: tensors that groups of heads share ({', '.join(leading)}), because the function "
                f"{self.raised[0][1].reason}; grouped_heads=True makes this a failure"
            )
        refused_layouts: dict[str, Failure] = {}
        for row, failure in self.raised_on_layouts:
            if self.returned_layouts[failure.call.layout]:
                self._fail(row, failure)
            else:
                row.refusals[f"arrays that are not row-major, {failure.fault}"] += 1
                refused_layouts.setdefault(failure.call.layout, failure)
        if refused_layouts:
            names = ", ".join(_LAYOUTS[layout] for layout in refused_layouts)
            self.result.remarks.append(
                f"not tested: {names}, because the function {next(iter(refused_layouts.values())).fault}"
            )
        self._say_bounds()
        least = self._least_rank()
        if least:
            self._leave_out_ranks(least)
        # A single row is nearly a multiple of any wrong answer, so that a resemblance seen only on tiny cases does not count.
        failures = self.result.failures
        seen = {failure.looks_like for failure in failures if failure.shown or not _is_tiny(failure.generated)}
        for failure in failures:
            if failure.looks_like not in seen:
                failure.looks_like = None

    def _leave_out_ranks(self, least: int) -> None:
        """Counts failures on tensors with fewer than `least` leading axes as not tested."""
        rows = {(row.kind, row.scalar): row for row in self.result.rows}
        lower = [failure for failure in self.result.failures if _rank_of(failure.generated) < least]
        for failure in lower:
            row = rows[failure.kind, failure.generated.scalar]
            row.failed -= 1
            row.refusals[f"tensors of fewer axes, {failure.fault}"] += 1
        self.result.failures = [failure for failure in self.result.failures if _rank_of(failure.generated) >= least]
        accepted = " and ".join(_RANKS[rank] for rank in range(least, 3) if self.returned[rank])
        self.result.remarks.append(f"takes {accepted} only: with fewer axes, the function {lower[0].reason}")

    def _failure(
        self, call: Call, is_second: bool, outputs: dict[str, Bits], row: Row | None, quick: bool
    ) -> Failure | None:
        """Returns the failure if the outputs of a call are wrong; otherwise the row counts the verdict."""
        diagnosis = not quick or row is None or self.diagnoses[row.kind] < DIAGNOSES
        try:
            verdict = self._check(call, is_second, outputs, quick=quick, diagnosis=diagnosis)
        except ValueError as error:
            # The definition has no value for these inputs.
            if row:
                row.mistrusted += 1
                row.remark = str(error)
            return None
        if verdict.verdict == "failed":
            if row and quick:
                self.diagnoses[row.kind] += 1
            return Failure(
                call.case.id,
                verdict.reason,
                verdict.looks_like,
                error=verdict.error,
                bound=verdict.bound,
                margin=verdict.margin,
                worst=verdict.worst,
                diagnosed=diagnosis,
                call=call,
            )
        if row:
            row.count(verdict)
            if not verdict.passed and not row.remark:
                row.remark = f"mistrusted: {call.case.id}: {verdict.reason}"
        return None

    def _passes_as_narrow(
        self, call: Call, is_second: bool, outputs: dict[str, Bits], row: Row | None, quick: bool
    ) -> bool:
        """Tells whether the outputs are within the error of arithmetic in their 16-bit type, if that is allowed; the row then
        counts the verdict."""
        narrow = next((scalar for _, scalar in outputs.values() if scalar in _calls.NARROW), None)
        if narrow is None or not self.narrow_arithmetic:
            return False
        error = _calls.own_error(narrow, call.case.backward)
        verdict = self._check(call, is_second, outputs, error, quick=quick, diagnosis=False)
        if verdict.passed and row:
            row.count(verdict)
        return verdict.passed

    def _check(
        self,
        call: Call,
        is_second: bool,
        outputs: dict[str, Bits],
        expected_error: float = 0.0,
        *,
        quick: bool = False,
        diagnosis: bool = True,
    ) -> _calls.Check:
        """Judges the outputs of the first or second call. With an expected error of 0, the verdict is mistrusted if the inputs hide
        a mistake; a larger one may hide mistakes itself."""
        given = call.second() if is_second else call.first()
        strict = expected_error == 0 and not quick
        arrays = [(name, bits, output_scalar) for name, (bits, output_scalar) in outputs.items()]
        judged = _subquad.judge(
            self.op,
            given.params,
            given.named(),
            arrays,
            expected_error,
            given.scalar,
            self.like,
            strict,
            MOST_WORK if quick else None,
            not quick,
            diagnosis,
        )
        return _calls.check_of(self.op, judged, given.scalar)

    def _fitting_bound(self, call: Call, is_second: bool, outputs: dict[str, Bits]) -> str | None:
        """Returns the first of our implementations with a norm-wise error bound, such as transforms, that allows this error; only
        for the first failures."""
        if self.like or len(self.result.failures) >= DIAGNOSES:
            return None
        given = call.second() if is_second else call.first()
        arrays = [(name, bits, scalar) for name, (bits, scalar) in outputs.items()]
        for name in _subquad.norm_wise(self.op):
            judged = _subquad.judge(
                self.op, given.params, given.named(), arrays, 0.0, given.scalar, name, False, MOST_WORK, False, False
            )
            if judged.verdict != "failed":
                return name
        return None

    def _say_bounds(self) -> None:
        """Says which implementation's bound would allow the errors, if one allows all of those that were tried."""
        failures = [failure for failure in self.result.failures if not failure.fault][:DIAGNOSES]
        names = {failure.fits for failure in failures}
        if len(names) == 1 and (name := names.pop()):
            self.result.remarks.append(
                f"the errors are within the norm-wise bound of our implementation {name}: if the function is based on a transform, "
                f'pass like="{name}"'
            )

    def _stale(self, call: Call, reply: Reply) -> str | None:
        """Names the part of the first call that the output of the second still depends on, or None."""
        if all(np.array_equal(bits, reply.outputs[name][0]) for name, (bits, _) in reply.second.items()):
            return f"a stale cache: {STALE}"
        first, second = call.first(), call.second()
        name, (bits, scalar) = next(iter(reply.second.items()))
        output = _arrays.float64_of(bits, scalar)
        right = self._definition(second, {})
        for stale in second.tensors:
            if first.tensors[stale].shape != second.tensors[stale].shape:
                continue
            wrong = self._definition(second, {stale: first.tensors[stale]})
            if wrong is None or right is None:
                continue
            to_wrong, to_right = (float(np.linalg.norm(output - answer[name])) for answer in (wrong, right))
            distance = to_wrong / max(to_right, 1e-300)
            if distance < 0.1:
                return f"a stale cache: {stale} of an earlier call"
        return None

    def _definition(self, problem: _calls.Given, replaced: dict[str, Any]) -> dict[str, Any] | None:
        tensors = [(name, replaced.get(name, bits), scalar) for name, bits, scalar in problem.named()]
        try:
            return _subquad.definition(self.op, problem.params, tensors, [], list(problem.outputs))
        except ValueError:
            return None

    # ---- failing cases

    def keep(self, folder: str | os.PathLike[str] | None, seconds: float) -> None:
        """Writes the smallest case of each kind of failure to a folder, which is recorded with every failure of that kind."""
        place = os.fspath(folder) if folder is not None else tempfile.mkdtemp(prefix="subquad-")
        groups: dict[tuple[Any, ...], list[Failure]] = {}
        for failure in self.result.failures:
            fault = failure.fault and (failure.fault.kind, failure.fault.detail)
            kind = "forward" if failure.kind in ("pairs", "long") else failure.kind.partition(",")[0]
            groups.setdefault((kind, failure.looks_like, fault, math.isnan(failure.error)), []).append(failure)
        order = sorted(groups.values(), key=len, reverse=True)
        deadline = time.monotonic() + seconds
        for index, group in enumerate(order):
            left = (deadline - time.monotonic()) / (len(order) - index)
            first = group[0]
            smallest = first.generated if first.kind == "called again" else self._shrink(first, left)
            path = _new_path(os.path.join(place, f"{self.op}-{index + 1}"))
            problem = replace(first.call, case=smallest, again=None).first()
            tensors = [(name, *_exact(bits, scalar)) for name, bits, scalar in problem.named()]
            source = f"verify: {self.result.name}, {smallest}: {first.reason}"
            try:
                os.makedirs(place, exist_ok=True)
            except OSError as error:
                self.result.remarks.append(
                    f"failing cases are not kept, because {place} cannot be created: {error.strerror}"
                )
                break
            try:
                _subquad.save_case(path, self.op, problem.params, tensors, [], 0.0, source)
            except ValueError:
                path = ""  # the definition has no value for this case
            for failure in group:
                failure.folder = path
                failure.smallest = failure.case if _is_larger(smallest, failure.generated) else smallest.id
        name = self.result.looks_like  # failures that look like the commonest mistake come first
        self.result.failures.sort(key=lambda failure: name is not None and failure.looks_like != name)

    def _shrink(self, failure: Failure, seconds: float) -> _subquad.Case:
        deadline = time.monotonic() + seconds
        case, moved = failure.generated, True
        while moved and time.monotonic() < deadline:
            moved = False
            for simpler in case.simpler():
                if time.monotonic() > deadline:
                    break
                if (
                    self._wanted(simpler)
                    and not _is_larger(simpler, failure.generated)
                    and self._fails_alike(simpler, failure)
                ):
                    case, moved = simpler, True
                    break
        return case

    def _fails_alike(self, case: _subquad.Case, failure: Failure) -> bool:
        first = failure.generated
        if (case.backward, case.scalar) != (first.backward, first.scalar):
            return False
        settings, fixed = case.settings, first.settings
        if any(name in fixed and settings.get(name) != fixed[name] for name in self.params):
            return False
        if not _has_output_axes(self.listing, case):
            return False
        call = replace(failure.call, case=case, again=None, keeps="")
        (_, reply), *_ = self.caller([call])
        if reply.fault:
            return reply.fault.is_like(failure.fault)
        if failure.fault:
            return False
        quick = case.work > _CHEAP
        simpler = self._failure(call, False, reply.outputs, None, quick)
        if simpler is None or self._passes_as_narrow(call, False, reply.outputs, None, quick):
            return False
        if failure.looks_like == STRIDES:
            return self._is_right_if_fresh(call, quick)
        return simpler.looks_like == failure.looks_like or failure.looks_like is None


def _rank_of(case: _subquad.Case) -> int:
    """Returns the number of batch and head axes of a case."""
    return max(case.leading_axes.values(), default=0)


def _is_larger(case: _subquad.Case, other: _subquad.Case) -> bool:
    """Tells whether a case has a size, or an integer parameter, that is larger than in another one."""
    if case.queries > other.queries or case.keys > other.keys:
        return True
    before = other.settings
    return any(
        isinstance(value, int) and isinstance(before.get(name), int) and value > before[name]
        for name, value in case.settings.items()
    )


def _new_path(path: str) -> str:
    """Returns the path, or if it exists, the first of path-2, path-3, .. that does not."""
    free, number = path, 1
    while os.path.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def _has_output_axes(listing: dict[str, Any], case: _subquad.Case) -> bool:
    """Tells whether the inputs have the batch and head axes of the output, so that a function can know them."""
    rank = {rule["name"]: len(rule["shape"]) for rule in listing["inputs"]}
    shapes = case.input_shapes
    leading = [
        shape[: len(shape) - rank.get(name, len(shape))]
        for name, shape in shapes.items()
        if not _calls.is_cotangent(name)
    ]
    rank_out = {rule["name"]: len(rule["shape"]) for rule in listing["outputs"]}
    outputs = {"out": shapes["grad"]} if case.backward else case.output_shapes
    for name, shape in outputs.items():
        axes = shape[: len(shape) - rank_out.get(name, len(shape))]
        for place in range(1, len(axes) + 1):
            if axes[-place] != max([shape[-place] for shape in leading if len(shape) >= place] or [1]):
                return False
    return True


def _is_tiny(case: _subquad.Case) -> bool:
    """Tells whether a case has one query, one key, or two of each."""
    sizes = case.queries, case.keys
    return min(sizes) == 1 or max(sizes) == 2


def _exact(bits: _arrays.Array, scalar: str) -> tuple[_arrays.Array, str]:
    """Converts 16-bit types to float32, since files contain float32 or float64."""
    return (
        (bits, scalar)
        if scalar in ("float32", "float64", _arrays.BOOLEAN)
        else (_arrays.float64_of(bits, scalar).astype(np.float32), "float32")
    )
