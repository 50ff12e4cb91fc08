"""Oplog entries and undo records as bytes (`docstore.collection.oplog.entry`, `docstore.collection.oplog.undo`).

Nothing is decoded, and nothing looked at but the `_id` of a document.
"""

from __future__ import annotations

from collections.abc import Iterable

import cython

from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import find, value_end

_SMALL = 4096
_spare: list[KeyWriter] = []
"""Writers that nobody is using and that have not grown large."""


def build_entry(
    head: bytes,
    o: bytes,
    middle: bytes,
    timestamp: cython.ulonglong,
    term: cython.longlong,
    wall_ms: cython.longlong,
    last: bytes,
) -> bytes:
    """An entry from its encoded beginning, the document `o`, and what stands between `o` and `ts` and after `wall`."""
    out: KeyWriter = _writer()
    out.put_little(56 + len(head) + len(o) + len(middle) + len(last), 4)
    out.put_bytes(head)
    out.put_bytes(b"\x03o\0")
    out.put_bytes(o)
    out.put_bytes(middle)
    _put_times(out, timestamp, term, wall_ms)
    out.put_bytes(last)
    out.put(0)
    return _taken(out)


def build_statement(
    lsid: bytes,
    txn_number: cython.longlong,
    head: bytes,
    o: bytes,
    middle: bytes,
    statement: bytes,
    timestamp: cython.ulonglong,
    term: cython.longlong,
    wall_ms: cython.longlong,
    previous_timestamp: cython.ulonglong,
    previous_term: cython.longlong,
    more: bytes,
) -> bytes:
    """The entry of one statement of a retryable write, or of several; `statement` is the field `stmtId`. The previous
    entry is that of the session. `more` stands at the end.
    """
    out: KeyWriter = _writer()
    out.put_little(0, 4)
    _put_session(out, lsid, txn_number)
    out.put_bytes(head)
    out.put_bytes(b"\x03o\0")
    out.put_bytes(o)
    out.put_bytes(middle)
    out.put_bytes(statement)
    _put_times(out, timestamp, term, wall_ms)
    _put_optime(out, b"prevOpTime", previous_timestamp, previous_term)
    out.put_bytes(more)
    out.put(0)
    out.set_little(0, out.size, 4)
    return _taken(out)


def _put_times(
    out: KeyWriter, timestamp: cython.ulonglong, term: cython.longlong, wall_ms: cython.longlong
) -> cython.int:
    """The fields from `ts` to `wall`."""
    out.put_bytes(b"\x11ts\0")
    out.put_little(timestamp, 8)
    out.put_bytes(b"\x12t\0")
    out.put_little(cython.cast(cython.ulonglong, term), 8)
    out.put_bytes(b"\x12v\0\2\0\0\0\0\0\0\0\x09wall\0")
    return out.put_little(cython.cast(cython.ulonglong, wall_ms), 8)


def session_head(lsid: bytes, txn_number: cython.longlong) -> bytes:
    """The encoded fields `lsid` and `txnNumber` of a session, whose id has the 16 bytes of the id and the 32 of the
    user.
    """
    out: KeyWriter = _writer()
    _put_session(out, lsid, txn_number)
    return _taken(out)


def _put_session(out: KeyWriter, lsid: bytes, txn_number: cython.longlong) -> cython.int:
    out.put_bytes(b"\x03lsid\0\x48\0\0\0\x05id\0\x10\0\0\0\x04")
    out.put_part(lsid, 0, 16)
    out.put_bytes(b"\x05uid\0\x20\0\0\0\0")
    out.put_part(lsid, 16, len(lsid))
    out.put_bytes(b"\0\x12txnNumber\0")
    return out.put_little(cython.cast(cython.ulonglong, txn_number), 8)


def optime_field(name: bytes, timestamp: cython.ulonglong, term: cython.longlong) -> bytes:
    """An encoded field that holds an optime document."""
    out: KeyWriter = _writer()
    _put_optime(out, name, timestamp, term)
    return _taken(out)


def _put_optime(out: KeyWriter, name: bytes, timestamp: cython.ulonglong, term: cython.longlong) -> cython.int:
    out.put(0x03)
    out.put_bytes(name)
    out.put_bytes(b"\0\x1c\0\0\0\x11ts\0")
    out.put_little(timestamp, 8)
    out.put_bytes(b"\x12t\0")
    out.put_little(cython.cast(cython.ulonglong, term), 8)
    return out.put(0)


def id_document(raw: bytes, field: bytes = b"") -> bytes:
    """The document of nothing but the `_id` of a document, which must be there; as a `field` of that name where one is
    given.
    """
    at: cython.Py_ssize_t = find(raw, 0, len(raw), b"_id")
    assert at >= 0, "a stored document has an _id"
    end: cython.Py_ssize_t = value_end(raw, raw[at], at + 5, len(raw))
    out: KeyWriter = _writer()
    if len(field):
        out.put(0x03)
        out.put_bytes(field)
        out.put(0)
    out.put_little(end - at + 5, 4)
    out.put_part(raw, at, end)
    out.put(0)
    return _taken(out)


def undo_record(counted: tuple[int, int, int], parts: list[bytes]) -> bytes:
    """A record of its parts, as `undo_key` and the like make them. `counted`: ident, count change and size change of
    the collection whose counters move.
    """
    ident: cython.ulonglong = counted[0]
    count: cython.longlong = counted[1]
    size: cython.longlong = counted[2]
    piece: bytes
    out: KeyWriter = _writer()
    out.put_little(ident, 4)
    out.put_little(cython.cast(cython.ulonglong, count), 4)
    out.put_little(cython.cast(cython.ulonglong, size), 8)
    for piece in parts:
        out.put_bytes(piece)
    return _taken(out)


def undo_key(family: cython.int, key: bytes, previous: bytes | None) -> bytes:
    """One key of an undo record."""
    out: KeyWriter = _writer()
    _put_undo(out, family, key, previous)
    return _taken(out)


def undo_document(
    records: cython.int,
    record_key: bytes,
    before: bytes | None,
    indexes: cython.int,
    removed: dict[bytes, bytes],
    made: Iterable[bytes],
) -> bytes:
    """The same of a record, where the document `before` stood or nothing, and of the entries of indexes that changed
    with it: those that stood there, with their values, and others that were made. `records`, `indexes`: the families.
    """
    key: bytes
    value: bytes
    out: KeyWriter = _writer()
    _put_undo(out, records, record_key, before)
    for key, value in removed.items():
        _put_undo(out, indexes, key, value)
    for key in made:
        _put_undo(out, indexes, key, None)
    return _taken(out)


def undo_absent(family: cython.int, keys: Iterable[bytes]) -> bytes:
    """The same of keys at which nothing stood."""
    key: bytes
    out: KeyWriter = _writer()
    for key in keys:
        _put_undo(out, family, key, None)
    return _taken(out)


def undo_marked(family: cython.int, entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The same of (key, what stood there)."""
    entry: tuple[bytes, bytes]
    out: KeyWriter = _writer()
    for entry in entries:
        _put_undo(out, family, entry[0], entry[1])
    return _taken(out)


def _put_undo(out: KeyWriter, family: cython.int, key: bytes, previous: bytes | None) -> cython.int:
    out.put(family)
    out.put_little(len(key), 4)
    if previous is None:
        out.put_little(0xFFFFFFFF, 4)
        return out.put_bytes(key)
    out.put_little(len(previous), 4)
    out.put_bytes(key)
    return out.put_bytes(previous)


def _writer() -> KeyWriter:
    out: KeyWriter = _spare.pop() if _spare else KeyWriter()
    out.clear()
    return out


def _taken(out: KeyWriter) -> bytes:
    made: bytes = out.taken()
    if len(made) <= _SMALL:
        _spare.append(out)
    return made
