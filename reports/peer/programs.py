#!/usr/bin/env python3
"""Implementations from other libraries that `reports.peers` compares with ours; peer/runner.py runs one of them.

A peer is a function that takes a Problem and returns a function without arguments, which is timed. The returned function does
everything that depends on the values of the tensors; types, layouts and masks may be prepared before, as our plans are.
A file with your own peers, for `python3 -m reports.peers --programs FILE`, looks like this:

    from reports.peer.programs import peer

    @peer("mine", "softmax_attention", "what it is", needs=("numpy",))
    def mine(problem):
        q, k, v = (problem.inputs[name] for name in "qkv")
        return lambda: my_attention(q, k, v)

A peer for a GPU has `devices=("cuda",)` and, unless PyTorch's events time it, a `clock`: a function that takes what the peer
returned and returns the seconds of one run with a flushed GPU cache.
"""

import dataclasses
import importlib
import importlib.util
import math
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
    beside: str | None  # a remark on how its work differs from ours, shown with the ratio of times
    devices: tuple  # our backends that it is compared with
    answer: str | None  # for a peer that does only a part of the work: the input that its output must equal
    clock: typing.Callable | None  # returns the seconds of a run on a GPU; None: PyTorch's events take the time
    build: typing.Callable


@dataclasses.dataclass
class Problem:
    inputs: dict  # name -> NumPy array
    size: dict
    params: dict
    threads: int
    device: str = "cpu"
    scalar: str = "float32"

    def scale(self, otherwise):
        return float(self.params.get("scale", otherwise))

    def flag(self, name):
        return bool(self.params.get(name, False))


PEERS = {}


def peer(name, operator, what, needs=(), scalars=("float32", "float64"), time=None, memory=None, classes=(None, None), beside=None,
         devices=None, answer=None, clock=None):  # fmt: skip
    if devices is None:
        devices = ("cpu", "cuda") if "torch" in needs else ("cpu",)

    def add(build):
        PEERS[name] = Peer(name, operator, what, tuple(needs), tuple(scalars), time, memory, *classes, beside, tuple(devices), answer,
                           clock, build)  # fmt: skip
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
    """Computes the product along the first axis of [n, channels] by rfft of length 2n."""
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


@peer("torch_rfft_pair", "toeplitz_1d", "torch.fft.rfft of length 2n of [e, 2n] and its inverse, alone", TORCH, answer="values",
      beside="computes only the transforms, no product, of values already in their layout", **FFT)  # fmt: skip
def torch_rfft_pair(problem):
    torch, values = _tensors(problem, "values")
    n = len(values)
    rows = torch.nn.functional.pad(values.T, (0, n)).contiguous()
    # Back to [n, e] without touching the numbers again.
    return lambda: torch.fft.irfft(torch.fft.rfft(rows), n=2 * n)[:, :n].T


# Kernelized attention with relative positions (NPRF)

NPRF_N2 = {"time": "O(n^2 (f + e))", "memory": "O(n^2)", "classes": ("n^2", "n^2")}


def _features(torch, problem, x, omega):
    """Computes positive random features. The subtracted maximum cancels in the quotient: by row for queries, over all for keys."""
    if problem.flag("normalize"):
        x = x / x.norm(dim=-1, keepdim=True)
    x = x * math.sqrt(problem.scale(1))
    return x @ omega.T - (x * x).sum(-1, keepdim=True) / 2


def _nprf(problem):
    """Returns torch and a function that returns (query features, key features, exp(bias), values with a column of ones)."""
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


@peer(
    "torch_nprf_dense",
    "kernelized_rpe_attention",
    "((phi(Q) phi(K)^T) * C) V in PyTorch, all n^2 weights",
    TORCH,
    **NPRF_N2,
)
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
    root, ones = math.sqrt(problem.scale(1)), torch.ones_like(v[..., :1])

    def prepare():
        queries, keys = (torch.nn.functional.elu(x * root) + 1 for x in (q, k))
        return queries, keys, torch.cat([v, ones], -1)

    return torch, prepare


@peer("torch_cumsum", "linear_attention", "all running sums of phi(k) v^T by torch.cumsum", TORCH,
      time="O(n f e)", memory="O(n f e)", classes=("n", "n"))  # fmt: skip
def torch_cumsum(problem):
    torch, prepare = _linear(problem)

    def run():
        queries, keys, values = prepare()
        sums = torch.cumsum(keys[..., :, None] * values[..., None, :], -3)
        return _quotient(torch.einsum("...nf,...nfe->...ne", queries, sums))

    return run


@peer("torch_chunked", "linear_attention", "chunks of tokens as batched GEMMs, the fastest of 64, 128 and 256 to a chunk", TORCH,
      time="O(n f (e + chunk))", memory="O(n (f + e + chunk))", classes=("n", "n"))  # fmt: skip
def torch_chunked(problem):
    torch, prepare = _linear(problem)

    def with_chunks_of(chunk):
        def run():
            queries, keys, values = prepare()
            n = keys.shape[-2]
            missing = -n % chunk
            parts = (torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x for x in (queries, keys, values))
            queries, keys, values = (x.unflatten(-2, (-1, chunk)) for x in parts)
            states = keys.mT @ values
            before = torch.cumsum(states, -3) - states
            own = (queries @ keys.mT).tril_() @ values
            sums = torch.baddbmm(*(x.flatten(0, -3) for x in (own, queries, before))).view_as(own)
            return _quotient(sums.flatten(-3, -2)[..., :n, :])

        return run

    return _fastest(torch, problem, [with_chunks_of(chunk) for chunk in (64, 128, 256)])


def _fastest(torch, problem, runs):
    def finish():
        if problem.device == "cuda":
            torch.cuda.synchronize()

    def seconds(run):
        run()
        finish()
        start = time.perf_counter()
        run()
        finish()
        return time.perf_counter() - start

    return min(runs, key=seconds)


# Softmax attention, all pairs or some

PAIRS = {"time": "O(n^2 (d+e))", "memory": "O(n^2)", "classes": ("n^2", "n^2")}


@peer("torch_softmax", "softmax_attention", "softmax(scale Q K^T) V in PyTorch, all n^2 scores", TORCH, **PAIRS)
def torch_softmax(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    mask = (
        torch.full((len(q), len(k)), -math.inf, dtype=q.dtype, device=q.device).triu_(1)
        if problem.flag("causal")
        else None
    )

    def run():
        scores = (q * scale) @ k.T
        if mask is not None:
            scores += mask
        return torch.softmax(scores, -1) @ v

    return run


@peer("torch_sdpa", "softmax_attention", "torch.nn.functional.scaled_dot_product_attention", TORCH,
      ("float32", "float64", "bfloat16", "float16"), time="O(n^2 (d+e))", memory="O(n)", classes=("n^2", "n"))  # fmt: skip
def torch_sdpa(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    shape = (*q.shape[:-1], v.shape[-1])
    # SDPA's fast kernels require four axes.
    q, k, v = (x[None] if x.dim() == 3 else x[None, None] for x in (q, k, v))
    attention, causal = torch.nn.functional.scaled_dot_product_attention, problem.flag("causal")
    return lambda: attention(q, k, v, is_causal=causal, scale=scale).reshape(shape)


def _only(backend, run):
    """Restricts a run of SDPA to one of its kernels."""
    import torch

    def run_with_kernel():
        with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
            return run()

    return run_with_kernel


def _sdpa_by_name(name, backend, kernel, scalars):
    """Registers SDPA with one of its kernels as two peers, without and with a bias."""

    @peer(f"torch_sdpa_{name}", "softmax_attention", f"scaled_dot_product_attention, {kernel}", TORCH, scalars, time="O(n^2 (d+e))",
          memory="O(n)", classes=("n^2", "n"), devices=("cuda",))  # fmt: skip
    def plain(problem):
        return _only(backend, torch_sdpa(problem))

    @peer(f"torch_sdpa_bias_{name}", "softmax_attention", f"scaled_dot_product_attention with a bias for every pair, {kernel}", TORCH,
          scalars, **PAIRS, beside="its n^2 biases are prepared beforehand", devices=("cuda",))  # fmt: skip
    def with_bias(problem):
        return _only(backend, torch_sdpa_bias(problem))


@peer("torch_sdpa_bias", "softmax_attention", "scaled_dot_product_attention with a bias for every pair", TORCH,
      ("float32", "float64", "bfloat16", "float16"), **PAIRS, beside="its n^2 biases are prepared beforehand")  # fmt: skip
def torch_sdpa_bias(problem):
    torch, q, k, v, bias = _tensors(problem, "q", "k", "v", "bias")
    scale, shape = problem.scale(1 / math.sqrt(q.shape[-1])), (*q.shape[:-1], v.shape[-1])
    # Row i begins with the bias of the key at offset -i.
    biases = bias.unfold(-1, k.shape[-2], 1).flip(-2)
    if problem.flag("causal"):
        biases = biases + torch.full_like(biases, -math.inf).triu_(1)
    q, k, v, biases = (x[None] if x.dim() == 3 else x[None, None] for x in (q, k, v, biases))
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(q, k, v, attn_mask=biases, scale=scale).reshape(shape)


_sdpa_by_name("cudnn", "CUDNN_ATTENTION", "cuDNN's kernel", ("bfloat16", "float16"))
_sdpa_by_name("flash", "FLASH_ATTENTION", "FlashAttention-2's kernel", ("bfloat16", "float16"))
_sdpa_by_name("efficient", "EFFICIENT_ATTENTION", "the memory-efficient kernel", ("float32", "bfloat16", "float16"))


def _mask(torch, problem, n):
    """Returns the mask [n, n] of the keys that each query sees."""
    params, tokens = problem.params, torch.arange(n, device=problem.device)
    i, j = tokens[:, None], tokens[None, :]
    window, dilation = params.get("window", 0), params.get("dilation", 1)
    sliding = ((j - i) % dilation == 0) & ((j - i).abs() <= window * dilation)
    if params["pattern"] == "local":
        seen = i // params["block"] == j // params["block"]
    elif params["pattern"] == "sliding":
        seen = sliding
    elif params["pattern"] == "strided":
        seen = ((j - i).abs() <= window) | ((i - j) % params["stride"] == 0)
    elif params["pattern"] == "longformer":
        marked = torch.zeros(n, dtype=torch.bool, device=problem.device)
        marked[params["globals"]] = True
        seen = sliding | marked[:, None] | marked[None, :]
    else:
        raise NotImplementedError(f"not the pattern {params['pattern']}")
    return seen & (j <= i) if params.get("causal") else seen


@peer("torch_masked", "sparse_attention", "softmax over all pairs in PyTorch, masked with -inf", TORCH, **PAIRS,
      beside="computes all pairs")  # fmt: skip
def torch_masked(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    hidden = ~_mask(torch, problem, len(q))
    return lambda: torch.softmax(((q * scale) @ k.T).masked_fill_(hidden, -math.inf), -1) @ v


@peer("torch_sdpa_masked", "sparse_attention", "scaled_dot_product_attention over all pairs, with a mask", TORCH, **PAIRS,
      beside="computes all pairs")  # fmt: skip
def torch_sdpa_masked(problem):
    torch, q, k, v = _tensors(problem, "q", "k", "v")
    scale = problem.scale(1 / math.sqrt(q.shape[-1]))
    seen = _mask(torch, problem, len(q))
    q, k, v = (x[None, None] for x in (q, k, v))
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(q, k, v, attn_mask=seen, scale=scale)[0, 0]


def _tensors(problem, *names):
    import torch

    torch.set_num_threads(problem.threads)
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("highest")  # no TensorFloat32
    kind = getattr(torch, problem.scalar)  # inputs of 16-bit types are stored as float32
    return torch, *(torch.from_numpy(problem.inputs[name]).to(problem.device, kind) for name in names)


# Registering and finding peers


def load_programs(path):
    """Registers the peers of a file and returns them."""
    before = set(PEERS)
    spec = importlib.util.spec_from_file_location("peers_of_a_user", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return [PEERS[name] for name in PEERS if name not in before]


def missing_module(entry):
    """Returns the first module that a peer needs and that is not installed, or None."""
    return next((name for name in entry.needs if importlib.util.find_spec(name) is None), None)
