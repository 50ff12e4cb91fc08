"""The logging half of a unit that applies another member's oplog entries: each is logged unchanged.

Each entry has one undo record of everything noted between its `begin` and `end`, and updates its session's row. So each
entry can be undone without the ones before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.bson import get_field
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.entry import StatementIds, previous_optime
from docstore.collection.oplog.journal import Image, Journal
from docstore.collection.oplog.operations import ABORT, PREPARE, commit_timestamp
from docstore.collection.oplog.oplog import Oplog
from docstore.collection.oplog.sessions import (
    ABORTED,
    COMMITTED,
    SessionTable,
    StatementRun,
    Statements,
    entry_session,
    pack_row,
    prepared_ending,
)
from docstore.collection.oplog.undo import NOTHING_COUNTED, undo_as_of, undo_head, undo_sums
from docstore.kernel.log.runs import EntryRun, StatementsInRow
from docstore.kernel.log.undo import DocumentChanges, LogBatch, undo_key
from docstore.key_layout import PREPARED_PREFIX, SESSION_PREFIX, timestamp_key
from docstore.optime import NULL_OPTIME, OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from docstore.bson import Value


class ReplayJournal(Journal):
    """A journal that replays entries. `position`: the index of the operation in its entry, if that has several.

    `tolerant`: the data may be ahead of the entries (initial sync), so there are no undo records, and an entry may have
    been logged before.
    """

    def __init__(self, batch: Batch, oplog: Oplog, sessions: SessionTable, *, tolerant: bool) -> None:
        super().__init__(batch, oplog, sessions, session=None, from_migrate=False, wall_ms=0)
        self.replaying = True
        self.logs_each = not tolerant
        self._tolerant = tolerant
        self._run: EntryRun | None = None
        self._optime = NULL_OPTIME
        self.position = 0
        self._counted: list[tuple[int, int, int]] = []
        # The session rows as this unit leaves them, and the statements to report to the table, in order.
        self._rows: dict[bytes, bytes] = {}
        self._writes: list[tuple[bytes, int, bytes, OpTime, Statements]] = []

    def begin(self, optime: OpTime, wall_ms: int) -> None:
        """Begin the entry at that optime, written at `wall_ms`: changes noted from now on belong to it."""
        self._optime = optime
        self._wall_ms = wall_ms
        self.position = 0

    def begin_run(self, run: EntryRun) -> None:
        """Begin a run: the next `log_each` logs these entries together."""
        self._run = run

    def next_timestamp(self) -> int:
        return self._optime.timestamp

    def keep_before(self, document: bytes) -> None:
        """Keep the pre-image, unless tolerant: data ahead of the entry is not its pre-image."""
        if not self._tolerant:
            self._put_before(self._optime.timestamp, self.position, document, self._wall_ms)

    def log(
        self,
        head: bytes,
        o: bytes,
        middle: bytes = b"",
        *,
        counted: tuple[int, int, int] = (0, 0, 0),
        stmt_id: StatementIds | None = None,
        image: Image | None = None,
    ) -> None:
        """Note the counter changes; the entry itself exists already."""
        self._counted.append(counted)

    def log_inserts(
        self, head: bytes, documents: Sequence[bytes], counted: tuple[int, int, int], key: DocumentKey | None
    ) -> None:
        self._counted.append(counted)

    def log_each(self, head: bytes, changed: DocumentChanges, key: DocumentKey | None, ident: int) -> None:
        """Log the existing entries of the run unchanged."""
        run, changes = self._run, self._batch.changes
        assert run is not None, "a run has begun"
        newest = self._oplog.last if self.last is None else self.last
        first, last = OpTime(run.term, run.timestamps[0]), OpTime(run.term, run.timestamps[-1])
        assert first.timestamp > newest.timestamp, f"entry {first} is applied behind {newest}"
        assert first.term >= newest.term, f"a log's terms never fall: {first} after {newest}"
        lsids = {lsid for lsid in run.lsids if lsid is not None}
        rows = {SESSION_PREFIX + lsid: self._rows.get(lsid) or self._sessions.state(lsid).row for lsid in lsids}
        log = LogBatch(changes[Family.OPLOG], changes[Family.UNDO], (Family.RECORDS, Family.INDEXES, Family.META))
        entry_bytes, undo_bytes = run.put(log, changed, ident, SESSION_PREFIX, rows)
        changes[Family.META].update(rows)
        for statements in run.statements():
            self._note_statements(run.term, statements)
        self.last, self._run = last, None
        self._logged += len(run.entries)
        self._logged_bytes += entry_bytes
        self._undo_bytes += undo_bytes

    def _note_statements(self, term: int, run: StatementsInRow) -> None:
        """Note the session's row after these statements, and the statements to report to the table."""
        row = self._rows[run.lsid] = pack_row(run.txn_number, term, run.timestamp, run.wall_ms)
        optime, end = OpTime(term, run.timestamp), run.first + run.number
        executed: Statements = dict.fromkeys(range(run.first, end), StatementRun(term, run.timestamp - end + 1))
        self._writes.append((run.lsid, run.txn_number, row, optime, executed))

    def end(self, entry: bytes, fields: Mapping[str, Value]) -> None:
        """Log the applied entry; `fields` are its top-level fields."""
        optime = self._optime
        if not self._logged_before(optime):
            self._move_session(entry, fields)
            key = timestamp_key(optime.timestamp)
            changes = self._batch.changes
            changes[Family.OPLOG][key] = entry
            if not self._tolerant:
                undo = b"".join((self._undo_head(), self._as_of(fields), *self._undo))
                changes[Family.UNDO][key] = undo
                self._undo_bytes += len(undo)
            before = self.last
            assert before is None or optime.term >= before.term, f"a log's terms never fall: {optime} after {before}"
            self.last = optime
            self._logged += 1
            self._logged_bytes += len(entry)
        self._undo.clear()
        self._counted.clear()

    def _undo_head(self) -> bytes:
        """Return the head of the undo record: the summed counter changes of the entry's operations, usually one."""
        if len(self._counted) == 1:
            return undo_head(*self._counted[0])
        sums: dict[int, list[int]] = {}
        for ident, count, size in self._counted:
            of_ident = sums.setdefault(ident, [0, 0])
            of_ident[0] += count
            of_ident[1] += size
        sums.pop(0, None)
        return undo_sums([(ident, count, size) for ident, (count, size) in sums.items()]) if sums else NOTHING_COUNTED

    def _logged_before(self, optime: OpTime) -> bool:
        newest = max(self._oplog.last.timestamp, 0 if self.last is None else self.last.timestamp)
        if optime.timestamp > newest:
            return False
        assert self._tolerant, f"entry {optime} is applied behind {newest}"
        return self._oplog.entry(optime.timestamp) is not None

    def _as_of(self, fields: Mapping[str, Value]) -> bytes:
        """Return the undo record's commit timestamp field, if the entry commits a prepared transaction as of an earlier
        time.
        """
        if "txnNumber" not in fields or "stmtId" in fields:
            return b""
        timestamp = commit_timestamp(fields["o"][1])
        return b"" if timestamp is None else undo_as_of(timestamp)

    def _move_session(self, entry: bytes, fields: Mapping[str, Value]) -> None:
        session_fields = entry_session(fields)
        if session_fields is None:
            return
        session, statements, wall_ms = session_fields
        lsid, optime = session.lsid, self._optime
        ended = b"" if statements else self._ending(entry, fields["o"][1])
        key = SESSION_PREFIX + lsid
        before = self._rows.get(lsid) or self._sessions.state(lsid).row
        self._undo.append(undo_key(Family.META, key, before))
        row = pack_row(session.txn_number, optime.term, optime.timestamp, wall_ms) + ended
        self._batch.changes[Family.META][key] = self._rows[lsid] = row
        if not statements:
            self._move_prepared(lsid, row if ended not in (COMMITTED, ABORTED) else None, before)
        self._writes.append((lsid, session.txn_number, row, optime, dict.fromkeys(statements, optime)))

    def _ending(self, entry: bytes, o: bytes) -> bytes:
        """Return the suffix of the session's row after an entry of a transaction."""
        if get_field(o, ABORT) is not None:
            return ABORTED
        if get_field(o, PREPARE) is None:
            return COMMITTED
        first = self._optime.timestamp
        previous = previous_optime(entry)
        while previous.timestamp:
            first = previous.timestamp
            before = self._oplog.entry(first)
            previous = NULL_OPTIME if before is None else previous_optime(before)
        return prepared_ending(first)

    def _move_prepared(self, lsid: bytes, row: bytes | None, before: bytes | None) -> None:
        """Move the session's transaction into, or out of, the prepared transactions.

        It was prepared exactly if the session's previous row says so.
        """
        stood = before if lsid in self._sessions.prepared else None
        if row is not None or stood is not None:
            key = PREPARED_PREFIX + lsid
            self._undo.append(undo_key(Family.META, key, stood))
            self._batch.changes[Family.META][key] = row

    def _sessions_written(self) -> None:
        for write in self._writes:
            self._sessions.committed(*write)
