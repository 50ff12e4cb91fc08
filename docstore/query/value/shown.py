"""Values as the reference prints them in messages."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

from bson.decimal128 import Decimal128
from bson.objectid import ObjectId

from docstore.bson import elements, to_python, values
from docstore.bson.walk import (
    ARRAY,
    BINARY,
    BOOL,
    CODE,
    CODE_WITH_SCOPE,
    DATE,
    DB_POINTER,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT,
    OBJECT_ID,
    REGEX,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    Value,
)

_SHOWN_CHARACTERS = 150
_UUID_SUBTYPE = 4


def show(value: Value) -> str:
    """A value as the reference prints it in messages about index keys."""
    code, data = value
    if code in (STRING, SYMBOL):
        text = str(to_python(value))
        return f'"{text[:_SHOWN_CHARACTERS]}..."' if len(text) > _SHOWN_CHARACTERS else f'"{text}"'
    if code == OBJECT:
        inner = ", ".join(f"{name}: {show((kind, part))}" for name, kind, part in elements(data))
        return f"{{ {inner} }}" if inner else "{}"
    if code == ARRAY:
        inner = ", ".join(show(member) for member in values(data))
        return f"[ {inner} ]" if inner else "[]"
    if code in _SHOWN:
        return _SHOWN[code]
    return _show_scalar(code, data, to_python(value))


_SHOWN = {NULL: "null", UNDEFINED: "undefined", MIN_KEY: "MinKey", MAX_KEY: "MaxKey"}


def _show_scalar(code: int, data: bytes, thing: Any) -> str:
    if code == BOOL:
        return "true" if thing else "false"
    if code in (INT32, INT64):
        return str(int(thing))
    if code == DOUBLE:
        return _show_double(float(thing))
    if code == DECIMAL:
        return str(Decimal128.from_bid(data))
    if code == OBJECT_ID:
        return f"ObjectId('{ObjectId(data)}')"
    if code == DATE:
        return f"new Date({int.from_bytes(data, 'little', signed=True)})"
    if code == TIMESTAMP:
        packed = int.from_bytes(data, "little")
        return f"Timestamp({packed >> 32}, {packed & 0xFFFFFFFF})"
    if code == BINARY:
        subtype, content = data[4], data[5:]
        if subtype == _UUID_SUBTYPE and len(content) == 16:
            return f'UUID("{UUID(bytes=content)}")'
        return f"BinData({subtype}, {content.hex().upper()})"
    if code == REGEX:
        pattern, _, options = data.partition(b"\0")
        return f"/{pattern.decode()}/{options[:-1].decode()}"
    if code == CODE:
        return str(thing)
    if code == CODE_WITH_SCOPE:
        return f"CodeWScope( {thing}, {show((OBJECT, _scope(data)))})"
    assert code == DB_POINTER, f"no such type of value: {code}"
    return f"DBRef('{data[4:-13].decode()}', {ObjectId(data[-12:])})"


def _scope(data: bytes) -> bytes:
    text_bytes = int.from_bytes(data[4:8], "little")
    return data[8 + text_bytes :]


def _show_double(number: float) -> str:
    if math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return f"{number:.1f}"
    text = repr(number) if math.isfinite(number) else str(number)
    return text if "." in text and "e" not in text else f"{text}.0"
