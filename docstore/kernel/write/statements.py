"""The statements of write commands, as most are sent: a few fields, read in one walk and left as bytes.

Whatever else there is to a statement, and what is wrong with one, is left to the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import cython

from docstore.bson.walk import Value

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import (
        ARRAY,
        BOOL,
        NULL,
        OBJECT,
        REGEX,
        UNDEFINED,
        document_stop,
        name_end,
        part,
        value_end,
    )

Made = TypeVar("Made", bound=tuple[object, ...])

_REST = (None, (), None, None, None)


def update_statements(raws: list[bytes], made: type[Made], otherwise: Callable[[bytes], Made]) -> list[Made]:
    """The statements of an update: of those with nothing but `q`, `u`, `multi` and `upsert`, whose update is a
    document, a `made` of (filter, update, multi, upsert) and of five places that say that there is nothing more;
    `otherwise` makes the others.
    """
    raw: bytes
    fields: tuple[bytes, Value, bool, bool] | None
    found: list[Made] = []
    for raw in raws:
        fields = _update_fields(raw)
        found.append(otherwise(raw) if fields is None else tuple.__new__(made, fields + _REST))
    return found


def _update_fields(raw: bytes) -> tuple[bytes, Value, bool, bool] | None:
    """(filter, update, multi, upsert); None where there is more to the statement."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    query: cython.Py_ssize_t = 0
    query_end: cython.Py_ssize_t = 0
    update: cython.Py_ssize_t = 0
    update_end: cython.Py_ssize_t = 0
    many: cython.bint = False
    upsert: cython.bint = False
    wanted: cython.int
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        wanted = BOOL
        if named == at + 2 and raw[at + 1] == 0x71:
            wanted, query, query_end = OBJECT, named + 1, end
        elif named == at + 2 and raw[at + 1] == 0x75:
            wanted, update, update_end = OBJECT, named + 1, end
        elif is_named(raw, at, named, b"multi"):
            many = raw[named + 1] == 1
        elif is_named(raw, at, named, b"upsert"):
            upsert = raw[named + 1] == 1
        else:
            return None
        if raw[at] != wanted:
            return None
        at = end
    if not query or not update:
        return None
    spend(at)
    return part(raw, query, query_end), (OBJECT, part(raw, update, update_end)), many, upsert


def is_named(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, name: bytes) -> cython.bint:
    """Whether the field at `at`, whose name ends at `named`, has that name."""
    size: cython.Py_ssize_t = len(name)
    place: cython.Py_ssize_t
    if named - at - 1 != size:
        return False
    for place in range(size):
        if raw[at + 1 + place] != name[place]:
            return False
    return True


def identity_type(raw: bytes) -> cython.int:
    """The type of the `_id` that a filter asks for, which then stands from the ninth byte to the last but one; 0 where
    it asks for more or for something else. Errors: InvalidBSON.
    """
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    code: cython.int
    if stop < 9 or raw[5] != 0x5F or raw[6] != 0x69 or raw[7] != 0x64 or raw[8] != 0:
        return 0
    code = raw[4]
    if code in (ARRAY, NULL, OBJECT, REGEX, UNDEFINED) or value_end(raw, code, 9, stop) != stop or stop != len(raw) - 1:
        return 0
    return code
