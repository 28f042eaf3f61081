"""Times a user's functions alternately with our implementations and checks each before and after; writes format results/1."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, TypeVar

from subquad import _arguments, _arrays, _calls, _subquad
from subquad._guests import Asked, Guest, GuestHere, Outputs, Refused
from subquad._verify import holds_gpu, text_of

SAMPLES = 1000  # the largest number of samples of one contestant
JUDGED = 8  # timed outputs that are judged afterwards, and outputs of calls before them, at most
KEPT_BYTES = 1 << 28  # of tensors that wait for their judgement; two calls are kept in any case
OTHER_WORK = 10  # seconds that may pass for each second of measuring, while numbers are drawn


@dataclass
class Sweep:
    """Records of format results/1 and the whole file as text (`json`). True if everything that ran has passed."""

    operator: str
    records: list[dict[str, Any]] = field(default_factory=list)
    json: str = ""

    @property
    def passed(self) -> bool:
        verdicts = [record["check"]["verdict"] for record in self.records]
        return "passed" in verdicts and "failed" not in verdicts

    def __bool__(self) -> bool:
        return self.passed

    def to_dict(self) -> dict[str, Any]:
        """Returns the result file as dictionaries and lists."""
        file: dict[str, Any] = json.loads(self.json)
        return file

    def to_json(self) -> str:
        """Returns the result file, as `json`."""
        return self.json

    def seconds(self, name: str) -> dict[int, float]:
        """Returns the median time of a run by n, for the sizes that were measured."""
        return {
            record["tokens"]: record["seconds"]["median"]
            for record in self.records
            if record["implementation"] == name and record["seconds"]
        }

    def __str__(self) -> str:
        lines = []
        for record in self.records:
            text = f"{self.operator}  n={record['tokens']:<8} {record['implementation']:16} "
            seconds = record["seconds"]
            if seconds:
                interval = f"[{seconds['low']:.3e}, {seconds['high']:.3e}]"
                text += f"{seconds['median']:.3e} s  {interval}  {len(seconds['samples'])} samples"
            else:
                text += f"{record['check']['verdict']}: {record['check']['reason']}"
            if record.get("remark"):
                text += f"  ({record['remark']})"
            lines.append(text)
        return "\n".join(lines)


def sweep(
    functions: dict[str, Callable[..., Any]],
    op: str,
    /,
    *,
    n: list[int],
    baselines: list[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    array: str = "numpy",
    scalar: str = "float32",
    threads: int = 1,
    budget: float = 1.0,
    seed: int = 1,
    device: str | None = None,
    like: str = "",
    sizes: dict[str, int] | None = None,
    force: bool = False,
    isolate: bool | None = None,
    timeout: float = 60.0,
    **params: Any,
) -> Sweep:
    """Times functions alternately with each other and with our implementations. Wrong functions are not timed.

    functions: functions by name; each is called as `verify` calls it. baselines: our implementations, by the names of
        `signature(op)`; by default the dense one and the first fast one.
    n: lengths. sizes: other sizes and axes by name, such as {"d": 32, "heads": 4}. params: parameters of the operator.
    out: the file to write, which must not exist unless `force` is True; `python3 -m reports.figures FILE` draws it.
    threads: threads of our implementations, and of PyTorch during the sweep. budget: seconds of measuring for each length.
    like: as in `verify`. timeout: the largest number of seconds for one call.
    isolate: calls functions in child processes; None does unless JAX or a GPU forbids it, and the records say so.

    The first call, which includes any set-up, is recorded as `first_seconds`. Each timed call has new numbers in the same
    arrays. The time includes a copy of the outputs; these are NumPy arrays, PyTorch tensors or JAX arrays, complete when the
    call returns, and not in an input's memory. A random sample of them is judged after the timing. A time below what reading
    and writing the tensors takes on this machine fails as impossible.
    """
    if not isinstance(functions, dict) or not functions:
        found = "an empty dict" if isinstance(functions, dict) else f"an object of type {type(functions).__name__}"
        raise ValueError(f'functions: expected functions by name, such as {{"mine": attention}}, found {found}')
    for name, function in functions.items():
        if not callable(function):
            raise ValueError(f"functions: expected a callable for {name!r}, found {type(function).__name__}")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.+-]+", name):
            raise ValueError(f"functions: expected names of letters, digits and _ . + -, found {name!r}")
    known = list(_calls.signature(op)["implementations"])
    if baselines is None:
        baselines = [known[0]] + known[1:2]
    if isinstance(baselines, str):
        raise ValueError(f"baselines: expected a list of names, such as [{baselines!r}], found {baselines!r}")
    for name in baselines:
        _calls.check_implementation("baselines", op, name)
        if name in functions:
            raise ValueError(f"functions: expected names other than those of our implementations, found {name!r}")
    n = _arguments.lengths("n", n)
    _arrays.check_kind(array)
    if like:
        _calls.check_implementation("like", op, like)
    if sizes is not None and not isinstance(sizes, dict):
        raise ValueError(f'sizes: expected sizes by name, such as {{"d": 32}}, found {sizes!r}')
    if "n" in {**params, **(sizes or {})}:
        raise ValueError("sizes: expected sizes other than n, whose values n= lists, found n")
    threads, seed = _arguments.threads(threads), _arguments.seed(seed)
    budget, timeout = _arguments.seconds("budget", budget), _arguments.seconds("timeout", timeout)
    isolate = _arguments.flag("isolate", isolate)
    if out is not None:
        out = _arguments.path("out", out)
        _subquad.check_output_file("out", out)
        if os.path.exists(out) and not force:
            raise ValueError(f"out: expected a file that does not exist, or force=True, which replaces it, found {out}")
    values = [(name, text_of(value)) for name, value in {**params, **(sizes or {})}.items()]
    if device is not None and device != "cpu":
        raise ValueError(f"device: expected cpu, found {device!r}; functions on a GPU cannot be timed here yet")
    if isolate is None:
        isolate = hasattr(os, "fork") and array != "jax" and not holds_gpu(None)
    records: list[_subquad.Record] = []
    created = _subquad.now()
    with _Threads(array, threads):
        for length in n:
            case = _subquad.case_for(op, length, values, scalar, seed)
            contest = _Contest(op, case, baselines, threads, budget, like)
            records += contest.records(functions, array, isolate, timeout)
    command = f"subquad.sweep({{{', '.join(map(repr, functions))}}}, {op!r}, n={list(n)})"
    text = _subquad.result_file(command, created, seed, threads, records)
    result = Sweep(op, [record.as_dict() for record in records], text)
    if out is not None:
        _subquad.write_file(out, text + "\n")
    return result


class _Threads:
    """Gives PyTorch as many threads as our implementations have."""

    def __init__(self, array: str, threads: int):
        self.torch = __import__("torch") if array == "torch" else None
        if array == "jax":
            __import__("jax")
        self.threads = threads

    def __enter__(self) -> None:
        if self.torch:
            self.before = self.torch.get_num_threads()
            self.torch.set_num_threads(self.threads)

    def __exit__(self, *_: Any) -> None:
        if self.torch:
            self.torch.set_num_threads(self.before)


def _calls_before(seconds: float) -> int:
    """Returns the number of calls that are not timed, just before one that is. The first call after another program finds cold
    caches, which costs a few tenths of a millisecond."""
    return 3 if seconds < 3e-4 else 2 if seconds < 5e-3 else 1 if seconds < 2e-2 else 0


class _Theirs:
    """A user's function. Each timed call has numbers that nobody has seen before. A sample of the outputs is kept."""

    def __init__(self, case: _subquad.Case, problem: _subquad.Problem, guest: Guest | GuestHere):
        self.case, self.guest = case, guest
        self.last, self.other = problem, self.problem(secrets.randbits(62))
        self.seconds = 0.0
        self.kept = _Sample[int](self._most(), self.guest)  # by the seeds of the numbers
        self.trapped = _Sample[_Numbers](self._most(), self.guest)

    def _most(self) -> int:
        shapes = (*self.case.input_shapes.values(), *self.case.output_shapes.values())
        return max(2, min(JUDGED, KEPT_BYTES // sum(8 * math.prod(shape) for shape in shapes)))

    def first(self, problem: _subquad.Problem) -> float:
        self.seconds = self.guest.call(problem)
        return self.seconds

    def run(self) -> float:
        seed = secrets.randbits(62)
        problem = self.problem(seed)
        before = _calls_before(self.seconds)
        # An answer that is kept shows in a call whose numbers are the last ones but for a few.
        if before or self.trapped.seen < 3 or secrets.randbelow(8) == 0:
            numbers = _Numbers(self.last, self.other)
            self.guest.call(numbers, timed=False, more=True)
            self.trapped.offer(numbers)
        self.seconds = self.guest.call(problem, before=before)
        self.kept.offer(seed)
        self.last = problem
        return self.seconds

    def problem(self, seed: int) -> _subquad.Problem:
        return self.case.with_other_numbers(seed, "").draw()

    def outputs(self) -> list[_arrays.NamedArray]:
        return [(name, bits, scalar) for name, (bits, scalar) in self.guest.outputs().items()]


Key = TypeVar("Key")


class _Sample(Generic[Key]):
    """A random sample of the outputs of a guest's calls. Each call is in it with the same probability, and the function cannot
    know which are."""

    def __init__(self, most: int, guest: Guest | GuestHere):
        self.most, self.guest, self.seen = most, guest, 0
        self.kept: list[tuple[Key, Outputs]] = []

    def offer(self, key: Key) -> None:
        """Tells that the guest's last call had the numbers `key`."""
        self.seen += 1
        place = len(self.kept) if len(self.kept) < self.most else secrets.randbelow(self.seen)
        if place < self.most:
            self.kept[place : place + 1] = [(key, self.guest.outputs())]


class _Numbers:
    """The tensors of a problem, with a few rows of another one; the first and the last row stay. A function that keeps answers
    under some of the numbers of its inputs takes the answer of the problem, which is wrong here. The time of a call does not
    count, since a right program may use what did not change.
    """

    def __init__(self, problem: _subquad.Problem, other: _subquad.Problem):
        self.params, self.scalar, self.tensors = problem.params, problem.scalar, dict(problem.tensors)
        share = secrets.choice((4, 16, 64))
        for name, bits in problem.tensors.items():
            width = bits.shape[-1] if bits.ndim > 1 else 1
            mixed, rows = bits.reshape(-1, width).copy(), bits.size // width
            for _ in range(max(1, rows // share)):
                row = 1 + secrets.randbelow(rows - 2) if rows > 2 else secrets.randbelow(rows)
                mixed[row] = other.tensors[name].reshape(-1, width)[row]
            self.tensors[name] = mixed.reshape(bits.shape)


class _Ours:
    """One of our implementations, on the numbers of the case."""

    def __init__(self, op: str, problem: _subquad.Problem, implementation: str, threads: int):
        self.problem = problem
        wanted = list(problem.outputs)
        self.timed = _subquad.Timed(op, problem.params, _tensors(problem), implementation, threads, wanted)

    def first(self, _: _subquad.Problem) -> float:
        self.seconds = self.timed.run()
        return self.seconds

    def run(self) -> float:
        for _ in range(_calls_before(self.seconds)):
            self.timed.run()
        self.seconds = self.timed.run()
        return self.seconds

    def outputs(self) -> list[_arrays.NamedArray]:
        return [(name, bits, self.problem.scalar) for name, bits in self.timed.outputs().items()]


def _tensors(problem: _subquad.Problem | _Numbers) -> list[_arrays.NamedArray]:
    return [(name, bits, problem.scalar) for name, bits in problem.tensors.items()]


@dataclass
class _Entry:
    """A contestant with its record. `contestant` is None if it does not run."""

    name: str
    record: _subquad.Record
    contestant: _Theirs | _Ours | None = None
    samples: list[float] = field(default_factory=list)

    def fail(self, reason: str) -> None:
        self.record.fail(reason)
        self.close()

    def close(self) -> None:
        if isinstance(self.contestant, _Theirs):
            self.contestant.guest.close()
        self.contestant = None


class _Contest:
    """All contestants on one case."""

    def __init__(self, op: str, case: _subquad.Case, baselines: list[str], threads: int, budget: float, like: str):
        self.op, self.case, self.threads, self.budget, self.like = op, case, threads, budget, like
        self.problem = case.draw()
        self.baselines = baselines

    def records(
        self, functions: dict[str, Callable[..., Any]], kind: str, isolate: bool, timeout: float
    ) -> list[_subquad.Record]:
        entries: list[_Entry] = []
        try:
            # Starts all child processes before there is an answer that they could have in their memory.
            for name, function in functions.items():
                entries.append(self._theirs(name, function, kind, isolate, timeout))
            for name in self.baselines:
                entries.append(self._ours(name))
            for entry in entries:
                self._first(entry)
            self._time([entry for entry in entries if entry.contestant])
            for entry in entries:
                self._settle(entry)
        finally:
            for entry in entries:
                entry.close()
        return [entry.record for entry in entries]

    def _theirs(self, name: str, function: Callable[..., Any], kind: str, isolate: bool, timeout: float) -> _Entry:
        _arguments.check_accepts(f"function {name}", function, self.op, list(self.problem.tensors))
        accepts = _arguments.accepted(function)
        asked = Asked(
            function,
            {key: value for key, value in self.problem.params.items() if accepts(key)},
            {key: tuple(bits.shape) for key, bits in self.problem.tensors.items()},
            self.problem.outputs,
            _calls.masks(self.op) & set(self.problem.tensors),
            self.problem.scalar,
            kind,
            self.threads,
            timeout,
        )
        entry = _Entry(name, _subquad.record_of_function(self.case, name, self.threads))
        start = time.perf_counter()
        try:
            entry.contestant = _Theirs(self.case, self.problem, Guest(asked) if isolate else GuestHere(asked))
        except Refused as refused:
            entry.fail(str(refused))
        entry.record.setup_seconds = time.perf_counter() - start
        if not isolate:
            entry.record.remark = "timed in this process, which the function could alter"
        return entry

    def _ours(self, name: str) -> _Entry:
        entry = _Entry(name, _subquad.record_of_ours(self.case, name, self.threads))
        if why := self.case.why_not(name, self.threads):
            entry.record.skip(why)
            return entry
        start = time.perf_counter()
        try:
            entry.contestant = _Ours(self.op, self.problem, name, self.threads)
            entry.record.setup_seconds = time.perf_counter() - start
        except Exception as error:  # pylint: disable=broad-except
            entry.fail(f"raised {type(error).__name__}: {error}")
        return entry

    def _first(self, entry: _Entry) -> None:
        """Makes the first call and judges its output."""
        if not entry.contestant:
            return
        try:
            entry.record.first_seconds = entry.contestant.first(self.problem)
            outputs = entry.contestant.outputs()
        except Exception as error:  # pylint: disable=broad-except
            entry.fail(str(error) if isinstance(error, Refused) else f"raised {type(error).__name__}: {error}")
            return
        self._judge(entry, self.problem, outputs)
        if not entry.record.passed:
            entry.close()
        elif isinstance(entry.contestant, _Theirs):
            entry.contestant.guest.forget()

    def _judge(self, entry: _Entry, problem: _subquad.Problem, outputs: list[_arrays.NamedArray]) -> None:
        like = entry.name if isinstance(entry.contestant, _Ours) else self.like
        try:
            judged = _subquad.judge(
                self.op, problem.params, _tensors(problem), outputs, 0.0, problem.scalar, like, True
            )
            entry.record.judge(judged)
        except ValueError as error:
            entry.record.fail(str(error))

    def _time(self, running: list[_Entry]) -> None:
        spent, rounds, last = 0.0, 0, time.monotonic() + OTHER_WORK * self.budget
        while running and rounds < SAMPLES and (rounds < 3 or (spent < self.budget and time.monotonic() < last)):
            # Alternates between contestants, so that a slow second of the machine affects all of them.
            for entry in running[rounds % len(running) :] + running[: rounds % len(running)]:
                try:
                    assert entry.contestant
                    entry.samples.append(entry.contestant.run())
                    spent += entry.samples[-1]
                except Refused as refused:
                    entry.fail(f"in a timed call: {refused}")
            running = [entry for entry in running if entry.contestant]
            rounds += 1

    def _settle(self, entry: _Entry) -> None:
        """Decides whether the times count."""
        contestant, record = entry.contestant, entry.record
        if isinstance(contestant, _Ours):
            self._judge(entry, self.problem, contestant.outputs())  # of the last timed run
        if isinstance(contestant, _Theirs):
            cores = contestant.guest.cores()
            threads = max(self.threads, math.ceil(cores))
            reason = (
                self._why_wrong(contestant)
                or contestant.guest.why_not_believed()
                or _subquad.why_impossible(self.case, threads, min(entry.samples))
            )
            if reason:
                record.fail(reason)
            if cores > 1.15 * self.threads:
                record.remark = (
                    f"its CPU time is {cores:.1f} times its elapsed time, so it uses more threads than threads={self.threads} "
                    "allows"
                )
        if contestant and record.passed:
            record.set_samples(entry.samples, "samples" if len(entry.samples) >= SAMPLES else "budget")

    def _why_wrong(self, contestant: _Theirs) -> str:
        """Judges the outputs of timed calls that were kept, and those of the calls between. Returns why the times do not count:
        one of them is wrong, or none could be judged; otherwise ""."""
        judged = 0
        for numbers, answers in contestant.trapped.kept:
            if reason := self._why_fails(numbers, answers):
                return f"wrong in a call in which few of the numbers were new: {reason}"
        for seed, answers in contestant.kept.kept:
            reason = self._why_fails(contestant.problem(seed), answers)
            if reason:
                return f"wrong in a timed call, whose numbers were new: {reason}"
            judged += reason is not None
        return "" if judged else "no timed output could be judged: the definition has no value for the drawn numbers"

    def _why_fails(self, numbers: _subquad.Problem | _Numbers, answers: Outputs) -> str | None:
        """Returns why an output is wrong, "" if it is right, and None if the definition has no value for these numbers, which is
        not the function's fault."""
        outputs = [(name, bits, scalar) for name, (bits, scalar) in answers.items()]
        tensors, seed = _tensors(numbers), secrets.randbits(62)
        try:
            return _subquad.why_rows_fail(self.op, numbers.params, tensors, outputs, numbers.scalar, self.like, seed)
        except ValueError:
            return None
