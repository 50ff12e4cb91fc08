"""Change stream events of the most common oplog entries: changes of single documents.

Invariant: an event equals the one that `docstore.aggregation.change_stream` and `docstore.node.change_streams` make.
The functions return None for other cases (a command, a fractional number in a key).
"""

from __future__ import annotations

import cython

from docstore.bson.build import enclosed
from docstore.kernel.limits import MAX_TYPE_BITS

if not cython.compiled:
    from docstore.bson.walk import (
        BINARY,
        BOOL,
        DATE,
        INT32,
        INT64,
        NULL,
        OBJECT,
        OBJECT_ID,
        STRING,
        TIMESTAMP,
        document_stop,
        int32_at,
        int64_at,
        name_end,
        part,
        uint64_at,
        value_end,
    )
    from docstore.kernel.keys.writer import KeyWriter

    INSERT = 0x69
    UPDATE = 0x75
    DELETE = 0x64
    """The values of an entry's `op`."""

DocumentEntry = tuple[int, bytes, bytes, bytes | None, bytes | None, int, bytes]
"""(`op`, namespace, `o`, `o2`, the collection's uuid, packed timestamp, 8 bytes of `wall`). The operations of a
transaction have neither `ts` nor `wall`, so these are 0 and empty.
"""

_END = 0x04
_ZERO = 0x29
_VERSION_AND_KIND = b"\x2b\x02\x2c\x01\x00"


class _Types:
    """The type bits that follow a key string: the types that it does not encode itself."""

    bits: cython.ulonglong
    size: cython.int

    def __init__(self) -> None:
        self.bits = 0
        self.size = 0


_WRITER = KeyWriter()
_TYPES = _Types()


@cython.ccall
def document_entry(entry: bytes) -> DocumentEntry | None:
    """Return the fields of an entry that inserts, updates or deletes a document; None for other entries and
    migrations.
    """
    stop: cython.Py_ssize_t = document_stop(entry, 0, len(entry))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.Py_ssize_t
    op: cython.int = 0
    timestamp: cython.ulonglong = 0
    namespace: bytes | None = None
    o: bytes | None = None
    o2: bytes | None = None
    uuid: bytes | None = None
    wall: bytes = b""
    while at < stop:
        named = name_end(entry, at + 1, stop)
        end = value_end(entry, entry[at], named + 1, stop)
        size = named - at - 1
        if size == 1:
            if entry[at + 1] == 0x6F:
                o = part(entry, named + 1, end)
        elif size == 2:
            if entry[at + 1] == 0x6F:
                if entry[at + 2] == 0x70:
                    if int32_at(entry, named + 1) != 2:
                        return None
                    op = entry[named + 5]
                    if op != INSERT and op != UPDATE and op != DELETE:
                        return None
                else:
                    o2 = part(entry, named + 1, end)
            elif entry[at + 1] == 0x6E:
                namespace = part(entry, named + 5, end - 1)
            elif entry[at + 1] == 0x75:
                uuid = part(entry, named + 6, end)
            else:
                timestamp = uint64_at(entry, named + 1)
        elif size == 4:
            if entry[at + 1] == 0x77:
                wall = part(entry, named + 1, end)
        elif size == 11 and part(entry, at + 1, named) == b"fromMigrate":
            return None
        at = end
    if op == 0 or namespace is None or o is None:
        return None
    return op, namespace, o, o2, uuid, timestamp, wall


@cython.ccall
def event_token(timestamp: cython.ulonglong, index: cython.Py_ssize_t, uuid: bytes, key: bytes) -> bytes | None:
    """Return the raw resume token of the event of a document with that key; None if the key has less common types."""
    writer: KeyWriter = _WRITER
    types: _Types = _TYPES
    types.bits = 0
    types.size = 6
    writer.clear()
    writer.put(0x82)
    writer.put_number(timestamp, 8)
    writer.put_bytes(_VERSION_AND_KIND)
    _put_integer(writer, index)
    writer.put(0x6E)
    writer.put(0x5A)
    writer.put(0x10)
    writer.put(0x04)
    writer.put_bytes(uuid)
    writer.put(0x46)
    if not _put_fields(writer, key, types):
        return None
    writer.put(0)
    writer.put(_END)
    return _token(writer.contents().hex().upper().encode(), types)


@cython.cfunc
def _token(data: bytes, types: _Types) -> bytes:
    size: cython.Py_ssize_t = (types.size + 7) // 8
    type_bits: bytes = b""
    packed: bytes
    if types.bits:
        packed = int(types.bits).to_bytes(size, "little")
        if size > 1 or types.bits >= 0x80:
            packed = (0x80 | size).to_bytes(1, "little") + packed
        type_bits = b"\x05_typeBits\0" + len(packed).to_bytes(4, "little") + b"\0" + packed
    return enclosed(b"".join((b"\x02_data\0", (len(data) + 1).to_bytes(4, "little"), data, b"\0", type_bits)))


def _put_fields(writer: KeyWriter, raw: bytes, types: _Types) -> cython.bint:
    """Append the fields of a document to a key string. True if their types are all supported here."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    kind: cython.int
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        kind = _kind(raw[at])
        if kind == 0:
            return False
        writer.put(kind)
        writer.put_part(raw, at + 1, named + 1)
        if not _put_value(writer, raw, raw[at], named + 1, end, types):
            return False
        at = end
    return True


@cython.exceptval(check=False)
def _kind(code: cython.int) -> cython.int:
    if code in (INT32, INT64):
        return 0x1E
    if code == STRING:
        return 0x3C
    if code == OBJECT:
        return 0x46
    if code == OBJECT_ID:
        return 0x64
    if code == BINARY:
        return 0x5A
    if code == BOOL:
        return 0x6E
    if code == DATE:
        return 0x78
    if code == TIMESTAMP:
        return 0x82
    if code == NULL:
        return 0x14
    return 0


def _put_value(
    writer: KeyWriter, raw: bytes, code: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t, types: _Types
) -> cython.bint:
    index: cython.Py_ssize_t
    if code in (INT32, INT64):
        return _put_number(writer, code == INT64, int32_at(raw, at) if code == INT32 else int64_at(raw, at), types)
    if code == BOOL:
        writer.put(0x6F if raw[at] else 0x6E)
        return True
    writer.put(_kind(code))
    if code == STRING:
        return _put_text(writer, raw, at + 4, end - 1, types)
    if code == OBJECT:
        writer.enter()
        if not _put_fields(writer, part(raw, at, end), types):
            return False
        writer.leave()
        writer.put(0)
    elif code == OBJECT_ID:
        writer.put_part(raw, at, end)
    elif code == BINARY:
        if end - at - 5 >= 0xFF:
            return False
        writer.put(end - at - 5)
        writer.put_part(raw, at + 4, end)
    elif code == DATE:
        writer.put(raw[at + 7] ^ 0x80)
        for index in range(1, 8):
            writer.put(raw[at + 7 - index])
    elif code == TIMESTAMP:
        writer.put_number(uint64_at(raw, at), 8)
    return True


def _put_number(writer: KeyWriter, is_long: cython.bint, number: cython.longlong, types: _Types) -> cython.bint:
    bit: cython.ulonglong
    # There must be room for one more bit.
    if number >= 0x3FFFFFFFFFFFFFFF or number <= -0x3FFFFFFFFFFFFFFF or types.size > MAX_TYPE_BITS:
        return False
    if is_long:
        bit = 2
        types.bits |= bit << types.size
    types.size += 2
    _put_integer(writer, number)
    return True


def _put_text(
    writer: KeyWriter, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, types: _Types
) -> cython.bint:
    if types.size > MAX_TYPE_BITS:
        return False
    types.size += 1
    while at < end:
        writer.put(raw[at])
        if raw[at] == 0:
            writer.put(0xFF)
        at += 1
    writer.put(0)
    return True


def _put_integer(writer: KeyWriter, number: cython.longlong) -> cython.int:
    """Append an integer: its length, then its bytes, with a last bit that says it has no fraction."""
    shifted: cython.ulonglong
    width: cython.int = 0
    first: cython.Py_ssize_t
    if number == 0:
        return writer.put(_ZERO)
    shifted = (number if number > 0 else -number) << 1
    while width < 8 and shifted >> (8 * width):
        width += 1
    writer.put(_ZERO + 1 + width if number > 0 else _ZERO - 1 - width)
    first = writer.size
    writer.put_number(shifted, width)
    if number < 0:
        writer.invert(first)
    return 0
