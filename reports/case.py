"""Writes case folders (format case/1) for `subquad check`: a problem and its outputs, as arrays or tensors.

    write_case("my_case", "softmax_attention", {"q": q, "k": k, "v": v}, {"out": out},
               params={"scale": 0.125}, source="layer 3 of my model")

It needs only NumPy and accepts arrays of PyTorch, JAX and CuPy. `subquad check` validates what only the program knows:
operators, parameters, matching shapes. reports/inputs/README.md shows how to get the tensors out of a PyTorch model.
"""

import json
import math
import pathlib

import numpy as np

# Types that files do not have but float32 represents exactly, with their largest relative rounding errors.
NARROW = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
TYPES = ("float64", "float32", *NARROW)
LARGEST_RANK = 5  # of the files that the program reads


def write_case(folder, operator, inputs, expected, params=None, source="", expected_error=None):
    """Writes case.json and one .npy file for each tensor into `folder`, which is created if needed.

    inputs, expected: dictionaries from the tensor's name to an array of NumPy, JAX or CuPy or a tensor of PyTorch, on any
        device, in any layout, with 1 to 5 dimensions: [n, d], [h, n, d] or [b, h, n, d]. Its type is float64, float32,
        bfloat16 or float16; the last two are written as float32, which changes no value. Other types raise ValueError, because
        the type matters: an `expected` array in float32 is judged as the output of a float32 program, one in float64 as exact.
    params: parameters of the operator; by default those of the definition.
    source: the origin of the tensors, shown when a check fails.
    expected_error: an additional error that each element of `expected` may have, in units of the largest magnitude of its
        tensor. Outputs in bfloat16 or float16 need it: at least 2**-8 or 2**-11, the error of rounding the output, and four
        times as much (eight times for gradients) if everything was computed in that type.

    Raises ValueError, without writing a file, for anything that the program could not read.
    """
    files = {}
    for kind, tensors in (("inputs", inputs), ("expected", expected)):
        if not isinstance(tensors, dict):
            raise ValueError(f"{kind}: expected a dictionary from names to arrays, found {type(tensors).__name__}")
        for name, tensor in tensors.items():
            file = f"{name}.npy" if kind == "inputs" else f"expected_{name}.npy"
            files[file], scalar = _checked(kind, name, tensor)
            if kind == "expected" and scalar in NARROW and expected_error is None:
                raise ValueError(
                    f"expected: {name}: expected expected_error= beside an answer in {scalar} "
                    f"(at least {NARROW[scalar]}, which rounding to it costs; {4 * NARROW[scalar]} where it was also "
                    "computed in it), found none"
                )
    if not expected:
        raise ValueError("expected: at least one array is needed to check against")
    if not isinstance(operator, str) or not isinstance(source, str):
        raise ValueError("operator and source are texts")
    content = {
        "format": "case/1",
        "operator": operator,
        "params": {name: _plain(name, value) for name, value in (params or {}).items() if value is not None},
        "inputs": {name: f"{name}.npy" for name in inputs},
        "expected": {name: f"expected_{name}.npy" for name in expected},
        "source": source,
    }
    if expected_error is not None:
        content["expected_error"] = _error(expected_error)
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, array in files.items():
        np.save(folder / file, array, allow_pickle=False)
    (folder / "case.json").write_text(text + "\n", encoding="utf-8")


def _checked(kind, name, tensor):
    """Returns (the array as stored in the file, its original type). Raises ValueError if the program could not read it."""
    what = f"{kind}: {name}"
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise ValueError(f"{what}: the name of a tensor is a word like q or weights_rows")
    array, scalar = _array(what, tensor)
    if not 1 <= array.ndim <= LARGEST_RANK or array.size == 0:
        raise ValueError(
            f"{what}: expected 1 to {LARGEST_RANK} dimensions and no empty one, found shape {tuple(array.shape)}"
        )
    array = np.ascontiguousarray(array, dtype="<f8" if scalar == "float64" else "<f4")
    masked = (array == -math.inf) & (kind == "inputs" and name == "bias")  # a bias may mask keys
    if not (np.isfinite(array) | masked).all():
        first = np.argwhere(~(np.isfinite(array) | masked))[0].tolist()
        raise ValueError(f"{what}: expected finite numbers, found {array[tuple(first)]} at {first}")
    return array, scalar


def _array(what, tensor):
    """Returns (a NumPy array with the tensor's values, their type), by the tensor's own methods: no library is imported."""
    try:
        if callable(getattr(tensor, "detach", None)):
            return _of_torch(what, tensor)
        if isinstance(tensor, np.ndarray):
            array = tensor
        elif hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get"):
            array = tensor.get()  # CuPy: a copy on the host
        elif hasattr(tensor, "__array__") or hasattr(tensor, "__array_interface__"):
            array = np.asarray(tensor)
        elif hasattr(tensor, "__dlpack__"):
            array = np.from_dlpack(tensor)
        else:  # a list has no type
            _refuse(what, type(tensor).__name__)
    except (TypeError, RuntimeError, BufferError) as error:
        _refuse(what, f"{type(tensor).__name__} ({str(error).strip().partition(chr(10))[0]})")
    if array.dtype.name not in TYPES:
        _refuse(what, array.dtype.name)
    return array, array.dtype.name


def _of_torch(what, tensor):
    scalar = str(tensor.dtype).replace("torch.", "")
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if scalar not in TYPES or layout != "torch.strided":
        _refuse(what, f"{tensor.dtype}" if layout == "torch.strided" else f"a tensor of layout {layout}")
    tensor = tensor.detach().cpu()
    if hasattr(tensor, "resolve_neg"):
        tensor = tensor.resolve_neg()
    if scalar == "bfloat16":  # which NumPy has not got
        tensor = tensor.float()
    return tensor.numpy(), scalar


def _refuse(what, result):
    raise ValueError(
        f"{what}: expected an array of NumPy or JAX, or a dense tensor of PyTorch, of float64, float32, bfloat16 or float16; "
        f"found {result}"
    ) from None


def _plain(name, value):
    """Returns a parameter's value without NumPy: True, 12, 0.25, "elu1", [0, 5]."""
    try:
        value = value.tolist() if hasattr(value, "tolist") else value
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        result = " ".join(repr(value).split())[:80]
        raise ValueError(
            f"params: {name}: expected true or false, a finite number, a text or a list, found {result}"
        ) from None
    return value


def _error(value):
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 <= value < 1:
        raise ValueError(f"expected_error: expected a number from 0 to below 1, found {value!r}")
    return float(value)
