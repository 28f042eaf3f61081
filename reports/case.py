"""Writes case folders (format case/1): a problem and its answer, as NumPy arrays, for `subquad check`.

    write_case("my_case", "softmax_attention", {"q": q, "k": k, "v": v}, {"out": out},
               params={"scale": 0.125}, source="layer 3 of my model")

`subquad check` validates what only the program knows: operators, parameters, matching shapes. reports/inputs/README.md shows
how to get the arrays out of a PyTorch model.
"""

import json
import math
import pathlib

import numpy as np


def write_case(folder, operator, inputs, expected, params=None, source=""):
    """Writes case.json and one .npy file for each tensor into `folder`, which is created if needed.

    inputs, expected: dictionaries from the tensor's name to an array of float32 or float64 with 1 to 3 dimensions. Other
        types are refused, because the type means something: an `expected` array in float32 is taken as the answer of a
        program that computes in float32, one in float64 as exact. The layout in memory does not matter.
    params: parameters of the operator; what is left out has its default.
    source: where the numbers come from, shown when a check fails.

    Raises ValueError for what the program would refuse to read. No file is written then.
    """
    files = {}
    for kind, tensors in (("inputs", inputs), ("expected", expected)):
        for name, array in tensors.items():
            file = f"{name}.npy" if kind == "inputs" else f"expected_{name}.npy"
            files[file] = _checked(kind, name, array)
    if not expected:
        raise ValueError("expected: at least one array is needed to check against")
    if not isinstance(operator, str) or not isinstance(source, str):
        raise ValueError("operator and source are texts")
    content = {
        "format": "case/1",
        "operator": operator,
        "params": params or {},
        "inputs": {name: f"{name}.npy" for name in inputs},
        "expected": {name: f"expected_{name}.npy" for name in expected},
        "source": source,
    }
    try:
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"params: {error}") from None
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, array in files.items():
        np.save(folder / file, array, allow_pickle=False)
    (folder / "case.json").write_text(text + "\n", encoding="utf-8")


def _checked(kind, name, array):
    """The array in C order, if the program would read it."""
    what = f"{kind}: {name}"
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise ValueError(f"{what}: the name of a tensor is a word like q or weights_rows")
    if not isinstance(array, np.ndarray) or array.dtype.str not in ("<f4", "<f8"):
        found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{what}: expected a NumPy array of little-endian float32 or float64, found {found}")
    if not 1 <= array.ndim <= 3 or array.size == 0:
        raise ValueError(f"{what}: expected 1 to 3 dimensions and no empty one, found shape {array.shape}")
    masked = (array == -math.inf) & (kind == "inputs" and name == "bias")  # a bias may mask keys
    if not (np.isfinite(array) | masked).all():
        first = np.argwhere(~(np.isfinite(array) | masked))[0].tolist()
        raise ValueError(f"{what}: expected finite numbers, found {array[tuple(first)]} at {first}")
    return np.ascontiguousarray(array)
