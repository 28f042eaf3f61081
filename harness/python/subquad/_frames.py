"""Frames: the data in which a child process answers its parent. The child ran a user's function, so that nothing that it sends
is trusted: a frame has a fixed form, every length is checked before it is used, and nothing in it is code.

A frame is b"sqf1", the kind (one letter), the size of its body (8 bytes, little-endian) and the body. Numbers in a body are
little-endian. A text is its size (4 bytes) and UTF-8. A tensor is its name and scalar type as texts, the number of its
dimensions (1 byte), its shape (8 bytes each) and its elements in row-major order.
"""

from __future__ import annotations

import faulthandler
import math
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import Callable, Collection

import numpy as np

from subquad._arrays import Array, Bits

MAGIC = b"sqf1"
HEADER = struct.Struct("<4scQ")
MOST_TEXT = 4000  # bytes of one text
DTYPES = {"float64": "<f8", "float32": "<f4", "float16": "<u2", "bfloat16": "<u2"}


class Malformed(Exception):
    """Bytes that are no frame of the expected form. The text says what was expected and found."""


class Body:
    """A body to be sent."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def number(self, layout: str, value: float) -> None:
        """Adds a number in a format of `struct`."""
        self.parts.append(struct.pack("<" + layout, value))

    def text(self, value: str) -> None:
        data = value.encode("utf-8", "replace")[:MOST_TEXT]
        self.parts.append(struct.pack("<I", len(data)) + data)

    def tensor(self, name: str, bits: Array, scalar: str) -> None:
        self.text(name)
        self.text(scalar)
        self.parts.append(struct.pack(f"<B{bits.ndim}Q", bits.ndim, *bits.shape))
        self.parts.append(bits.tobytes())

    def send(self, descriptor: int, kind: bytes) -> None:
        body = b"".join(self.parts)
        view = memoryview(HEADER.pack(MAGIC, kind, len(body)) + body)
        while view:
            view = view[os.write(descriptor, view) :]


class Reading:
    """A body that was received. Each method raises Malformed unless the next bytes are what it reads."""

    def __init__(self, body: bytes):
        self.body, self.place = body, 0

    def take(self, size: int) -> bytes:
        if size > len(self.body) - self.place:
            raise Malformed(f"expected {size} more bytes in a frame, found {len(self.body) - self.place}")
        self.place += size
        return self.body[self.place - size : self.place]

    def integer(self, layout: str) -> int:
        return int(struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))[0])

    def seconds(self) -> float:
        """Returns a finite number that is not negative."""
        value = float(struct.unpack("<d", self.take(8))[0])
        if not 0 <= value < math.inf:
            raise Malformed(f"expected a number of seconds, found {value}")
        return value

    def text(self) -> str:
        """Returns a text of printable characters in one line."""
        size = self.integer("I")
        if size > MOST_TEXT:
            raise Malformed(f"expected a text of at most {MOST_TEXT} bytes, found {size}")
        return printable(self.take(size))

    def tensor(self, shapes: dict[str, tuple[int, ...]], scalars: Collection[str]) -> tuple[str, Bits]:
        """Returns an output by its name; it has one of these names, the shape of that name and one of these scalar types."""
        name, scalar = self.text(), self.text()
        if name not in shapes or scalar not in scalars:
            raise Malformed(
                f"expected one of {', '.join(shapes)} in {' or '.join(scalars)}, found {name!r} in {scalar!r}"
            )
        shape = tuple(self.integer("Q") for _ in range(min(self.integer("B"), 16)))
        if shape != tuple(shapes[name]):
            raise Malformed(f"{name}: expected the shape {list(shapes[name])}, found {list(shape)}")
        dtype = np.dtype(DTYPES[scalar])
        data = self.take(math.prod(shape) * dtype.itemsize)
        return name, (np.frombuffer(bytearray(data), dtype).reshape(shape), scalar)

    def end(self) -> None:
        """Checks that nothing follows."""
        if self.place != len(self.body):
            raise Malformed(f"expected the end of a frame, found {len(self.body) - self.place} more bytes")


def printable(data: bytes) -> str:
    """Returns text without characters that could control a terminal."""
    text = data.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in text)


def fork(serve: Callable[[], None]) -> int:
    """Starts a child process that calls `serve` and ends. Returns its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # The parent reports a crash in one line.
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            serve()
            status = 0
        finally:
            os._exit(status)
    return process


class Late(Exception):
    """Nothing came in time."""


class Ended(Exception):
    """The child has ended. `status` is that of os.waitpid."""

    def __init__(self, status: int):
        super().__init__()
        self.status = status


class Child:
    """The parent's end of the pipe from a child, and the child."""

    def __init__(self, process: int, reading: int):
        self.process, self.reading = process, reading
        self.status: int | None = None

    def receive(self, deadline: float, most: int) -> tuple[bytes, Reading]:
        """Returns the kind and the body, of at most `most` bytes, of the next frame. Raises Late, Ended or Malformed; the child
        then has to be stopped, since it is not known what it will send."""
        magic, kind, size = HEADER.unpack(self._read(HEADER.size, deadline))
        if magic != MAGIC or size > most:
            raise Malformed(
                f"expected a frame of at most {most} bytes, found "
                + (f"one of {size} bytes" if magic == MAGIC else "other bytes")
            )
        return kind, Reading(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        """Reads exactly so many bytes, and none of the next frame."""
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late
            # Looks after the child now and then: a process that it has left behind may hold the pipe open.
            ready = select.select([self.reading], [], [], min(left, 0.2))[0]
            if not ready:
                if self.has_ended():
                    raise Ended(self.wait())
                continue
            part = os.read(self.reading, min(1 << 20, size - len(data)))
            if not part:
                # It may have closed the pipe and go on.
                while not self.has_ended():
                    if time.monotonic() > deadline:
                        raise Late
                    time.sleep(0.001)
                raise Ended(self.wait())
            data += part
        return bytes(data)

    def has_ended(self) -> bool:
        if self.status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            self.status = status if process else None
        return self.status is not None

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitpid(self.process, 0)[1]
        return self.status

    def stop(self, group: bool = False) -> None:
        """Ends the child if it runs, with the processes of its group if it has one of its own, and closes the pipe."""
        if group:
            try:
                os.killpg(self.process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if not self.has_ended():
            os.kill(self.process, signal.SIGKILL)
            self.wait()
        os.close(self.reading)
