"""Parses the usual statements of write commands: a few fields, read in one pass and left as bytes.

The caller's general parser handles other fields, and all errors.
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
        INT32,
        NULL,
        OBJECT,
        REGEX,
        UNDEFINED,
        document_stop,
        int32_at,
        name_end,
        part,
        value_end,
    )

Statement = TypeVar("Statement", bound=tuple[object, ...])

_REST: tuple[object, ...] = (None, (), None, None, None)
_UPDATE: bytes = b"\x03u\0"
_FLAGS: list[bytes] = [
    b"", b"\x08upsert\0\1", b"\x08multi\0\1", b"\x08multi\0\1\x08upsert\0\1",
]  # fmt: skip
_ALL: bytes = b"\x10limit\0\0\0\0\0"
_ONE: bytes = b"\x10limit\0\1\0\0\0"


def update_statements(
    raws: list[bytes], statement_type: type[Statement], otherwise: Callable[[bytes], Statement]
) -> list[Statement]:
    """Return the statements of an update.

    A statement with only `q`, `u`, `multi` and `upsert`, whose update is a document, is simple. It becomes a
    `statement_type` of (filter, update, multi, upsert) and five absent fields; `otherwise` makes the others.
    """
    raw: bytes
    fields: tuple[bytes, Value, bool, bool] | None
    statements: list[Statement] = []
    for raw in raws:
        fields = _update_fields(raw)
        statements.append(otherwise(raw) if fields is None else tuple.__new__(statement_type, fields + _REST))
    return statements


@cython.cfunc
def _update_fields(raw: bytes) -> tuple[bytes, Value, bool, bool] | None:
    """Return (filter, update, multi, upsert); None if the statement has other fields, or a field twice."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    query: cython.Py_ssize_t = 0
    query_end: cython.Py_ssize_t = 0
    update: cython.Py_ssize_t = 0
    update_end: cython.Py_ssize_t = 0
    multi: cython.int = -1
    upsert: cython.int = -1
    expected_type: cython.int
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        expected_type = BOOL
        if named == at + 2 and raw[at + 1] == 0x71 and not query:
            expected_type, query, query_end = OBJECT, named + 1, end
        elif named == at + 2 and raw[at + 1] == 0x75 and not update:
            expected_type, update, update_end = OBJECT, named + 1, end
        elif multi < 0 and is_named(raw, at, named, b"multi"):
            multi = raw[named + 1] == 1
        elif upsert < 0 and is_named(raw, at, named, b"upsert"):
            upsert = raw[named + 1] == 1
        else:
            return None
        if raw[at] != expected_type:
            return None
        at = end
    if not query or not update:
        return None
    spend(at)
    return part(raw, query, query_end), (OBJECT, part(raw, update, update_end)), multi == 1, upsert == 1


@cython.exceptval(check=False)
def is_named(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, name: bytes) -> cython.bint:
    """True if the field at `at`, whose name ends at `named`, has that name."""
    size: cython.Py_ssize_t = len(name)
    index: cython.Py_ssize_t
    if named - at - 1 != size:
        return False
    for index in range(size):
        if raw[at + 1 + index] != name[index]:
            return False
    return True


@cython.ccall
def identity_type(raw: bytes) -> cython.int:
    """Return the type of the `_id` that a filter equals; its value extends from the ninth byte to the last but one. 0
    for any other filter. Errors: InvalidBSON.
    """
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    code: cython.int
    if stop < 9 or raw[5] != 0x5F or raw[6] != 0x69 or raw[7] != 0x64 or raw[8] != 0:
        return 0
    code = raw[4]
    if code in (ARRAY, NULL, OBJECT, REGEX, UNDEFINED) or value_end(raw, code, 9, stop) != stop or stop != len(raw) - 1:
        return 0
    return code


@cython.ccall
def bulk_operation(raw: bytes) -> tuple[str, int, bytes, bool] | None:
    """Return (kind, the number of its namespace, the statement, True if it is multi) of an operation of a bulkWrite.
    The statement is an insert's document, or that of an update or a delete command. None if there is more than a
    filter, an update, `multi` and `upsert`, or an error.
    """
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 16
    end: cython.Py_ssize_t
    if stop < 16 or raw[4] != INT32 or raw[11] != 0:
        return None
    if is_named(raw, 4, 11, b"insert"):
        if stop < at + 15 or not is_named(raw, at, at + 9, b"document") or raw[at] != OBJECT:
            return None
        end = value_end(raw, OBJECT, at + 10, stop)
        if end != stop:
            return None
        spend(end)
        return "insert", int32_at(raw, 12), part(raw, at + 10, end), False
    return _bulk_change(raw, stop)


def _bulk_change(raw: bytes, stop: cython.Py_ssize_t) -> tuple[str, int, bytes, bool] | None:
    """Parse an update or a delete after its first field."""
    at: cython.Py_ssize_t = 16
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    query: bytes | None = None
    update: bytes | None = None
    multi: cython.int = -1
    upsert: cython.int = -1
    updates: cython.bint = is_named(raw, 4, 11, b"update")
    if not updates and not is_named(raw, 4, 11, b"delete"):
        return None
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        if query is None and raw[at] == OBJECT and is_named(raw, at, named, b"filter"):
            query = part(raw, named + 1, end)
        elif updates and update is None and raw[at] == OBJECT and is_named(raw, at, named, b"updateMods"):
            update = part(raw, named + 1, end)
        elif multi < 0 and raw[at] == BOOL and is_named(raw, at, named, b"multi"):
            multi = raw[named + 1]
        elif updates and upsert < 0 and raw[at] == BOOL and is_named(raw, at, named, b"upsert"):
            upsert = raw[named + 1]
        else:
            return None
        at = end
    if query is None or (updates and update is None) or multi > 1 or upsert > 1:
        return None
    spend(at)
    if not updates or update is None:
        return "delete", int32_at(raw, 12), _statement([query, _ALL if multi == 1 else _ONE]), multi == 1
    flags: bytes = _FLAGS[(2 if multi == 1 else 0) + (1 if upsert == 1 else 0)]
    return "update", int32_at(raw, 12), _statement([query, _UPDATE, update, flags]), multi == 1


@cython.cfunc
def _statement(parts: list[bytes]) -> bytes:
    """Return the document of encoded fields, of which the first is `q`."""
    body: bytes = b"".join(parts)
    return b"".join(((len(body) + 8).to_bytes(4, "little"), b"\x03q\0", body, b"\0"))
