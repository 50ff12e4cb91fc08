"""The total order of BSON values, as MongoDB 6.0 has it.

By class first: MinKey, undefined, null (and missing), numbers, strings and symbols, objects, arrays, binary,
ObjectId, boolean, date, timestamp, regex, DBPointer, code, code with scope, MaxKey. Within a class:

* numbers by exact value across types (`docstore.bson.number`);
* strings and code by their bytes; regexes by pattern, then by options; booleans, dates (signed) and timestamps
  (unsigned) by value;
* objects field by field: class of the value, then name, then value; arrays element by element; the shorter one is less;
* binary by length, subtype, bytes; DBPointers by length, then bytes; code with scope by code, then by scope.

`docstore.kernel.keys.encoding` encodes the same order; a test holds the two together.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import Value, invalid, too_deep

if not cython.compiled:
    from docstore.bson.number import compare_numbers
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
        MAX_NESTING,
        MIN_KEY,
        NULL,
        OBJECT,
        OBJECT_ID,
        REGEX,
        STRING,
        SYMBOL,
        TIMESTAMP,
        UNDEFINED,
        document_stop,
        int64_at,
        name_end,
        uint64_at,
        value_end,
    )

    CLASS_MIN_KEY = 0x10
    CLASS_UNDEFINED = 0x18
    CLASS_NULL = 0x20
    CLASS_NUMBER = 0x28
    CLASS_STRING = 0x40
    CLASS_OBJECT = 0x48
    CLASS_ARRAY = 0x50
    CLASS_BINARY = 0x58
    CLASS_OBJECT_ID = 0x60
    CLASS_BOOL = 0x68
    CLASS_DATE = 0x70
    CLASS_TIMESTAMP = 0x78
    CLASS_REGEX = 0x80
    CLASS_DB_POINTER = 0x88
    CLASS_CODE = 0x90
    CLASS_CODE_WITH_SCOPE = 0x98
    CLASS_MAX_KEY = 0xF0

_CLASSES = {
    MIN_KEY: CLASS_MIN_KEY,
    UNDEFINED: CLASS_UNDEFINED,
    NULL: CLASS_NULL,
    INT32: CLASS_NUMBER,
    INT64: CLASS_NUMBER,
    DOUBLE: CLASS_NUMBER,
    DECIMAL: CLASS_NUMBER,
    STRING: CLASS_STRING,
    SYMBOL: CLASS_STRING,
    OBJECT: CLASS_OBJECT,
    ARRAY: CLASS_ARRAY,
    BINARY: CLASS_BINARY,
    OBJECT_ID: CLASS_OBJECT_ID,
    BOOL: CLASS_BOOL,
    DATE: CLASS_DATE,
    TIMESTAMP: CLASS_TIMESTAMP,
    REGEX: CLASS_REGEX,
    DB_POINTER: CLASS_DB_POINTER,
    CODE: CLASS_CODE,
    CODE_WITH_SCOPE: CLASS_CODE_WITH_SCOPE,
    MAX_KEY: CLASS_MAX_KEY,
}
_class_table: bytes = bytes([_CLASSES.get(code, 0) for code in range(256)])


def class_of(code: cython.int) -> cython.int:
    """Return the class of a type byte; classes sort by their numbers. Errors: InvalidBSON for an unknown type."""
    type_class: cython.int = _class_table[code & 0xFF]
    if type_class == 0:
        raise invalid(f"unknown BSON type {code}")
    return type_class


def type_class(code: int) -> int:
    """Return the class of a type byte: numbers are one class, string and symbol another; sorted as their values are."""
    return class_of(code)


def compare(a: Value, b: Value) -> int:
    """Return -1, 0 or 1 as `a` is less than, equal to or greater than `b`."""
    return compare_at(a[0], a[1], 0, len(a[1]), b[0], b[1], 0, len(b[1]), 0)


def compare_documents(a: bytes, b: bytes) -> int:
    """Return -1, 0 or 1 for two documents."""
    return _compare_fields(a, 0, len(a), b, 0, len(b), True, 0)


@cython.exceptval(-9, check=True)
def compare_at(
    a_code: cython.int,
    a: bytes,
    a_at: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b_code: cython.int,
    b: bytes,
    b_at: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
    depth: cython.int,
) -> cython.int:
    """Return `compare` of the values at [a_at, a_end) in `a` and [b_at, b_end) in `b`."""
    a_class: cython.int = class_of(a_code)
    b_class: cython.int = class_of(b_code)
    if a_class != b_class:
        return -1 if a_class < b_class else 1
    if a_class == CLASS_NUMBER:
        return compare_numbers(a_code, a, a_at, b_code, b, b_at)
    if a_class in (CLASS_STRING, CLASS_CODE):
        return compare_bytes(a, a_at + 4, a_end - 1, b, b_at + 4, b_end - 1)
    if a_class in (CLASS_OBJECT, CLASS_ARRAY):
        return _compare_fields(a, a_at, a_end, b, b_at, b_end, a_class == CLASS_OBJECT, depth + 1)
    if a_class == CLASS_DATE:
        return compare_integers(int64_at(a, a_at), int64_at(b, b_at))
    if a_class == CLASS_TIMESTAMP:
        if uint64_at(a, a_at) == uint64_at(b, b_at):
            return 0
        return -1 if uint64_at(a, a_at) < uint64_at(b, b_at) else 1
    if a_class in (CLASS_BINARY, CLASS_DB_POINTER):
        if a_end - a_at != b_end - b_at:
            return -1 if a_end - a_at < b_end - b_at else 1
        return compare_bytes(a, a_at + 4, a_end, b, b_at + 4, b_end)
    if a_class == CLASS_REGEX:
        return _compare_regexes(a, a_at, a_end, b, b_at, b_end)
    if a_class == CLASS_CODE_WITH_SCOPE:
        return _compare_scoped(a, a_at, a_end, b, b_at, b_end, depth)
    return compare_bytes(a, a_at, a_end, b, b_at, b_end)


@cython.exceptval(check=False)
def compare_integers(a: cython.longlong, b: cython.longlong) -> cython.int:
    if a == b:
        return 0
    return -1 if a < b else 1


@cython.exceptval(check=False)
def compare_bytes(
    a: bytes,
    a_at: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: bytes,
    b_at: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
) -> cython.int:
    """Compare unsigned bytes, then lengths."""
    while a_at < a_end and b_at < b_end:
        if a[a_at] != b[b_at]:
            return -1 if a[a_at] < b[b_at] else 1
        a_at += 1
        b_at += 1
    return compare_integers(a_end - a_at, b_end - b_at)


@cython.exceptval(-9, check=True)
def _compare_regexes(
    a: bytes,
    a_at: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: bytes,
    b_at: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
) -> cython.int:
    a_options: cython.Py_ssize_t = name_end(a, a_at, a_end)
    b_options: cython.Py_ssize_t = name_end(b, b_at, b_end)
    order: cython.int = compare_bytes(a, a_at, a_options, b, b_at, b_options)
    if order != 0:
        return order
    return compare_bytes(a, a_options + 1, a_end, b, b_options + 1, b_end)


@cython.exceptval(-9, check=True)
def _compare_scoped(
    a: bytes,
    a_at: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: bytes,
    b_at: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
    depth: cython.int,
) -> cython.int:
    a_scope: cython.Py_ssize_t = value_end(a, STRING, a_at + 4, a_end)
    b_scope: cython.Py_ssize_t = value_end(b, STRING, b_at + 4, b_end)
    order: cython.int = compare_bytes(a, a_at + 8, a_scope - 1, b, b_at + 8, b_scope - 1)
    if order != 0:
        return order
    return _compare_fields(a, a_scope, a_end, b, b_scope, b_end, True, depth + 1)


@cython.exceptval(-9, check=True)
def _compare_fields(
    a: bytes,
    a_start: cython.Py_ssize_t,
    a_limit: cython.Py_ssize_t,
    b: bytes,
    b_start: cython.Py_ssize_t,
    b_limit: cython.Py_ssize_t,
    named: cython.bint,
    depth: cython.int,
) -> cython.int:
    a_stop: cython.Py_ssize_t = document_stop(a, a_start, a_limit)
    b_stop: cython.Py_ssize_t = document_stop(b, b_start, b_limit)
    a_at: cython.Py_ssize_t = a_start + 4
    b_at: cython.Py_ssize_t = b_start + 4
    a_name: cython.Py_ssize_t
    b_name: cython.Py_ssize_t
    a_end: cython.Py_ssize_t
    b_end: cython.Py_ssize_t
    a_code: cython.int
    b_code: cython.int
    order: cython.int
    if depth > MAX_NESTING:
        raise too_deep()
    while a_at < a_stop and b_at < b_stop:
        a_code = a[a_at]
        b_code = b[b_at]
        order = class_of(a_code) - class_of(b_code)
        if order != 0:
            return -1 if order < 0 else 1
        a_name = name_end(a, a_at + 1, a_stop)
        b_name = name_end(b, b_at + 1, b_stop)
        if named:
            order = compare_bytes(a, a_at + 1, a_name, b, b_at + 1, b_name)
            if order != 0:
                return order
        a_end = value_end(a, a_code, a_name + 1, a_stop)
        b_end = value_end(b, b_code, b_name + 1, b_stop)
        order = compare_at(a_code, a, a_name + 1, a_end, b_code, b, b_name + 1, b_end, depth)
        if order != 0:
            return order
        a_at = a_end
        b_at = b_end
    if a_at < a_stop:
        return 1
    return -1 if b_at < b_stop else 0
