"""Checks arguments of calls. Each function raises ValueError that names the argument, what was expected and what was found."""

from __future__ import annotations

import difflib
import inspect
import math
import os
from typing import Any, Callable

import numpy as np

from subquad import _subquad


def integer(name: str, value: Any, least: int, most: int) -> int:
    """Returns an integer from `least` to `most`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name}: expected an integer from {least} to {most}, found {value!r}")
    return int(value)


def seed(value: Any) -> int:
    return integer("seed", value, 0, 2**63 - 1)


def threads(value: Any) -> int:
    return integer("threads", value, 1, 1024)


def seconds(name: str, value: Any, or_zero: bool = False) -> float:
    """Returns a finite number of seconds above 0, or also 0."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not (0 < value < math.inf or or_zero and value == 0):
        least = "of at least 0" if or_zero else "above 0"
        raise ValueError(f"{name}: expected a number of seconds {least}, found {value!r}")
    return float(value)


def error(name: str, value: Any) -> float:
    """Returns an error relative to the largest magnitude of a tensor."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
        raise ValueError(f"{name}: expected a number from 0 to below 1, found {value!r}")
    return float(value)


def path(name: str, value: Any) -> str:
    """Returns a path as text."""
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name}: expected a path, found {value!r}")
    return os.fspath(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name}: expected text, found {value!r}")
    return value


def names(name: str, value: Any) -> list[str]:
    """Returns a list of names; empty for None."""
    if value is not None and not (isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)):
        raise ValueError(f"{name}: expected a list of names, found {value!r}")
    return list(value or ())


def flag(name: str, value: Any) -> bool | None:
    """Returns True, False or None."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: expected True, False or None, found {value!r}")
    return None if value is None else bool(value)


def check_names(given: dict[str, Any], known: list[str], own: list[str], op: str) -> None:
    """Checks that keyword arguments are names of an operator. `own`: names of the call's own arguments, for suggestions."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, [*own, *known], 1)
            advice = _subquad.field_advice(name) or (f"did you mean {near[0]}?" if near else "")
            raise ValueError(
                f"{name}: unexpected argument"
                + (f" ({advice})" if advice else "")
                + f"; the names of {op} are {', '.join(known)}"
            )


def own_names(function: Callable[..., Any]) -> list[str]:
    """Returns the keyword arguments of a call of this package."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]


def lengths(name: str, value: Any) -> list[int]:
    """Returns a list of at least one size, each once."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") or not len(values := list(value)):
        raise ValueError(f"{name}: expected a list of sizes, such as [256, 1024], found {value!r}")
    for size in values:
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name}: expected integers of at least 1, found {size!r}")
    return list(dict.fromkeys(int(size) for size in values))


def rows(value: Any) -> list[int]:
    """Returns a list of at least one row."""
    if (
        isinstance(value, (str, bytes))
        or not hasattr(value, "__iter__")
        or not len(values := list(value))
        or not all(isinstance(row, (int, np.integer)) and not isinstance(row, bool) for row in values)
    ):
        raise ValueError(f"rows: expected a list of rows, such as [0, 17], found {value!r}")
    return [int(row) for row in values]


def parameter_names(function: Callable[..., Any]) -> list[str] | None:
    """Returns the names by which a function accepts arguments; None if it accepts any name or does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in by_name]


def required_names(function: Callable[..., Any]) -> list[str] | None:
    """Returns the names of the arguments that a function requires; None if it does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in by_name and parameter.default is inspect.Parameter.empty
    ]


def accepted(function: Callable[..., Any]) -> Callable[[str], bool]:
    """Returns a predicate that tells whether a function accepts an argument of this name."""
    names = parameter_names(function)
    return lambda name: names is None or name in names


def check_accepts(name: str, function: Callable[..., Any], op: str, inputs: list[str]) -> None:
    """Checks that a function accepts these inputs of an operator by name."""
    names = parameter_names(function)
    if names is None or set(inputs) <= set(names):
        return
    raise ValueError(
        f"{name}: expected parameters named {', '.join(inputs)} (see signature({op!r})), "
        f"found {', '.join(names) if names else 'none'}"
    )
