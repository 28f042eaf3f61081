"""Somebody's functions timed in turns with our programs, each checked before and after: a file of format results/1."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from subquad import _arrays, _calls, _subquad
from subquad._verify import text_of

SAMPLES = 1000  # of one contestant at most


@dataclass
class Sweep:
    """Records of format results/1, and the whole file as text (`json`). True where everything that ran has passed."""

    operator: str
    records: list[dict] = field(default_factory=list)
    json: str = ""

    @property
    def passed(self) -> bool:
        verdicts = [one["check"]["verdict"] for one in self.records]
        return "passed" in verdicts and "failed" not in verdicts

    def __bool__(self) -> bool:
        return self.passed

    def seconds(self, name: str) -> dict[int, float]:
        """Median time of a run by n, where it was measured."""
        return {
            one["tokens"]: one["seconds"]["median"]
            for one in self.records
            if one["implementation"] == name and one["seconds"]
        }

    def __str__(self) -> str:
        lines = []
        for one in self.records:
            text = f"{self.operator}  n={one['tokens']:<8} {one['implementation']:16} "
            if one["seconds"]:
                found = one["seconds"]
                text += f"{found['median']:.3e} s  [{found['low']:.3e}, {found['high']:.3e}]  {len(found['samples'])} samples"
            else:
                text += f"{one['check']['verdict']}: {one['check']['reason']}"
            lines.append(text)
        return "\n".join(lines)


def sweep(
    functions: dict[str, Callable],
    op: str,
    /,
    *,
    n: list[int],
    baselines: list[str] | None = None,
    out: str | os.PathLike | None = None,
    array: str = "numpy",
    scalar: str = "float32",
    threads: int = 1,
    budget: float = 1.0,
    seed: int = 1,
    device: str | None = None,
    like: str = "",
    sizes: dict[str, int] | None = None,
    **params: Any,
) -> Sweep:
    """Times functions in turns with each other and with our programs, on the same numbers. What is wrong is not timed.

    functions: by name; each is called as `verify` calls it. baselines: our implementations, by the names of
        `signature(op)`; left out, the dense one and the first fast one.
    n: lengths. sizes: other sizes and axes by name, such as {"d": 32, "heads": 4}. params: parameters of the operator.
    out: where the file is written; `python3 -m reports.figures FILE` draws it.
    threads: of our programs, and of PyTorch while this runs. budget: seconds of measuring for each length.
    like: as in `verify`.

    Functions run in this process, and their set-up is theirs: their first call is `first_seconds`.
    """
    for name in functions:
        if not re.fullmatch(r"[A-Za-z0-9_.+-]+", str(name)):
            raise ValueError(f"functions: expected names of letters, digits and _ . + -, found {name!r}")
    known = list(_calls.signature(op)["implementations"])
    if baselines is None:
        baselines = [known[0]] + known[1:2]
    for name in baselines:
        if name not in known:
            raise ValueError(f"baselines: expected some of {', '.join(known)}; found {name!r}")
        if name in functions:
            raise ValueError(f"functions: expected names other than those of our programs, found {name!r}")
    if not n or not all(isinstance(one, int) and one > 0 for one in n):
        raise ValueError(f"n: expected lengths, at least one, found {n!r}")
    if not budget > 0:
        raise ValueError(f"budget: expected seconds above 0, found {budget!r}")
    values = [(name, text_of(value)) for name, value in {**params, **(sizes or {})}.items()]
    if device is not None and device != "cpu":
        raise ValueError(f"device: expected cpu, found {device!r}; a run on a GPU is not over when its call returns")
    found = Sweep(op)
    created = _subquad.now()
    with _Threads(array, threads):
        for length in n:
            case = _subquad.case_id(op, length, values, "normal", scalar, seed)
            found.records += _One(op, case, functions, baselines, array, threads, budget, like).records()
    command = f"subquad.sweep({{{', '.join(map(repr, functions))}}}, {op!r}, n={list(n)})"
    header = {
        "command": command,
        "created": created,
        "seed": seed,
        "environment": json.loads(_subquad.environment(threads)),
    }
    found.json = _subquad.result_file(json.dumps(header), json.dumps(found.records))
    if out is not None:
        _subquad.write_file(os.fspath(out), found.json + "\n")
    return found


class _Threads:
    """PyTorch with as many threads as ours have."""

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

    def __init__(self, function: Callable, problem: dict, kind: str):
        self.function, self.problem, self.kind = function, problem, kind
        self.arrays = {
            name: _arrays.array_of(np.array(bits), problem["scalar"], kind) for name, bits in problem["tensors"].items()
        }
        from subquad._verify import _taken  # pylint: disable=import-outside-toplevel

        takes = _taken(function)
        self.params = {name: value for name, value in problem["params"].items() if takes(name)}
        self.found: Any = None

    def run(self) -> float:
        start = time.perf_counter()
        self.found = self.function(**self.arrays, **self.params)
        if self.kind == "jax":
            sys.modules["jax"].block_until_ready(self.found)
        return time.perf_counter() - start

    def outputs(self) -> list:
        found = self.found if isinstance(self.found, dict) else {next(iter(self.problem["outputs"])): self.found}
        given = [_arrays.given(name, value) for name, value in found.items()]
        for name, bits, scalar in given:
            if scalar != self.problem["scalar"]:
                raise ValueError(f"{name}: expected {self.problem['scalar']}, found {scalar}")
            shape = self.problem["outputs"].get(name)
            if shape is not None and tuple(shape) != bits.shape:
                raise ValueError(f"{name}: expected the shape {list(shape)}, found {list(bits.shape)}")
        return given

    def changed(self) -> str:
        for name, array in self.arrays.items():
            if not np.array_equal(_arrays.bits_of(name, array)[0], self.problem["tensors"][name]):
                return f"changed its input {name}"
        return ""


class _Ours:
    def __init__(self, op: str, problem: dict, implementation: str, threads: int):
        self.problem = problem
        tensors = [(name, bits, problem["scalar"]) for name, bits in problem["tensors"].items()]
        self.timed = _subquad.Timed(op, problem["params"], tensors, implementation, threads)

    def run(self) -> float:
        return self.timed.run()

    def outputs(self) -> list:
        return [(name, bits, self.problem["scalar"]) for name, bits in self.timed.outputs().items()]

    def changed(self) -> str:
        return ""


class _One:
    """All contestants on one case."""

    def __init__(
        self,
        op: str,
        case: str,
        functions: dict[str, Callable],
        baselines: list[str],
        kind: str,
        threads: int,
        budget: float,
        like: str,
    ):
        self.op, self.case, self.threads, self.budget, self.like = op, case, threads, budget, like
        self.problem = _subquad.generate(case)
        self.list: list[tuple[str, Any, dict]] = []
        for name, function in functions.items():
            record = json.loads(_subquad.record(case, "", name, threads))
            self.list.append((name, lambda f=function: _Contestant(f, self.problem, kind), record))
        for name in baselines:
            record = json.loads(_subquad.record(case, name, "", threads))
            self.list.append((name, lambda i=name: _Ours(op, self.problem, i, threads), record))
        self.ours = set(baselines)

    def records(self) -> list[dict]:
        running = []
        for name, make, record in self.list:
            why = _subquad.why_not(self.case, name, self.threads) if name in self.ours else ""
            if why:
                record["check"].update(verdict="skipped", reason=why)
                continue
            start = time.perf_counter()
            try:
                one = make()
                record["setup_seconds"] = time.perf_counter() - start
                record["first_seconds"] = one.run()
            except Exception as error:  # pylint: disable=broad-except
                reason = (
                    f"raised {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
                )
                record["check"].update(verdict="failed", reason=reason)
                continue
            if self._check(name, one, record):
                running.append((name, one, record, []))
        self._time(running)
        for name, one, record, samples in running:
            # What was timed is judged.
            if self._check(name, one, record):
                record["seconds"] = _summary(samples)
        return [record for _, _, record in self.list]

    def _check(self, name: str, one: Any, record: dict) -> bool:
        tensors = [(key, bits, self.problem["scalar"]) for key, bits in self.problem["tensors"].items()]
        like = name if name in self.ours else self.like
        try:
            raw = _subquad.judge(
                self.op, self.problem["params"], tensors, one.outputs(), 0.0, self.problem["scalar"], like, True
            )
        except ValueError as error:
            record["check"].update(verdict="failed", reason=str(error))
            return False
        check = {
            "verdict": raw["verdict"],
            "reason": raw["reason"] or None,
            "error": _number(raw["error_over_bound"]),
            "max_error": _number(raw["error"]),
            "bound": _number(raw["bound"]),
            "error_ratio": _number(raw["error_over_plain"]),
            "rows": "all" if raw["all_rows"] else raw["rows"],
            "gates": raw["gates"] or None,
            "margin": _number(raw["margin"]),
            "nearest": raw["nearest"] or None,
            "blind_to": [name for name, *_ in raw["blind_to"]],
        }
        changed = one.changed()
        if changed:
            check.update(verdict="failed", reason=changed)
        record["check"] = check
        return check["verdict"] == "passed"

    def _time(self, running: list) -> None:
        end = time.perf_counter() + self.budget
        rounds = 0
        while running and rounds < SAMPLES and (rounds < 3 or time.perf_counter() < end):
            # In turns, so that a slow second of the machine meets all of them.
            for _, one, _, samples in running[rounds % len(running) :] + running[: rounds % len(running)]:
                samples.append(one.run())
            rounds += 1


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _summary(samples: list[float]) -> dict:
    median, low, high = _subquad.median(samples)
    return {
        "median": median,
        "low": _number(low),
        "high": _number(high),
        "min": min(samples),
        "max": max(samples),
        "samples": samples,
        "stopped_by": "samples" if len(samples) >= SAMPLES else "budget",
    }
