#!/usr/bin/env python3
"""The programs that peers.py holds ours against, and the process that runs one of them.

A peer is a function that takes a Problem and returns a function without arguments: what is timed. Whatever depends on the
numbers in the tensors belongs into that; types, layouts and masks may be made before, as ours makes its plans before.
A file of your own peers for `peers.py --programs FILE` looks like this:

    from peer_programs import peer

    @peer("mine", "softmax_attention", "what it is", needs=("numpy",))
    def mine(problem):
        q, k, v = (problem.inputs[name] for name in "qkv")
        return lambda: my_attention(q, k, v)
"""

import dataclasses
import gc
import importlib
import importlib.util
import json
import math
import pathlib
import resource
import sys
import time
import typing


@dataclasses.dataclass
class Peer:
    name: str
    operator: str
    what: str
    needs: tuple  # modules
    scalars: tuple
    time: str | None
    memory: str | None
    time_class: str | None
    memory_class: str | None
    beside: str | None  # what a reader of its ratio has to know
    build: typing.Callable


@dataclasses.dataclass
class Problem:
    inputs: dict  # name -> NumPy array
    size: dict
    params: dict
    threads: int

    def scale(self, otherwise):
        return float(self.params.get("scale", otherwise))

    def flag(self, name):
        return bool(self.params.get(name, False))


PEERS = {}


def peer(name, operator, what, needs=(), scalars=("float32", "float64"), time=None, memory=None, classes=(None, None), beside=None):
    def add(build):
        PEERS[name] = Peer(name, operator, what, tuple(needs), tuple(scalars), time, memory, *classes, beside, build)
        return build

    return add


# Products with weights by offset: the circulant of length 2n whose first column is w(0), w(-1) .. w(1-n), 0, w(n-1) .. w(1)

FFT = {"time": "O(e n log n)", "memory": "O(e n)", "classes": ("n log n", "n")}
SCIPY, TORCH = ("numpy", "scipy"), ("numpy", "torch")


@peer("scipy_rfft", "toeplitz_1d", "scipy.fft.rfft of length 2n along the first axis of [n, e]", SCIPY, **FFT)
def scipy_rfft(problem):
    import numpy
    import scipy.fft

    weights, values = problem.inputs["weights"], problem.inputs["values"]
    n, workers = len(values), problem.threads

    def run():
        column = numpy.concatenate([weights[n - 1 :: -1], weights[:1] * 0, weights[: n - 1 : -1]])
        spectrum = scipy.fft.rfft(column, workers=workers)
        product = scipy.fft.rfft(values, n=2 * n, axis=0, workers=workers)
        product *= spectrum[:, None]
        return scipy.fft.irfft(product, n=2 * n, axis=0, workers=workers, overwrite_x=True)[:n]

    return run


@peer("scipy_rfft_rows", "toeplitz_1d", "scipy.fft.rfft of length 2n on the transpose, [e, n]", SCIPY, **FFT)
def scipy_rfft_rows(problem):
    import numpy
    import scipy.fft

    weights, values = problem.inputs["weights"], problem.inputs["values"]
    n, workers = len(values), problem.threads

    def run():
        column = numpy.concatenate([weights[n - 1 :: -1], weights[:1] * 0, weights[: n - 1 : -1]])
        product = scipy.fft.rfft(numpy.ascontiguousarray(values.T), n=2 * n, workers=workers)
        product *= scipy.fft.rfft(column, workers=workers)
        out = scipy.fft.irfft(product, n=2 * n, workers=workers, overwrite_x=True)
        return numpy.ascontiguousarray(out[:, :n].T)

    return run


@peer("scipy_matmul_toeplitz", "toeplitz_1d", "scipy.linalg.matmul_toeplitz", SCIPY, ("float64",), **FFT,
      beside="computes in float64, with transforms of length 2n-1 whatever its factors")  # fmt: skip
def scipy_matmul_toeplitz(problem):
    from scipy.linalg import matmul_toeplitz

    weights, values = problem.inputs["weights"], problem.inputs["values"]
    n = len(values)
    pair = weights[n - 1 :: -1].copy(), weights[n - 1 :].copy()
    return lambda: matmul_toeplitz(pair, values, workers=problem.threads)


def _toeplitz(torch, weights, values):
    """The product along the first axis of [n, channels], by rfft of length 2n."""
    n = len(values)
    spectrum = torch.fft.rfft(_circulant(torch, weights))
    product = torch.fft.rfft(values, n=2 * n, dim=0)
    product *= spectrum[:, None]
    return torch.fft.irfft(product, n=2 * n, dim=0)[:n]


def _circulant(torch, weights):
    n = (len(weights) + 1) // 2
    return torch.cat([weights[:n].flip(0), weights.new_zeros(1), weights[n:].flip(0)])


@peer("torch_rfft", "toeplitz_1d", "torch.fft.rfft of length 2n along the first axis of [n, e]", TORCH, **FFT)
def torch_rfft(problem):
    torch, weights, values = _tensors(problem, "weights", "values")
    return lambda: _toeplitz(torch, weights, values)


@peer("torch_rfft_rows", "toeplitz_1d", "torch.fft.rfft of length 2n on the transpose, [e, n]", TORCH, **FFT)
def torch_rfft_rows(problem):
    torch, weights, values = _tensors(problem, "weights", "values")
    n = len(values)

    def run():
        product = torch.fft.rfft(values.T.contiguous(), n=2 * n)
        product *= torch.fft.rfft(_circulant(torch, weights))
        return torch.fft.irfft(product, n=2 * n)[:, :n].T.contiguous()

    return run


# Kernelized attention with relative positions (NPRF)

NPRF_N2 = {"time": "O(n^2 (f + e))", "memory": "O(n^2)", "classes": ("n^2", "n^2")}


def _features(torch, problem, x, omega):
    """Positive random features; a maximum leaves numerator and normaliser alike, by row for queries and over all for keys."""
    if problem.flag("normalize"):
        x = x / x.norm(dim=-1, keepdim=True)
    x = x * math.sqrt(problem.scale(1))
    return x @ omega.T - (x * x).sum(-1, keepdim=True) / 2


def _nprf(problem):
    """(torch, run of the maps -> (query features, key features, exp(bias), values with a column of ones))"""
    torch, q, k, v, omega, bias = _tensors(problem, "q", "k", "v", "omega", "bias")
    if problem.params.get("feature_map") != "prf" or problem.flag("causal"):
        raise NotImplementedError("only feature_map prf, not causal")
    ones = v.new_ones(len(v), 1)

    def prepare():
        queries, keys = _features(torch, problem, q, omega), _features(torch, problem, k, omega)
        queries = (queries - queries.amax(-1, keepdim=True)).exp_()
        keys = (keys - keys.amax()).exp_()
        return queries, keys, (bias - bias.amax()).exp(), torch.cat([v, ones], 1)

    return torch, prepare


def _quotient(sums):
    return sums[..., :-1] / sums[..., -1:]


@peer("torch_nprf_dense", "kernelized_rpe_attention", "((phi(Q) phi(K)^T) * C) V in PyTorch, all n^2 weights", TORCH, **NPRF_N2)
def torch_nprf_dense(problem):
    torch, prepare = _nprf(problem)

    def run():
        queries, keys, weights, values = prepare()
        # C(i, j) = c(j - i) as a view without copies: with the keys in reverse order it is a Hankel matrix.
        hankel = weights.flip(0).unfold(0, len(keys), 1)
        return _quotient((queries @ keys.flip(0).T).mul_(hankel) @ values.flip(0))

    return run


@peer("torch_nprf_algorithm1", "kernelized_rpe_attention", "NPRF's algorithm 1 in PyTorch: all f (e+1) channels at once", TORCH,
      time="O(n f e log n)", memory="O(n f e)", classes=("n log n", "n"))  # fmt: skip
def torch_nprf_algorithm1(problem):
    torch, prepare = _nprf(problem)

    def run():
        queries, keys, weights, values = prepare()
        n, f = keys.shape
        channels = (keys[:, :, None] * values[:, None, :]).reshape(n, -1)
        sums = _toeplitz(torch, weights, channels).reshape(n, f, -1)
        return _quotient(torch.einsum("nf,nfe->ne", queries, sums))

    return run


@peer("torch_nprf_algorithm1_rows", "kernelized_rpe_attention",
      "NPRF's algorithm 1 in PyTorch: all f (e+1) channels at once, each a row", TORCH,
      time="O(n f e log n)", memory="O(n f e)", classes=("n log n", "n"))  # fmt: skip
def torch_nprf_algorithm1_rows(problem):
    torch, prepare = _nprf(problem)

    def run():
        queries, keys, weights, values = prepare()
        n = len(keys)
        product = torch.fft.rfft(keys.T.contiguous()[:, None, :] * values.T.contiguous()[None, :, :], n=2 * n)
        product *= torch.fft.rfft(_circulant(torch, weights))
        sums = torch.fft.irfft(product, n=2 * n)[..., :n]
        return _quotient(torch.einsum("fn,fen->ne", queries.T.contiguous(), sums))

    return run


@peer("torch_nprf_loop", "kernelized_rpe_attention", "NPRF's algorithm 1 in PyTorch: a loop over the features", TORCH,
      time="O(n f e log n)", memory="O(n e)", classes=("n log n", "n"))  # fmt: skip
def torch_nprf_loop(problem):
    torch, prepare = _nprf(problem)

    def run():
        queries, keys, weights, values = prepare()
        n = len(keys)
        spectrum = torch.fft.rfft(_circulant(torch, weights))
        rows = values.T.contiguous()
        sums = torch.zeros_like(rows)
        for query, key in zip(queries.T.contiguous(), keys.T.contiguous()):
            product = torch.fft.rfft(rows * key, n=2 * n)
            product *= spectrum
            sums += query * torch.fft.irfft(product, n=2 * n)[:, :n]
        return _quotient(sums.T).contiguous()

    return run


# Causal linear attention


def _linear(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    if problem.params.get("feature_map") != "elu1" or not problem.flag("causal"):
        raise NotImplementedError("only feature_map elu1, causal")
    root, ones = math.sqrt(problem.scale(1)), v.new_ones(len(v), 1)

    def prepare():
        queries, keys = (torch.nn.functional.elu(x * root) + 1 for x in (q, k))
        return queries, keys, torch.cat([v, ones], 1)

    return torch, prepare


@peer("torch_cumsum", "linear_attention", "all running sums of phi(k) v^T by torch.cumsum", TORCH,
      time="O(n f e)", memory="O(n f e)", classes=("n", "n"))  # fmt: skip
def torch_cumsum(problem):
    torch, prepare = _linear(problem)

    def run():
        queries, keys, values = prepare()
        sums = torch.cumsum(keys[:, :, None] * values[:, None, :], 0)
        return _quotient(torch.einsum("nf,nfe->ne", queries, sums))

    return run


@peer("torch_chunked", "linear_attention", "chunks of tokens as batched GEMMs, the fastest of 64, 128 and 256 to a chunk", TORCH,
      time="O(n f (e + chunk))", memory="O(n (f + e + chunk))", classes=("n", "n"))  # fmt: skip
def torch_chunked(problem):
    torch, prepare = _linear(problem)

    def with_chunks_of(chunk):
        def run():
            queries, keys, values = prepare()
            n = len(keys)
            missing = -n % chunk
            parts = (torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x for x in (queries, keys, values))
            queries, keys, values = (x.view(-1, chunk, x.shape[-1]) for x in parts)
            states = keys.transpose(1, 2) @ values
            before = torch.cumsum(states, 0) - states
            own = (queries @ keys.transpose(1, 2)).tril_() @ values
            return _quotient(torch.baddbmm(own, queries, before).flatten(0, 1)[:n])

        return run

    return _fastest([with_chunks_of(chunk) for chunk in (64, 128, 256)])


def _fastest(runs):
    def seconds(run):
        run()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return min(runs, key=seconds)


# Softmax attention, all pairs or some

PAIRS = {"time": "O(n^2 (d+e))", "memory": "O(n^2)", "classes": ("n^2", "n^2")}


@peer("torch_softmax", "softmax_attention", "softmax(scale Q K^T) V in PyTorch, all n^2 scores", TORCH, **PAIRS)
def torch_softmax(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    mask = torch.full((len(q), len(k)), -math.inf, dtype=q.dtype).triu_(1) if problem.flag("causal") else None

    def run():
        scores = (q * scale) @ k.T
        if mask is not None:
            scores += mask
        return torch.softmax(scores, -1) @ v

    return run


@peer("torch_sdpa", "softmax_attention", "torch.nn.functional.scaled_dot_product_attention", TORCH,
      time="O(n^2 (d+e))", memory="O(n)", classes=("n^2", "n"))  # fmt: skip
def torch_sdpa(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    q, k, v = (x[None, None] for x in (q, k, v))
    attention, causal = torch.nn.functional.scaled_dot_product_attention, problem.flag("causal")
    return lambda: attention(q, k, v, is_causal=causal, scale=scale)[0, 0]


def _mask(torch, params, n):
    """Which keys a query sees, [n, n]."""
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    window, dilation = params.get("window", 0), params.get("dilation", 1)
    sliding = ((j - i) % dilation == 0) & ((j - i).abs() <= window * dilation)
    if params["pattern"] == "local":
        seen = i // params["block"] == j // params["block"]
    elif params["pattern"] == "sliding":
        seen = sliding
    elif params["pattern"] == "strided":
        seen = ((j - i).abs() <= window) | ((i - j) % params["stride"] == 0)
    elif params["pattern"] == "longformer":
        marked = torch.zeros(n, dtype=torch.bool)
        marked[params["globals"]] = True
        seen = sliding | marked[:, None] | marked[None, :]
    else:
        raise NotImplementedError(f"not the pattern {params['pattern']}")
    return seen & (j <= i) if params.get("causal") else seen


@peer("torch_masked", "sparse_attention", "softmax over all pairs in PyTorch, those not seen masked with -inf", TORCH, **PAIRS,
      beside="looks at all pairs")  # fmt: skip
def torch_masked(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    hidden = ~_mask(torch, problem.params, len(q))
    return lambda: torch.softmax(((q * scale) @ k.T).masked_fill_(hidden, -math.inf), -1) @ v


@peer("torch_sdpa_masked", "sparse_attention", "scaled_dot_product_attention with a mask of pairs", TORCH, **PAIRS,
      beside="looks at all pairs")  # fmt: skip
def torch_sdpa_masked(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    seen = _mask(torch, problem.params, len(q))
    q, k, v = (x[None, None] for x in (q, k, v))
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(q, k, v, attn_mask=seen, scale=scale)[0, 0]


def _tensors(problem, *names):
    import torch

    torch.set_num_threads(problem.threads)
    torch.set_grad_enabled(False)
    return torch, *(torch.from_numpy(problem.inputs[name]) for name in names)


# The process that runs one peer: a job on standard input, then a line for each sample


def load_programs(path):
    """Adds the peers of a file."""
    sys.modules.setdefault("peer_programs", sys.modules[__name__])
    before = set(PEERS)
    spec = importlib.util.spec_from_file_location("peers_of_a_user", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return [PEERS[name] for name in PEERS if name not in before]


def missing_module(one):
    """The first module that a peer needs and that is not here, or None."""
    return next((name for name in one.needs if importlib.util.find_spec(name) is None), None)


def _memory(key):
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


class Growth:
    """By how many bytes the resident set grew at most: what a first run needed beside its inputs."""

    def __enter__(self):
        self.bytes = None
        try:
            pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
            self.before = _memory("VmRSS")
        except OSError:  # another system, or a sandbox
            self.before = None
        return self

    def __exit__(self, *_):
        if self.before is not None:
            self.bytes = max(0, _memory("VmHWM") - self.before)


def _say(**line):
    print(json.dumps(line), file=sys.__stdout__, flush=True)


def _run_job(job):
    import numpy

    if job["memory_bytes"]:
        limit = int(job["memory_bytes"]) + 2**32  # libraries map more than they touch
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if job["programs"]:
        load_programs(job["programs"])
    folder = pathlib.Path(job["folder"])
    inputs = {name: numpy.load(folder / f"{name}.npy") for name in job["inputs"]}
    start = time.perf_counter()
    run = PEERS[job["peer"]].build(Problem(inputs, job["size"], job["params"], job["threads"]))
    setup = time.perf_counter() - start
    with Growth() as growth:
        start = time.perf_counter()
        out = run()
        first = time.perf_counter() - start
    out = numpy.ascontiguousarray(out)
    numpy.save(folder / f"peer_{job['peer']}.npy", out)
    workspace = None if growth.bytes is None else max(0, growth.bytes - out.nbytes)
    del out
    start = time.perf_counter()
    run()  # on a warm heap
    second = time.perf_counter() - start
    runs = max(1, round(1e-3 / max(second, 1e-7)))
    gc.collect()
    gc.disable()
    _say(ready=True, setup_seconds=setup, first_seconds=first, workspace_bytes=workspace)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(runs):
            run()
        _say(seconds=(time.perf_counter() - start) / runs)


def main():
    try:
        _run_job(json.loads(sys.stdin.readline()))
    except NotImplementedError as error:
        _say(skipped=f"the peer does not do this case: {error}")
    except (MemoryError, RuntimeError) as error:
        text = " ".join(str(error).split())
        if isinstance(error, MemoryError) or "allocate" in text:
            _say(skipped=f"does not fit in memory: {text[:150] or 'an allocation was refused'}")
        else:
            _say(failed=text[:300])
    except Exception as error:  # noqa: BLE001 - whatever a peer does wrong costs its record and nothing else
        _say(failed=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


if __name__ == "__main__":
    main()
