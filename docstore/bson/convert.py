"""Conversion between BSON values and Python objects, for the edges only.

Python objects lose types (Undefined, Symbol, DBPointer), so stored data is never re-encoded from them. Dates become
`DatetimeMS`, since BSON dates exceed the range of `datetime`; DBRef-shaped documents stay documents.
"""

from __future__ import annotations

from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, invalid, values
from docstore.errors import Code, CommandError

_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


def to_python(value: Value) -> Any:
    """Return the value as the `bson` package decodes it. Errors: InvalidBSON if it is not well formed."""
    code, raw = value
    if b"$ref\0" in raw:
        # bson would decode such documents to DBRef objects, which changes the order of their fields.
        if code == OBJECT:
            return {name: to_python((inner, part)) for name, inner, part in elements(raw)}
        if code == ARRAY:
            return [to_python(member) for member in values(raw)]
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


def from_python(thing: Any) -> Value:
    """Return the BSON value of a Python object: dict, list, str, int (int32 if it fits), float, None, bytes, bson
    types.

    Errors: BadValue if BSON cannot represent it.
    """
    try:
        raw = bson.encode({"": thing}, codec_options=_OPTIONS)
    except (BSONError, OverflowError) as error:
        raise CommandError(Code.BadValue, str(error)) from error
    return raw[4], raw[6:-1]
