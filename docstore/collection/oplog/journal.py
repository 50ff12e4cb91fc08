# cython: annotation_typing=False
"""The logging half of a write unit: it adds oplog entries, undo records and the session row to the unit's batch.

- Each logged operation gets a timestamp, an entry, and an undo record of the keys noted since the previous entry.
- The terms of a log never decrease. Only a primary creates entries; other members refuse the operation.
- A unit that applies another member's entries uses `docstore.collection.oplog.replay_journal` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.entry import StatementIds, entry_head, statement_field, statement_ids
from docstore.collection.oplog.inserts import HEAD as INSERTS_HEAD
from docstore.collection.oplog.inserts import inserts_command
from docstore.collection.oplog.operations import COMMAND_HEAD, abort_command, commit_command, operations_commands
from docstore.collection.oplog.oplog import COUNTERS_KEY, Oplog
from docstore.collection.oplog.pre_images import pre_image_value
from docstore.collection.oplog.sessions import (
    ABORTED,
    COMMITTED,
    SessionTable,
    SessionWrite,
    StatementRun,
    Statements,
    pack_row,
    prepared_ending,
)
from docstore.collection.oplog.undo import NOTHING_COUNTED, undo_as_of, undo_sums
from docstore.collection.transaction.claims import Claims
from docstore.errors import Code, CommandError
from docstore.kernel.log.entries import (
    SessionSteps,
    build_entry,
    build_statement,
    document_entries,
    optime_field,
    session_head,
)
from docstore.kernel.log.undo import DocumentChanges, LogBatch, undo_absent, undo_document, undo_key, undo_record
from docstore.key_layout import PREPARED_PREFIX, SESSION_PREFIX, pre_image_key, timestamp_key
from docstore.optime import OpTime
from docstore.storage import Family
from docstore.storage.engine import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

_RECORDS = Family.RECORDS.value
_INDEXES = Family.INDEXES.value
_META = Family.META.value
_OPLOG = Family.OPLOG.value
_UNDO = Family.UNDO.value
_FROM_MIGRATE = b"\x08fromMigrate\0\1"
_NO_OPTIME = OpTime(-1, 0)
_NO_CLAIMS = Claims()

NOOP_HEAD = entry_head("n", "", None)


class Image(NamedTuple):
    """The document that a retried findAndModify returns: `field` is "preImage" or "postImage".

    It is logged as a no-op entry before the operation's entry, which refers to it by `preImageOpTime` or
    `postImageOpTime`.
    """

    field: str
    document: bytes


class Journal:
    """See the module. `last`: the optime of the newest entry in the batch.

    `check_free` raises WriteConflict for an index key that another open transaction adds or removes.
    """

    def __init__(
        self,
        batch: Batch,
        oplog: Oplog,
        sessions: SessionTable,
        *,
        session: SessionWrite | None,
        from_migrate: bool,
        wall_ms: int,
        claims: Claims = _NO_CLAIMS,
    ) -> None:
        """`claims` are those of open transactions, which the unit must not touch."""
        self.replaying = False
        self.last: OpTime | None = None
        self._before: bytes | None = None
        self._row: bytes | None = None
        self._reserved = 0
        self._logged = 0
        self._logged_bytes = 0
        self._undo_bytes = 0
        self._batch = batch
        self._claims = claims
        self._claimed = claims.keys
        self.check_free: Callable[[bytes], None] = claims.refuse
        # `log_each` needs no claims to check, and entries without `fromMigrate`.
        self.logs_each = not (claims.keys or from_migrate)
        self._oplog = oplog
        self._sessions = sessions
        self._from_migrate = from_migrate
        self._wall_ms = wall_ms
        self._undo: list[bytes] = []
        self._session = session
        if session is not None:
            state = sessions.check(session.lsid, session.txn_number)
            self._row_key: bytes = SESSION_PREFIX + session.lsid
            self._row = state.row
            self._session_last = state.last if state.txn_number == session.txn_number else _NO_OPTIME
            self._statements: Statements = {}

    def next_timestamp(self) -> int:
        """Return the timestamp of the next entry."""
        if not self._reserved:
            self._reserved = self._oplog.next_timestamp()
        return self._reserved

    def note(self, family: Family, key: bytes, previous: bytes | None) -> None:
        """Note that the next operation changed `key` from `previous`. Errors: WriteConflict."""
        if self._claimed:
            self._claims.refuse(key)
        self._undo.append(undo_key(family, key, previous))

    def note_absent(self, family: Family, keys: Collection[bytes]) -> None:
        """Note that the next operation created these keys. Errors: WriteConflict."""
        if self._claimed:
            self._claims.refuse_entries(keys)
        self._undo.append(undo_absent(family, keys))

    def note_document(
        self,
        record_key: bytes,
        before: bytes | None,
        after: bytes | None,
        removed: dict[bytes, bytes],
        new_keys: Collection[bytes],
    ) -> None:
        """Note that the next operation changed a record from `before` to `after` (None: absent), and index entries.

        `removed`: entries with values that were removed or replaced. `new_keys`: entries that are new. Errors:
        WriteConflict.
        """
        if self._claimed:
            self._claims.refuse(record_key)
            self._claims.refuse_entries(removed)
            self._claims.refuse_entries(new_keys)
        self._undo.append(undo_document(_RECORDS, record_key, before, after, _INDEXES, removed, new_keys))

    def keep_before(self, document: bytes) -> None:
        """Keep the pre-image of the next operation for change streams."""
        if not self._from_migrate:
            self._before = document

    def _put_before(self, timestamp: int, position: int, document: bytes, wall_ms: int) -> None:
        key = pre_image_key(timestamp, position)
        self._batch.changes[_META][key] = pre_image_value(wall_ms, document)
        self._undo.append(undo_key(_META, key, None))

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
        """Log an entry for the noted changes: `head` holds op, ns and ui, `middle` the fields after `o`.

        `counted` is (ident, count change, size change) of the collection whose counters change.
        """
        if self._from_migrate:
            middle += _FROM_MIGRATE
        session = None if stmt_id is None else self._session
        tail = b""
        if session is not None and image is not None:
            self._reserved = 0  # an image precedes the entry that refers to it, with a lower timestamp
            self._append(NOOP_HEAD, image.document, b"", b"", NOTHING_COUNTED)
            assert self.last is not None, "an image has been logged"
            tail = optime_field(image.field.encode() + b"OpTime", self.last.timestamp, self.last.term)
        if self._before is not None:
            self._put_before(self.next_timestamp(), 0, self._before, self._wall_ms)
            self._before = None
        undo = self._undo
        if session is None or stmt_id is None:
            self._append(head, o, middle, b"", undo_record(counted, undo))
            undo.clear()
            return
        # Nearly every replicated write comes here: inlined for speed.
        term, timestamp, wall_ms = self._oplog.term, self._reserved or self._oplog.next_timestamp(), self._wall_ms
        txn_number = session.txn_number
        undo.append(undo_key(_META, self._row_key, self._row))
        self._row = pack_row(txn_number, term, timestamp, wall_ms)
        self._batch.changes[_META][self._row_key] = self._row
        previous = self._session_last
        entry = build_statement(
            session.lsid, txn_number, head, o, middle, statement_field(stmt_id),
            timestamp, term, wall_ms, previous.timestamp, previous.term, tail,
        )  # fmt: skip
        self._session_last = optime = OpTime(term, timestamp)
        self._append_entry(optime, entry, undo_record(counted, undo))
        undo.clear()
        if type(stmt_id) is int:
            self._statements[stmt_id] = optime
        else:
            self._statements.update(dict.fromkeys(statement_ids(stmt_id), optime))

    def log_each(self, head: bytes, changed: DocumentChanges, key: DocumentKey | None, ident: int) -> None:
        """Log one entry per inserted, changed or removed document of one collection, as `log` does.

        `key`: set if the collection is known to be sharded; for removed documents `o` is the document key. Errors:
        NotWritablePrimary.
        """
        if not self._oplog.writable:
            raise _not_writable()
        assert self.logs_each, "there is more to look at, or to say"
        assert not self._reserved, "nobody waits for one of the timestamps"
        stmt_ids = changed.stmt_ids
        count, term = len(changed.record_keys), self._oplog.term
        first = self._oplog.next_timestamps(count)
        session = None
        if self._session is not None and stmt_ids is not None:
            previous = self._session_last
            session = SessionSteps(
                *self._session, stmt_ids, self._row_key, self._row, previous.timestamp, previous.term
            )
        if key is not None and changed.documents is not None:
            changed.named = [key.of(raw, b"o2") for raw in changed.documents]
        changes = self._batch.changes
        log = LogBatch(changes[_OPLOG], changes[_UNDO], (_RECORDS, _INDEXES, _META))
        entry_bytes, undo_bytes = document_entries(log, changed, head, ident, first, term, self._wall_ms, session)
        self.last = OpTime(term, first + count - 1)
        self._logged += count
        self._logged_bytes += entry_bytes
        self._undo_bytes += undo_bytes
        if session is not None and stmt_ids is not None:
            changes[_META][self._row_key] = self._row = session.row
            self._session_last = self.last
            if stmt_ids == list(range(stmt_ids[0], stmt_ids[0] + count)):
                self._statements.update(dict.fromkeys(stmt_ids, StatementRun(term, first - stmt_ids[0])))
            else:
                optimes = [OpTime(term, timestamp) for timestamp in range(first, first + count)]
                self._statements.update(zip(stmt_ids, optimes, strict=True))

    def log_inserts(
        self, head: bytes, documents: Sequence[bytes], counted: tuple[int, int, int], key: DocumentKey | None
    ) -> None:
        """Log one entry for documents inserted into one collection, as `inserts_command` encodes it."""
        self.log(INSERTS_HEAD, inserts_command(head, documents, key), counted=counted)

    def log_transaction(
        self,
        operations: Sequence[bytes],
        undo: Sequence[bytes],
        counted: Sequence[tuple[int, int, int]],
        before: Mapping[int, bytes],
    ) -> None:
        """Log the entries of a transaction that its session commits, each linked to the previous one.

        The last entry has the undo record of all. `operations`: documents as in `docstore.collection.oplog.operations`.
        `undo`: their undo keys. `counted`: as in `log`, per collection. `before`: pre-images by operation index.
        """
        *parts, end = operations_commands(operations)
        previous, _ = self._log_parts(parts)
        row = self._move_row(COMMITTED)
        self._log_end(end, previous, (undo_sums(counted), *undo, row), before)

    def log_prepared(self, operations: Sequence[bytes]) -> None:
        """Log the entries of a prepared transaction: without effect yet, but final."""
        *parts, end = operations_commands(operations, prepare=True)
        previous, first = self._log_parts(parts)
        row = self._move_row(prepared_ending(first or self.next_timestamp()))
        key = PREPARED_PREFIX + self._row_key[1:]
        self._batch.changes[_META][key] = self._row
        self._log_end(end, previous, (NOTHING_COUNTED, row, undo_key(_META, key, None)), {})

    def log_decided(
        self,
        undo: Sequence[bytes],
        counted: Sequence[tuple[int, int, int]],
        commit_timestamp: int | None,
        before: Mapping[int, bytes],
    ) -> None:
        """Log the commit of the session's prepared transaction as of a timestamp; without one, its abort.

        `undo`, `counted` and `before`: as in `log_transaction`.
        """
        previous, prepared = self._session_last, self._row
        end, ending = (
            (abort_command(), ABORTED) if commit_timestamp is None else (commit_command(commit_timestamp), COMMITTED)
        )
        row = self._move_row(ending)
        key = PREPARED_PREFIX + self._row_key[1:]
        self._batch.changes[_META][key] = None
        as_of = b"" if commit_timestamp is None else undo_as_of(commit_timestamp)
        record = (undo_sums(counted), as_of, *undo, row, undo_key(_META, key, prepared))
        self._log_end(end, previous, record, before)

    def _log_parts(self, parts: Sequence[bytes]) -> tuple[OpTime, int]:
        """Return (optime of the last partial entry, timestamp of the first)."""
        previous, first = _NO_OPTIME, 0
        for part in parts:
            first = first or self.next_timestamp()
            self._append(_command_head(self._session), part, b"", _link_to(previous), NOTHING_COUNTED)
            assert self.last is not None, "the entry has been logged"
            previous = self.last
        return previous, first

    def _move_row(self, ending: bytes) -> bytes:
        """Put the session's row, as of the next entry, into the batch; return its undo."""
        session = self._session
        assert session is not None, "a transaction belongs to a session"
        undo = undo_key(_META, self._row_key, self._row)
        self._session_last = last = OpTime(self._oplog.term, self.next_timestamp())
        self._row = pack_row(session.txn_number, *last, self._wall_ms) + ending
        self._batch.changes[_META][self._row_key] = self._row
        return undo

    def _log_end(self, o: bytes, previous: OpTime, undo: Sequence[bytes], before: Mapping[int, bytes]) -> None:
        for position, document in before.items():
            self._put_before(self.next_timestamp(), position, document, self._wall_ms)
        record = b"".join((*undo, *self._undo))
        self._undo.clear()
        self._append(_command_head(self._session), o, b"", _link_to(previous), record)

    def _append(self, head: bytes, o: bytes, middle: bytes, last: bytes, undo: bytes) -> None:
        optime = OpTime(self._oplog.term, self.next_timestamp())
        self._append_entry(
            optime, build_entry(head, o, middle, optime.timestamp, optime.term, self._wall_ms, last), undo
        )

    def _append_entry(self, optime: OpTime, entry: bytes, undo: bytes) -> None:
        """Put an entry and its undo record into the batch. Errors: NotWritablePrimary."""
        self._reserved = 0
        if not self._oplog.writable:
            raise _not_writable()
        key = timestamp_key(optime.timestamp)
        changes = self._batch.changes
        changes[_OPLOG][key] = entry
        changes[_UNDO][key] = undo
        self.last = optime
        self._logged += 1
        self._logged_bytes += len(entry)
        self._undo_bytes += len(undo)

    def finish(self) -> None:
        """Put the oplog's counters into the batch, once per unit. Errors: as `before_write`."""
        before_write = self._sessions.before_write
        if before_write is not None and self._session is not None and self._statements and not self._from_migrate:
            before_write()
        if self.last is not None:
            before = self._oplog.last
            assert self.last.term >= before.term, f"a log's terms never fall: {self.last} after {before}"
            self._batch.changes[_META][COUNTERS_KEY] = self._oplog.counters(self._logged, self._logged_bytes)

    def written(self) -> None:
        """Update the oplog and the session table after the batch has been written."""
        if self.last is not None:
            self._oplog.written(self.last, self._logged, self._logged_bytes, self._undo_bytes)
            self._sessions_written()

    def _sessions_written(self) -> None:
        session, row = self._session, self._row
        if session is not None and row is not None and self._row_key in self._batch.changes[_META]:
            self._sessions.committed(*session, row, self._session_last, self._statements)


def _not_writable() -> CommandError:
    return CommandError(Code.NotWritablePrimary, "not primary: nothing is logged here")


def _command_head(session: SessionWrite | None) -> bytes:
    """Return the encoded first fields of a transaction's entries."""
    assert session is not None, "a transaction belongs to a session"
    return session_head(*session) + COMMAND_HEAD


def _link_to(previous: OpTime) -> bytes:
    """Return the encoded field that links to the session's previous entry."""
    return optime_field(b"prevOpTime", previous.timestamp, previous.term)
