"""Documents whose fields may stand twice, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import document_from, elements


class Document(tuple[tuple[str, Any], ...]):
    """The fields of a document in order, whatever their names."""

    __slots__ = ()


class OpenCursor(int):
    """Stands for the id of an open cursor, which each server chooses by itself: the position among those."""


def doc(*fields: tuple[str, Any], **more: Any) -> Document:
    return Document((*fields, *more.items()))


def encode(document: Document, cursors: Sequence[int] = ()) -> bytes:
    """The bytes of a document. `cursors`: the ids of the open cursors of the server that it is for."""
    return document_from((name, *_value(value, cursors)) for name, value in document)


def names_cursor(value: Any) -> bool:
    """True if an open cursor stands anywhere in a value: it has other bytes for each server."""
    if isinstance(value, Document):
        return any(names_cursor(member) for _, member in value)
    if isinstance(value, list):
        return any(map(names_cursor, value))
    return isinstance(value, OpenCursor)


def _value(value: Any, cursors: Sequence[int]) -> tuple[int, bytes]:
    if isinstance(value, Document):
        return 3, encode(value, cursors)
    if isinstance(value, list):
        return 4, encode(Document((str(place), member) for place, member in enumerate(value)), cursors)
    if isinstance(value, OpenCursor):
        value = Int64(cursors[value % len(cursors)] if cursors else 7)
    if isinstance(value, str | bool | int | float | None):
        return _scalar(type(value), value)
    return _encoded(value)


@lru_cache(4096)
def _scalar(_type: type, value: Any) -> tuple[int, bytes]:
    return _encoded(value)


def _encoded(value: Any) -> tuple[int, bytes]:
    ((_, code, data),) = elements(bson.encode({"": value}))
    return code, data
