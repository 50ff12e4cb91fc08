"""BSON validation, run once on every document before it is stored.

It checks that each length fits exactly, strings and names are UTF-8 and end with NUL, booleans are 0 or 1, types are
known, and nesting is bounded. Afterwards the kernel may walk the document without checks.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import invalid, too_deep

if not cython.compiled:
    from docstore.bson.walk import (
        ARRAY,
        BINARY,
        BOOL,
        CODE,
        CODE_WITH_SCOPE,
        DATE,
        DB_POINTER,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        REGEX,
        STRING,
        SYMBOL,
        TIMESTAMP,
        UNDEFINED,
        document_stop,
        int32_at,
        name_end,
        part,
        uint64_at,
        value_end,
    )

MAX_DEPTH = 180


def validate(raw: bytes, max_depth: int = MAX_DEPTH) -> None:
    """Check that `raw` is one well-formed document. Errors: InvalidBSON; Overflow if it nests deeper than
    `max_depth`.
    """
    if document_stop(raw, 0, len(raw)) != len(raw) - 1:
        raise invalid("there are bytes after the end of the document")
    _check_document(raw, 0, len(raw), max_depth)


def is_storable(raw: bytes) -> bool:
    """Validate the document; True if it can be stored as it is, without further checks or changes.

    That is: `_id` is first and unique at the top level, it is no document, array, regex or undefined, and no other
    top-level timestamp is zero.
    """
    stop: cython.Py_ssize_t
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    identity: cython.bint
    validate(raw)
    stop = len(raw) - 1
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        identity = named == at + 4 and raw[at + 1] == 0x5F and raw[at + 2] == 0x69 and raw[at + 3] == 0x64
        if identity != (at == 4) or (identity and raw[at] in (ARRAY, OBJECT, REGEX, UNDEFINED)):
            return False
        if raw[at] == TIMESTAMP and not identity and uint64_at(raw, named + 1) == 0:
            return False
        at = end
    return stop > 4


def _check_text(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    scan: cython.Py_ssize_t = at
    index: cython.Py_ssize_t
    bits: cython.int = 0
    # Blocks of a fixed size, which the C compiler vectorizes.
    while bits < 0x80 and end - scan >= 64:
        for index in range(64):
            bits |= raw[scan + index]
        scan += 64
    while scan < end:
        bits |= raw[scan]
        scan += 1
    if bits >= 0x80:
        _check_utf8(raw, at, end)
    return 0


def _check_utf8(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    try:
        part(raw, at, end).decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid("a string is not UTF-8") from error
    return 0


def _check_document(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, depth: cython.int) -> cython.int:
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    end: cython.Py_ssize_t
    code: cython.int
    bits: cython.int
    if depth <= 0:
        raise too_deep()
    if stop != limit - 1:
        raise invalid("a nested document's length does not fit")
    while at < stop:
        code = raw[at]
        end = at + 1
        bits = 0
        while end < stop and raw[end] != 0:
            bits |= raw[end]
            end += 1
        if end >= stop:
            raise invalid("a name does not end")
        if bits >= 0x80:
            _check_utf8(raw, at + 1, end)
        at = end + 1
        if code == INT32 and at + 4 <= stop:
            at += 4
        elif code in (DOUBLE, INT64, DATE) and at + 8 <= stop:
            at += 8
        else:
            end = value_end(raw, code, at, stop)
            _check_value(raw, code, at, end, depth)
            at = end
    if at != stop:
        raise invalid("a document's fields do not end where it ends")
    return 0


def _check_value(
    raw: bytes, code: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.int
) -> cython.int:
    scope: cython.Py_ssize_t
    size: cython.longlong
    if code in (OBJECT, ARRAY):
        _check_document(raw, at, end, depth - 1)
    elif code in (STRING, SYMBOL, CODE):
        _check_text(raw, at + 4, end - 1)
    elif code == BOOL:
        if raw[at] > 1:
            raise invalid("a boolean is neither 0 nor 1")
    elif code == REGEX:
        _check_text(raw, at, end)
    elif code == BINARY:
        if raw[at + 4] == 2 and (end - at < 9 or int32_at(raw, at + 5) != end - at - 9):
            raise invalid("the inner length of an old binary does not fit")
    elif code == DB_POINTER:
        size = int32_at(raw, at)
        if size < 1 or at + 4 + size + 12 != end or raw[at + 3 + size] != 0:
            raise invalid("the namespace of a DBPointer does not fit")
        _check_text(raw, at + 4, at + 3 + size)
    elif code == CODE_WITH_SCOPE:
        if end - at < 14:
            raise invalid("a code with scope is too short")
        scope = value_end(raw, STRING, at + 4, end)
        _check_text(raw, at + 8, scope - 1)
        _check_document(raw, scope, end, depth - 1)
    return 0
