"""Somebody's function on generated problems: a table of what failed, how far it was off, and what it looks like."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from subquad import _arrays, _calls, _subquad
from subquad._child import Call, Caller, Reply

STALE = "the answer to an earlier call"
# What a call has shown, and is no likeness of numbers.
SHOWN = ("a stale cache", "a cached tensor", "an input that was written to")


@dataclass
class Failure:
    """A case on which the function failed.

    case: its id, as `subquad verify --case` takes it. folder: a case folder; that of the smallest case found for this kind of
    failure. reason: in words. error, bound, margin, worst: as in Check; NaN where nothing was compared. looks_like: the wrong
    answer that the output resembles, or None.
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

    what: str
    scalar: str
    passed: int = 0
    failed: int = 0
    mistrusted: int = 0
    over_bound: float = 0.0
    margin: float = float("inf")
    nearest: str = ""
    remark: str = ""

    def count(self, found: _calls.Check) -> None:
        """A verdict that is no failure."""
        if not found.passed:
            self.mistrusted += 1
            return
        self.passed += 1
        self.over_bound = max(self.over_bound, found.over_tolerance)
        if found.margin < self.margin:
            self.margin, self.nearest = found.margin, found.nearest


@dataclass
class Verification:
    """What `verify` found; true where everything passed. `str()` is the table."""

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
        """What more than half of all failures resemble, or None. Where outputs are wrong too, those of gradients do not count:
        they are wrong because of them. Without such a majority, what a call has shown: a stale cache."""
        name, count, of = self._commonest()
        return name if 2 * count > of else next((one.looks_like for one in self.failures if one.is_shown), None)

    def _commonest(self) -> tuple[str | None, int, int]:
        """The wrong answer that most failures resemble, how many do, and of how many."""
        counted = [one for one in self.failures if one.kind != "gradients"] or self.failures
        names = Counter(one.looks_like for one in counted if one.looks_like)
        return *(names.most_common(1)[0] if names else (None, 0)), len(counted)

    def __str__(self) -> str:
        lines = [f"{self.name} as {self.operator}, seed {self.seed}"]
        width = max([len(row.what) for row in self.rows] or [0])
        for row in self.rows:
            text = f"  {row.what:{width}}  {row.scalar:8}  {row.passed:3} passed  {row.failed} failed  {row.mistrusted} mistrusted"
            if row.passed:
                text += f"  error/tolerance <= {row.over_bound:.3g}"
                if row.nearest:
                    text += f"  margin >= {row.margin:.3g} ({row.nearest})"
            lines.append(text + (f"  {row.remark}" if row.remark else ""))
        lines += [f"  {remark}" for remark in self.remarks]
        shown: set[tuple] = set()
        for one in self.failures:
            group = (one.kind, one.looks_like, one.smallest)
            if group not in shown and len(shown) < 5:
                shown.add(group)
                lines.append(f"  {one}")
        counts = [sum(getattr(row, name) for row in self.rows) for name in ("passed", "failed", "mistrusted")]
        lines.append("{} passed, {} failed, {} mistrusted".format(*counts))
        name, count, of = self._commonest()
        if self.looks_like:
            lines[-1] += f"; looks like: {self.looks_like}"
        elif name:
            beside = "" if of == len(self.failures) else ", gradients not counted,"
            lines[-1] += f"; {count} of {of}{beside} look like: {name}"
        return "\n".join(lines)


def verify(
    function: Callable,
    op: str,
    /,
    *,
    array: str = "numpy",
    scalars: list[str] | None = None,
    gradients: bool | None = None,
    n: list[int] | None = None,
    like: str = "",
    folder: str | os.PathLike | None = None,
    seed: int = 1,
    device: str | None = None,
    isolate: bool | None = None,
    timeout: float = 30.0,
    shrink: float = 10.0,
    grouped_heads: bool | None = None,
    arithmetic: str | None = None,
    **params: Any,
) -> Verification:
    """Runs a function on generated problems and judges each output as one of our own programs' is.

    function: called with the operator's inputs and parameters by name (`signature(op)`), those that the case has, as arrays
        of the library `array`; returns the output, or a dict of outputs.
    params: parameters and sizes of every case, such as feature_map="elu1", causal=True, d=32, e=32; cases that need another
        value are left out. Of other parameters flags and scales are tested at their defaults and at another value, if the
        function takes them by name.
    array: "numpy", "torch" or "jax". scalars: left out, float32, and with "torch" and "jax" also bfloat16 where the function
        takes it.
    arithmetic: of types of two bytes, as in check(). None: errors of the size of arithmetic in such a type are told, not
        failed. "float32": they fail; the type is one of storage.
    gradients: by the framework's differentiation, where the operator has a backward pass; None: where there is one.
    n: sizes; awkward ones where it is left out. Besides: rectangles, heads, batches, grouped heads, hard inputs, and calls
        on the same arrays with other numbers in them.
    like: an implementation of ours whose own error bound applies, for example of a transform ("fft").
    folder: where failing cases are kept; a new temporary folder where it is left out.
    device: of PyTorch's tensors. isolate: calls are made in a forked child, so that a crash is a line of the table; not with
        JAX, nor once PyTorch holds a GPU. timeout: seconds for one call. shrink: seconds to make failing cases smaller.
    grouped_heads: whether the function must take tensors that groups of heads share; None: where it raises on all of them,
        they are not tested, and a remark says so.
    """
    if not callable(function):
        raise ValueError(f"function: expected something to call, found {type(function).__name__}")
    if array not in _arrays.KINDS:
        raise ValueError(f"array: expected one of {', '.join(_arrays.KINDS)}; found {array!r}")
    if like and like not in _calls.signature(op)["implementations"]:
        raise ValueError(f"like: expected one of {', '.join(_calls.signature(op)['implementations'])}; found {like!r}")
    if arithmetic not in (None, "float32"):
        raise ValueError(f"arithmetic: expected float32 or None, found {arithmetic!r}")
    if array != "numpy":
        __import__(array)
    if isolate is None:
        isolate = hasattr(os, "fork") and array != "jax" and not _holds_gpu(device)
    caller = Caller(function, array, device, isolate, timeout)
    work = _Work(caller, op, {name: _calls.plain(value) for name, value in params.items()}, n or [], seed, like)
    work.takes_shared = grouped_heads
    work.narrow_arithmetic = arithmetic is None
    if scalars is None:
        work.run("float32", gradients)
        if array != "numpy" and work.takes("bfloat16"):
            work.run("bfloat16", False)
    else:
        for scalar in scalars:
            work.run(scalar, gradients)
    work.settle()
    if not sum(row.passed + row.failed + row.mistrusted for row in work.found.rows):
        raise ValueError(f"{op}: expected at least one case that the function takes, found none")
    if work.found.failures:
        work.keep(folder, shrink)
    return work.found


def _holds_gpu(device: str | None) -> bool:
    torch = sys.modules.get("torch")
    return (device or "cpu") != "cpu" or (
        torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    )


def text_of(value: Any) -> str:
    """A parameter as in the id of a case."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return "+".join(text_of(one) for one in value)
    return repr(value) if isinstance(value, float) else str(value)


def values_of(case: str) -> dict[str, str]:
    """The names and values of an id."""
    pairs = (pair.split("=", 1) for pair in case.split(":", 1)[1].split(","))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def grouped(case: str) -> str:
    """The leading axes of a case in which groups of heads share a tensor, as its id has them (k:2+v:2); "" for any other."""
    values = values_of(case)
    heads = [part.split(":")[1].split("x")[-1] for part in values.get("leading", "").split("+") if ":" in part]
    return values["leading"] if any(one not in ("1", values.get("heads", "1")) for one in heads) else ""


class _Work:
    """One function under test."""

    def __init__(self, caller: Caller, op: str, params: dict, n: list[int], seed: int, like: str):
        self.caller, self.op, self.params, self.n, self.seed, self.like = caller, op, params, n, seed, like
        self.found = Verification(op, getattr(caller.function, "__name__", type(caller.function).__name__), seed=seed)
        self.texts = [(name, text_of(value)) for name, value in params.items()]
        self.listing = _calls.listing(op)
        self.takes_name = _taken(caller.function)
        self.not_taken: set[str] = set()
        self.only_default: set[str] = set()  # parameters that are taken and not tested
        self.narrow_arithmetic = True
        self.takes_shared: bool | None = None  # tensors that groups of heads share; None: not known yet
        self.raised: list[tuple[Row, Failure]] = []  # on such tensors

    # ---- which cases

    def takes(self, scalar: str) -> bool:
        """Whether the function returns anything of that type for a small case of it."""
        ids = _subquad.cases(self.op, self.texts, [16], scalar, self.seed)
        case = next((one for one in ids if self._wanted(one)), None)
        if case is None:
            return False
        (_, reply), *_ = self.caller([self._call(case)])
        if reply.fault:
            self.found.rows.append(Row("forward", scalar, remark=f"not taken: {reply.fault}"))
        return not reply.fault

    def _wanted(self, case: str) -> bool:
        """Whether the function takes what the case has; what it does not take is remembered."""
        values = values_of(case)
        needed = [name for name in values.get("with", "").split("+") if name]
        needed += [rule["name"] for rule in self.listing["params"] if rule["name"] in values]
        given = {name for name, _ in self.texts}
        missing = {name for name in needed if name not in given and not self.takes_name(name)}
        missing = {name for name in missing if not self._is_default(name, values.get(name))}
        self.not_taken |= missing
        return not missing

    def _is_default(self, name: str, text: str | None) -> bool:
        for rule in self.listing["params"]:
            if rule["name"] == name and text is not None:
                default = str(rule.get("default", ""))
                if {"true": "1", "false": "0"}.get(default, default) == text:
                    return True
        return False

    def _call(self, case: str, again: str = "") -> Call:
        names = {rule["name"] for rule in self.listing["params"]}
        return Call(case, again, tuple(sorted(name for name in names if self.takes_name(name))))

    def run(self, scalar: str, gradients: bool | None) -> None:
        cases = [one for one in _subquad.cases(self.op, self.texts, self.n, scalar, self.seed) if self._wanted(one)]
        cases = [one for one in cases if _has_output_axes(self.listing, _subquad.generate(one))]
        backward = [one for one in cases if "backward" in values_of(one)]
        forward = [one for one in cases if one not in backward]
        if not forward:
            return
        if scalar == "bfloat16":
            forward = forward[::2] if len(forward) > 8 else forward
        counts = Counter(values_of(one).get("n", "") for one in forward)
        middle = counts.most_common(1)[0][0]  # heads and options are tried at this size
        plain = [one for one in forward if values_of(one).get("n", "") == middle]
        optional = [one for one in plain if "with" in values_of(one) and "heads" not in values_of(one)]
        plain = plain[:1] + optional
        self._judge_all("forward", scalar, [self._call(one) for one in forward])
        if scalar == "float32":
            hard = []
            for one in plain:
                for name in _subquad.hard_inputs():
                    try:
                        hard.append(_subquad.other_numbers(one, self.seed, name))
                    except ValueError:
                        continue  # that kind of numbers is not for this operator
            self._judge_all("hard inputs", scalar, [self._call(one) for one in hard if one not in plain])
            twice = [(one, _subquad.other_numbers(one, self.seed + 1, "")) for one in plain]
            self._judge_all("called again", scalar, [self._call(one, other) for one, other in twice])
            for name, text in self._other_values(cases):
                ids = self._with_value(name, text, middle)
                if not ids:  # it needs others beside it
                    self.only_default.add(name)
                self._judge_all(
                    f"{name}={text}", scalar, [self._call(one) for one in ids if "backward" not in values_of(one)]
                )
                backward += [one for one in ids if "backward" in values_of(one)]
        if self.caller.kind != "numpy" and gradients is not False:
            if backward:
                self._judge_all("gradients", scalar, [self._call(one) for one in backward])
            elif gradients:
                raise ValueError(f"gradients: expected an operator with a backward pass, found {self.op}")
        self.found.remarks = []
        if self.not_taken:
            self.found.remarks.append(
                f"not tested, as the function does not take it: {', '.join(sorted(self.not_taken))}"
            )
        if self.only_default:
            self.found.remarks.append(f"tested at its default alone: {', '.join(sorted(self.only_default))}")

    def _other_values(self, cases: list[str]) -> list[tuple[str, str]]:
        """Another value for each parameter that the function takes and all cases leave at its default: flags are turned over,
        positive numbers are 0.3125. The others are remembered."""
        given = {name for name, _ in self.texts}
        found = []
        for rule in self.listing["params"]:
            name, default = rule["name"], rule.get("default")
            if default is None or name in given or not self.takes_name(name) or name in dict(found):
                continue
            plain = {"false": "0", "true": "1"}.get(str(default), str(default))
            if {values_of(one).get(name, plain) for one in cases} != {plain}:
                continue  # they have several
            if rule["type"] == "boolean":
                found.append((name, "1" if plain == "0" else "0"))
            elif rule["type"] == "number" and rule.get("above") == 0:
                found.append((name, "0.3125"))
            else:
                self.only_default.add(name)
        return found

    def _with_value(self, name: str, text: str, size: str) -> list[str]:
        """The cases with this value of a parameter, of square ones those of one size."""
        try:
            cases = _subquad.cases(self.op, [*self.texts, (name, text)], self.n, "float32", self.seed)
        except ValueError:
            return []
        cases = [one for one in cases if values_of(one).get("n", size) == size and self._wanted(one)]
        return [one for one in cases if _has_output_axes(self.listing, _subquad.generate(one))]

    # ---- judging

    def _judge_all(self, kind: str, scalar: str, calls: list[Call]) -> None:
        row = Row(kind, scalar)
        for call, reply in self.caller(calls):
            self._judge(row, call, reply)
        if calls:
            self.found.rows.append(row)

    def _judge(self, row: Row, call: Call, reply: Reply) -> None:
        shared = grouped(call.case)
        if reply.fault:
            failure = Failure(call.case, reply.fault, _named_fault(reply.fault), kind=row.what)
            if shared and reply.fault.startswith("raised "):
                self.raised.append((row, failure))
            else:
                self._fail(row, failure)
            return
        if shared and self.takes_shared is None:
            self.takes_shared = True
        case, outputs = (call.again, reply.second) if call.again else (call.case, reply.outputs)
        failure = self._failure(case, outputs, row)
        if failure is None and reply.overwritten:
            row.passed -= 1
            failure = Failure(
                call.case, "wrote a later call's output into what it had returned", "a cached tensor is returned"
            )
        if failure is None:
            return
        if self._passes_as_narrow(case, outputs, row):
            row.remark = f"with the error of arithmetic in {row.scalar}, more than that of float32 stored in it"
            return
        failure.kind = row.what
        if call.again and self._failure(call.case, reply.outputs, None) is None:
            stale = self._stale(call, reply)
            failure.looks_like = stale or failure.looks_like
            if stale:
                failure.reason = f"right at first, wrong on the same arrays with other numbers: {failure.reason}"
        self._fail(row, failure)

    def _fail(self, row: Row, failure: Failure) -> None:
        row.failed += 1
        self.found.failures.append(failure)

    def settle(self) -> None:
        """What the function raised on tensors that groups of heads share: failures if it takes some, else not tested."""
        if self.takes_shared:
            for row, failure in self.raised:
                self._fail(row, failure)
        elif self.raised:
            which = dict.fromkeys(grouped(failure.case) for _, failure in self.raised)
            self.found.remarks.append(
                f"not tested: tensors that groups of heads share ({', '.join(which)}), as the function "
                f"{self.raised[0][1].reason}; grouped_heads=True makes that a failure"
            )
        # One row is nearly a multiple of whatever is wrong with it: what is seen there alone is no likeness.
        failures = self.found.failures
        seen = {one.looks_like for one in failures if one.is_shown or not _is_tiny(one.case)}
        for one in failures:
            if one.looks_like not in seen:
                one.looks_like = None

    def _failure(self, case: str, outputs: dict, row: Row | None) -> Failure | None:
        """Why the outputs of a generated case are wrong; where they are not, the row counts them."""
        try:
            found = self._check(case, outputs)
        except ValueError as error:
            # Numbers for which the definition has no value.
            if row:
                row.mistrusted += 1
                row.remark = str(error)
            return None
        if found.verdict == "failed":
            return Failure(
                case,
                found.reason,
                found.looks_like,
                error=found.error,
                bound=found.bound,
                margin=found.margin,
                worst=found.worst,
            )
        if row:
            row.count(found)
        return None

    def _passes_as_narrow(self, case: str, outputs: dict, row: Row | None) -> bool:
        """Whether the outputs are right but for the error of arithmetic in their type of two bytes, where that may be; the row
        counts them if they are."""
        narrow = next((scalar for _, scalar in outputs.values() if scalar in _calls.NARROW), None)
        if narrow is None or not self.narrow_arithmetic:
            return False
        found = self._check(case, outputs, _calls.own_error(narrow, "backward" in values_of(case)))
        if found.passed and row:
            row.count(found)
        return found.passed

    def _check(self, case: str, outputs: dict, expected_error: float = 0.0) -> _calls.Check:
        """The verdict on the outputs of a generated case. Numbers that hide a mistake are mistrusted, if no error is expected
        that could hide it."""
        problem = _subquad.generate(case)
        tensors = [(name, bits, problem["scalar"]) for name, bits in problem["tensors"].items()]
        given = [(name, bits, scalar) for name, (bits, scalar) in outputs.items()]
        scalar, strict = problem["scalar"], expected_error == 0
        raw = _subquad.judge(self.op, problem["params"], tensors, given, expected_error, scalar, self.like, strict)
        return _calls.check_of(self.op, raw, scalar)

    def _stale(self, call: Call, reply: Reply) -> str | None:
        """What of the first call is in the output of the second."""
        if all(np.array_equal(bits, reply.outputs[name][0]) for name, (bits, _) in reply.second.items()):
            return f"a stale cache: {STALE}"
        first, second = _subquad.generate(call.case), _subquad.generate(call.again)
        name, (bits, scalar) = next(iter(reply.second.items()))
        found = _float64(bits, scalar)
        right = self._definition(second, {})
        for stale in second["tensors"]:
            wrong = self._definition(second, {stale: first["tensors"][stale]})
            if wrong is None or right is None:
                continue
            distance = np.linalg.norm(found - wrong[name]) / max(np.linalg.norm(found - right[name]), 1e-300)
            if distance < 0.1:
                return f"a stale cache: {stale} of an earlier call"
        return None

    def _definition(self, problem: dict, replaced: dict) -> dict | None:
        tensors = [(name, replaced.get(name, bits), problem["scalar"]) for name, bits in problem["tensors"].items()]
        try:
            return _subquad.definition(self.op, problem["params"], tensors, [])
        except ValueError:
            return None

    # ---- failing cases

    def keep(self, folder: str | os.PathLike | None, seconds: float) -> None:
        """Gives every failure a folder: that of the smallest case of its kind."""
        place = os.fspath(folder) if folder is not None else tempfile.mkdtemp(prefix="subquad-")
        groups: dict[tuple, list[Failure]] = {}
        for one in self.found.failures:
            groups.setdefault((one.kind, one.looks_like or one.reason.split(":")[0]), []).append(one)
        order = sorted(groups.values(), key=len, reverse=True)
        deadline = time.monotonic() + seconds
        for index, group in enumerate(order):
            left = (deadline - time.monotonic()) / (len(order) - index)
            first = group[0]
            smallest = first.case if first.kind == "called again" else self._shrink(first, left)
            path = os.path.join(place, f"{self.op}-{index + 1}")
            problem = _subquad.generate(smallest)
            tensors = [(name, *_exact(bits, problem["scalar"])) for name, bits in problem["tensors"].items()]
            source = f"verify: {self.found.name}, {smallest}: {first.reason}"
            try:
                _subquad.save_case(path, self.op, problem["params"], tensors, [], 0.0, source)
            except ValueError:
                path = ""  # the definition has no value there
            for one in group:
                one.folder, one.smallest = path, smallest
        name = self.found.looks_like  # the clearest first
        self.found.failures.sort(key=lambda one: name is not None and one.looks_like != name)

    def _shrink(self, failure: Failure, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        case, moved = failure.case, True
        while moved and time.monotonic() < deadline:
            moved = False
            for simpler in _subquad.simpler(case):
                if time.monotonic() > deadline:
                    break
                if self._wanted(simpler) and self._fails_alike(simpler, failure):
                    case, moved = simpler, True
                    break
        return case

    def _fails_alike(self, case: str, failure: Failure) -> bool:
        values = values_of(case)
        fixed = values_of(failure.case)
        if ("backward" in values) != ("backward" in fixed) or values.get("scalar") != fixed.get("scalar"):
            return False
        if any(name in fixed and values.get(name) != fixed[name] for name in self.params):
            return False
        problem = _subquad.generate(case)
        if not _has_output_axes(self.listing, problem):
            return False
        (_, reply), *_ = self.caller([self._call(case)])
        if reply.fault or failure.error != failure.error:
            return reply.fault.split(":")[0] == failure.reason.split(":")[0]
        found = self._failure(case, reply.outputs, None)
        if found is None or self._passes_as_narrow(case, reply.outputs, None):
            return False
        return found.looks_like == failure.looks_like or failure.looks_like is None


def _taken(function: Callable) -> Callable[[str], bool]:
    """Whether a function has a parameter of this name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda name: True
    if any(one.kind == one.VAR_KEYWORD for one in parameters):
        return lambda name: True
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return lambda name: name in names


def _has_output_axes(listing: dict, problem: dict) -> bool:
    """Whether the inputs show the batch and the heads of the output, so that a function can know them."""
    rank = {rule["name"]: len(rule["shape"]) for rule in listing["inputs"]}
    leading = [
        bits.shape[: bits.ndim - rank.get(name, bits.ndim)]
        for name, bits in problem["tensors"].items()
        if name != "grad"
    ]
    rank_out = {rule["name"]: len(rule["shape"]) for rule in listing["outputs"]}
    shapes = dict(problem["outputs"])
    if problem["backward"]:
        shapes = {"out": problem["tensors"]["grad"].shape}
    for name, shape in shapes.items():
        axes = tuple(shape[: len(shape) - rank_out.get(name, len(shape))])
        for place in range(1, len(axes) + 1):
            if axes[-place] != max([one[-place] for one in leading if len(one) >= place] or [1]):
                return False
    return True


def _is_tiny(case: str) -> bool:
    """Whether a case has one query, one key, or two of each."""
    problem = _subquad.generate(case)
    sizes = problem["queries"], problem["keys"]
    return min(sizes) == 1 or max(sizes) == 2


def _named_fault(fault: str) -> str | None:
    return "an input that was written to" if fault.startswith("changed its input") else None


def _float64(bits: np.ndarray, scalar: str) -> np.ndarray:
    if scalar == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (bits.view(np.float16) if scalar == "float16" else bits).astype(np.float64)


def _exact(bits: np.ndarray, scalar: str) -> tuple[np.ndarray, str]:
    """Files hold float32 and float64."""
    return (
        (bits, scalar) if scalar in ("float32", "float64") else (_float64(bits, scalar).astype(np.float32), "float32")
    )
