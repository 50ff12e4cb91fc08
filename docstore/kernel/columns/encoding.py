"""Columns of the wide-column mode as bytes: their names in requests, keys and replies, their records in replies.

A record begins with flags (1 byte) and the timestamp (8, signed, big-endian). An expiring one has the second of its
expiry (4) and its TTL (4) before the value. `docstore.widecolumn.model.cells` defines the meaning of records,
`docstore.widecolumn.model.keys` the keys.

Only the most common kinds of names are supported. For anything unusual the functions return None, and
`docstore.widecolumn.model` decides. Invariant: results equal those of `docstore.widecolumn.model`, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import cython

from docstore.bson.limits import LONG_MIN
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_COLUMN_KEY_BYTES

if not cython.compiled:
    from docstore.bson.walk import BINARY, INT32, INT64, STRING, int32_at, part, uint64_at
    from docstore.kernel.columns.murmur3 import murmur3_place

    TOMBSTONE = 0x01
    EXPIRING = 0x02
    ESTIMATE = 0x40
    """The flag of a row's statistics, which are not part of the data."""
    WHOLE = 0x80
    """The flag of a deletion of a row, super column or range, which is not a cell."""

    PLAIN_NAMES = 1
    """Any bytes."""
    TEXT_NAMES = 2
    """UTF-8."""
    ASCII_NAMES = 3
    LONG_NAMES = 4
    """64-bit integers."""
    TIME_UUID_NAMES = 5
    """Version 1 UUIDs."""

_MASK: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
_SIGN: cython.ulonglong = 0x8000000000000000
_END: bytes = b"\x00\x01"
_ESCAPED: bytes = b"\x00\xff"
_NAME: bytes = b"name\0"
_VALUE: bytes = b"value\0"
_TIMESTAMP: bytes = b"\x12timestamp\0"
_TTL: bytes = b"\x10ttl\0"


@cython.ccall
def escape(value: bytes) -> bytes:
    """Return a byte string in the form of keys: 00 becomes 00 FF, and 00 01 terminates it."""
    return value.replace(b"\x00", _ESCAPED) + _END


@cython.ccall
def plain_bytes(code: cython.int, raw: bytes) -> bytes | None:
    """Return the bytes of a string or of binary data; None for any other type."""
    if code == STRING:
        return part(raw, 4, len(raw) - 1)
    return part(raw, 5, len(raw)) if code == BINARY else None


@cython.ccall
def plain_row(code: cython.int, raw: bytes) -> bytes | None:
    """Return the part of storage keys for a row key of a request: its Murmur3 token and the key. None for an invalid
    row key.
    """
    key: bytes | None = plain_bytes(code, raw)
    if key is None or len(key) == 0 or len(key) > MAX_COLUMN_KEY_BYTES:
        return None
    return murmur3_place(key) + escape(key)


@cython.ccall
def plain_record(code: cython.int, raw: bytes, stamp: bytes, most: cython.Py_ssize_t) -> bytes | None:
    """Return the record of a value of a request that does not expire; None for an invalid value, and for one above
    `most` bytes. `stamp` is its timestamp in the form of records.
    """
    value: bytes | None = plain_bytes(code, raw)
    if value is None or len(value) > most:
        return None
    return b"\0" + stamp + value


@cython.ccall
@cython.exceptval(check=False)
def timestamp_order(record: bytes, other: bytes) -> cython.int:
    """Return 1 if the first record has the later timestamp, -1 if the second has, 0 if they are equal."""
    at: cython.Py_ssize_t = 2
    if record[1] != other[1]:
        return 1 if record[1] ^ 0x80 > other[1] ^ 0x80 else -1
    while at < 9:
        if record[at] != other[at]:
            return 1 if record[at] > other[at] else -1
        at += 1
    return 0


@cython.ccall
@cython.exceptval(check=False)
def is_live(record: bytes, hidden: cython.longlong, now: cython.longlong) -> cython.bint:
    """True if the record is a value that has not expired at the second `now` and is newer than the deletion
    `hidden`.
    """
    flags: cython.int = record[0]
    if flags & TOMBSTONE or integer_in(record, 1, 8) <= hidden:
        return False
    return not flags & EXPIRING or now < cython.cast(cython.longlong, _high_first(record, 9, 4))


class ColumnForm:
    """The names of one comparator, and columns with these names. `as_text`: replies show text as strings."""

    kind: cython.int
    as_text: cython.bint
    _out: KeyWriter

    def __init__(self, kind: int, as_text: bool = False) -> None:
        self.kind = kind
        self.as_text = as_text
        self._out = KeyWriter()

    @cython.ccall
    def encode(self, code: cython.int, raw: bytes) -> bytes | None:
        """Return a name of a request in the form of keys; None if the model must decide."""
        name: bytes
        if self.kind == LONG_NAMES:
            return self._encode_long(code, raw)
        if self.kind == TIME_UUID_NAMES:
            return self._encode_time_uuid(code, raw)
        if code == STRING:
            name = part(raw, 4, len(raw) - 1)
        elif code == BINARY and self.kind == PLAIN_NAMES:
            name = part(raw, 5, len(raw))
        else:
            return None
        if len(name) == 0 or len(name) > MAX_COLUMN_KEY_BYTES or (self.kind == ASCII_NAMES and not name.isascii()):
            return None
        return escape(name)

    def _encode_long(self, code: cython.int, raw: bytes) -> bytes | None:
        number: cython.longlong
        out: KeyWriter = self._out
        out.clear()
        out.put(1)
        if code == INT64:
            out.put_number(uint64_at(raw, 0) ^ _SIGN, 8)
        elif code == INT32:
            number = int32_at(raw, 0)
            out.put_number((number & _MASK) ^ _SIGN, 8)
        else:
            return None
        return out.contents()

    def _encode_time_uuid(self, code: cython.int, raw: bytes) -> bytes | None:
        out: KeyWriter = self._out
        if code != BINARY or len(raw) != 21 or raw[4] not in (0, 4) or raw[11] >> 4 != 1:
            return None
        out.clear()
        out.put(1)
        # The 60-bit timestamp first, big-endian.
        out.put(raw[11] & 0x0F)
        out.put(raw[12])
        out.put_part(raw, 9, 11)
        out.put_part(raw, 5, 9)
        out.put_part(raw, 13, 21)
        return out.contents()

    @cython.ccall
    def document(self, key: bytes, at: cython.Py_ssize_t, record: bytes, now: cython.longlong) -> bytes:
        """Return `{name, value, timestamp, ttl?}` of a live column whose name is its key from `at` to the end."""
        out: KeyWriter = self._out
        expires: cython.bint = record[0] & EXPIRING != 0
        out.clear()
        out.put_little(0, 4)
        self._put_name(key, at)
        self._put_bytes(_VALUE, part(record, 17 if expires else 9, len(record)), self.as_text)
        out.put_bytes(_TIMESTAMP)
        out.put_little(_high_first(record, 1, 8), 8)
        if expires:
            out.put_bytes(_TTL)
            out.put_little((_high_first(record, 9, 4) - now) & 0xFFFFFFFF, 4)
        out.put(0)
        out.set_little(0, out.size, 4)
        return out.contents()

    def _put_name(self, key: bytes, at: cython.Py_ssize_t) -> cython.int:
        out: KeyWriter = self._out
        name: bytes
        if self.kind >= LONG_NAMES and key[at] == 0:
            self._put_bytes(_NAME, b"", False)
        elif self.kind == LONG_NAMES:
            out.put(INT64)
            out.put_bytes(_NAME)
            out.put_little(_high_first(key, at + 1, 8) ^ _SIGN, 8)
        elif self.kind == TIME_UUID_NAMES:
            out.put(BINARY)
            out.put_bytes(_NAME)
            out.put_little(16, 4)
            out.put(4)
            out.put_part(key, at + 5, at + 9)
            out.put_part(key, at + 3, at + 5)
            out.put(key[at + 1] | 0x10)
            out.put(key[at + 2])
            out.put_part(key, at + 9, at + 17)
        else:
            name = part(key, at, len(key) - 2)
            if b"\0" in name:
                name = name.replace(_ESCAPED, b"\0")
            if self.kind == PLAIN_NAMES:
                self._put_bytes(_NAME, name, self.as_text)
            else:
                self._put_text(_NAME, name)
        return 0

    def _put_bytes(self, field: bytes, data: bytes, as_text: cython.bint) -> cython.int:
        """Write an element: a string if text is requested and the bytes are text, else binary data."""
        out: KeyWriter = self._out
        if as_text and _is_text(data):
            return self._put_text(field, data)
        out.put(BINARY)
        out.put_bytes(field)
        out.put_little(len(data), 4)
        out.put(0)
        out.put_bytes(data)
        return 0

    def _put_text(self, field: bytes, data: bytes) -> cython.int:
        out: KeyWriter = self._out
        out.put(STRING)
        out.put_bytes(field)
        out.put_little(len(data) + 1, 4)
        out.put_bytes(data)
        out.put(0)
        return 0


@cython.ccall
def take_columns(
    form: ColumnForm,
    items: Iterator[tuple[bytes, bytes]],
    at: cython.Py_ssize_t,
    hidden: int | None,
    now: int,
    out: list[bytes],
    limit: int,
    most: int,
) -> tuple[int, int, bool]:
    """Append the documents of live columns until `out` has `limit`, or `most` items were examined.

    Return (items examined, dead ones of these, True if the read is complete). `at`: the offset of names in keys;
    `hidden`: the timestamp of the deletion that covers the columns.
    """
    second: cython.longlong = now
    below: cython.longlong = LONG_MIN if hidden is None else hidden
    free: cython.bint = hidden is None
    examined: cython.Py_ssize_t = 0
    dead: cython.Py_ssize_t = 0
    remaining: cython.Py_ssize_t = limit - len(out)
    last: cython.Py_ssize_t = most
    item: tuple[bytes, bytes]
    record: bytes
    if remaining <= 0:
        return 0, 0, True
    for item in items:
        examined += 1
        record = item[1]
        if (free and record[0] == 0) or is_live(record, below, second):
            out.append(form.document(item[0], at, record, second))
            remaining -= 1
            if remaining == 0:
                return examined, dead, True
        else:
            dead += 1
        if examined == last:
            return examined, dead, False
    return examined, dead, True


def _is_text(data: bytes) -> cython.bint:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@cython.exceptval(check=False)
def _high_first(raw: bytes, at: cython.Py_ssize_t, width: cython.int) -> cython.ulonglong:
    number: cython.ulonglong = 0
    while width > 0:
        number = (number << 8) | raw[at]
        at += 1
        width -= 1
    return number


@cython.exceptval(check=False)
def integer_in(record: bytes, at: cython.Py_ssize_t, width: cython.int) -> cython.longlong:
    """Return a signed big-endian number."""
    number: cython.ulonglong = _high_first(record, at, width)
    if not cython.compiled and number >> (8 * width - 1):
        return int(number) - (1 << 8 * width)
    return cython.cast(cython.longlong, number)
