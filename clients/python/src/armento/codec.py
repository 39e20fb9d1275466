"""JSON of the control API to and from the dataclasses of `types`."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Dict

from . import types as _types

_HINTS: Dict[type, Dict[str, Any]] = {}


def _hints(kind: type) -> Dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind, vars(_types))
    return _HINTS[kind]


def encode(value: Any) -> Any:
    """A dataclass as a JSON object, with its tag; fields that are None are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: Dict[str, Any] = dict(getattr(value, "TAG", {}))
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            if content is not None:
                out[field.name.rstrip("_")] = encode(content)
        return out
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(kind: Any, value: Any) -> Any:
    """`value` as `kind`. Unknown fields are ignored; missing ones have the defaults of the class.

    Raises TypeError if a field without a default is missing.
    """
    origin = typing.get_origin(kind)
    if value is None or kind is Any:
        return value
    if origin is typing.Union:
        members = [m for m in typing.get_args(kind) if m is not type(None)]
        if len(members) == 1:
            return decode(members[0], value)
        for member in members:
            tag = getattr(member, "TAG", None)
            if tag and isinstance(value, dict) and all(value.get(k) == v for k, v in tag.items()):
                return decode(member, value)
        return value
    if origin is list and isinstance(value, list):
        (item,) = typing.get_args(kind)
        return [decode(item, one) for one in value]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = _hints(kind)
        known = {}
        for field in dataclasses.fields(kind):
            name = field.name.rstrip("_")
            if name in value:
                known[field.name] = decode(hints[field.name], value[name])
        return kind(**known)
    return value
