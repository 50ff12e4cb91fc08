"""Conversion between BSON values and Python objects, for the edges only.

Python objects lose types (Undefined, Symbol, DBPointer), so stored data is never re-encoded from them. Dates become
`DatetimeMS`, since BSON dates exceed the range of `datetime`; DBRef-shaped documents stay documents.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, each_value, elements, invalid, values
from docstore.errors import Code, CommandError

_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
_DECODED_AT_ONCE = 64 * 1024
_PART = 256
"""Fields or members of a long value that are decoded together."""


def to_python(value: Value) -> Any:
    """Return the value as the `bson` package decodes it. Errors: InvalidBSON if it is not well formed.

    A long value is decoded in parts, whose cost is charged.
    """
    code, raw = value
    if len(raw) > _DECODED_AT_ONCE and code == OBJECT:
        return _document_in_parts(raw)
    if len(raw) > _DECODED_AT_ONCE and code == ARRAY:
        return _array_in_parts(raw)
    return _decoded(code, raw)


def _document_in_parts(raw: bytes) -> dict[str, Any]:
    document: dict[str, Any] = {}
    fields = elements(raw)
    for at in range(0, len(fields), _PART):
        part = fields[at : at + _PART]
        if sum([len(data) for _, _, data in part]) > _DECODED_AT_ONCE:
            document |= {name: to_python((code, data)) for name, code, data in part}
        else:
            document |= _decoded(OBJECT, document_from(part))
    return document


def _array_in_parts(raw: bytes) -> list[Any]:
    array: list[Any] = []
    members = iter(each_value(raw))
    while part := list(islice(members, _PART)):
        if sum([len(data) for _, data in part]) > _DECODED_AT_ONCE:
            array += map(to_python, part)
        else:
            array += _decoded(ARRAY, array_from(part))
    return array


def _decoded(code: int, raw: bytes) -> Any:
    if b"$ref\0" in raw:
        # bson would decode such documents to DBRef objects, which changes the order of their fields.
        if code == OBJECT:
            return {name: _decoded(inner, part) for name, inner, part in elements(raw)}
        if code == ARRAY:
            return [_decoded(*member) for member in values(raw)]
    try:
        if code == OBJECT:
            return bson.decode(raw, _OPTIONS)
        return bson.decode(document_from([("", code, raw)]), _OPTIONS)[""]
    except BSONError as error:
        raise invalid(str(error)) from error


def document_to_python(raw: bytes) -> dict[str, Any]:
    """Return a document as a dict."""
    decoded: dict[str, Any] = to_python((OBJECT, raw))
    return decoded


def from_python(value: Any) -> Value:
    """Return the BSON value of a Python object: dict, list, str, int (int32 if it fits), float, None, bytes, bson
    types.

    Errors: BadValue if BSON cannot represent it.
    """
    try:
        raw = bson.encode({"": value}, codec_options=_OPTIONS)
    except (BSONError, OverflowError) as error:
        raise CommandError(Code.BadValue, str(error)) from error
    return raw[4], raw[6:-1]
