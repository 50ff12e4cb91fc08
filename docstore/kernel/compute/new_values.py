"""New values of updates, encoded as fields; None if the general update must decide."""

from __future__ import annotations

import cython

from docstore.bson.build import enclosed
from docstore.bson.walk import Value
from docstore.kernel.limits import MAX_SAFE_FACTOR, MAX_SAFE_SUMMAND

if not cython.compiled:
    from docstore.bson.number import integer_at
    from docstore.bson.walk import (
        DOUBLE,
        INT32,
        INT64,
        bits_of,
        document_stop,
        double_at,
        name_end,
        part,
        value_end,
    )

UNCHANGED: bytes = b""
"""Stands for an unchanged field or document."""
LARGEST_ARRAY: cython.Py_ssize_t = 1 << 20
"""Most bytes of an array that is read member by member."""
_ELEMENT_DIGITS: cython.Py_ssize_t = 7


def calculated(
    raw: bytes,
    at: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    kind: cython.int,
    operand: bytes,
    multiplies: cython.bint,
) -> bytes | None:
    """Return the field at `at`, whose value begins at `begin`, with a number added to it or multiplied by it."""
    code: cython.int = raw[at]
    number: cython.longlong
    amount: cython.longlong
    result: cython.longlong
    largest: cython.longlong = MAX_SAFE_FACTOR if multiplies else MAX_SAFE_SUMMAND
    if code not in (INT32, INT64, DOUBLE):
        return None
    name: bytes = part(raw, at + 1, begin - 1)
    if code == DOUBLE or kind == DOUBLE:
        before: cython.double = _as_double(code, raw, begin)
        operand_: cython.double = _as_double(kind, operand, 0)
        total: cython.double = before * operand_ if multiplies else before + operand_
        if total != total:
            return None
        if code == DOUBLE and total == before:
            return UNCHANGED
        return encoded(DOUBLE, name, int(bits_of(total)).to_bytes(8, "little"))
    number = integer_at(code, raw, begin)
    amount = integer_at(kind, operand, 0)
    if not (-largest <= number <= largest and -largest <= amount <= largest):
        return None
    result = number * amount if multiplies else number + amount
    if code == INT32 and kind == INT32 and -0x80000000 <= result <= 0x7FFFFFFF:
        return UNCHANGED if result == number else encoded(INT32, name, int(result).to_bytes(4, "little", signed=True))
    if code == INT64 and result == number:
        return UNCHANGED
    return encoded(INT64, name, int(result).to_bytes(8, "little", signed=True))


@cython.exceptval(check=False)
def _as_double(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.double:
    return double_at(raw, at) if code == DOUBLE else cython.cast(cython.double, integer_at(code, raw, at))


def encoded(code: cython.int, name: bytes, value: bytes) -> bytes:
    return b"%c%b\0%b" % (code, name, value)


def appended(raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t, members: list[Value]) -> bytes | None:
    """Return the array at [begin, end) with members appended; None if its names are not those of an array."""
    stop: cython.Py_ssize_t = document_stop(raw, begin, end)
    at: cython.Py_ssize_t = begin + 4
    named: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    if end - begin > LARGEST_ARRAY:
        return None
    while at < stop:
        named = name_end(raw, at + 1, stop)
        if not is_element(raw, at + 1, named, count):
            return None
        at = value_end(raw, raw[at], named + 1, stop)
        count += 1
    parts: list[bytes] = [part(raw, begin + 4, stop)]
    for code, data in members:
        parts.append(encoded(code, b"%d" % count, data))
        count += 1
    return enclosed(b"".join(parts))


@cython.exceptval(check=False)
def is_element(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, number: cython.Py_ssize_t) -> cython.bint:
    """True if the name at [at, end) is that of the element at this position."""
    offset: cython.Py_ssize_t
    digit: cython.int
    parsed_number: cython.Py_ssize_t = 0
    if end == at or end - at > _ELEMENT_DIGITS or (raw[at] == 0x30 and end - at > 1):
        return False
    for offset in range(at, end):
        digit = raw[offset]
        if not 0x30 <= digit <= 0x39:
            return False
        parsed_number = parsed_number * 10 + digit - 0x30
    return parsed_number == number
