"""Times a user's functions alternately with our implementations and checks each before and after; writes format results/1."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from subquad import _arguments, _arrays, _calls, _subquad
from subquad._verify import text_of

SAMPLES = 1000  # the largest number of samples of one contestant


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
    **params: Any,
) -> Sweep:
    """Times functions alternately with each other and with our implementations, on the same inputs. Wrong functions are not
    timed.

    functions: functions by name; each is called as `verify` calls it. baselines: our implementations, by the names of
        `signature(op)`; by default the dense one and the first fast one.
    n: lengths. sizes: other sizes and axes by name, such as {"d": 32, "heads": 4}. params: parameters of the operator.
    out: the file to write, which must not exist unless `force` is True; `python3 -m reports.figures FILE` draws it.
    threads: threads of our implementations, and of PyTorch during the sweep. budget: seconds of measuring for each length.
    like: as in `verify`.

    Functions run in this process. Their first call, which includes any set-up, is recorded as `first_seconds`.
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
        if name not in known:
            raise ValueError(f"baselines: expected some of {', '.join(known)}; found {name!r}")
        if name in functions:
            raise ValueError(f"functions: expected names other than those of our implementations, found {name!r}")
    n = _arguments.lengths("n", n)
    _arrays.check_kind(array)
    if like and like not in known:
        raise ValueError(f"like: expected one of {', '.join(known)}; found {like!r}")
    if sizes is not None and not isinstance(sizes, dict):
        raise ValueError(f'sizes: expected sizes by name, such as {{"d": 32}}, found {sizes!r}')
    if "n" in {**params, **(sizes or {})}:
        raise ValueError("sizes: expected sizes other than n, whose values n= lists, found n")
    threads, seed = _arguments.threads(threads), _arguments.seed(seed)
    budget = _arguments.seconds("budget", budget)
    if out is not None:
        out = _arguments.path("out", out)
        _subquad.check_output_file("out", out)
        if os.path.exists(out) and not force:
            raise ValueError(f"out: expected a file that does not exist, or force=True, which replaces it, found {out}")
    values = [(name, text_of(value)) for name, value in {**params, **(sizes or {})}.items()]
    if device is not None and device != "cpu":
        raise ValueError(f"device: expected cpu, found {device!r}; functions on a GPU cannot be timed here yet")
    records: list[_subquad.Record] = []
    created = _subquad.now()
    with _Threads(array, threads):
        for length in n:
            case = _subquad.case_for(op, length, values, scalar, seed)
            records += _Contest(op, case, functions, baselines, array, threads, budget, like).records()
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


class _Contestant:
    """A function on the arrays of one case."""

    def __init__(self, function: Callable[..., Any], problem: _subquad.Problem, kind: str):
        self.function, self.problem, self.kind = function, problem, kind
        self.arrays = {
            name: _arrays.array_of(np.array(bits), problem.scalar, kind) for name, bits in problem.tensors.items()
        }
        accepts = _arguments.accepted(function)
        self.params = {name: value for name, value in problem.params.items() if accepts(name)}
        self.returned: Any = None

    def run(self) -> float:
        start = time.perf_counter()
        self.returned = self.function(**self.arrays, **self.params)
        if self.kind == "jax":
            sys.modules["jax"].block_until_ready(self.returned)
        return time.perf_counter() - start

    def outputs(self) -> list[_arrays.NamedArray]:
        first = next(iter(self.problem.outputs))
        returned = self.returned if isinstance(self.returned, dict) else {first: self.returned}
        outputs = _calls.named_arrays(returned)
        for name, bits, scalar in outputs:
            if scalar != self.problem.scalar:
                raise ValueError(f"{name}: expected {self.problem.scalar}, found {scalar}")
            shape = self.problem.outputs.get(name)
            if shape is not None and tuple(shape) != bits.shape:
                raise ValueError(f"{name}: expected the shape {list(shape)}, found {list(bits.shape)}")
        return outputs

    def changed(self) -> str:
        for name, array in self.arrays.items():
            if not np.array_equal(_arrays.bits_of(name, array)[0], self.problem.tensors[name]):
                return f"changed its input {name}"
        return ""


class _Ours:
    def __init__(self, op: str, problem: _subquad.Problem, implementation: str, threads: int):
        self.problem = problem
        tensors = [(name, bits, problem.scalar) for name, bits in problem.tensors.items()]
        self.timed = _subquad.Timed(op, problem.params, tensors, implementation, threads)

    def run(self) -> float:
        return self.timed.run()

    def outputs(self) -> list[_arrays.NamedArray]:
        return [(name, bits, self.problem.scalar) for name, bits in self.timed.outputs().items()]

    def changed(self) -> str:
        return ""


class _Contest:
    """All contestants on one case."""

    def __init__(
        self,
        op: str,
        case: _subquad.Case,
        functions: dict[str, Callable[..., Any]],
        baselines: list[str],
        kind: str,
        threads: int,
        budget: float,
        like: str,
    ):
        self.op, self.case, self.threads, self.budget, self.like = op, case, threads, budget, like
        self.problem = case.draw()
        self.list: list[tuple[str, Callable[[], Any], _subquad.Record]] = []
        for name, function in functions.items():
            _arguments.check_accepts(f"function {name}", function, op, list(self.problem.tensors))
            record = _subquad.record_of_function(case, name, threads)
            self.list.append((name, functools.partial(_Contestant, function, self.problem, kind), record))
        for name in baselines:
            record = _subquad.record_of_ours(case, name, threads)
            self.list.append((name, functools.partial(_Ours, op, self.problem, name, threads), record))
        self.ours = set(baselines)

    def records(self) -> list[_subquad.Record]:
        running: list[tuple[str, Any, _subquad.Record, list[float]]] = []
        for name, make, record in self.list:
            why = self.case.why_not(name, self.threads) if name in self.ours else ""
            if why:
                record.skip(why)
                continue
            start = time.perf_counter()
            try:
                contestant = make()
                record.setup_seconds = time.perf_counter() - start
                record.first_seconds = contestant.run()
            except Exception as error:  # pylint: disable=broad-except
                reason = (
                    f"raised {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
                )
                record.fail(reason)
                continue
            if self._check(name, contestant, record):
                running.append((name, contestant, record, []))
        self._time(running)
        for name, contestant, record, samples in running:
            # Judges the output of the last timed run.
            if self._check(name, contestant, record):
                record.set_samples(samples, "samples" if len(samples) >= SAMPLES else "budget")
        return [record for _, _, record in self.list]

    def _check(self, name: str, contestant: Any, record: _subquad.Record) -> bool:
        tensors = [(key, bits, self.problem.scalar) for key, bits in self.problem.tensors.items()]
        like = name if name in self.ours else self.like
        try:
            judged = _subquad.judge(
                self.op, self.problem.params, tensors, contestant.outputs(), 0.0, self.problem.scalar, like, True
            )
        except ValueError as error:
            record.fail(str(error))
            return False
        record.judge(judged)
        if changed := contestant.changed():
            record.fail(changed)
        return record.passed

    def _time(self, running: list[tuple[str, Any, _subquad.Record, list[float]]]) -> None:
        end = time.perf_counter() + self.budget
        rounds = 0
        while running and rounds < SAMPLES and (rounds < 3 or time.perf_counter() < end):
            # Alternates between contestants, so that a slow second of the machine affects all of them.
            for _, contestant, _, samples in running[rounds % len(running) :] + running[: rounds % len(running)]:
                samples.append(contestant.run())
            rounds += 1
