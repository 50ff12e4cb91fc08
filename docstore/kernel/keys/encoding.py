"""Order-preserving keys: `encode_key(a) < encode_key(b)` exactly if `compare(a, b) < 0`; equal values, equal bytes.

Keys are self-delimiting, so they can be concatenated, and no key is a prefix of another. A descending key is the
ascending one with every byte inverted. This is a format on disk (index keys, chunk bounds). By class of the value (the
byte is the class number of `docstore.bson.order`, for numbers and booleans one of its sub-numbers):

    10 MinKey   18 undefined   20 null   F0 MaxKey      nothing more
    28 NaN   30 zero                                    nothing more
    38 positive number   2C negative number             magnitude; for a negative number its bytes inverted
    40 string, symbol   90 code                         text
    48 object                                           per field: class, text of the name, key of the value; then 00
    50 array                                            key of each element; then 00
    58 binary                                           length (4 bytes), subtype, bytes
    60 ObjectId                                         12 bytes
    68 false   69 true                                  nothing more
    70 date   78 timestamp                              8 bytes, the sign bit of a date inverted
    80 regex                                            text of the pattern, text of the options
    88 DBPointer                                        length (4 bytes), bytes
    98 code with scope                                  text of the code, then as for an object

All lengths and numbers are big-endian. Text is its bytes with 00 written 01 01 and 01 written 01 02, then 00. A
magnitude is the nearest double towards zero (8 bytes), then 00 if that is exact. Else 01 and the remainder as a decimal
fraction follow: adjusted exponent + 0x4000 (2 bytes), the digits in ASCII without trailing zeros, 00.
"""

from __future__ import annotations

from decimal import Decimal
from math import nextafter

import cython

from docstore.bson.number import EXACT, exact_value
from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.number import integer_at
    from docstore.bson.order import (
        CLASS_ARRAY,
        CLASS_BINARY,
        CLASS_BOOL,
        CLASS_CODE,
        CLASS_CODE_WITH_SCOPE,
        CLASS_DATE,
        CLASS_DB_POINTER,
        CLASS_NUMBER,
        CLASS_OBJECT,
        CLASS_OBJECT_ID,
        CLASS_REGEX,
        CLASS_STRING,
        CLASS_TIMESTAMP,
        class_of,
    )
    from docstore.bson.walk import (
        DECIMAL,
        DOUBLE,
        STRING,
        bits_of,
        document_stop,
        double_at,
        find,
        name_end,
        uint64_at,
        value_end,
    )
    from docstore.kernel.keys.writer import take_contents, writer

    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _POSITIVE = 0x38

INVERTED = bytes(range(255, -1, -1))
"""The translation table that turns an ascending key into a descending one."""

KEY_OF_UNDEFINED = b"\x18"
KEY_OF_NULL = b"\x20"


def encode_key(value: Value, descending: bool = False) -> bytes:
    """Return the key of one value."""
    out: KeyWriter = writer()
    append_key(out, value[0], value[1], 0, len(value[1]))
    if descending:
        out.invert(0)
    return take_contents(out)


def identity_key(prefix: bytes, raw: bytes) -> bytes:
    """Return `prefix` and the key of the document's `_id`, which must exist."""
    at: cython.Py_ssize_t = find(raw, 0, len(raw), b"_id")
    assert at >= 0, "a stored document has an _id"
    out: KeyWriter = writer()
    out.put_bytes(prefix)
    append_key(out, raw[at], raw, at + 5, value_end(raw, raw[at], at + 5, len(raw)))
    return take_contents(out)


def append_key(
    out: KeyWriter, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    """Append the ascending key of the value at [at, end)."""
    kind: cython.int = class_of(code)
    if kind == CLASS_NUMBER:
        return _append_number(out, code, raw, at)
    if kind == CLASS_BOOL:
        return out.put(CLASS_BOOL + (1 if raw[at] else 0))
    out.put(kind)
    if kind in (CLASS_STRING, CLASS_CODE):
        _append_text(out, raw, at + 4, end - 1)
    elif kind == CLASS_OBJECT:
        _append_fields(out, raw, at, end)
    elif kind == CLASS_ARRAY:
        _append_members(out, raw, at, end)
    elif kind == CLASS_OBJECT_ID:
        out.put_part(raw, at, end)
    elif kind == CLASS_DATE:
        out.put(raw[at + 7] ^ 0x80)
        out.put_number(uint64_at(raw, at), 7)
    elif kind == CLASS_TIMESTAMP:
        out.put_number(uint64_at(raw, at), 8)
    elif kind == CLASS_BINARY:
        out.put_number(end - at - 5, 4)
        out.put_part(raw, at + 4, end)
    elif kind == CLASS_DB_POINTER:
        out.put_number(end - at, 4)
        out.put_part(raw, at, end)
    elif kind == CLASS_REGEX:
        _append_regex(out, raw, at, end)
    elif kind == CLASS_CODE_WITH_SCOPE:
        _append_scoped(out, raw, at, end)
    return 0


def _append_text(out: KeyWriter, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    begin: cython.Py_ssize_t = at
    while at < end:
        if raw[at] <= 1:
            out.put_part(raw, begin, at)
            out.put(1)
            out.put(raw[at] + 1)
            begin = at + 1
        at += 1
    out.put_part(raw, begin, end)
    return out.put(0)


def _append_regex(out: KeyWriter, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    options: cython.Py_ssize_t = name_end(raw, at, end)
    _append_text(out, raw, at, options)
    return _append_text(out, raw, options + 1, end - 1)


def _append_scoped(out: KeyWriter, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    scope: cython.Py_ssize_t = value_end(raw, STRING, at + 4, end)
    _append_text(out, raw, at + 8, scope - 1)
    return _append_fields(out, raw, scope, end)


def _append_fields(out: KeyWriter, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.int:
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    out.enter()
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        out.put(class_of(raw[at]))
        _append_text(out, raw, at + 1, named)
        append_key(out, raw[at], raw, named + 1, end)
        at = end
    out.leave()
    return out.put(0)


def _append_members(out: KeyWriter, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.int:
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    out.enter()
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        append_key(out, raw[at], raw, named + 1, end)
        at = end
    out.leave()
    return out.put(0)


def _append_number(out: KeyWriter, code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.int:
    integer: cython.longlong
    top: cython.longlong
    if code == DECIMAL:
        return _append_decimal(out, exact_value(code, raw, at))
    if code == DOUBLE:
        return _append_double(out, double_at(raw, at))
    integer = integer_at(code, raw, at)
    top = integer >> 53
    if -1 <= top <= 0:
        return _append_double(out, cython.cast(cython.double, integer))
    return _append_decimal(out, Decimal(integer))


def _append_double(out: KeyWriter, number: cython.double) -> cython.int:
    begin: cython.Py_ssize_t
    if number != number:
        return out.put(_NAN)
    if number == 0.0:
        return out.put(_ZERO)
    if number > 0.0:
        out.put(_POSITIVE)
        out.put_number(bits_of(number), 8)
        return out.put(0)
    out.put(_NEGATIVE)
    begin = out.size
    out.put_number(bits_of(-number), 8)
    out.put(0)
    return out.invert(begin)


@cython.cfunc
def _append_decimal(out: KeyWriter, number: Decimal) -> cython.int:
    if number.is_nan():
        return out.put(_NAN)
    if number.is_zero():
        return out.put(_ZERO)
    out.put(_NEGATIVE if number.is_signed() else _POSITIVE)
    begin = out.size
    magnitude = number.copy_abs()
    near = float(magnitude)
    if Decimal(near) > magnitude:
        near = nextafter(near, 0.0)
    out.put_number(bits_of(near), 8)
    missing = EXACT.subtract(magnitude, Decimal(near)) if magnitude.is_finite() else Decimal(0)
    if missing.is_zero():
        out.put(0)
    else:
        digits = "".join(map(str, missing.as_tuple().digits)).lstrip("0").rstrip("0")
        out.put(1)
        out.put_number(missing.adjusted() + 0x4000, 2)
        out.put_bytes(digits.encode())
        out.put(0)
    return out.invert(begin) if number.is_signed() else 0
