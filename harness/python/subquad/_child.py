"""Calls a user's function in a forked child process, so that a crash does no harm. The child sends back the result of each call.

A call has one case, or two cases on the same arrays with other values (`again`).
"""

from __future__ import annotations

import enum
import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

import numpy as np

from subquad import _arrays, _calls, _frames, _subquad

Bits = _arrays.Bits


@dataclass
class Call:
    """The arguments of a call: a case, and that of the second call on the same arrays, if there is one."""

    case: _subquad.Case
    again: _subquad.Case | None = None
    arguments: tuple[str, ...] | None = None  # parameters that the function accepts; None: all of them


class FaultKind(enum.Enum):
    """What a function did instead of returning arrays that can be compared."""

    LATE = enum.auto()  # it did not return in time
    ENDED = enum.auto()  # it crashed or ended the process
    RAISED = enum.auto()
    OUTPUT_MISSING = enum.auto()
    NOT_AN_ARRAY = enum.auto()
    WRONG_TYPE = enum.auto()
    WRONG_SHAPE = enum.auto()
    CHANGED_INPUT = enum.auto()


@dataclass(frozen=True)
class Fault:
    """A problem that occurred before any values were compared. `detail` tells faults of a kind apart: the name of an exception."""

    kind: FaultKind
    text: str
    detail: str = ""

    def __str__(self) -> str:
        return self.text

    def is_like(self, other: Fault | None) -> bool:
        return other is not None and (self.kind, self.detail) == (other.kind, other.detail)


@dataclass
class Reply:
    """The result of a call."""

    outputs: dict[str, Bits] = field(default_factory=dict)
    second: dict[str, Bits] = field(default_factory=dict)
    fault: Fault | None = None
    overwritten: bool = False  # the second call wrote into the output of the first
    seconds: float = 0.0


@dataclass
class Caller:
    """A user's function and the kind of arrays that it expects."""

    function: Callable[..., Any]
    kind: str
    device: str | None
    isolate: bool
    timeout: float

    def __call__(self, calls: list[Call]) -> Iterator[tuple[Call, Reply]]:
        """Yields the replies in the order of the calls."""
        if not self.isolate:
            for call in calls:
                yield call, self.here(call)
            return
        left = list(calls)
        while left:
            for reply in self._in_child(list(left)):
                yield left.pop(0), reply

    def _in_child(self, calls: list[Call]) -> Iterator[Reply]:
        """Yields the replies of one child; stops after a call that ended the child."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reading)
                self._serve(calls, writing)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        answers = _frames.Child(child, reading)
        try:
            for call in calls:
                try:
                    reply = _received(answers, call, time.monotonic() + self.timeout)
                except _frames.Late:
                    yield Reply(fault=Fault(FaultKind.LATE, f"did not return within {self.timeout:g} s"))
                    return
                except _frames.Ended as ended:
                    yield Reply(fault=how_it_ended(ended.status))
                    return
                except _frames.Malformed as malformed:
                    yield Reply(fault=malformed_answer(malformed))
                    return
                yield reply
        finally:
            answers.stop()

    def _serve(self, calls: list[Call], writing: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # The parent reports a crash in one line.
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.kind == "torch":
            # The threads of the parent's pool do not exist in a forked child.
            sys.modules["torch"].set_num_threads(1)
        for call in calls:
            body = _body_of(self.here(call))
            body.send(writing, b"v")

    def here(self, call: Call) -> Reply:
        """Makes the call in this process."""
        problem = _calls.drawn(call.case)
        arrays = {
            name: _arrays.array_of(np.array(bits), problem.scalar, self.kind, self.device)
            for name, bits in problem.tensors.items()
        }
        reply = Reply()
        start = time.perf_counter()
        reply.outputs, held, reply.fault = self._one(call, problem, arrays)
        reply.seconds = time.perf_counter() - start
        if call.again and not reply.fault:
            other = _calls.drawn(call.again)
            if self.kind == "jax":
                arrays = {
                    name: _arrays.array_of(np.array(bits), other.scalar, self.kind)
                    for name, bits in other.tensors.items()
                }
            else:
                for name, bits in other.tensors.items():
                    _write_into(arrays[name], bits, other.scalar, self.kind)
            reply.second, _, reply.fault = self._one(call, other, arrays)
            if not reply.fault:
                for name, (bits, _) in reply.outputs.items():
                    now, _ = _arrays.bits_of(name, held[name])
                    reply.overwritten = reply.overwritten or _raw(now).tobytes() != _raw(bits).tobytes()
        return reply

    def _one(
        self, call: Call, problem: _subquad.Problem, arrays: dict[str, Any]
    ) -> tuple[dict[str, Bits], dict[str, Any], Fault | None]:
        """Calls the function. Returns its outputs as bits, the returned arrays and a fault, if there is one."""
        backward = problem.backward
        # Keeps a copy of the values to detect inputs that the function changes.
        before = {name: _raw(np.array(_arrays.bits_of(name, array)[0])) for name, array in arrays.items()}
        inputs = {name: array for name, array in arrays.items() if not (backward and name == "grad")}
        params = problem.params
        if call.arguments is not None:
            params = {name: value for name, value in params.items() if name in call.arguments}
        try:
            if backward:
                returned = self._gradients(inputs, params, arrays["grad"])
            else:
                returned = self.function(**inputs, **params)
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            return {}, {}, _how_it_failed(error)
        if not isinstance(returned, dict):
            returned = {next(iter(problem.outputs)): returned}

        def failed(kind: FaultKind, text: str) -> tuple[dict[str, Bits], dict[str, Any], Fault]:
            return {}, {}, Fault(kind, text)

        outputs = {}
        for name, shape in problem.outputs.items():
            if name not in returned:
                expected = ", ".join(problem.outputs)
                return failed(FaultKind.OUTPUT_MISSING, f"returned no {name}; expected {expected}")
            value = returned[name]
            if not _arrays.is_array(value):
                found = type(value).__name__
                return failed(FaultKind.NOT_AN_ARRAY, f"returned {found} as {name}; expected an array")
            if _arrays.kind_of(value) != self.kind:
                kind = _arrays.kind_of(value)
                text = f"returned an array of {kind} as {name}; expected an array of {self.kind}"
                return failed(FaultKind.NOT_AN_ARRAY, text)
            if not _arrays.is_real(value, self.kind):
                found = f"{type(value).__module__}.{type(value).__qualname__}"
                text = f"returned {found} as {name}; expected an array of {self.kind} whose numbers are in memory"
                return failed(FaultKind.NOT_AN_ARRAY, text)
            try:
                bits, scalar = _arrays.bits_of(name, value)
            except ValueError as error:
                return failed(FaultKind.WRONG_TYPE, f"returned the wrong type: {error}")
            if tuple(bits.shape) != tuple(shape):
                text = f"returned the wrong shape: {name} has {list(bits.shape)}, expected {list(shape)}"
                return failed(FaultKind.WRONG_SHAPE, text)
            if scalar != problem.scalar:
                text = f"returned the wrong type: {name} has {scalar}, expected {problem.scalar}"
                return failed(FaultKind.WRONG_TYPE, text)
            outputs[name] = np.array(bits), scalar
        for name, array in arrays.items():
            if _raw(_arrays.bits_of(name, array)[0]).tobytes() != before[name].tobytes():
                return outputs, returned, Fault(FaultKind.CHANGED_INPUT, f"changed its input {name}")
        return outputs, returned, None

    def _gradients(self, inputs: dict[str, Any], params: dict[str, Any], grad: Any) -> dict[str, Any]:
        """Returns grad_X for every input X, by the framework's automatic differentiation."""
        if self.kind == "jax":
            jax = sys.modules["jax"]

            def forward(tensors: dict[str, Any]) -> Any:
                returned = self.function(**tensors, **params)
                return next(iter(returned.values())) if isinstance(returned, dict) else returned

            _, pull = jax.vjp(forward, inputs)
            return {f"grad_{name}": value for name, value in pull(grad)[0].items()}
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in inputs.items()}
        returned = self.function(**leaves, **params)
        out = next(iter(returned.values())) if isinstance(returned, dict) else returned
        out.backward(grad)
        return {f"grad_{name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def _raw(bits: _arrays.Array) -> _arrays.Array:
    """Returns the bytes of an array, which compare equal even for NaN."""
    return np.ascontiguousarray(bits).reshape(-1).view(np.uint8)


def _write_into(array: Any, bits: _arrays.Array, scalar: str, kind: str) -> None:
    if kind == "torch":
        array.copy_(_arrays.array_of(np.array(bits), scalar, "torch"))
    else:
        array.view(bits.dtype)[...] = bits


def _body_of(reply: Reply) -> _frames.Body:
    """Returns the body of a frame: the seconds, whether an output was overwritten, the fault (0 or its kind, its detail and its
    text), the outputs and those of the second call."""
    body = _frames.Body()
    body.number("d", reply.seconds)
    body.number("B", reply.overwritten)
    body.number("B", reply.fault.kind.value if reply.fault else 0)
    body.text(reply.fault.detail if reply.fault else "")
    body.text(reply.fault.text if reply.fault else "")
    for outputs in (reply.outputs, reply.second):
        body.number("B", len(outputs))
        for name, (bits, scalar) in outputs.items():
            body.tensor(name, bits, scalar)
    return body


def _received(answers: _frames.Child, call: Call, deadline: float) -> Reply:
    """Returns the next reply, which has the outputs of this call's cases or a fault. Raises what `answers.receive` raises."""
    case = call.case
    size = sum(8 * int(np.prod(shape)) for shape in case.output_shapes.values())
    _, body = answers.receive(deadline, 2 * size + 200 * _frames.MOST_TEXT)
    reply = Reply(seconds=body.seconds(), overwritten=body.integer("B") != 0)
    kind, detail, text = body.integer("B"), body.text(), body.text()
    if kind:
        known = {fault.value: fault for fault in FaultKind if fault not in (FaultKind.LATE, FaultKind.ENDED)}
        if kind not in known:
            raise _frames.Malformed(f"expected the kind of a fault, found {kind}")
        reply.fault = Fault(known[kind], text, detail)
    for outputs, asked in ((reply.outputs, case), (reply.second, call.again)):
        for _ in range(body.integer("B")):
            name, bits = body.tensor(asked.output_shapes if asked else {}, case.scalar)
            outputs[name] = bits
        if asked and not kind and set(outputs) != set(asked.output_shapes):
            raise _frames.Malformed(
                f"expected the outputs {', '.join(asked.output_shapes)}, found {', '.join(outputs)}"
            )
    body.end()
    return reply


def malformed_answer(malformed: _frames.Malformed) -> Fault:
    """The fault of a function whose process sent something that our code does not send."""
    text = f"wrote into the pipe of its process, or changed our code there: {malformed}"
    return Fault(FaultKind.ENDED, text, "Malformed")


def how_it_ended(status: int) -> Fault:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Fault(FaultKind.ENDED, f"crashed: {name}", name)
    return Fault(FaultKind.ENDED, f"ended the process with status {os.WEXITSTATUS(status)}")


def _how_it_failed(error: Exception | SystemExit) -> Fault:
    lines = str(error).strip().split("\n")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    name = type(error).__name__
    return Fault(FaultKind.RAISED, f"raised {name}: {lines[0]}{where}", name)
