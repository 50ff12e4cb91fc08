"""The refusal of a second document under a unique key, in the reference's words.

`E11000 duplicate key error collection: db.c index: x_1 dup key: { x: 1 }`, with `keyPattern` and `keyValue` beside
it. Values are shown as the reference shows them, which is neither JSON nor the shell's notation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bson.decimal128 import Decimal128
from bson.objectid import ObjectId

from docstore.bson import (
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
    document_to_python,
    elements,
    get_field,
    to_python,
    values,
)
from docstore.collection.index.geo_keys import whole_value
from docstore.errors import Code, CommandError
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.scan.index_bounds import field_end
from docstore.query.geo.cell_keys import cell_value
from docstore.query.text.terms import term_value

if TYPE_CHECKING:
    from docstore.collection.collection import Collection, Index

_UUID_SUBTYPE = 4
_NULL_VALUE: Value = (NULL, b"")
_SHOWN_CHARACTERS = 150


def duplicate_key(coll: Collection, index: Index, raw: bytes, key: bytes) -> CommandError:
    """The error for the document `raw`, whose encoded key `key` under `index` belongs to another document."""
    found = index_values(index, raw, key)
    extra: dict[str, Any] = {"keyPattern": document_to_python(index.spec.key)}
    rules = ""
    if index.collation is None:
        extra["keyValue"] = {path: to_python(value) for (path, _), value in zip(index.fields, found, strict=True)}
        texts = [show(value) for value in found]
    else:
        # The entry holds what the collation compares by, which is no text: it is shown in hexadecimal digits.
        rules = f" collation: {show((OBJECT, index.collation.raw))}"
        folded = [index.collation.fold(value) for value in found]
        hexes = [value[1][4:-1].hex() if value[0] == STRING else None for value in folded]
        texts = [show(value) if digits is None else f'"0x{digits}"' for value, digits in zip(found, hexes, strict=True)]
        extra["keyValue"] = {
            path: to_python(value) if digits is None else digits
            for (path, _), value, digits in zip(index.fields, found, hexes, strict=True)
        }
        extra["hexEncoded"] = [digits is not None for digits in hexes]
        extra["collation"] = document_to_python(index.collation.raw)
    shown = ", ".join(f"{path}: {text}" for (path, _), text in zip(index.fields, texts, strict=True))
    return CommandError(
        Code.DuplicateKey,
        f"E11000 duplicate key error collection: {coll.ns} index: {index.name}{rules} dup key: {{ {shown} }}",
        extra=extra,
    )


def index_values(index: Index, raw: bytes, key: bytes) -> list[Value]:
    """The value for each field of the index that makes up the document's encoded key `key`: cells and terms too."""
    if index.geometry is None and index.text is None:
        return key_values(index.key_pattern, raw, key)
    found: list[Value] = []
    for path, direction in index.fields:
        end = field_end(key, 0, 0xFF if direction < 0 else 0)
        if direction == 0:
            found.append(cell_value(key[:end]) if index.geometry is not None else term_value(key[:end]))
        else:
            pattern = KeyPattern([(path, direction)], index.key_pattern.fold)
            whole = whole_value(raw, path.split("."))
            same = pattern.encode([whole]) == key[:end]
            found.append(whole if same else key_values(pattern, raw, key[:end])[0])
        key = key[end:]
    return found


def key_values(pattern: KeyPattern, raw: bytes, key: bytes) -> list[Value]:
    """The document's value for each field of the pattern that makes up its encoded key `key`."""
    found: list[Value] = []
    for path, direction in pattern.fields:
        single = KeyPattern([(path, direction)], pattern.fold)
        for value in _candidates((OBJECT, raw), path.split(".")):
            encoded = single.encode([value])
            # No key is the beginning of another, so at most one value of the field fits.
            if key.startswith(encoded):
                found.append(value)
                key = key[len(encoded) :]
                break
        else:
            raise AssertionError(f"the document has no such key under {pattern!r}")
    return found


def _candidates(value: Value, path: list[str]) -> list[Value]:
    """Every value that an index sees at the path: through arrays on the way, and the members of one at its end."""
    code, data = value
    if not path:
        if code != ARRAY:
            return [value]
        return [*values(data), (UNDEFINED, b""), value]
    if code == ARRAY:
        members = [found for member in values(data) for found in _candidates(member, path)]
        if path[0].isdigit() and (place := int(path[0])) < len(listed := values(data)):
            members += _candidates(listed[place], path[1:])
        return [*members, _NULL_VALUE]
    if code != OBJECT:
        return [_NULL_VALUE]
    inner = get_field(data, path[0])
    return [_NULL_VALUE] if inner is None else _candidates(inner, path[1:])


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
