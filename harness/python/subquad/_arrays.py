"""Converts arrays of several libraries for the module and back. Only libraries that the arrays come from are imported."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("numpy", "torch", "jax")
Array = NDArray[Any]
NamedArray = tuple[str, Array, str]  # (name, array that the module reads, scalar type or "")
Bits = tuple[Array, str]  # (array, scalar type); 16-bit types as uint16
BOOLEAN = "bool"  # the type of a mask


def check_kind(kind: Any) -> None:
    """Raises ValueError unless this is the name of an installed library."""
    if kind not in KINDS:
        raise ValueError(f"array: expected one of {', '.join(KINDS)}; found {kind!r}")
    try:
        importlib.import_module(kind)
    except ImportError as error:
        raise ValueError(f"array: expected a library that is installed, found {kind!r} ({error})") from None


def check_device(device: Any) -> None:
    """Checks that PyTorch can make tensors on a device."""
    torch = importlib.import_module("torch")
    try:
        torch.empty(1, device=device).add_(1)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"device: expected a device that PyTorch can use here, found {device!r} ({_first_line(error)})"
        ) from None


def kind_of(value: Any) -> str:
    """Returns the library that an array comes from; "numpy" for everything that is read through NumPy."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        return "jax"
    return "numpy"


def is_array(value: Any) -> bool:
    """Tells whether a value can be read as an array."""
    names = ("__dlpack__", "__array_interface__", "__array__", "__cuda_array_interface__")
    return isinstance(value, np.ndarray) or any(hasattr(value, name) for name in names)


def real_types(kind: str) -> tuple[type, ...]:
    """Returns the types of arrays of a library whose numbers are in memory. A subclass may compute them when it is looked at."""
    if kind == "torch":
        torch = importlib.import_module("torch")
        return torch.Tensor, torch.nn.Parameter
    return (np.ndarray,)


def is_real(value: Any, kind: str) -> bool:
    """Tells whether a value is an array of this library whose numbers are in memory."""
    if kind == "jax":
        return kind_of(value) == "jax"
    return type(value) in real_types(kind)


def named_array(name: str, value: Any, is_mask: bool = False) -> NamedArray:
    """Returns a tensor in the form that the module reads, in row-major order on the CPU. Copies it only if necessary."""
    array, scalar = bits_of(name, value, is_mask)
    return name, array, scalar


def bits_of(name: str, value: Any, is_mask: bool = False) -> Bits:
    """Returns a NumPy array over the same memory and its scalar type; 16-bit types are returned as uint16.

    is_mask: booleans are taken, too, and so are integers 0 and 1, which are returned as booleans.
    """
    if kind_of(value) == "torch":
        return _of_torch(name, value, is_mask)
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name}: expected an array without a mask, found a masked array")
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        array = value.get()  # CuPy: a copy on the host
    else:
        try:
            array = np.from_dlpack(value) if _only_dlpack(value) else np.asarray(value)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            raise ValueError(
                f"{name}: expected an array, found {type(value).__name__} ({_first_line(error)})"
            ) from None
    scalar = array.dtype.name
    if is_mask and array.dtype.kind in "biu":
        return _booleans(name, array), BOOLEAN
    if scalar not in ("float64", "float32", "float16", "bfloat16"):
        raise ValueError(
            f"{name}: expected an array of float64, float32, bfloat16 or float16, found {_described(value, scalar)}"
            + ("; convert it by x.astype(numpy.float32)" if is_array(value) else "")
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array = np.ascontiguousarray(array) if array.ndim else array
    return (array.view(np.uint16) if array.dtype.itemsize == 2 and array.ndim else array), scalar


def _only_dlpack(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and not any(
        hasattr(value, name) for name in ("__array__", "__array_interface__")
    )


def _described(value: Any, dtype: str) -> str:
    return dtype if is_array(value) else type(value).__name__


def _booleans(name: str, array: Array) -> Array:
    """Returns an array of booleans. Raises ValueError for integers other than 0 and 1."""
    if array.dtype.kind != "b":
        others = array[(array != 0) & (array != 1)]
        if others.size:
            raise ValueError(f"{name}: expected numbers 0 and 1, found {others.flat[0]}")
        array = array.astype(np.bool_)
    return np.ascontiguousarray(array) if array.ndim else array


def _of_torch(name: str, value: Any, is_mask: bool) -> Bits:
    torch = sys.modules["torch"]
    types = {torch.float64: "float64", torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
    if is_mask and not (value.dtype.is_floating_point or value.dtype.is_complex or value.is_meta):
        return _booleans(name, value.detach().cpu().to_dense().numpy()), BOOLEAN
    if value.dtype not in types:
        raise ValueError(
            f"{name}: expected a tensor of float64, float32, bfloat16 or float16, found {value.dtype}; convert it by x.float()"
        )
    if value.is_meta:
        raise ValueError(f"{name}: expected a tensor with numbers, found one on the device meta")
    if value.layout != torch.strided:
        raise ValueError(f"{name}: expected a dense tensor, found {value.layout}; convert it by x.to_dense()")
    tensor = value.detach().cpu().resolve_neg().contiguous()
    scalar = types[value.dtype]
    if value.element_size() == 2:
        return tensor.view(torch.int16).numpy().view(np.uint16), scalar
    return tensor.numpy(), scalar


def array_of(bits: Array, scalar: str, kind: str, device: str | None = None) -> Any:
    """Converts an array of the module to library `kind`, sharing its memory if that library can. An array of booleans stays one."""
    if kind == "torch":
        torch = importlib.import_module("torch")
        if bits.dtype == np.uint16:
            tensor = torch.from_numpy(bits.view(np.int16)).view(getattr(torch, scalar))
        else:
            tensor = torch.from_numpy(bits)
        return tensor if device in (None, "cpu") else tensor.to(device)
    if bits.dtype == np.uint16:
        bits = bits.view(numpy_type(scalar))
    if kind == "jax":
        # Copies, since JAX may share NumPy's memory and assumes that it does not change.
        return importlib.import_module("jax.numpy").array(bits)
    return bits


def float64_of(bits: Array, scalar: str) -> Array:
    """Converts an array of the module to float64; booleans become 0 and 1."""
    if scalar == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (bits.view(np.float16) if scalar == "float16" else bits).astype(np.float64)


def rounded(numbers: Array, scalar: str) -> Array:
    """Rounds finite numbers to a scalar type, ties to even, and returns them as an array of the module."""
    if scalar != "bfloat16":
        array = numbers.astype(scalar)
        return array.view(np.uint16) if scalar == "float16" else array
    words = numbers.astype(np.float32).view(np.uint32)
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)


def laid_out(array: Any, layout: str, kind: str) -> Any:
    """Returns an array of the same values in memory that is not row-major, as models hand it over. JAX has no such arrays.

    layout: "transposed": the last axes but one are exchanged in memory, as in [n, h, d] seen as [h, n, d]. "packed": a slice of
    wider rows, as those of q, k and v in one array.
    """
    if kind == "jax" or not layout:
        return array
    rank = array.ndim
    if rank == 0 or array.shape[-1] == 0:
        return array
    if layout == "transposed" and rank > 1:
        first, second = (-2, -3) if rank > 2 and array.shape[-3] > 1 else (-1, -2)
        if kind == "torch":
            return array.transpose(first, second).contiguous().transpose(first, second)
        return np.ascontiguousarray(np.swapaxes(array, first, second)).swapaxes(first, second)
    # A vector has every second number of a longer one, or begins inside one.
    step = 2 if rank == 1 and layout == "transposed" else 1
    width, before = array.shape[-1], 3 if step == 1 else 0
    shape = (*array.shape[:-1], before + step * width + 5)
    wide = array.new_full(shape, 7) if kind == "torch" else np.full(shape, 7, array.dtype)
    part = wide[..., before : before + step * width : step]
    part[...] = array
    return part


def expanded(array: Any, axis: int, kind: str) -> Any:
    """Returns an array whose first entry along an axis is repeated with a stride of 0; in JAX, a copy of it. The memory behind the
    first entry holds other numbers."""
    part = array[(slice(None),) * axis + (slice(0, 1),)]
    if kind == "jax":
        return importlib.import_module("jax.numpy").broadcast_to(part, array.shape)
    if kind == "torch":
        memory = array.new_full((array.numel(),), 7)
        first = memory[: part.numel()].reshape(part.shape)
        first[...] = part
        return first.expand(array.shape)
    memory = np.full(array.size, 7, array.dtype)
    first = memory[: part.size].reshape(part.shape)
    first[...] = part
    strides = tuple(0 if place == axis else stride for place, stride in enumerate(first.strides))
    return np.lib.stride_tricks.as_strided(first, array.shape, strides)  # writeable, unlike that of broadcast_to


def numpy_type(scalar: str) -> np.dtype[Any]:
    """Returns NumPy's type for a scalar type. NumPy has no bfloat16; ml_dtypes, which comes with JAX, provides it."""
    if scalar != "bfloat16":
        return np.dtype(scalar)
    try:
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        raise ValueError(
            'bfloat16: expected the package ml_dtypes, found none; install it, or pass array="torch"'
        ) from None


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
