"""Tests how `sweep` and `verify` talk to the processes of functions, and what `sweep` says about times."""

import os
import pickle
import struct
import threading
import time

import numpy as np
import plain
import pytest

import subquad
from subquad import _frames, _guests, _subquad


def frame_of(data, shapes=None):
    """Returns the tensor in a frame with these bytes as the parent reads it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, data)
        os._exit(0)
    os.close(writing)
    answers = _frames.Child(child, reading)
    try:
        _, body = answers.receive(time.monotonic() + 10, 1000)
        tensor = body.tensor(shapes or {"out": (2, 3)}, ("float32",))
        body.end()
        return tensor
    finally:
        answers.stop()


def sent(name="out", shape=(2, 3), scalar="float32", more=b""):
    body = _frames.Body()
    body.tensor(name, np.arange(np.prod(shape), dtype=np.float32).reshape(shape), scalar)
    data = b"".join(body.parts) + more
    return _frames.HEADER.pack(_frames.MAGIC, b"v", len(data)) + data


def test_a_frame_is_read_as_it_was_sent():
    name, (bits, scalar) = frame_of(sent())
    assert name == "out" and scalar == "float32" and bits.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "data, expected",
    [
        (pickle.dumps(print) + bytes(20), "other bytes"),
        (sent(name="in"), "expected one of out in float32, found 'in'"),
        (sent(scalar="float64"), "in 'float64'"),
        (sent(shape=(3, 2)), r"expected the shape \[2, 3\], found \[3, 2\]"),
        (sent(shape=(2, 3, 1)), r"found \[2, 3, 1\]"),
        (sent(more=b"x"), "1 more bytes"),
        (_frames.HEADER.pack(_frames.MAGIC, b"v", 1 << 60), "found one of 1152921504606846976 bytes"),
        (_frames.HEADER.pack(_frames.MAGIC, b"v", 4) + struct.pack("<I", 1 << 31), "at most 4000 bytes"),
        (_frames.HEADER.pack(_frames.MAGIC, b"v", 20) + sent()[_frames.HEADER.size :][:20], "more bytes in a frame"),
    ],
)
def test_other_bytes_are_no_frame(data, expected):
    with pytest.raises(_frames.Malformed, match=expected):
        frame_of(data)


def test_a_frame_that_breaks_off_has_ended():
    with pytest.raises(_frames.Ended):
        frame_of(sent()[:-3])


def pipes():
    """Returns the descriptors of pipes of this process, and their names."""
    links = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            links[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return {descriptor: link for descriptor, link in links.items() if link.startswith("pipe:")}


def test_code_in_an_answer_is_not_run(tmp_path):
    mark, judge = tmp_path / "mark", os.getpid()
    before = pipes()

    class Code:
        def __reduce__(self):
            return exec, (f"open({str(mark)!r}, 'w').close()",)

    def sly(weights, values, causal=False):
        assert os.getpid() != judge
        data = pickle.dumps(Code())
        for descriptor, link in pipes().items():
            try:
                if link not in before.values():
                    os.write(descriptor, struct.pack("<q", len(data)) + data)
            except OSError:
                continue
        return plain.toeplitz_1d(weights, values)

    result = subquad.verify(sly, "toeplitz_1d", n=[8], causal=False, shrink=0)
    assert not result and not any(row.passed for row in result.rows), str(result)
    assert "wrote into the pipe of its process" in str(result)
    assert not mark.exists()


def test_texts_cannot_control_a_terminal():
    def broken(weights, values):
        raise ValueError("\x1b[2Jgone\n\x07")

    result = subquad.sweep({"mine": broken}, "toeplitz_1d", n=[16], baselines=["dense"], budget=0.01)
    assert "raised ValueError:  [2Jgone" in str(result) and "\x1b" not in str(result)


def test_a_time_below_the_least_work_is_impossible():
    case = _subquad.case_for("softmax_attention", 512, [], "float32", 1)
    assert _subquad.why_impossible(case, 1, 1e-7).startswith("impossible: 1e-07 s for ")
    assert _subquad.why_impossible(case, 1, float("nan")).startswith("impossible")
    assert _subquad.why_impossible(case, 1, 0.1) == ""


def test_a_clock_that_is_wrong_is_not_believed():
    case = _subquad.case_for("toeplitz_1d", 64, [], "float32", 1)
    problem = case.draw()
    shapes = {name: bits.shape for name, bits in problem.tensors.items()}
    asked = _guests.Asked(
        plain.toeplitz_1d, {}, shapes, problem.outputs, frozenset(), problem.scalar, "numpy", threads=1, timeout=10.0
    )
    guest = _guests.Guest(asked)
    try:
        for _ in range(_guests.MOST_WAITING):
            guest.call(problem)
        assert guest.why_not_believed() == ""
        guest.watched.calls = {0: [(seconds / 100, wall + 0.01, 0.0) for seconds, wall, _ in guest.watched.calls[0]]}
        assert "of its calls took" in guest.why_not_believed()
        guest.watched.calls = {0: [(1e-6, 2e-3, 2e-3)] * 5}
        assert "of its calls took" in guest.why_not_believed()
        guest.watched.calls = {0: [(1e-6, 2e-3, 1e-5)] * 5}  # it waited
        assert guest.why_not_believed() == ""
    finally:
        guest.close()


def busy(weights, values):
    # Works in NumPy, which lets other threads run.
    threads = [threading.Thread(target=lambda: [np.sin(np.ones(100000)) for _ in range(20)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return plain.toeplitz_1d(weights, values)


def cores(program, inputs):
    """Returns how many cores this machine gives a program now."""
    clock, cpu = time.perf_counter(), time.process_time()
    program(**inputs)
    return (time.process_time() - cpu) / (time.perf_counter() - clock)


def test_cpu_time_is_measured():
    case = _subquad.case_for("toeplitz_1d", 64, [], "float32", 1)
    inputs = case.draw().tensors
    functions = {"busy": busy, "plain": plain.toeplitz_1d}
    for _ in range(5):
        given = cores(busy, inputs)
        result = subquad.sweep(functions, "toeplitz_1d", n=[64], baselines=["dense"], budget=0.5)
        remarks = {record["implementation"]: record.get("remark", "") for record in result.records}
        assert result.passed and not remarks["plain"] and not remarks["dense"], str(result)
        if remarks["busy"]:
            assert "uses more threads than threads=1 allows" in remarks["busy"]
            return
        if min(given, cores(busy, inputs)) > 1.5:
            pytest.fail(f"{given:.1f} cores were busy, and nothing was said: {result}")
    pytest.skip("other programs leave this machine less than two cores")


def test_more_threads_than_announced_are_said(monkeypatch):
    monkeypatch.setattr(_guests.Guest, "cores", lambda guest: 1.9)
    for threads, expected in (
        (1, "its CPU time is 1.9 times its elapsed time, so it uses more threads than threads=1 allows"),
        (2, ""),
    ):
        options = {"n": [64], "baselines": ["dense"], "budget": 0.05, "threads": threads}
        result = subquad.sweep({"mine": plain.toeplitz_1d}, "toeplitz_1d", **options)
        assert result.passed and result.records[0].get("remark", "") == expected and expected in str(result)


def test_without_a_process_the_record_says_so():
    functions = {"mine": plain.toeplitz_1d}
    result = subquad.sweep(functions, "toeplitz_1d", n=[64], baselines=["dense"], budget=0.05, isolate=False)
    mine, ours = result.records
    assert result.passed and "in this process" in mine["remark"] and "remark" not in ours
    kept = {}

    def stale(weights, values):
        return kept.setdefault(values.shape, plain.toeplitz_1d(weights, values))

    result = subquad.sweep({"mine": stale}, "toeplitz_1d", n=[64], baselines=["dense"], budget=0.05, isolate=False)
    assert "wrong in a call in which few of the numbers were new" in str(result)


@pytest.mark.parametrize("threads", [1, 2])
def test_pytorch_in_a_process_of_its_own(threads):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.ones(2000, 2000) @ torch.ones(2000, 2000)  # starts the threads of this process, which a child does not have

    def mine(q, k, v, causal=False, scale=None):
        return torch.softmax(q @ k.mT * (scale or q.shape[-1] ** -0.5), -1) @ v

    def wide(q, k, v):
        return mine(q, k, v).to(torch.float64)

    def fake(q, k, v):
        return mine(q, k, v).as_subclass(type("Lazy", (torch.Tensor,), {}))

    functions = {"mine": mine, "wide": wide, "fake": fake}
    options = {"n": [64, 300], "baselines": ["dense"], "budget": 0.05, "threads": threads, "array": "torch"}
    result = subquad.sweep(functions, "softmax_attention", **options)
    assert set(result.seconds("mine")) == {64, 300}, str(result)
    assert not result.seconds("wide") and "wrong type: out has torch.float64, expected float32" in str(result)
    assert not result.seconds("fake") and "Lazy as out; expected a dense tensor" in str(result)
