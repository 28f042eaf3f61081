"""Writes case folders (format case/1) for `subquad check`: a problem and its outputs, as arrays or tensors.

    write_case("my_case", "softmax_attention", {"q": q, "k": k, "v": v}, {"out": out},
               params={"scale": 0.125}, source="layer 3 of my model")

It needs only NumPy and accepts arrays of PyTorch, JAX and CuPy. reports/inputs/README.md shows how to get the tensors out of a
PyTorch model.
"""

import json
import math
import os
import pathlib
import subprocess

import numpy as np

# Types that the files cannot have but float32 represents exactly, with their largest relative rounding errors.
NARROW = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
TYPES = ("float64", "float32", *NARROW)
LARGEST_RANK = 5  # of the files that the program reads
MASKS = ("mask", "block_mask")  # inputs of numbers 0 and 1
HIDING = {
    "inputs": ("bias", "pair_bias"),
    "expected": ("lse",),
}  # an entry of -inf hides keys, or says that all are hidden


def write_case(
    folder, operator, inputs, expected, params=None, source="", expected_error=None, overwrite=False, program=None
):
    """Writes case.json and one .npy file for each tensor into `folder`, which is created if needed.

    inputs, expected: dictionaries from the tensor's name to an array of NumPy, JAX or CuPy or a tensor of PyTorch, on any
        device, in any layout, with 1 to 5 dimensions: [n, d], [h, n, d] or [b, h, n, d]. Its type is float64, float32,
        bfloat16 or float16; the last two are written as float32, which changes no value. Other types raise ValueError, because
        the type matters: an `expected` array in float32 is judged as the output of a float32 program, one in float64 as exact.
        A mask may also have booleans, or integers 0 and 1.
    params: parameters of the operator; by default those of the definition.
    source: the origin of the tensors, shown when a check fails.
    expected_error: an additional error that each element of `expected` may have, in units of the largest magnitude of its
        tensor. Outputs in bfloat16 or float16 need it: at least 2**-8 or 2**-11, the error of rounding the output, and four
        times as much (eight times for gradients) if everything was computed in that type.
    overwrite: replaces the case in a folder that is not empty; files of other names stay.
    program: the path of `subquad`, such as "build/subquad". If it is given, the names of the operator, its parameters, inputs
        and outputs are checked too.

    Raises ValueError and writes nothing if the folder is not empty, if a tensor cannot be stored (its type, number of dimensions
    or values), or if a name is malformed, or unknown to `program`. `subquad check` checks the rest: names if there was no
    `program`, the values of parameters, missing tensors, and whether the shapes fit together.
    """
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(f"folder: expected a path, found {type(folder).__name__}")
    files = {}
    for kind, tensors in (("inputs", inputs), ("expected", expected)):
        if not isinstance(tensors, dict):
            raise ValueError(f"{kind}: expected a dictionary from names to arrays, found {type(tensors).__name__}")
        for name, tensor in tensors.items():
            file = f"{name}.npy" if kind == "inputs" else f"expected_{name}.npy"
            files[file], scalar = _checked(kind, name, tensor)
            if kind == "expected" and scalar in NARROW and expected_error is None:
                raise ValueError(
                    f"output {name}: expected_error= is missing; expected at least {NARROW[scalar]} for an output in {scalar}, "
                    f"the error of rounding to it, or {4 * NARROW[scalar]} if it was also computed in {scalar}"
                )
    if not expected:
        raise ValueError("expected: expected at least one output, found none")
    _check_name("operator", operator, "softmax_attention")
    if not isinstance(params, dict | None):
        raise ValueError(
            f"params: expected a dictionary from names of parameters to values, found {type(params).__name__}"
        )
    for name in params or {}:
        _check_name("parameter", name, "causal")
    if not isinstance(source, str):
        raise ValueError(f"source: expected a string, found {type(source).__name__}")
    if program is not None:
        _check_known(program, operator, params or {}, inputs, expected)
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
    try:
        _prepare_folder(folder, overwrite)
        for file, array in files.items():
            np.save(folder / file, array, allow_pickle=False)
        # case.json is written last: without it, a folder is not a case.
        (folder / "case.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"folder {folder}: expected a writable folder, found an error: {error.strerror}") from None


def _prepare_folder(folder, overwrite):
    """Creates the folder if needed. Raises ValueError if it has files and must not be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder {folder}: expected a folder, found a file")
    folder.mkdir(parents=True, exist_ok=True)
    count = sum(1 for _ in folder.iterdir())
    if count and not overwrite:
        raise ValueError(
            f"folder {folder}: expected a new or empty folder, found {count} {'file' if count == 1 else 'files'} in it; choose "
            "another name, or pass overwrite=True to replace the case"
        )
    (folder / "case.json").unlink(missing_ok=True)


def _check_name(kind, name, example):
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        found = repr(name)[:80] if isinstance(name, str) else type(name).__name__
        raise ValueError(f"name of {kind}: expected a word such as {example}, found {found}")


def _check_known(program, operator, params, inputs, expected):
    """Raises ValueError for a name that the program's description of the operator does not contain."""
    command = [str(program), "list", "--operator", operator, "--json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(f"program {program}: expected the path of subquad, found an error: {error.strerror}") from None
    if result.returncode != 0:
        raise ValueError(result.stderr.strip() or f"program {program}: exit status {result.returncode}")
    try:
        (entry,) = json.loads(result.stdout)
    except ValueError:
        raise ValueError(f"program {program}: expected the JSON of `subquad list`, found other output") from None
    for kind, field, names in (
        ("parameter", "params", params),
        ("input", "inputs", inputs),
        ("output", "outputs", expected),
    ):
        known = list(dict.fromkeys(rule["name"] for rule in entry[field]))
        for name in names:
            if name not in known:
                raise ValueError(f"{kind} of {operator}: expected one of {', '.join(known)}, found {name!r}")


def _checked(kind, name, tensor):
    """Returns (the array as stored in the file, its original type). Raises ValueError if the program could not read it."""
    _check_name(f"a tensor in {kind}", name, "q or weights_rows")
    subject = f"{'input' if kind == 'inputs' else 'output'} {name}"
    is_mask = kind == "inputs" and name in MASKS
    array, scalar = _array(subject, tensor, is_mask)
    if not 1 <= array.ndim <= LARGEST_RANK or array.size == 0:
        raise ValueError(
            f"{subject}: expected 1 to {LARGEST_RANK} dimensions, each of size 1 or more, found the shape {list(array.shape)}"
        )
    array = np.ascontiguousarray(array, dtype="<f8" if scalar == "float64" else "<f4")
    hides = name in HIDING[kind]
    right = (array == 0) | (array == 1) if is_mask else np.isfinite(array) | ((array == -math.inf) & hides)
    if not right.all():
        first = np.argwhere(~right)[0].tolist()
        allowed = "numbers 0 and 1" if is_mask else "finite numbers or -inf" if hides else "finite numbers"
        raise ValueError(f"{subject}: expected {allowed}, found {array[tuple(first)]} at {first}")
    return array, scalar


def _array(subject, tensor, is_mask=False):
    """Returns (a NumPy array with the tensor's values, their type) by calling the tensor's own methods; imports no library.

    subject: the tensor in messages, such as "input q". is_mask: booleans and integers are taken, too.
    """
    try:
        if callable(getattr(tensor, "detach", None)):
            return _of_torch(subject, tensor, is_mask)
        if isinstance(tensor, np.ndarray):
            array = tensor
        elif hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get"):
            array = tensor.get()  # CuPy: a copy on the host
        elif hasattr(tensor, "__array__") or hasattr(tensor, "__array_interface__"):
            array = np.asarray(tensor)
        elif hasattr(tensor, "__dlpack__"):
            array = np.from_dlpack(tensor)
        else:  # a list has no type
            _refuse(subject, type(tensor).__name__, "convert it to an array of float32 or float64 first")
    except (TypeError, RuntimeError, BufferError) as error:
        _refuse(subject, f"{type(tensor).__name__} ({str(error).strip().partition(chr(10))[0]})")
    if is_mask and array.dtype.kind in "biu":
        return array, "float32"
    if array.dtype.name not in TYPES:
        _refuse(subject, array.dtype.name, "convert it by x.astype(numpy.float32)")
    return array, array.dtype.name


def _of_torch(subject, tensor, is_mask):
    scalar = str(tensor.dtype).replace("torch.", "")
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if layout != "torch.strided":
        _refuse(subject, f"a tensor of layout {layout}", "convert it by x.to_dense()")
    if is_mask and not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor.detach().cpu().numpy(), "float32"
    if scalar not in TYPES:
        _refuse(subject, f"{tensor.dtype}", "convert it by x.float()")
    tensor = tensor.detach().cpu()
    if hasattr(tensor, "resolve_neg"):
        tensor = tensor.resolve_neg()
    if scalar == "bfloat16":  # NumPy does not have this type
        tensor = tensor.float()
    return tensor.numpy(), scalar


def _refuse(subject, found, advice=""):
    raise ValueError(
        f"{subject}: expected an array of NumPy, JAX or CuPy, or a dense tensor of PyTorch, of type float64, float32, bfloat16 or "
        f"float16; found {found}{'; ' if advice else ''}{advice}"
    ) from None


def _plain(name, value):
    """Returns a parameter's value without NumPy: True, 12, 0.25, "elu1", [0, 5]."""
    try:
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, (list, tuple)):
            value = [entry.tolist() if hasattr(entry, "tolist") else entry for entry in value]
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        text = " ".join(repr(value).split())[:80]
        raise ValueError(
            f"parameter {name}: expected True, False, a finite number, a string or a list, found {text}"
        ) from None
    return value


def _error(value):
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 <= value < 1:
        raise ValueError(f"expected_error: expected a number from 0 to below 1, found {value!r}")
    return float(value)
