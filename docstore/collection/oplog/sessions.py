# cython: annotation_typing=False
"""Retryable writes: the session table, which executes each statement exactly once.

A retryable write names a session, a transaction number that grows with each command of the session, and a number per
statement. The newest transaction number of each session has a row in the `meta` family. The row is written in the batch
of the write and restored by its undo record. Earlier statements are found through the `prevOpTime` links of the oplog,
as in the reference (protocol facts, rule 22). Rows are cached in memory on first use, with LRU eviction.

A history may be incomplete: the log was truncated, the member came by an initial sync, or the statements ran on a shard
with an incomplete history. A statement missing from such a history fails with IncompleteTransactionHistory: it is
neither executed again nor assumed executed.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import cython

from docstore.bson import Value, get_field
from docstore.collection.oplog.entry import previous_optime, statements_in
from docstore.collection.oplog.operations import PARTIAL
from docstore.deferred_free import free_later
from docstore.errors import Code, CommandError
from docstore.key_layout import PREPARED_PREFIX, SESSION_PREFIX, after_prefix
from docstore.optime import NULL_OPTIME, OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.storage import Engine

_CACHED_SESSIONS = 20_000
_REAP_ROWS = 500
_MANY_STATEMENTS = 1_000
"""A write with more statements releases them gradually: one command has up to 100,000."""

_ROW = struct.Struct(">qqQq")
pack_row = _ROW.pack
"""Encode (transaction number, term, timestamp, last write in milliseconds since 1970) as a session row.

For a multi-document transaction its state follows: `COMMITTED`, `ABORTED` (after it was prepared), or `prepared_ending`
while it is prepared.
"""
COMMITTED = b"c"
ABORTED = b"a"
_PREPARED = b"p"
_LONG = struct.Struct(">Q")

INCOMPLETE_HISTORY = 217
"""The code of IncompleteTransactionHistory."""
DEAD_END = -1
"""The statement number of an entry at which a history breaks off although earlier statements existed."""


class SessionWrite(NamedTuple):
    """The session and transaction number of a unit. `lsid` is the 16 bytes of the id and the 32 bytes of the user."""

    lsid: bytes
    txn_number: int


class SessionRow(NamedTuple):
    """A session's row: its newest transaction number, the optime of its last entry, and whether that is a
    multi-document transaction.
    """

    txn_number: int
    last: OpTime
    of_transaction: bool


def unpack_row(row: bytes) -> SessionRow:
    """Decode a session row."""
    txn_number, term, timestamp, _ = _ROW.unpack_from(row)
    return SessionRow(txn_number, OpTime(term, timestamp), len(row) > _ROW.size)


def prepared_ending(first: int) -> bytes:
    """Return the row suffix of a prepared transaction. `first`: the timestamp of its first entry."""
    return _PREPARED + _LONG.pack(first)


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A prepared transaction: its number, the optime of its last entry, the timestamp of its first."""

    number: int
    optime: OpTime
    first: int


class StatementRun(NamedTuple):
    """Consecutive statement numbers whose entries have consecutive timestamps, higher by `lead`."""

    term: int
    lead: int


Statements = dict[int, OpTime | StatementRun]
"""The optimes of statement entries, by statement number."""


class SessionState:
    """The newest retryable write of one session.

    `statements` maps a statement number to the optime of its entry; None until the oplog has been walked. It contains
    `DEAD_END` if the history is incomplete.
    """

    @property
    def complete(self) -> bool:
        """True if the history has been walked and contains every statement."""
        return self.statements is not None and DEAD_END not in self.statements

    @property
    def committed(self) -> bool:
        """True if the last write is a committed multi-document transaction."""
        return self.row is not None and self.row[_ROW.size :] == COMMITTED

    @property
    def aborted(self) -> bool:
        """True if the last write is a transaction that was aborted after it was prepared."""
        return self.row is not None and self.row[_ROW.size :] == ABORTED

    @property
    def of_transaction(self) -> bool:
        """True if the last write is a multi-document transaction, with any outcome."""
        return self.row is not None and len(self.row) > _ROW.size

    __slots__ = ("last", "row", "statements", "txn_number")

    def __init__(self, txn_number: int, last: OpTime, row: bytes | None) -> None:
        self.txn_number = txn_number
        self.last = last
        self.row = row
        self.statements: Statements | None = None


def _let_go(state: SessionState) -> None:
    """Release the statements of an evicted state."""
    if state.statements is not None and len(state.statements) > _MANY_STATEMENTS:
        free_later(state.statements)


class SessionTable:
    """The session rows of one node. `read_entry` returns the oplog entry at a timestamp.

    `prepared`: the prepared transactions, by session. `last_delayed`: up to this timestamp, entries may commit as of an
    earlier time, because they commit prepared transactions. `before_write` is called before a unit with retryable
    statements is written; it may raise to refuse the unit.
    """

    def __init__(self, engine: Engine, read_entry: Callable[[int], bytes | None]) -> None:
        self._engine = engine
        self._read_entry = read_entry
        self._states: OrderedDict[bytes, SessionState] = OrderedDict()
        # The latest lookup, which a write repeats many times.
        self._latest: tuple[bytes, SessionState] | None = None
        self.prepared: dict[bytes, PreparedTransaction] = {}
        self.before_write: Callable[[], None] | None = None
        self.last_delayed = 0
        self._reap_from: bytes = SESSION_PREFIX
        self._load_prepared()

    def _load_prepared(self) -> None:
        rows = self._engine.items(Family.META, PREPARED_PREFIX, after_prefix(PREPARED_PREFIX))
        self.prepared = {key[len(PREPARED_PREFIX) :]: _prepared(row) for key, row in rows}

    def is_prepared_at(self, timestamp: int) -> bool:
        """True if a prepared transaction may still commit at `timestamp` or before."""
        return any(prepared.optime.timestamp <= timestamp for prepared in self.prepared.values())

    @property
    def oldest_needed(self) -> int | None:
        """Return the timestamp of the oldest entry of a prepared transaction; None without any."""
        return min((prepared.first for prepared in self.prepared.values()), default=None)

    @cython.ccall
    def state(self, lsid: bytes) -> SessionState:
        """Return the session's newest write; -1 is the transaction number of a session without writes."""
        latest = self._latest
        if latest is not None and latest[0] == lsid:
            return latest[1]
        state = self._states.get(lsid)
        if state is None:
            state = self._load(lsid)
        else:
            self._states.move_to_end(lsid)
        self._latest = (lsid, state)
        return state

    def _load(self, lsid: bytes) -> SessionState:
        row = self._engine.get(Family.META, SESSION_PREFIX + lsid)
        if row is None:
            state = SessionState(-1, NULL_OPTIME, None)
            state.statements = {}
        else:
            txn_number, term, timestamp, _ = _ROW.unpack_from(row)
            state = SessionState(txn_number, OpTime(term, timestamp), row)
        self._states[lsid] = state
        if len(self._states) > _CACHED_SESSIONS:
            _let_go(self._states.popitem(last=False)[1])
        return state

    @cython.ccall
    def check(self, lsid: bytes, txn_number: int) -> SessionState:
        """Return the session's newest write.

        Errors: TransactionTooOld if it has written under a higher number; PreparedTransactionInProgress while a
        prepared transaction with a lower number is undecided.
        """
        state = self.state(lsid)
        current = state.txn_number
        if txn_number > current and lsid in self.prepared:
            raise CommandError(
                Code.PreparedTransactionInProgress,
                f"Cannot change transaction number to {txn_number} while the session has a prepared transaction",
            )
        if txn_number < current:
            raise CommandError(
                Code.TransactionTooOld,
                f"Retryable write with txnNumber {txn_number} is prohibited on session {lsid[:16].hex()} "
                f"because a newer retryable write with txnNumber {current} has already started on this session.",
            )
        return state

    def check_retryable(self, lsid: bytes, txn_number: int) -> None:
        """Check as `check`. Errors: also IncompleteTransactionHistory if the number is that of a multi-document
        transaction.
        """
        state = self.check(lsid, txn_number)
        if state.txn_number == txn_number and state.of_transaction:
            raise converted()

    def statement(self, lsid: bytes, txn_number: int, stmt_id: int) -> OpTime | None:
        """Return the optime of the statement's entry; None if it has not been executed.

        Errors: IncompleteTransactionHistory if the history does not reach back far enough to tell.
        """
        state = self.state(lsid)
        if state.txn_number != txn_number:
            return None
        statements = self._history(state)
        step = statements.get(stmt_id)
        if step is None and DEAD_END in statements:
            raise incomplete_history(lsid, txn_number)
        return OpTime(step.term, stmt_id + step.lead) if isinstance(step, StatementRun) else step

    def statement_ids(self, lsid: bytes, txn_number: int) -> Collection[int]:
        """Return the numbers of statements known to have been executed; `DEAD_END` among them if there may be
        others.
        """
        state = self.state(lsid)
        return self._history(state) if state.txn_number == txn_number else ()

    def none_executed(self, lsid: bytes, txn_number: int, stmt_ids: list[int]) -> bool:
        """True if it is certain, without reading the oplog, that none of the statements has been executed."""
        state = self.state(lsid)
        if state.txn_number != txn_number:
            return True
        return state.statements is not None and state.complete and state.statements.keys().isdisjoint(stmt_ids)

    def _history(self, state: SessionState) -> Statements:
        if state.statements is None:
            state.statements = self._walk(state)
        return state.statements

    def _walk(self, state: SessionState) -> Statements:
        statements: Statements = {}
        step = state.last
        while step.timestamp:
            entry = self._read_entry(step.timestamp)
            if entry is None:
                statements[DEAD_END] = step
                break
            stmt_id = get_field(entry, "stmtId")
            if stmt_id is not None:
                for statement_id in statements_in(stmt_id):
                    statements.setdefault(statement_id, step)
            step = previous_optime(entry)
        return statements

    def committed(self, lsid: bytes, txn_number: int, row: bytes, last: OpTime, statements: Statements) -> None:
        """Record a written unit of the session: `row` is on disk, `last` its optime, `statements` those of the unit."""
        state = self.state(lsid)
        if state.txn_number != txn_number:
            state.txn_number = txn_number
            _let_go(state)
            state.statements = {}
        state.last = last
        state.row = row
        if len(row) > _ROW.size and row[_ROW.size : _ROW.size + 1] == _PREPARED:
            self.prepared[lsid] = _prepared(row)
        elif self.prepared and self.prepared.pop(lsid, None) is not None:
            self.last_delayed = max(self.last_delayed, last.timestamp)
        if state.statements is not None:
            state.statements.update(statements)

    def forget(self) -> None:
        """Clear the cache: the rows on disk have changed."""
        self._states.clear()
        self._latest = None
        self._load_prepared()

    def reap(self, before_ms: int) -> int:
        """Remove expired rows among the next 500: those last written before `before_ms` (milliseconds since 1970).

        Return their number. Each call continues after the previous one, and wraps around after the last row.
        """
        batch = Batch()
        self._latest = None
        rows = self._engine.items(Family.META, self._reap_from, after_prefix(SESSION_PREFIX))
        self._reap_from = SESSION_PREFIX
        for looked_at, (key, row) in enumerate(rows):
            if looked_at == _REAP_ROWS:
                self._reap_from = key
                break
            if _ROW.unpack_from(row)[3] < before_ms and key[len(SESSION_PREFIX) :] not in self.prepared:
                batch.delete(Family.META, key)
                self._states.pop(key[len(SESSION_PREFIX) :], None)
        if batch:
            self._engine.write(batch)
        return len(batch.changes[Family.META])


def _prepared(row: bytes) -> PreparedTransaction:
    number, term, timestamp, _ = _ROW.unpack_from(row)
    return PreparedTransaction(number, OpTime(term, timestamp), _LONG.unpack_from(row, _ROW.size + 1)[0])


def entry_session(fields: Mapping[str, Value]) -> tuple[SessionWrite, tuple[int, ...], int] | None:
    """Return (session, statement numbers, milliseconds since 1970) of a session's oplog entry; None for other entries.

    Such an entry is a retryable write, or prepares or ends a multi-document transaction, which has no statement
    numbers. `fields` are the entry's top-level fields.
    """
    stmt_id = fields.get("stmtId")
    if stmt_id is None and ("txnNumber" not in fields or get_field(fields["o"][1], PARTIAL) is not None):
        return None
    lsid = fields["lsid"][1]
    ident, user = get_field(lsid, "id"), get_field(lsid, "uid")
    assert ident is not None, "lsid without id"
    assert user is not None, "lsid without uid"
    txn_number = int.from_bytes(fields["txnNumber"][1], "little", signed=True)
    session = SessionWrite(ident[1][5:] + user[1][5:], txn_number)
    wall_ms = int.from_bytes(fields["wall"][1], "little", signed=True)
    return session, () if stmt_id is None else statements_in(stmt_id), wall_ms


def incomplete_history(lsid: bytes, txn_number: int) -> CommandError:
    """Return the error for a statement that is no longer known to have been executed or not."""
    return CommandError(
        INCOMPLETE_HISTORY, f"Incomplete history detected for transaction {txn_number} on session {lsid[:16].hex()}"
    )


def converted() -> CommandError:
    """Return the error for a retryable write under the number of a multi-document transaction."""
    return CommandError(INCOMPLETE_HISTORY, "Cannot retry a retryable write that has been converted into a transaction")
