"""Values in error texts: in the reference's notation, which is neither JSON nor the shell's.

`{ a: 1, when: new Date(0), id: ObjectId('...') }`; long strings are cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from bson.decimal128 import Decimal128
from bson.objectid import ObjectId

from docstore.bson.convert import to_python
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
    elements,
    values,
)

_STRING_CHARACTERS = 150
_DISPLAYED_CHARACTERS = 200
_UUID_SUBTYPE = 4
_CONSTANTS = {NULL: "null", UNDEFINED: "undefined", MIN_KEY: "MinKey", MAX_KEY: "MaxKey"}


def display(value: Value) -> str:
    """Return the text of a value in a message, cut to a limited length."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > _DISPLAYED_CHARACTERS:
            return text[: _DISPLAYED_CHARACTERS - 3] + "..."
    return text


def display_document(raw: bytes) -> str:
    """Return the text of a document in a message, cut as in `display`."""
    return display((OBJECT, raw))


def display_in_full(value: Value) -> str:
    """Return the text of a value in a message about index keys, which are short."""
    return "".join(_pieces(value))


def _pieces(value: Value) -> Iterator[str]:
    code, data = value
    if code == OBJECT:
        separator = "{ "
        for name, kind, part in elements(data):
            yield f"{separator}{name}: "
            yield from _pieces((kind, part))
            separator = ", "
        yield "{}" if separator == "{ " else " }"
    elif code == ARRAY:
        separator = "[ "
        for member in values(data):
            yield separator
            yield from _pieces(member)
            separator = ", "
        yield "[]" if separator == "[ " else " ]"
    elif code == CODE_WITH_SCOPE:
        yield f"CodeWScope( {to_python(value)}, "
        yield from _pieces((OBJECT, _scope(data)))
        yield ")"
    elif code in (STRING, SYMBOL):
        text = str(to_python(value))
        yield f'"{text[:_STRING_CHARACTERS]}..."' if len(text) > _STRING_CHARACTERS else f'"{text}"'
    else:
        yield _CONSTANTS.get(code) or _scalar(code, data, to_python(value))


def _scalar(code: int, data: bytes, python_value: Any) -> str:
    if code == BOOL:
        return "true" if python_value else "false"
    if code in (INT32, INT64):
        return str(int(python_value))
    if code == DOUBLE:
        return _double(float(python_value))
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
        return str(python_value)
    assert code == DB_POINTER, f"no such type of value: {code}"
    return f"DBRef('{data[4:-13].decode()}', {ObjectId(data[-12:])})"


def _scope(data: bytes) -> bytes:
    text_bytes = int.from_bytes(data[4:8], "little")
    return data[8 + text_bytes :]


def _double(number: float) -> str:
    if math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return f"{number:.1f}"
    text = repr(number) if math.isfinite(number) else str(number)
    return text if "." in text and "e" not in text else f"{text}.0"
