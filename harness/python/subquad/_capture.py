"""Writes the attention of models of Hugging Face's transformers as case folders."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from typing import Any, Callable, Collection, Iterator, Optional

import numpy as np
import numpy.typing as npt

from subquad import _arguments
from subquad._calls import NARROW, own_error, save_case

Mask = npt.NDArray[np.bool_]
EAGER = "eager_attention_forward"  # the function of each file of models that computes attention from its definition


@contextlib.contextmanager
def capture(
    folder: str | os.PathLike[str], model: Any, /, *, layers: Collection[int] | None = None
) -> Iterator[list[str]]:
    """Writes each attention that a transformers model computes inside the `with` block as a case of softmax_attention.

        with subquad.capture("cases", model, layers=[0, 5]) as folders:
            model(input_ids)

    A case holds the queries, keys and values after rotary positions, and what else the attention was given: its scale, softcap,
    sinks, sliding window, mask, and a bias of pairs. A mask that is causal, that of a window or padding is exported as such,
    every other one as `mask` [b, h, n_q, n_k] with 1 where heads or batch items share it. The expected output is the
    model's own. `subquad check cases/*` judges it, and your function can be judged on the inputs.

    folder: a new folder, or an empty one. It gets a folder for each attention, named like the module, and with `-call2` and so
        on for further calls (tokens that are generated).
    model: a model that computes attention by `eager_attention_forward`, as those of transformers 4.48 and later do. It is
        switched to that inside the block.
    layers: the indices of layers (`layer_idx`) to write; by default all.

    Yields the list of the folders, which grows as they are written. Raises ValueError for a folder that is not empty, for a model
    or layer that is not as above, and for attention with dropout.
    """
    root = _arguments.path("folder", folder)
    if os.path.exists(root) and (not os.path.isdir(root) or os.listdir(root)):
        raise ValueError(f"folder: expected a new or empty folder, found {root!r}, which is neither")
    names = {module: name for name, module in _modules(model)}
    files = {file for file in map(_file_of, names) if hasattr(file, EAGER)}
    if not files:
        raise ValueError(
            f"model: expected one of transformers 4.48 or later that has {EAGER}, found {type(model).__name__} without it"
        )
    known = {module.layer_idx for module in names if isinstance(getattr(module, "layer_idx", None), int)}
    for layer in layers or ():
        if layer not in known:
            raise ValueError(f"layers: expected indices among {sorted(known)}, found {layer!r}")
    folders: list[str] = []
    calls: dict[Any, int] = {}

    def recording(eager: Callable[..., Any]) -> Callable[..., Any]:
        def forward(module: Any, *arguments: Any, **options: Any) -> Any:
            result = eager(module, *arguments, **options)
            if layers is None or getattr(module, "layer_idx", None) in layers:
                calls[module] = calls.get(module, 0) + 1
                name = names.get(module, type(module).__name__) + (f"-call{calls[module]}" if calls[module] > 1 else "")
                given = inspect.signature(eager).bind(module, *arguments, **options).arguments
                given.update(given.pop("kwargs", {}))
                path = os.path.join(root, name)
                _write(path, given, result[0], f"{type(model).__name__}, {name}")
                folders.append(path)
            return result

        return forward

    os.makedirs(root, exist_ok=True)
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    originals = {file: getattr(file, EAGER) for file in files}
    for file, eager in originals.items():
        setattr(file, EAGER, recording(eager))
    try:
        yield folders
    finally:
        for file, eager in originals.items():
            setattr(file, EAGER, eager)
        model.set_attn_implementation(implementation)


def _modules(model: Any) -> list[tuple[str, Any]]:
    if not hasattr(model, "named_modules") or not hasattr(model, "set_attn_implementation"):
        raise ValueError(f"model: expected a model of transformers, found {type(model).__name__}")
    return list(model.named_modules())


def _file_of(module: Any) -> Any:
    """Returns the Python module in which a layer's class is defined."""
    return sys.modules[type(module).__module__]


def _write(folder: str, given: dict[str, Any], out: Any, source: str) -> None:
    """Writes one attention: the arguments of eager_attention_forward by name, and its output [b, n_q, h, d]."""
    if given.get("dropout"):
        raise ValueError(f"{source}: expected attention without dropout, found {given['dropout']}; call model.eval()")
    query, key, value = (given[name].detach() for name in ("query", "key", "value"))
    tensors: dict[str, Any] = {"q": query, "k": key, "v": value}
    scale = given.get("scaling")
    if scale is not None:
        tensors["scale"] = float(scale)
    if given.get("softcap") is not None:
        tensors["softcap"] = float(given["softcap"])
    sinks = given.get("s_aux", getattr(given["module"], "sinks", None))
    if sinks is not None:
        tensors["sinks"] = sinks.detach()
    bias = given.get("position_bias")
    if bias is not None:
        bias = bias.detach().float().numpy(force=True)
    mask, visible = given.get("attention_mask"), None
    if mask is not None:
        mask = mask.detach()[..., : key.shape[-2]]
        # The least number of the mask's type hides a key; other numbers are added to the scores.
        visible = (
            (mask > sys.modules["torch"].finfo(mask.dtype).min / 2 if mask.dtype.is_floating_point else mask.bool())
            .cpu()
            .numpy()
        )
        added = np.where(visible, mask.float().numpy(force=True), 0) if mask.dtype.is_floating_point else np.zeros(1)
        if np.any(added):
            bias = added if bias is None else bias + added
    if bias is not None:
        tensors["pair_bias"] = np.ascontiguousarray(bias, dtype=np.float32)
    if visible is not None:
        tensors.update(options_of(visible, given.get("sliding_window"), (query.shape[-2], key.shape[-2])))
    scalar = str(query.dtype).removeprefix("torch.")
    error: Optional[float] = own_error(scalar, False) if scalar in NARROW else None
    out = out.detach().transpose(1, 2)
    save_case(folder, "softmax_attention", out, expected_error=error, source=source, **tensors)


def options_of(visible: Mask, window: int | None, shape: tuple[int, int]) -> dict[str, Any]:
    """Returns the parameters and inputs of softmax_attention that show the same keys as a mask.

    visible: true where a query sees a key: [b, h, n_q, n_k], with 1 for b and h where all share it.
    window: the number of tokens of a sliding window, of which the last is the query's own, if there is one.
    shape: n_q, n_k. The last query is at the position of the last key.
    """
    options: dict[str, Any] = {}
    for params, seen in _positions(window, shape):
        # A key is masked if no query sees it that would otherwise.
        keys = np.all(visible | ~seen, axis=-2, keepdims=True)
        if not np.array_equal(visible, np.broadcast_to(seen & keys, visible.shape)):
            continue
        options.update(params)
        if not np.all(keys):
            options["mask"] = keys
        return options
    options["mask"] = np.ascontiguousarray(visible)
    return options


def _positions(window: int | None, shape: tuple[int, int]) -> Iterator[tuple[dict[str, Any], Mask]]:
    """Lists parameters for positions with the pairs [n_q, n_k] that they show, the simplest ones first."""
    queries, keys = shape
    offset = keys - queries
    ahead = np.arange(keys) - (np.arange(queries)[:, None] + offset)
    position = {"query_offset": offset} if offset else {}
    yield {}, np.ones(shape, dtype=np.bool_)
    yield {"causal": True, **position}, ahead <= 0
    if window is not None:
        yield {"causal": True, "window_left": window - 1, **position}, (ahead <= 0) & (ahead > -window)
        yield {"window_left": window - 1, "window_right": window - 1, **position}, abs(ahead) < window
