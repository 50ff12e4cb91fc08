# cython: annotation_typing=False
"""What has been done under which retryable write: the table behind exactly-once statements.

A retryable write names a session, a transaction number that grows with each command of the session, and a number for
each of its statements. The newest one of each session has a row in the `meta` family, written in the batch of the
write itself and restored by its undo record; the statements before it are found by walking `prevOpTime` through the
oplog, as the reference does (protocol facts, rule 22). Rows are read when first asked for and kept in memory, the
least recently used go first.

A history may not reach back to its first statement: the log was cut, the member came by an initial sync, or the
statements were executed on a shard whose own history was incomplete. A statement that such a history lacks is refused
with IncompleteTransactionHistory: it is neither executed again nor taken for executed.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
"""Those of a larger write are let go a little at a time: one command has up to 100,000."""

_ROW = struct.Struct(">qqQq")
pack_row = _ROW.pack
"""(transaction number, term, timestamp, milliseconds since 1970 of the last write) as a session's row. Where that was a
transaction over many documents, behind it stands how that stands: `COMMITTED`, `ABORTED` after it was prepared, or
`prepared_ending` while it is.
"""
COMMITTED = b"c"
ABORTED = b"a"
_PREPARED = b"p"
_LONG = struct.Struct(">Q")

INCOMPLETE_HISTORY = 217
"""The code of IncompleteTransactionHistory."""
DEAD_END = -1
"""The statement number of an entry behind which a history does not go on although there were more statements."""


class SessionWrite(NamedTuple):
    """Under which session and transaction number a unit writes. `lsid` is the 16 bytes of the id and the 32 of the
    user.
    """

    lsid: bytes
    txn_number: int


class SessionRow(NamedTuple):
    """The row of a session: its newest transaction number, the optime of the last entry, and whether that number is of
    a transaction over many documents.
    """

    txn_number: int
    last: OpTime
    of_transaction: bool


def unpack_row(row: bytes) -> SessionRow:
    """What a row says."""
    txn_number, term, timestamp, _ = _ROW.unpack_from(row)
    return SessionRow(txn_number, OpTime(term, timestamp), len(row) > _ROW.size)


def prepared_ending(first: int) -> bytes:
    """What stands behind the row of a session whose transaction is prepared. `first`: when its first entry was."""
    return _PREPARED + _LONG.pack(first)


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that is prepared: its number, the optime of its last entry, and the timestamp of its first."""

    number: int
    optime: OpTime
    first: int


class StatementRun(NamedTuple):
    """Statements with numbers in a row, whose entries have timestamps in a row that are higher by `lead`."""

    term: int
    lead: int


Statements = dict[int, OpTime | StatementRun]
"""By their numbers, the optimes of the entries of statements."""


class SessionState:
    """The newest retryable write of one session.

    `statements` maps a statement number to the optime of its entry; None until the oplog has been walked. `DEAD_END` is
    among them where the history is incomplete.
    """

    @property
    def complete(self) -> bool:
        """Whether the history, which has been walked, has every statement."""
        return self.statements is not None and DEAD_END not in self.statements

    @property
    def committed(self) -> bool:
        """Whether what was written last is a transaction over many documents, which has been committed."""
        return self.row is not None and self.row[_ROW.size :] == COMMITTED

    @property
    def aborted(self) -> bool:
        """Whether that has been aborted after it was prepared."""
        return self.row is not None and self.row[_ROW.size :] == ABORTED

    @property
    def of_transaction(self) -> bool:
        """Whether what was written last is a transaction over many documents, however that ended."""
        return self.row is not None and len(self.row) > _ROW.size

    __slots__ = ("last", "row", "statements", "txn_number")

    def __init__(self, txn_number: int, last: OpTime, row: bytes | None) -> None:
        self.txn_number = txn_number
        self.last = last
        self.row = row
        self.statements: Statements | None = None


def _let_go(state: SessionState) -> None:
    """Nobody asks for its statements any more."""
    if state.statements is not None and len(state.statements) > _MANY_STATEMENTS:
        free_later(state.statements)


class SessionTable:
    """The rows of one node. `read_entry` gives the oplog entry of a timestamp.

    `prepared`: by session, the transactions that are. `last_delayed`: up to which timestamp entries may count as
    written before their time, because they commit what was prepared. `before_write` is called before a unit with
    statements of a retryable write is written; what it raises refuses the unit.
    """

    def __init__(self, engine: Engine, read_entry: Callable[[int], bytes | None]) -> None:
        self._engine = engine
        self._read_entry = read_entry
        self._states: OrderedDict[bytes, SessionState] = OrderedDict()
        # What was asked for last, which a write asks for again and again.
        self._latest: tuple[bytes, SessionState] | None = None
        self.prepared: dict[bytes, PreparedTransaction] = {}
        self.before_write: Callable[[], None] | None = None
        self.last_delayed = 0
        self._reap_from = SESSION_PREFIX
        self._load_prepared()

    def _load_prepared(self) -> None:
        rows = self._engine.items(Family.META, PREPARED_PREFIX, after_prefix(PREPARED_PREFIX))
        self.prepared = {key[len(PREPARED_PREFIX) :]: _prepared(row) for key, row in rows}

    def is_prepared_at(self, timestamp: int) -> bool:
        """Whether a transaction that is prepared may turn out to be committed at `timestamp` or before."""
        return any(prepared.optime.timestamp <= timestamp for prepared in self.prepared.values())

    @property
    def oldest_needed(self) -> int | None:
        """The timestamp of the oldest entry of a transaction that is prepared; None without any."""
        return min((prepared.first for prepared in self.prepared.values()), default=None)

    def state(self, lsid: bytes) -> SessionState:
        """The session's newest write; a session that never wrote has the transaction number -1."""
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

    def check(self, lsid: bytes, txn_number: int) -> SessionState:
        """The session's newest write. TransactionTooOld when it has already written under a higher number,
        PreparedTransactionInProgress while what it did under a lower one is not decided.
        """
        state = self.state(lsid)
        known = state.txn_number
        if txn_number > known and lsid in self.prepared:
            raise CommandError(
                Code.PreparedTransactionInProgress,
                f"Cannot change transaction number to {txn_number} while the session has a prepared transaction",
            )
        if txn_number < known:
            raise CommandError(
                Code.TransactionTooOld,
                f"Retryable write with txnNumber {txn_number} is prohibited on session {lsid[:16].hex()} "
                f"because a newer retryable write with txnNumber {known} has already started on this session.",
            )
        return state

    def check_retryable(self, lsid: bytes, txn_number: int) -> None:
        """Errors: those of `check`; IncompleteTransactionHistory for a number of a transaction over many documents."""
        state = self.check(lsid, txn_number)
        if state.txn_number == txn_number and state.of_transaction:
            raise converted()

    def statement(self, lsid: bytes, txn_number: int, stmt_id: int) -> OpTime | None:
        """The optime of the statement's oplog entry when it has been executed, else None.

        IncompleteTransactionHistory when the session's history does not reach back far enough to tell.
        """
        state = self.state(lsid)
        if state.txn_number != txn_number:
            return None
        statements = self._history(state)
        found = statements.get(stmt_id)
        if found is None and DEAD_END in statements:
            raise incomplete_history(lsid, txn_number)
        return OpTime(found.term, stmt_id + found.lead) if isinstance(found, StatementRun) else found

    def statement_ids(self, lsid: bytes, txn_number: int) -> Collection[int]:
        """The numbers of the statements that are known to have been executed; `DEAD_END` among them where others may
        have been too.
        """
        state = self.state(lsid)
        return self._history(state) if state.txn_number == txn_number else ()

    def none_executed(self, lsid: bytes, txn_number: int, stmt_ids: list[int]) -> bool:
        """Whether it is plain to see that none of the statements has been executed."""
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
                for each in statements_in(stmt_id):
                    statements.setdefault(each, step)
            step = previous_optime(entry)
        return statements

    def committed(self, lsid: bytes, txn_number: int, row: bytes, last: OpTime, statements: Statements) -> None:
        """A unit of the session has been written: `row` is on disk, which says `last`, and `statements` are its own."""
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
        """Drop what is in memory: the rows on disk have changed under it."""
        self._states.clear()
        self._latest = None
        self._load_prepared()

    def reap(self, before_ms: int) -> int:
        """Of the next 500 rows, behind those of the call before, remove those last written before `before_ms`
        (milliseconds since 1970); returns how many. Behind the last row it begins again.
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
    """(session, statement numbers, milliseconds since 1970) of an oplog entry that is a retryable write, or that
    prepares or ends a transaction over many documents, which has no statement numbers; None for others.

    `fields` are the entry's top-level ones.
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
    """The refusal of a statement of which nobody knows any more whether it was executed."""
    return CommandError(
        INCOMPLETE_HISTORY, f"Incomplete history detected for transaction {txn_number} on session {lsid[:16].hex()}"
    )


def converted() -> CommandError:
    """The refusal of a retryable write under the number of a transaction over many documents."""
    return CommandError(INCOMPLETE_HISTORY, "Cannot retry a retryable write that has been converted into a transaction")
