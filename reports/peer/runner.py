#!/usr/bin/env python3
"""Runs one peer for peers.py in its own process. It reads a job from standard input, then takes one sample for each further line,
which names a form. The arguments are the modules that the peer needs; they are imported before the job is read.

On a GPU, times are the device's own (CUDA events) with a flushed cache, as they are for our implementations, and a peer has two
forms: `eager`, in which Python launches every kernel, and `graph`, in which all kernels were captured once into a CUDA graph that
is replayed. If the capture fails, the first line of the answer gives the reason.
"""

import contextlib
import gc
import importlib
import json
import pathlib
import resource
import sys
import time
import types

from reports.peer import programs


def _memory(key):
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


class Growth:
    """Measures the largest growth of the resident set in bytes: the memory of a first run besides its inputs."""

    def __enter__(self):
        self.bytes = None
        try:
            pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
            self.before = _memory("VmRSS")
        except OSError:  # another system, or a sandbox
            self.before = None
        return self

    def __exit__(self, *_):
        if self.before is not None:
            self.bytes = max(0, _memory("VmHWM") - self.before)


class DeviceGrowth:
    """Measures the largest growth of PyTorch's allocations on the GPU."""

    def __enter__(self):
        import torch

        self.memory = torch.cuda
        self.memory.synchronize()
        self.memory.reset_peak_memory_stats()
        self.before = self.memory.memory_allocated()
        return self

    def __exit__(self, *_):
        self.memory.synchronize()
        self.bytes = self.memory.max_memory_allocated() - self.before


class Host:
    """Takes times by the host's clock, over about a millisecond of consecutive runs."""

    growth = Growth
    finish = staticmethod(lambda: None)

    def __init__(self, run):
        self.run = run
        start = time.perf_counter()
        run()  # on a warm heap
        self.runs = max(1, round(1e-3 / max(time.perf_counter() - start, 1e-7)))

    def seconds(self):
        start = time.perf_counter()
        for _ in range(self.runs):
            self.run()
        return (time.perf_counter() - start) / self.runs


class Events:
    """Takes times by CUDA events; before each run, twice the size of the GPU's cache is written."""

    growth = DeviceGrowth

    @staticmethod
    def finish():
        import torch

        torch.cuda.synchronize()

    def __init__(self, run):
        import torch

        self.torch, self.run = torch, run
        cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 2**27
        self.filler = torch.empty(2 * cache, dtype=torch.uint8, device="cuda")
        self.runs = max(1, round(1e-3 / max(self._once(), 1e-6)))

    def _once(self):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.filler.zero_()
        start.record()
        self.run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def seconds(self):
        return sum(self._once() for _ in range(self.runs)) / self.runs


class Replay:
    """Captures a run into a CUDA graph. A call replays it and returns the output, in the same memory each time."""

    def __init__(self, run):
        import torch

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # Libraries must have been used before they can be captured.
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = run()

    def __call__(self):
        self.graph.replay()
        return self.out


def forms_of(clock, run, save, replay=Replay):
    """Returns clocks by form and the reason why there is no graph, or None. `save` stores the graph's output, which is checked."""
    forms = {"eager": clock(run)}
    if clock is not Events:
        return forms, None
    try:
        replayed = replay(run)
        save(replayed())
        forms["graph"] = clock(replayed)
    except Exception as error:  # noqa: BLE001 - The eager form can be timed anyway.
        return {"eager": clock(run)}, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return forms, None


def _own_clock(clock):
    """Uses the peer's own clock; its memory is unknown."""

    class Own(Host):
        growth = staticmethod(lambda: contextlib.nullcontext(types.SimpleNamespace(bytes=None)))

        def __init__(self, run):
            self.run = run

        def seconds(self):
            return float(clock(self.run))

    return Own


def _clock_of(entry, device):
    if device == "cpu":
        return Host
    if entry.clock:
        return _own_clock(entry.clock)
    import torch

    if not torch.cuda.is_available():
        raise NotImplementedError("PyTorch finds no GPU")
    return Events


def _array(out):
    import numpy

    if hasattr(out, "detach"):  # PyTorch's; NumPy has no bfloat16
        out = out.detach().cpu()
        out = (out.float() if out.element_size() == 2 else out).numpy()
    return numpy.ascontiguousarray(out)


def _say(**line):
    print(json.dumps(line), file=sys.__stdout__, flush=True)


def _run_job(job):
    import numpy

    if job["memory_bytes"] and job["device"] == "cpu":
        limit = int(job["memory_bytes"]) + 2**32  # libraries map more than they touch
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if job["programs"]:
        programs.load_programs(job["programs"])
    folder = pathlib.Path(job["folder"])
    inputs = {name: numpy.load(folder / f"{name}.npy") for name in job["inputs"]}
    result = programs.PEERS[job["peer"]]
    clock = _clock_of(result, job["device"])
    start = time.perf_counter()
    run = result.build(
        programs.Problem(inputs, job["size"], job["params"], job["threads"], job["device"], job["scalar"])
    )
    clock.finish()
    setup = time.perf_counter() - start
    with clock.growth() as growth:
        start = time.perf_counter()
        out = run()
        clock.finish()
        first = time.perf_counter() - start
    out_bytes = out.nbytes
    numpy.save(folder / f"peer_{job['peer']}.npy", _array(out))
    workspace = None if growth.bytes is None else max(0, growth.bytes - out_bytes)
    del out
    forms, why_no_graph = forms_of(clock, run, lambda out: numpy.save(folder / f"graph_{job['peer']}.npy", _array(out)))
    gc.collect()
    gc.disable()
    _say(ready=True, setup_seconds=setup, first_seconds=first, workspace_bytes=workspace, forms=list(forms),
         why_no_graph=why_no_graph)  # fmt: skip
    for form in sys.stdin:
        _say(seconds=forms[form.strip()].seconds())


def main():
    try:
        for module in sys.argv[1:]:
            importlib.import_module(module)
        _run_job(json.loads(sys.stdin.readline()))
    except NotImplementedError as error:
        _say(skipped=f"the peer does not support this case: {error}")
    except (MemoryError, RuntimeError) as error:
        text = " ".join(str(error).split())
        if "No available kernel" in text:  # PyTorch's message if the selected kernel does not support the case
            _say(skipped=f"the peer does not support this case: {text[:150]}")
        elif isinstance(error, MemoryError) or "allocate" in text:  # PyTorch's text, on a GPU too
            _say(skipped=f"does not fit in memory: {text[:150] or 'an allocation was refused'}")
        else:
            _say(failed=text[:300])
    except Exception as error:  # noqa: BLE001 - a fault of a peer affects only its own record
        _say(failed=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


if __name__ == "__main__":
    main()
