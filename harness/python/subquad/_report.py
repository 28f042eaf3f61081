"""Results as plain data: dictionaries, JSON and its schema."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections import Counter
from typing import Any, ClassVar

# Types of fields that have a class of their own in JSON Schema.
_SIMPLE = {str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, type(None): {"type": "null"}}


class Report:
    """A dataclass that converts itself to plain data.

    `format` names the fields and their version. Fields that are not shown (repr=False) are left out. Properties named in
    `derived` are added.
    """

    format: ClassVar[str]
    derived: ClassVar[tuple[str, ...]] = ("passed",)

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as dictionaries, lists, strings, numbers and None. Numbers that are not finite become None."""
        result: dict[str, Any] = {"format": self.format}
        result.update({name: _plain(getattr(self, name)) for name in self.derived})
        result.update(_fields(self))
        return result

    def to_json(self, indent: int | None = 1) -> str:
        """Returns `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)


def schema(kind: type[Report]) -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of a result's `to_json()`."""
    classes: dict[str, Any] = {}
    properties: dict[str, Any] = {"format": {"const": kind.format}}
    for name in kind.derived:
        properties[name] = _schema_of(typing.get_type_hints(getattr(kind, name).fget)["return"], classes)
    properties.update(_properties(kind, classes))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.format,
        **_object(properties),
        "$defs": classes,
    }


def _shown(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.repr]


def _fields(value: Any) -> dict[str, Any]:
    return {name: _plain(getattr(value, name)) for name in _shown(value)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _properties(kind: Any, classes: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {name: _schema_of(hints[name], classes) for name in _shown(kind)}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _schema_of(hint: Any, classes: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of the values that a type hint describes, and adds the dataclasses that it refers to to `classes`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is float:
        return {"type": ["number", "null"]}
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema_of(argument, classes) for argument in arguments]}
    if origin in (list, tuple):
        return {"type": "array", "items": _schema_of(arguments[0], classes)}
    if origin is Counter:
        return {"type": "object", "additionalProperties": {"type": "integer"}}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], classes)}
    if dataclasses.is_dataclass(hint):
        name = getattr(hint, "__name__", "")
        if name not in classes:
            classes[name] = {}  # a class may refer to itself
            classes[name] = _object(_properties(hint, classes))
        return {"$ref": f"#/$defs/{name}"}
    raise TypeError(f"{hint}: this type of field has no schema")
