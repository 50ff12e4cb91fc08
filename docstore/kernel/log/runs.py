"""Runs of consecutive oplog entries, each of which inserts, updates or deletes one document of the same collection.

A secondary applies a run as one batch; the undo records are built here, one for each entry. Nothing is decoded, and
each entry is read in one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import cython

from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_RUN_BYTES
from docstore.kernel.log.undo import DocumentChanges, LogBatch

if not cython.compiled:
    from docstore.bson.walk import (
        BINARY,
        BOOL,
        DATE,
        INT32,
        INT64,
        OBJECT,
        STRING,
        TIMESTAMP,
        document_stop,
        find,
        int32_at,
        int64_at,
        name_end,
        part,
        uint64_at,
        value_end,
    )
    from docstore.kernel.keys.writer import give_back, writer
    from docstore.kernel.log.entries import _timestamp_key, session_row
    from docstore.kernel.log.undo import put_undo

_NO_TERM: cython.longlong = -1
if not cython.compiled:
    # The values of `op`: i, u, d.
    INSERT = 0x69
    UPDATE = 0x75
    DELETE = 0x64
_FIELDS: list[bytes] = [
    b"op", b"ui", b"o", b"o2", b"ts", b"t", b"wall", b"lsid", b"txnNumber", b"stmtId", b"fromMigrate",
]  # fmt: skip
_CODES: list[int] = [STRING, BINARY, OBJECT, OBJECT, TIMESTAMP, INT64, DATE, OBJECT, INT64, INT32, BOOL]
"""The fields that are read of an entry, and the type of each."""
if not cython.compiled:
    _OP, _UI, _O, _O2, _TS, _T, _WALL, _LSID, _TXN_NUMBER, _STMT_ID, _FROM_MIGRATE = range(11)
_UUID_BYTES: cython.Py_ssize_t = 21
"""With its length and its subtype."""


class StatementsInRow(NamedTuple):
    """Consecutive statements of one retryable write, whose entries have consecutive timestamps.

    `lsid` has the 16 bytes of the session's id and the 32 of the user. `first` is the first statement's id, `number`
    the count of statements. The timestamp is that of the last entry; so is the wall time, in milliseconds since 1970.
    """

    lsid: bytes
    txn_number: int
    first: int
    number: int
    timestamp: int
    wall_ms: int


class EntryRun:
    """A run of entries. `op` is the letter, `ui` the data of the collection's UUID, `term` that of all entries;
    `objects` are the fields `o`, `named` the fields `o2` of updates.
    """

    op: cython.int
    ui: bytes
    term: cython.longlong
    entries: list[bytes]
    objects: list[bytes]
    named: list[bytes]
    timestamps: list[int]
    walls: list[int]
    lsids: list[bytes | None]
    """The session of each entry, None if it has none."""
    txn_numbers: list[int]
    stmt_ids: list[int]

    # The fields of the current entry.
    _offsets: list[int]
    _op: cython.int
    _ui: bytes
    _o: bytes
    _o2: bytes | None
    _lsid: bytes | None
    _txn_number: cython.longlong
    _stmt_id: cython.longlong
    _timestamp: cython.ulonglong
    _term: cython.longlong
    _wall_ms: cython.longlong

    def __init__(self) -> None:
        self.op = 0
        self.ui = b""
        self.term = _NO_TERM
        self.entries = []
        self.objects = []
        self.named = []
        self.timestamps = []
        self.walls = []
        self.lsids = []
        self.txn_numbers = []
        self.stmt_ids = []

    def take(self, entry: bytes) -> cython.bint:
        """Add the entry to the run. False, without adding it, if it does not belong to the run."""
        if not self._read(entry):
            return False
        if len(self.entries) == 0:
            self.op = self._op
            self.ui = self._ui
            self.term = self._term
        elif self._op != self.op or self._term != self.term or self._ui != self.ui:
            return False
        self.entries.append(entry)
        self.objects.append(self._o)
        if self._o2 is not None:
            self.named.append(self._o2)
        self.timestamps.append(self._timestamp)
        self.walls.append(self._wall_ms)
        self.lsids.append(self._lsid)
        self.txn_numbers.append(self._txn_number)
        self.stmt_ids.append(self._stmt_id)
        return True

    def _read(self, entry: bytes) -> cython.bint:
        """Read the entry. False unless it is an insert, update or delete that may be applied in a batch."""
        if not self._find_fields(entry):
            return False
        offsets: list[int] = self._offsets
        at: cython.Py_ssize_t = offsets[_OP]
        if not at or not offsets[_UI] or not offsets[_O] or not offsets[_TS] or int32_at(entry, at) != 2:
            return False
        self._op = entry[at + 4]
        if self._op not in (INSERT, UPDATE, DELETE):
            return False
        self._ui = _value_at(entry, BINARY, offsets[_UI])
        self._o = _value_at(entry, OBJECT, offsets[_O])
        at = offsets[_O2]
        self._o2 = _value_at(entry, OBJECT, at) if at and self._op == UPDATE else None
        self._timestamp = uint64_at(entry, offsets[_TS])
        self._term = int64_at(entry, offsets[_T]) if offsets[_T] else _NO_TERM
        self._wall_ms = int64_at(entry, offsets[_WALL]) if offsets[_WALL] else 0
        if len(self._ui) != _UUID_BYTES or (self._op == UPDATE and self._o2 is None):
            return False
        self._lsid = None
        self._txn_number = self._stmt_id = -1
        if not offsets[_LSID] and not offsets[_TXN_NUMBER] and not offsets[_STMT_ID]:
            return True
        if not offsets[_LSID] or not offsets[_TXN_NUMBER] or not offsets[_STMT_ID]:
            return False
        self._txn_number = int64_at(entry, offsets[_TXN_NUMBER])
        self._stmt_id = int32_at(entry, offsets[_STMT_ID])
        return self._read_session(entry, offsets[_LSID])

    def _find_fields(self, entry: bytes) -> cython.bint:
        """Find the offsets of the fields' values, by their numbers. False if a field has an unexpected type, or the
        entry is of a migration.
        """
        stop: cython.Py_ssize_t = document_stop(entry, 0, len(entry))
        at: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        code: cython.int
        number: cython.int
        self._offsets = [0] * len(_FIELDS)
        while at < stop:
            code = entry[at]
            named = name_end(entry, at + 1, stop)
            number = _number_of(entry, at + 1, named - at - 1)
            if number == _FROM_MIGRATE or (number >= 0 and code != cython.cast(cython.int, _CODES[number])):
                return False
            if number >= 0:
                self._offsets[number] = named + 1
            at = value_end(entry, code, named + 1, stop)
        return True

    def _read_session(self, entry: bytes, at: cython.Py_ssize_t) -> cython.bint:
        """Read the session id from the document at `at`; False if it is not one."""
        stop: cython.Py_ssize_t = at + int32_at(entry, at)
        ident: cython.Py_ssize_t = find(entry, at, stop, b"id")
        user: cython.Py_ssize_t = find(entry, at, stop, b"uid")
        if ident < 0 or user < 0 or entry[ident] != BINARY or entry[user] != BINARY:
            return False
        # Each name is followed by four bytes of length and one of the subtype.
        if int32_at(entry, ident + 4) != 16 or int32_at(entry, user + 5) != 32:
            return False
        self._lsid = part(entry, ident + 9, ident + 25) + part(entry, user + 10, user + 42)
        return True

    def statements(self) -> list[StatementsInRow]:
        """Return the statements of the entries, in order."""
        statements: list[StatementsInRow] = []
        position: cython.Py_ssize_t
        begin: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = len(self.entries)
        lsid: bytes | None
        for position in range(1, count + 1):
            if position < count and self._follows(position):
                continue
            lsid = self.lsids[begin]
            if lsid is not None:
                statements.append(
                    StatementsInRow(
                        lsid,
                        self.txn_numbers[begin],
                        self.stmt_ids[begin],
                        position - begin,
                        self.timestamps[position - 1],
                        self.walls[position - 1],
                    )
                )
            begin = position
        return statements

    def _follows(self, position: cython.Py_ssize_t) -> cython.bint:
        """True if the entry is of the statement after that of the previous entry."""
        if self.lsids[position] is None or self.lsids[position - 1] != self.lsids[position]:
            return False
        return (
            self.txn_numbers[position] == self.txn_numbers[position - 1]
            and self.stmt_ids[position] == self.stmt_ids[position - 1] + 1
            and self.timestamps[position] == self.timestamps[position - 1] + 1
        )

    @cython.ccall
    def put(
        self,
        log: LogBatch,
        changes: DocumentChanges,
        ident: cython.ulonglong,
        rows_prefix: bytes,
        rows: dict[bytes, bytes | None],
    ) -> tuple[int, int]:
        """Add the entries unchanged, and an undo record for each; return (bytes of the entries, of the undo records).

        `ident`: the collection's number. `rows` are the sessions' rows by key (the prefix and a session's id); they are
        updated to the state after the last entry.
        """
        out: KeyWriter = writer()
        position: cython.Py_ssize_t
        entry_bytes: cython.Py_ssize_t = 0
        undo_bytes: cython.Py_ssize_t = 0
        lsid: bytes | None
        row_key: bytes
        entry: bytes
        for position in range(len(self.entries)):
            entry = self.entries[position]
            key = _timestamp_key(out, self.timestamps[position])
            log.entries[key] = entry
            entry_bytes += len(entry)
            changes.put_undo(out, position, log, ident)
            lsid = self.lsids[position]
            if lsid is not None:
                row_key = rows_prefix + lsid
                put_undo(out, log.sessions, row_key, rows[row_key])
                rows[row_key] = session_row(
                    self.txn_numbers[position], self.term, self.timestamps[position], self.walls[position]
                )
            undo_bytes += out.size
            log.undo[key] = out.contents()
        give_back(out)
        return entry_bytes, undo_bytes


@cython.ccall
def entry_run(
    entries: list[bytes], start: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.Py_ssize_t
) -> EntryRun | None:
    """Return the run of entries from `start` on, before `end`, of at most `most` entries. None if the entry at `start`
    is another operation, or must be applied alone.
    """
    run: EntryRun = EntryRun()
    size: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = start
    entry: bytes
    while at < end and at - start < most and size < MAX_RUN_BYTES:
        entry = entries[at]
        if not run.take(entry):
            break
        size += len(entry)
        at += 1
    return None if at == start else run


def changed_names(o: bytes) -> frozenset[bytes] | None:
    """Return the top-level fields that the `o` of an update changes; None if it is the whole document."""
    diff: cython.Py_ssize_t = find(o, 0, len(o), b"diff")
    if diff < 0 or find(o, 0, len(o), b"$v") < 0 or o[diff] != OBJECT or find(o, 0, len(o), b"_id") >= 0:
        return None
    names: set[bytes] = set()
    at: cython.Py_ssize_t = diff + 6
    stop: cython.Py_ssize_t = document_stop(o, at, len(o))
    inner: cython.Py_ssize_t
    inner_stop: cython.Py_ssize_t
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    at += 4
    while at < stop:
        named = name_end(o, at + 1, stop)
        end = value_end(o, o[at], named + 1, stop)
        if o[at + 1] == 0x73:  # s and a name
            names.add(part(o, at + 2, named))
        else:
            inner_stop = document_stop(o, named + 1, end)
            inner = named + 5
            while inner < inner_stop:
                named = name_end(o, inner + 1, inner_stop)
                names.add(part(o, inner + 1, named))
                inner = value_end(o, o[inner], named + 1, inner_stop)
        at = end
    return frozenset(names)


@cython.exceptval(check=False)
def _number_of(raw: bytes, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
    """Return the number of the field with the name at `at`; -1: none."""
    number: cython.int
    same: cython.Py_ssize_t
    name: bytes
    for number in range(len(_FIELDS)):
        name = _FIELDS[number]
        if len(name) == size:
            same = 0
            while same < size and raw[at + same] == name[same]:
                same += 1
            if same == size:
                return number
    return -1


def _value_at(entry: bytes, code: cython.int, at: cython.Py_ssize_t) -> bytes:
    return part(entry, at, value_end(entry, code, at, len(entry)))
