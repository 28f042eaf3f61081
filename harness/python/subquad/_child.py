"""Calls a user's function in a forked child process, so that a crash does no harm. The child sends back the result of each call.

A call has one case, or two cases on the same arrays with other values (`again`).
"""

from __future__ import annotations

import enum
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator

import numpy as np

from subquad import _arguments, _arrays, _calls, _frames, _pairs, _subquad

Bits = _arrays.Bits
MIDDLE = "middle"


@dataclass
class Call:
    """The arguments of a call, and of a second one on the same arrays if there is one.

    again: the case of the second call. With keeps, only its parameters are used: the tensors are those of the first call, or,
    with keeps = MIDDLE, those with the numbers in the middle of each in another order.
    arguments: the parameters that the function accepts; None: all of them. layout: as in _arrays.laid_out, or "expanded".
    fresh: the arrays are row-major, with the numbers of the layout. low: inputs whose numbers are near -8, where an activation such
    as elu(x) + 1 is next to zero. defaults: parameters that the function requires and the case leaves at these values.
    own: tensors that the function makes itself, by functions that make them for the reference. known_outputs: the names of the
    operator's outputs, of which a function returns the first one without a name.
    """

    case: _subquad.Case
    again: _subquad.Case | None = None
    arguments: tuple[str, ...] | None = None
    layout: str = ""
    keeps: str = ""
    fresh: bool = False
    low: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Callable[..., Any]] = field(default_factory=dict)
    known_names: tuple[str, ...] = ()  # of the operator's inputs and parameters
    known_outputs: tuple[str, ...] = ("out",)

    @property
    def first_output(self) -> str:
        return self.known_outputs[0]

    def first(self) -> _calls.Given:
        """Returns the tensors and parameters of the first call."""
        given = _calls.given(self.case)
        if self.low:
            low = {name: _lowered(given.tensors[name], given.scalar) for name in self.low}
            given = replace(given, tensors={**given.tensors, **low})
        if self.layout == "expanded":
            tensors = dict(given.tensors)
            for name, axis in self.expanded_axes().items():
                tensors[name] = np.ascontiguousarray(
                    np.broadcast_to(tensors[name].take([0], axis), tensors[name].shape)
                )
            given = replace(given, tensors=tensors)
        return self._with_own(self.case, given)

    def second(self) -> _calls.Given:
        """Returns the tensors and parameters of the second call."""
        if self.again is None:
            raise ValueError("a call without a second one")
        other = _calls.given(self.again)
        if self.keeps:
            kept = _calls.given(self.case)
            tensors = {name: _reordered(bits) if self.keeps == MIDDLE else bits for name, bits in kept.tensors.items()}
            other = replace(other, tensors=tensors)
        return self._with_own(self.again, other)

    def expanded_axes(self) -> dict[str, int]:
        """Returns the axis along which each expanded tensor repeats its first entry: the heads, or the batch if there is one; of an
        incoming gradient, the rows."""
        shapes, leading = self.case.input_shapes, self.case.leading_axes
        axes = {}
        for name in _pairs.expandable(self.case):
            if name == "grad":
                axes[name] = len(shapes[name]) - 2
            else:
                axes[name] = max(range(leading[name]), key=lambda axis: (shapes[name][axis] > 1, -axis))
        return axes

    def _with_own(self, case: _subquad.Case, given: _calls.Given) -> _calls.Given:
        if not self.own:
            return given
        tensors, types = dict(given.tensors), dict(given.types)
        for name, make in self.own.items():
            if name in tensors:
                tensors[name], types[name] = _made(name, make, case, given)
        return replace(given, tensors=tensors, types=types)


def _made(name: str, make: Callable[..., Any], case: _subquad.Case, given: _calls.Given) -> Bits:
    """Returns a tensor that a user's function makes. Raises ValueError if it does not fit the case."""
    shape = tuple(given.tensors[name].shape)
    known = {**case.settings, **given.params, "shape": shape, "queries": case.queries, "keys": case.keys}
    accepts = _arguments.accepted(make)
    try:
        value = make(**{key: known[key] for key in known if accepts(key)})
    except Exception as error:
        raise ValueError(
            f'tensors["{name}"]: expected a function that makes a tensor of shape {list(shape)}, found one that raised '
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}; it may name shape, "
            f"{', '.join(sorted(set(known) - {'shape'}))}"
        ) from None
    bits, scalar = _arrays.bits_of(f'tensors["{name}"]', value, given.types[name] == _arrays.BOOLEAN)
    if tuple(bits.shape) != shape:
        raise ValueError(f'tensors["{name}"]: expected an array of shape {list(shape)}, found {list(bits.shape)}')
    if scalar == "float64" and given.scalar != "float64":
        return bits.astype(np.float32), "float32"  # as the function under test computes it
    return np.array(bits), scalar


def _reordered(bits: _arrays.Array) -> _arrays.Array:
    """Returns the numbers of an array with most of those in the middle third in the opposite order. First, middle and last numbers,
    sum and norm do not change."""
    flat = np.array(bits).reshape(-1)
    count = len(flat)
    places = np.arange(count // 3, count // 2 - 1)
    flat[places], flat[count - 1 - places] = flat[count - 1 - places], flat[places]
    return flat.reshape(bits.shape)


def _lowered(bits: _arrays.Array, scalar: str) -> _arrays.Array:
    """Moves numbers from N(0, 1) to N(-8, 1/4)."""
    return _arrays.rounded(_arrays.float64_of(bits, scalar) / 2 - 8, scalar)


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
    REFUSED = enum.auto()  # it said that it does not do this
    WRONG_NAMES = enum.auto()  # it returned outputs without names, or with unknown ones


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

        def serve() -> None:
            os.close(reading)
            self._serve(calls, writing)

        answers = _frames.Child(_frames.fork(serve), reading)
        os.close(writing)
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
        if self.kind == "torch":
            # The threads of the parent's pool do not exist in a forked child.
            sys.modules["torch"].set_num_threads(1)
        for call in calls:
            body = _body_of(self.here(call))
            body.send(writing, b"v")

    def here(self, call: Call) -> Reply:
        """Makes the call in this process."""
        given = call.first()
        arrays = self._arrays_of(call, given)
        reply = Reply()
        start = time.perf_counter()
        reply.outputs, held, reply.fault = self._one(call, given, arrays)
        reply.seconds = time.perf_counter() - start
        if call.again and not reply.fault:
            other = call.second()
            if self.kind == "jax":
                arrays = self._arrays_of(call, other)
            else:
                for name, array in arrays.items():
                    _write_into(array, other.tensors[name], other.scalar, self.kind)
            reply.second, _, reply.fault = self._one(call, other, arrays)
            if not reply.fault:
                for name, (bits, _) in reply.outputs.items():
                    now, _ = _arrays.bits_of(name, held[name])
                    reply.overwritten = reply.overwritten or _raw(now).tobytes() != _raw(bits).tobytes()
        return reply

    def _arrays_of(self, call: Call, given: _calls.Given) -> dict[str, Any]:
        """Returns the arrays that the function is called with, in the layout of the call."""
        layout = "" if call.fresh else call.layout
        expanded = call.expanded_axes() if layout == "expanded" else {}
        arrays = {}
        for name, bits in given.tensors.items():
            if name in call.own:
                continue
            array = _arrays.array_of(np.array(bits), given.scalar, self.kind, self.device)
            if name in expanded:
                array = _arrays.expanded(array, expanded[name], self.kind)
            elif layout != "expanded":
                array = _arrays.laid_out(array, layout, self.kind)
            arrays[name] = array
        return arrays

    def _one(
        self, call: Call, problem: _calls.Given, arrays: dict[str, Any]
    ) -> tuple[dict[str, Bits], dict[str, Any], Fault | None]:
        """Calls the function. Returns its outputs as bits, the returned arrays and a fault, if there is one."""
        backward = problem.backward
        # Keeps a copy of the values to detect inputs that the function changes.
        before = {name: _raw(np.array(_arrays.bits_of(name, array, True)[0])) for name, array in arrays.items()}
        cotangents = {name: array for name, array in arrays.items() if backward and _calls.is_cotangent(name)}
        inputs = {name: array for name, array in arrays.items() if name not in cotangents}
        params = {**call.defaults, **problem.params}
        if call.arguments is not None:
            params = {name: value for name, value in params.items() if name in call.arguments}
        required = _arguments.required_names(self.function) or []
        lacking = [name for name in required if name in call.known_names and name not in inputs and name not in params]
        if lacking:
            return {}, {}, Fault(FaultKind.REFUSED, f"it requires {', '.join(lacking)}", "lacking")
        try:
            if backward:
                returned = self._gradients(call, problem, inputs, params, cotangents)
                if not returned:
                    return {}, {}, Fault(FaultKind.REFUSED, "no gradient reaches its inputs", "no gradient")
            else:
                returned = _by_name(call, self.function(**inputs, **params))
        except _Malformed as error:
            return {}, {}, error.fault
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            return {}, {}, _how_it_failed(error)

        def failed(kind: FaultKind, text: str) -> tuple[dict[str, Bits], dict[str, Any], Fault]:
            return {}, {}, Fault(kind, text)

        outputs = {}
        for name, shape in problem.outputs.items():
            if returned.get(name) is None:
                return {}, {}, _output_missing(name, list(problem.outputs), list(returned))
            value = returned[name]
            if fault := self._no_array(name, value):
                return {}, {}, fault
            try:
                bits, scalar = _arrays.bits_of(name, value)
            except ValueError as error:
                return failed(FaultKind.WRONG_TYPE, f"returned the wrong type: {error}")
            if tuple(bits.shape) != tuple(shape):
                text = f"returned the wrong shape: {name} has {list(bits.shape)}, expected {list(shape)}"
                return failed(FaultKind.WRONG_SHAPE, text)
            if scalar not in (allowed := _scalars_of(name, call, problem.scalar)):
                text = f"returned the wrong type: {name} has {scalar}, expected {' or '.join(allowed)}"
                return failed(FaultKind.WRONG_TYPE, text)
            outputs[name] = np.array(bits), scalar
        for name, array in arrays.items():
            if _raw(_arrays.bits_of(name, array, True)[0]).tobytes() != before[name].tobytes():
                return outputs, returned, Fault(FaultKind.CHANGED_INPUT, f"changed its input {name}")
        return outputs, returned, None

    def _no_array(self, name: str, value: Any) -> Fault | None:
        """Returns the fault if an output is no array of the library whose numbers are in memory."""
        if not _arrays.is_array(value):
            text = f"returned {type(value).__name__} as {name}; expected an array"
        elif (kind := _arrays.kind_of(value)) != self.kind:
            text = f"returned an array of {kind} as {name}; expected an array of {self.kind}"
        elif not _arrays.is_real(value, self.kind):
            found = f"{type(value).__module__}.{type(value).__qualname__}"
            text = f"returned {found} as {name}; expected an array of {self.kind} whose numbers are in memory"
        else:
            return None
        return Fault(FaultKind.NOT_AN_ARRAY, text)

    def _gradients(
        self,
        call: Call,
        problem: _calls.Given,
        inputs: dict[str, Any],
        params: dict[str, Any],
        cotangents: dict[str, Any],
    ) -> dict[str, Any]:
        """Returns grad_X for every input X that a gradient reaches, by the framework's automatic differentiation. Masks have
        none."""
        masks = {name: array for name, array in inputs.items() if problem.types[name] == _arrays.BOOLEAN}
        floats = {name: array for name, array in inputs.items() if name not in masks}

        def forward(tensors: dict[str, Any]) -> list[Any]:
            """Returns the outputs that have a cotangent: "grad" belongs to the first one, "grad_X" to output X."""
            outputs = _by_name(call, self.function(**tensors, **masks, **params))
            names = [name.partition("_")[2] or call.first_output for name in cotangents]
            for name in names:
                if outputs.get(name) is None:
                    raise _Malformed(_output_missing(name, names, list(outputs)))
                # The arrays that JAX differentiates have no numbers.
                if self.kind == "torch" and (fault := self._no_array(name, outputs[name])):
                    raise _Malformed(fault)
            return [outputs[name] for name in names]

        if self.kind == "jax":
            values, pull = sys.modules["jax"].vjp(forward, floats)
            incoming = [grad.astype(value.dtype) for value, grad in zip(values, cotangents.values(), strict=True)]
            return {f"grad_{name}": value for name, value in pull(incoming)[0].items()}
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in floats.items()}
        differentiable = [
            (output, grad.to(output.dtype))
            for output, grad in zip(forward(leaves), cotangents.values(), strict=True)
            if output.requires_grad
        ]
        if not differentiable:  # as in a kernel without a backward pass
            return {}
        outputs, grads = zip(*differentiable, strict=True)
        sys.modules["torch"].autograd.backward(outputs, grads)
        return {f"grad_{name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def _scalars_of(name: str, call: Call, scalar: str) -> tuple[str, ...]:
    """Returns the types that an output of a call in this scalar type may have: kernels of 16-bit types return a second output, such
    as the log-sum-exp, in float32."""
    is_second = name != call.first_output and not name.startswith("grad_")
    return (scalar, "float32") if is_second and scalar in _calls.NARROW else (scalar,)


class _Malformed(Exception):
    """The function did not return arrays by the names of the operator's outputs."""

    def __init__(self, fault: Fault):
        super().__init__(fault.text)
        self.fault = fault


def _by_name(call: Call, returned: Any) -> dict[str, Any]:
    """Returns a function's outputs by name. Raises _Malformed if they have no names, or unknown ones."""
    known = call.known_outputs
    if isinstance(returned, dict):
        if unknown := [str(name) for name in returned if name not in known and known[0] in returned]:
            text = f"returned the unknown output {', '.join(unknown)}; expected {', '.join(known)}"
            raise _Malformed(Fault(FaultKind.WRONG_NAMES, text, "unknown"))
        return returned
    several = isinstance(returned, (tuple, list)) and any(map(_arrays.is_array, returned))
    if isinstance(returned, tuple) or several:
        by_name = ", ".join(f'"{name}": ..' for name in known)
        dict_of = f"several outputs as a dict, {{{by_name}}}" if len(known) > 1 else f"an array, {known[0]}"
        text = f"returned a {type(returned).__name__} of {len(returned)}; expected {dict_of}"
        raise _Malformed(Fault(FaultKind.WRONG_NAMES, text, "unnamed"))
    return {known[0]: returned}


def _output_missing(name: str, expected: list[str], returned: list[Any]) -> Fault:
    found = ", ".join(map(str, returned)) or "an empty dict"
    return Fault(FaultKind.OUTPUT_MISSING, f"returned no {name}; expected {', '.join(expected)}, found {found}")


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
            name, bits = body.tensor(asked.output_shapes if asked else {}, {case.scalar, "float32"})
            if bits[1] not in (allowed := _scalars_of(name, call, case.scalar)):
                raise _frames.Malformed(f"expected {name} in {' or '.join(allowed)}, found {bits[1]}")
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
        number = os.WTERMSIG(status)
        # Signals of real-time programs have no names.
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Fault(FaultKind.ENDED, f"crashed: {name}", name)
    return Fault(FaultKind.ENDED, f"ended the process with status {os.WEXITSTATUS(status)}")


def _how_it_failed(error: Exception | SystemExit) -> Fault:
    """Describes an exception."""
    lines = str(error).strip().split("\n")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    name = type(error).__name__
    if isinstance(error, NotImplementedError):
        return Fault(FaultKind.REFUSED, f"{name}: {lines[0]}" if lines[0] else name, name)
    return Fault(FaultKind.RAISED, f"raised {name}: {lines[0]}{where}", name)
