"""Oplog entries as bytes (`docstore.collection.oplog.entry`), and the undo records of batches of documents.

Nothing is decoded; of a document only the `_id` is read.
"""

from __future__ import annotations

import cython

from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.log.undo import DocumentChanges, LogBatch

if not cython.compiled:
    from docstore.bson.walk import find, value_end
    from docstore.kernel.keys.writer import give_back, take_contents, writer
    from docstore.kernel.log.undo import put_undo


@cython.ccall
def build_entry(
    head: bytes,
    o: bytes,
    middle: bytes,
    timestamp: cython.ulonglong,
    term: cython.longlong,
    wall_ms: cython.longlong,
    last: bytes,
) -> bytes:
    """Return an entry made of its encoded beginning, `o`, the fields between `o` and `ts`, the times, and the last
    fields.
    """
    out: KeyWriter = writer()
    out.put_little(56 + len(head) + len(o) + len(middle) + len(last), 4)
    out.put_bytes(head)
    out.put_bytes(b"\x03o\0")
    out.put_bytes(o)
    out.put_bytes(middle)
    _put_times(out, timestamp, term, wall_ms)
    out.put_bytes(last)
    out.put(0)
    return take_contents(out)


@cython.ccall
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
    suffix: bytes,
) -> bytes:
    """Return the entry of one statement, or several, of a retryable write; `statement` is the field `stmtId`.

    The previous entry is that of the session. `suffix` is appended at the end.
    """
    out: KeyWriter = writer()
    out.put_little(0, 4)
    _put_session(out, lsid, txn_number)
    out.put_bytes(head)
    out.put_bytes(b"\x03o\0")
    out.put_bytes(o)
    out.put_bytes(middle)
    out.put_bytes(statement)
    _put_times(out, timestamp, term, wall_ms)
    _put_optime(out, b"prevOpTime", previous_timestamp, previous_term)
    out.put_bytes(suffix)
    out.put(0)
    out.set_little(0, out.size, 4)
    return take_contents(out)


class SessionSteps:
    """A session that logs consecutive statements: their ids are `stmt_ids`. `row` is the session's row, of the key
    `row_key`, after the last step. The previous entry has `timestamp` and `term`.
    """

    row: bytes | None

    _lsid: bytes
    _txn_number: cython.longlong
    _stmt_ids: list[int]
    _row_key: bytes
    _timestamp: cython.ulonglong
    _term: cython.longlong

    def __init__(
        self,
        lsid: bytes,
        txn_number: cython.longlong,
        stmt_ids: list[int],
        row_key: bytes,
        row: bytes | None,
        timestamp: cython.ulonglong,
        term: cython.longlong,
    ) -> None:
        self._lsid = lsid
        self._txn_number = txn_number
        self._stmt_ids = stmt_ids
        self._row_key = row_key
        self.row = row
        self._timestamp = timestamp
        self._term = term

    def put_head(self, out: KeyWriter) -> cython.int:
        """Write the session fields at the beginning of the next entry."""
        return _put_session(out, self._lsid, self._txn_number)

    def put_statement(self, out: KeyWriter, position: cython.Py_ssize_t) -> cython.int:
        """Write the id of the statement at `position`."""
        stmt_id: cython.longlong = self._stmt_ids[position]
        out.put_bytes(b"\x10stmtId\0")
        return out.put_little(cython.cast(cython.ulonglong, stmt_id), 4)

    def put_previous(self, out: KeyWriter) -> cython.int:
        """Write the optime of the session's previous entry, at the end of the entry."""
        return _put_optime(out, b"prevOpTime", self._timestamp, self._term)

    def put_undo(self, out: KeyWriter, family: cython.int) -> cython.int:
        """Write the undo of the step for the session's row."""
        return put_undo(out, family, self._row_key, self.row)

    def move(self, timestamp: cython.ulonglong, term: cython.longlong, wall_ms: cython.longlong) -> cython.int:
        """Advance the session after its entry is complete."""
        self.row = session_row(self._txn_number, term, timestamp, wall_ms)
        self._timestamp = timestamp
        self._term = term
        return 0


@cython.ccall
def session_row(
    txn_number: cython.longlong, term: cython.longlong, timestamp: cython.ulonglong, wall_ms: cython.longlong
) -> bytes:
    """Return the row of a session after a retryable write (`docstore.collection.oplog.sessions.pack_row`)."""
    out: KeyWriter = writer()
    out.put_number(cython.cast(cython.ulonglong, txn_number), 8)
    out.put_number(cython.cast(cython.ulonglong, term), 8)
    out.put_number(timestamp, 8)
    out.put_number(cython.cast(cython.ulonglong, wall_ms), 8)
    return take_contents(out)


@cython.ccall
def document_entries(
    log: LogBatch,
    changes: DocumentChanges,
    head: bytes,
    ident: cython.ulonglong,
    timestamp: cython.ulonglong,
    term: cython.longlong,
    wall_ms: cython.longlong,
    session: SessionSteps | None,
) -> tuple[int, int]:
    """Add an entry and an undo record for each of many documents, by timestamps that rise by one.

    Return (bytes of the entries, of the undo records). `head`, `ident`: the encoded beginning of the entries, and the
    number of the collection.
    """
    out: KeyWriter = writer()
    position: cython.Py_ssize_t
    entry_bytes: cython.Py_ssize_t = 0
    undo_bytes: cython.Py_ssize_t = 0
    document: bytes
    named: bytes
    for position in range(len(changes.record_keys)):
        key = _timestamp_key(out, timestamp)
        _put_head(out, head, changes.operations[position], session)
        if changes.documents is not None:
            document = changes.documents[position]
            named = b"" if changes.named is None else changes.named[position]
            _put_named(out, document, named)
        _put_tail(out, timestamp, term, wall_ms, session, position)
        entry_bytes += out.size
        log.entries[key] = out.contents()
        out.clear()
        changes.put_undo(out, position, log, ident)
        if session is not None:
            session.put_undo(out, log.sessions)
            session.move(timestamp, term, wall_ms)
        undo_bytes += out.size
        log.undo[key] = out.contents()
        timestamp += 1
    give_back(out)
    return entry_bytes, undo_bytes


def _put_head(out: KeyWriter, head: bytes, operation: bytes, session: SessionSteps | None) -> cython.int:
    """Write an entry up to its `o`."""
    out.put_little(0, 4)
    if session is not None:
        session.put_head(out)
    out.put_bytes(head)
    out.put_bytes(b"\x03o\0")
    return out.put_bytes(operation)


def _put_tail(
    out: KeyWriter,
    timestamp: cython.ulonglong,
    term: cython.longlong,
    wall_ms: cython.longlong,
    session: SessionSteps | None,
    position: cython.Py_ssize_t,
) -> cython.int:
    """Write an entry after its `o2`. `position`: that of the session's statement."""
    if session is not None:
        session.put_statement(out, position)
    _put_times(out, timestamp, term, wall_ms)
    if session is not None:
        session.put_previous(out)
    out.put(0)
    return out.set_little(0, out.size, 4)


def _timestamp_key(out: KeyWriter, timestamp: cython.ulonglong) -> bytes:
    """Return the timestamp in the form of keys; the buffer is empty afterwards."""
    out.clear()
    out.put_number(timestamp, 8)
    key: bytes = out.contents()
    out.clear()
    return key


def _put_named(out: KeyWriter, document: bytes, named: bytes) -> cython.int:
    """Write the field `o2`, which contains only the `_id` unless it is given."""
    return out.put_bytes(named) if len(named) else _put_identity(out, document, b"o2")


def _put_times(
    out: KeyWriter, timestamp: cython.ulonglong, term: cython.longlong, wall_ms: cython.longlong
) -> cython.int:
    """Write the fields from `ts` to `wall`."""
    out.put_bytes(b"\x11ts\0")
    out.put_little(timestamp, 8)
    out.put_bytes(b"\x12t\0")
    out.put_little(cython.cast(cython.ulonglong, term), 8)
    out.put_bytes(b"\x12v\0\2\0\0\0\0\0\0\0\x09wall\0")
    return out.put_little(cython.cast(cython.ulonglong, wall_ms), 8)


@cython.ccall
def session_head(lsid: bytes, txn_number: cython.longlong) -> bytes:
    """Return the encoded fields `lsid` and `txnNumber` of a session; `lsid` has the 16 bytes of the id and the 32 of
    the user.
    """
    out: KeyWriter = writer()
    _put_session(out, lsid, txn_number)
    return take_contents(out)


def _put_session(out: KeyWriter, lsid: bytes, txn_number: cython.longlong) -> cython.int:
    out.put_bytes(b"\x03lsid\0\x48\0\0\0\x05id\0\x10\0\0\0\x04")
    out.put_part(lsid, 0, 16)
    out.put_bytes(b"\x05uid\0\x20\0\0\0\0")
    out.put_part(lsid, 16, len(lsid))
    out.put_bytes(b"\0\x12txnNumber\0")
    return out.put_little(cython.cast(cython.ulonglong, txn_number), 8)


@cython.ccall
def optime_field(name: bytes, timestamp: cython.ulonglong, term: cython.longlong) -> bytes:
    """Return an encoded field that holds an optime document."""
    out: KeyWriter = writer()
    _put_optime(out, name, timestamp, term)
    return take_contents(out)


def _put_optime(out: KeyWriter, name: bytes, timestamp: cython.ulonglong, term: cython.longlong) -> cython.int:
    out.put(0x03)
    out.put_bytes(name)
    out.put_bytes(b"\0\x1c\0\0\0\x11ts\0")
    out.put_little(timestamp, 8)
    out.put_bytes(b"\x12t\0")
    out.put_little(cython.cast(cython.ulonglong, term), 8)
    return out.put(0)


def id_document(raw: bytes, field: bytes = b"") -> bytes:
    """Return the document with only the `_id` of a document, which must have one; with `field` as a field of
    that name.
    """
    out: KeyWriter = writer()
    _put_identity(out, raw, field)
    return take_contents(out)


def _put_identity(out: KeyWriter, raw: bytes, field: bytes) -> cython.int:
    at: cython.Py_ssize_t = find(raw, 0, len(raw), b"_id")
    assert at >= 0, "a stored document has an _id"
    end: cython.Py_ssize_t = value_end(raw, raw[at], at + 5, len(raw))
    if len(field):
        out.put(0x03)
        out.put_bytes(field)
        out.put(0)
    out.put_little(end - at + 5, 4)
    out.put_part(raw, at, end)
    return out.put(0)
