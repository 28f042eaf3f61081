"""Verifies a user's function on generated problems and reports what failed, by how much, and which mistake it looks like."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from subquad import _arguments, _arrays, _calls, _report, _subquad
from subquad._child import Bits, Call, Caller, Fault, FaultKind, Reply

STALE = "the answer to an earlier call"
# Mistakes that a call reveals directly, without comparing values with a known wrong answer.
SHOWN = ("a stale cache", "a cached tensor", "an input that was written to")


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
    generated: _subquad.Case = field(repr=False, kw_only=True)

    @property
    def is_shown(self) -> bool:
        return self.looks_like is not None and self.looks_like.startswith(SHOWN)

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
            name
            if 2 * count > of
            else next((failure.looks_like for failure in self.failures if failure.is_shown), None)
        )

    def _commonest(self) -> tuple[str | None, int, int]:
        """Returns the mistake that most failures resemble, how many do, and the number of failures counted."""
        counted = [failure for failure in self.failures if failure.kind != "gradients"] or self.failures
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
            lines.append(text + (f"  {row.remark}" if row.remark else ""))
        lines += [f"  {remark}" for remark in self.remarks]
        shown: set[tuple[str, str | None, str]] = set()
        for failure in self.failures:
            group = (failure.kind, failure.looks_like, failure.smallest)
            if group not in shown and len(shown) < 5:
                shown.add(group)
                lines.append(f"  {failure}")
        counts = [sum(getattr(row, name) for row in self.rows) for name in ("passed", "failed", "mistrusted")]
        lines.append("{} passed, {} failed, {} mistrusted".format(*counts))
        name, count, of = self._commonest()
        if self.looks_like:
            lines[-1] += f"; looks like: {self.looks_like}"
        elif name:
            counted = "failures" if of == len(self.failures) else "failures (gradients not counted)"
            lines[-1] += f"; {count} of {of} {counted} look like: {name}"
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
    like: str = "",
    folder: str | os.PathLike[str] | None = None,
    seed: int = 1,
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
        operator has a backward pass.
    n: the numbers of tokens; by default awkward ones. The cases also include n_q != n_k, heads, batches, grouped heads, hard
        inputs, and second calls with new values in the same arrays, which reveal stale caches.
    like: the name of one of our implementations, by whose error bound the function is judged, such as "fft" for a transform.
    folder: the folder for failing cases; by default a new temporary folder.
    device: the device of PyTorch's tensors.
    isolate: makes calls in a forked child process, so that a crash becomes a line of the table; this is not possible with JAX
        or once PyTorch uses a GPU.
    timeout: the largest number of seconds for one call.
    shrink: the number of seconds for making failing cases smaller.
    grouped_heads: True if the function must accept tensors that groups of heads share. With None, they are not tested if the
        function raises on all of them, and a remark says so.
    """
    if not callable(function):
        raise ValueError(f"function: expected a callable, found {type(function).__name__}")
    sizes = [] if n is None else _arguments.lengths("n", n)
    seed = _arguments.seed(seed)
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
    if array == "numpy" and "bfloat16" in (scalars or []):
        _arrays.numpy_type("bfloat16")  # raises if NumPy has no such type
    known = list(dict.fromkeys([*_calls.signature(op)["params"], *_calls.signature(op)["sizes"], *_calls.SETTINGS]))
    _arguments.check_names(params, known, _arguments.own_names(verify), op)
    if like and like not in _calls.signature(op)["implementations"]:
        raise ValueError(f"like: expected one of {', '.join(_calls.signature(op)['implementations'])}; found {like!r}")
    if arithmetic not in (None, "float32"):
        raise ValueError(f"arithmetic: expected float32 or None, found {arithmetic!r}")
    if array != "numpy":
        __import__(array)
    if isolate is None:
        isolate = hasattr(os, "fork") and array != "jax" and not holds_gpu(device)
    caller = Caller(function, array, device, isolate, timeout)
    work = _Work(caller, op, {name: _calls.plain(value) for name, value in params.items()}, sizes, seed, like)
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
    if not sum(row.passed + row.failed + row.mistrusted for row in work.result.rows):
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


def text_of(value: Any) -> str:
    """Formats a parameter as in the id of a case."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return "+".join(text_of(entry) for entry in value)
    return repr(value) if isinstance(value, float) else str(value)


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

    # ---- cases

    def accepts(self, scalar: str) -> bool:
        """Tells whether the function returns without a fault for a small case of this type."""
        cases = _subquad.cases(self.op, self.texts, [16], scalar, self.seed)
        case = next((case for case in cases if self._wanted(case)), None)
        if case is None:
            return False
        (_, reply), *_ = self.caller([self._call(case)])
        if reply.fault:
            self.result.rows.append(Row("forward", scalar, remark=f"not accepted: {reply.fault}"))
        return not reply.fault

    def _wanted(self, case: _subquad.Case) -> bool:
        """Tells whether the function accepts the arguments of a case, and remembers those that it does not."""
        needed = [*case.optional_inputs, *case.params]
        fixed = {name for name, _ in self.texts}
        missing = {name for name in needed if name not in fixed and not self.accepts_name(name)}
        missing = {name for name in missing if not self._is_default(name, case.params.get(name))}
        self.not_accepted |= missing
        return not missing

    def _is_default(self, name: str, value: Any) -> bool:
        for rule in self.listing["params"]:
            if rule["name"] == name and value is not None:
                default = str(rule.get("default", ""))
                if {"true": "1", "false": "0"}.get(default, default) == text_of(value):
                    return True
        return False

    def _call(self, case: _subquad.Case, again: _subquad.Case | None = None) -> Call:
        names = {rule["name"] for rule in self.listing["params"]}
        return Call(case, again, tuple(sorted(name for name in names if self.accepts_name(name))))

    def run(self, scalar: str, gradients: bool | None) -> None:
        cases = [case for case in _subquad.cases(self.op, self.texts, self.n, scalar, self.seed) if self._wanted(case)]
        cases = [case for case in cases if _has_output_axes(self.listing, case)]
        backward = [case for case in cases if case.backward]
        forward = [case for case in cases if not case.backward]
        if not forward:
            return
        optional_names = {rule["name"] for rule in self.listing["inputs"] if not rule["required"]}
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
        if scalar == "float32":
            hard = []
            for case in plain:
                for name in _subquad.hard_inputs():
                    try:
                        hard.append(case.with_other_numbers(self.seed, name))
                    except ValueError:
                        continue  # this kind of values does not apply to the operator
            self._judge_all("hard inputs", scalar, [self._call(case) for case in hard if case not in plain])
            twice = [(case, case.with_other_numbers(self.seed + 1, "")) for case in plain]
            self._judge_all("called again", scalar, [self._call(case, other) for case, other in twice])
            for name, text in self._other_values(cases):
                others = self._with_value(name, text, middle)
                if not others:  # this value needs other parameters
                    self.only_default.add(name)
                self._judge_all(f"{name}={text}", scalar, [self._call(case) for case in others if not case.backward])
                backward += [case for case in others if case.backward]
        if self.caller.kind != "numpy" and gradients is not False:
            if backward:
                self._judge_all("gradients", scalar, [self._call(case) for case in backward])
            elif gradients:
                raise ValueError(f"gradients: expected an operator with a backward pass, found {self.op}")
        self.result.remarks = []
        if self.not_accepted:
            self.result.remarks.append(
                f"not tested, because the function does not accept it: {', '.join(sorted(self.not_accepted))}"
            )
        if self.only_default:
            self.result.remarks.append(f"tested only at the default: {', '.join(sorted(self.only_default))}")

    def _other_values(self, cases: list[_subquad.Case]) -> list[tuple[str, str]]:
        """Returns another value for each parameter that the function accepts and all cases leave at its default: flags are
        inverted, positive numbers become 0.3125. The other parameters are remembered."""
        fixed = {name for name, _ in self.texts}
        values: list[tuple[str, str]] = []
        for rule in self.listing["params"]:
            name, default = rule["name"], rule.get("default")
            if default is None or name in fixed or not self.accepts_name(name) or name in dict(values):
                continue
            plain = {"false": "0", "true": "1"}.get(str(default), str(default))
            if {text_of(case.params.get(name, plain)) for case in cases} != {plain}:
                continue  # the cases have several values already
            if rule["type"] == "boolean":
                values.append((name, "1" if plain == "0" else "0"))
            elif rule["type"] == "number" and rule.get("above") == 0:
                values.append((name, "0.3125"))
            else:
                self.only_default.add(name)
        return values

    def _with_value(self, name: str, text: str, length: int | None) -> list[_subquad.Case]:
        """Returns the cases with this value of a parameter; square ones only of one size."""
        try:
            cases = _subquad.cases(self.op, [*self.texts, (name, text)], self.n, "float32", self.seed)
        except ValueError:
            return []
        cases = [case for case in cases if case.length in (None, length) and self._wanted(case)]
        return [case for case in cases if _has_output_axes(self.listing, case)]

    # ---- judging

    def _judge_all(self, kind: str, scalar: str, calls: list[Call]) -> None:
        row = Row(kind, scalar)
        for call, reply in self.caller(calls):
            self._judge(row, call, reply)
        if calls:
            self.result.rows.append(row)

    def _judge(self, row: Row, call: Call, reply: Reply) -> None:
        shared = call.case.shared_axes
        if reply.fault:
            changed = reply.fault.kind is FaultKind.CHANGED_INPUT
            name = "an input that was written to" if changed else None
            fault = Failure(call.case.id, reply.fault.text, name, kind=row.kind, fault=reply.fault, generated=call.case)
            if shared and reply.fault.kind is FaultKind.RAISED:
                self.raised.append((row, fault))
            else:
                self._fail(row, fault)
            return
        if shared and self.accepts_shared is None:
            self.accepts_shared = True
        case, outputs = (call.again, reply.second) if call.again else (call.case, reply.outputs)
        failure: Failure | None = self._failure(case, outputs, row)
        if failure is None and reply.overwritten:
            row.passed -= 1
            failure = Failure(
                call.case.id,
                "a later call overwrote the output of an earlier one",
                "a cached tensor is returned",
                generated=call.case,
            )
        if failure is None:
            return
        if self._passes_as_narrow(case, outputs, row):
            row.remark = f"passes as native {row.scalar} arithmetic; less accurate than float32 rounded once"
            return
        failure.kind = row.kind
        if call.again and self._failure(call.case, reply.outputs, None) is None:
            stale = self._stale(call, reply)
            failure.looks_like = stale or failure.looks_like
            if stale:
                failure.reason = f"the first call was right, a second call with new values in the same arrays was not: {failure.reason}"
        self._fail(row, failure)

    def _fail(self, row: Row, failure: Failure) -> None:
        row.failed += 1
        self.result.failures.append(failure)

    def settle(self) -> None:
        """Decides about exceptions on tensors that groups of heads share: they are failures if the function accepts some such
        tensors, and otherwise these tensors are not tested."""
        if self.accepts_shared:
            for row, failure in self.raised:
                self._fail(row, failure)
        elif self.raised:
            leading = dict.fromkeys(failure.generated.shared_axes for _, failure in self.raised)
            self.result.remarks.append(
                f"not tested: tensors that groups of heads share ({', '.join(leading)}), because the function "
                f"{self.raised[0][1].reason}; grouped_heads=True makes this a failure"
            )
        # A single row is nearly a multiple of any wrong answer, so that a resemblance seen only on tiny cases does not count.
        failures = self.result.failures
        seen = {failure.looks_like for failure in failures if failure.is_shown or not _is_tiny(failure.generated)}
        for failure in failures:
            if failure.looks_like not in seen:
                failure.looks_like = None

    def _failure(self, case: _subquad.Case, outputs: dict[str, Bits], row: Row | None) -> Failure | None:
        """Returns the failure if the outputs of a generated case are wrong; otherwise the row counts the verdict."""
        try:
            verdict = self._check(case, outputs)
        except ValueError as error:
            # The definition has no value for these inputs.
            if row:
                row.mistrusted += 1
                row.remark = str(error)
            return None
        if verdict.verdict == "failed":
            return Failure(
                case.id,
                verdict.reason,
                verdict.looks_like,
                error=verdict.error,
                bound=verdict.bound,
                margin=verdict.margin,
                worst=verdict.worst,
                generated=case,
            )
        if row:
            row.count(verdict)
        return None

    def _passes_as_narrow(self, case: _subquad.Case, outputs: dict[str, Bits], row: Row | None) -> bool:
        """Tells whether the outputs are within the error of arithmetic in their 16-bit type, if that is allowed; the row then
        counts the verdict."""
        narrow = next((scalar for _, scalar in outputs.values() if scalar in _calls.NARROW), None)
        if narrow is None or not self.narrow_arithmetic:
            return False
        verdict = self._check(case, outputs, _calls.own_error(narrow, case.backward))
        if verdict.passed and row:
            row.count(verdict)
        return verdict.passed

    def _check(self, case: _subquad.Case, outputs: dict[str, Bits], expected_error: float = 0.0) -> _calls.Check:
        """Judges the outputs of a generated case. With an expected error of 0, the verdict is mistrusted if the inputs hide a
        mistake; a larger one may hide mistakes itself."""
        problem = _calls.drawn(case)
        scalar, strict = problem.scalar, expected_error == 0
        tensors = [(name, bits, scalar) for name, bits in problem.tensors.items()]
        arrays = [(name, bits, output_scalar) for name, (bits, output_scalar) in outputs.items()]
        judged = _subquad.judge(self.op, problem.params, tensors, arrays, expected_error, scalar, self.like, strict)
        return _calls.check_of(self.op, judged, scalar)

    def _stale(self, call: Call, reply: Reply) -> str | None:
        """Names the part of the first call that the output of the second still depends on, or None."""
        if all(np.array_equal(bits, reply.outputs[name][0]) for name, (bits, _) in reply.second.items()):
            return f"a stale cache: {STALE}"
        first, second = _calls.drawn(call.case), _calls.drawn(call.again)
        name, (bits, scalar) = next(iter(reply.second.items()))
        output = _float64(bits, scalar)
        right = self._definition(second, {})
        for stale in second.tensors:
            wrong = self._definition(second, {stale: first.tensors[stale]})
            if wrong is None or right is None:
                continue
            to_wrong, to_right = (float(np.linalg.norm(output - answer[name])) for answer in (wrong, right))
            distance = to_wrong / max(to_right, 1e-300)
            if distance < 0.1:
                return f"a stale cache: {stale} of an earlier call"
        return None

    def _definition(self, problem: _subquad.Problem, replaced: dict[str, Any]) -> dict[str, Any] | None:
        tensors = [(name, replaced.get(name, bits), problem.scalar) for name, bits in problem.tensors.items()]
        try:
            return _subquad.definition(self.op, problem.params, tensors, [])
        except ValueError:
            return None

    # ---- failing cases

    def keep(self, folder: str | os.PathLike[str] | None, seconds: float) -> None:
        """Writes the smallest case of each kind of failure to a folder, which is recorded with every failure of that kind."""
        place = os.fspath(folder) if folder is not None else tempfile.mkdtemp(prefix="subquad-")
        groups: dict[tuple[Any, ...], list[Failure]] = {}
        for failure in self.result.failures:
            fault = failure.fault and (failure.fault.kind, failure.fault.detail)
            groups.setdefault((failure.kind, failure.looks_like, fault, math.isnan(failure.error)), []).append(failure)
        order = sorted(groups.values(), key=len, reverse=True)
        deadline = time.monotonic() + seconds
        for index, group in enumerate(order):
            left = (deadline - time.monotonic()) / (len(order) - index)
            first = group[0]
            smallest = first.generated if first.kind == "called again" else self._shrink(first, left)
            path = _new_path(os.path.join(place, f"{self.op}-{index + 1}"))
            problem = _calls.drawn(smallest)
            tensors = [(name, *_exact(bits, problem.scalar)) for name, bits in problem.tensors.items()]
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
                failure.folder, failure.smallest = path, smallest.id
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
                if self._wanted(simpler) and self._fails_alike(simpler, failure):
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
        (_, reply), *_ = self.caller([self._call(case)])
        if reply.fault:
            return reply.fault.is_like(failure.fault)
        if failure.fault:
            return False
        simpler = self._failure(case, reply.outputs, None)
        if simpler is None or self._passes_as_narrow(case, reply.outputs, None):
            return False
        return simpler.looks_like == failure.looks_like or failure.looks_like is None


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
    leading = [shape[: len(shape) - rank.get(name, len(shape))] for name, shape in shapes.items() if name != "grad"]
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


def _float64(bits: _arrays.Array, scalar: str) -> _arrays.Array:
    if scalar == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (bits.view(np.float16) if scalar == "float16" else bits).astype(np.float64)


def _exact(bits: _arrays.Array, scalar: str) -> tuple[_arrays.Array, str]:
    """Converts 16-bit types to float32, since files contain float32 or float64."""
    return (
        (bits, scalar) if scalar in ("float32", "float64") else (_float64(bits, scalar).astype(np.float32), "float32")
    )
