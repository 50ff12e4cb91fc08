"""Transfer of a shard's retryable writes along with a chunk or a database, so that the new owner does not execute a
retry again.

A statement is identified by session, transaction number and statement number. The reply to a retry is read from its
oplog entry. The recipient therefore logs an entry of the same kind and content under the same numbers. It is on a
collection of its own, empty before and after: only the session table and the oplog keep the entry.

Invariants of the transferred history:

- a majority of the donor has it, so no rollback undoes it (`read_batch`). A recipient may keep it even if the
  migration aborts: it repeats what the donor would answer;
- an incomplete history of a session is marked by a dead end, an entry of its own. The recipient then refuses what the
  donor would refuse;
- for a session that went on to write elsewhere, the earlier numbers are sent as ended. The log cannot tell what they
  wrote in the range, and a recipient that does not know the session must not execute a late retry;
- sessions without a write for half an hour, the lifetime of sessions, are not sent.

Readers go by pages, each of a bounded number of rows and entries, and yield in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import EMPTY_DOCUMENT, Value, document_to_python, elements, get_field, to_python
from docstore.collection.collection import Collection
from docstore.collection.oplog.diff import is_replacement
from docstore.collection.oplog.entry import previous_optime
from docstore.collection.oplog.journal import Image
from docstore.collection.oplog.oplog import Oplog, entry_optime
from docstore.collection.oplog.sessions import DEAD_END, SessionRow, SessionWrite, entry_session, unpack_row
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.key_layout import SESSION_PREFIX, after_prefix
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.node import DataNode
from docstore.optime import NULL_OPTIME, OpTime
from docstore.sharding.key import ShardKey, raw_field
from docstore.sharding.migration import AnyMigration, DatabaseMigration, Migration
from docstore.storage import Family
from mongod.migration.ranges import in_range
from mongod.migration.records import MigrationRecords

STATEMENTS = "config.migratedStatements"
LIFETIME_SECONDS = 30 * 60
MAX_PAGE_READS = 128
"""Session rows and oplog entries that are read for a page."""
MAX_PAGE_BYTES = 1 << 20
MAX_BATCH_STATEMENTS = 1000
MAX_BATCH_BYTES = 4 << 20
_PLACEHOLDER = bson.encode({"_id": "statement"})
_CHANGED = bson.encode({"_id": "statement", "executed": True})
_IMAGES = ("preImage", "postImage")
_NOTHING = "n"

Fields = Mapping[str, Value]
Concern = Callable[[Fields], bool]
"""The test of an oplog entry, by its top-level fields: it concerns the migration, or does not tell."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Executed statements that have one oplog entry: one statement, or several whose measurements came into a bucket.

    `op`: i, u or d; n for the dead end of a history, whose number is `DEAD_END`. `document`: the entry's `o` of an
    insert; `image`: (field, document) of a findAndModify.
    """

    lsid: bytes
    txn_number: int
    stmt_ids: tuple[int, ...]
    op: str
    document: bytes | None = None
    image: tuple[str, bytes] | None = None

    @property
    def size(self) -> int:
        """Roughly its bytes."""
        return len(self.document or b"") + (len(self.image[1]) if self.image else 0) + 16 * len(self.stmt_ids)

    def fields(self) -> dict[str, Any]:
        """Return the statement as sent to the recipient."""
        body: dict[str, Any] = {
            "lsid": Binary(self.lsid),
            "txnNumber": Int64(self.txn_number),
            "stmtId": list(self.stmt_ids) if len(self.stmt_ids) > 1 else self.stmt_ids[0],
            "op": self.op,
        }
        if self.document is not None:
            body["document"] = RawBSONDocument(self.document)
        if self.image is not None:
            body[self.image[0]] = RawBSONDocument(self.image[1])
        return body

    @classmethod
    def from_raw(cls, raw: bytes) -> Statement:
        body = document_to_python(raw)
        image = next(((name, raw_field(raw, name)) for name in _IMAGES if name in body), None)
        document = raw_field(raw, "document") if "document" in body else None
        stmt_id = body["stmtId"]
        stmt_ids = tuple(map(int, stmt_id)) if isinstance(stmt_id, list) else (int(stmt_id),)
        return cls(bytes(body["lsid"]), int(body["txnNumber"]), stmt_ids, str(body["op"]), document, image)


def _dead_end(lsid: bytes, txn_number: int) -> Statement:
    return Statement(lsid, txn_number, (DEAD_END,), _NOTHING)


# Tests of log entries


def concern_of(migration: AnyMigration) -> Concern:
    """Return the test of log entries for those that concern the migration."""
    return range_concern(migration) if isinstance(migration, Migration) else database_concern(migration)


def database_concern(migration: DatabaseMigration) -> Concern:
    """Return the test for entries about the unsharded collections of a database."""

    def concerns(fields: Fields) -> bool:
        return migration.concerns(str(to_python(fields["ns"])))

    return concerns


def range_concern(migration: Migration) -> Concern:
    """A chunk: the documents that are in its range, before the statement or behind it."""
    key, bounds, uuid = migration.key, migration.range, bytes(migration.uuid)
    first_names = {path.partition(".")[0] for path in key.fields}

    def concerns(fields: Fields) -> bool:
        if to_python(fields["ns"]) != migration.namespace:
            return False
        ui, op, o = fields.get("ui"), to_python(fields["op"]), fields["o"][1]
        if ui is None or ui[1][5:] != uuid:
            # Of another incarnation, whose shard key may have been another one.
            return True
        if op == "i":
            return in_range(key, bounds, o)
        named = _named_key(key, o if op == "d" else fields["o2"][1])
        if named is None or bounds.holds(named):
            return True
        # An update is named by the document behind it: it may have left the range.
        return op == "u" and (is_replacement(o) or _changes(o, first_names))

    return concerns


def _named_key(key: ShardKey, named: bytes) -> bytes | None:
    """The encoded shard key that names a document in an entry (`docstore.collection.oplog.document_key`); None where
    that does not have all of its fields.
    """
    values = [get_field(named, path) for path in key.fields]
    return None if None in values else b"".join(encode_key(value) for value in values if value is not None)


def _changes(o: bytes, names: set[str]) -> bool:
    """True if the diff of an update changes any of these fields of the document."""
    diff = get_field(o, "diff")
    assert diff is not None, "an update entry that is no document has a diff"
    for part, _, data in elements(diff[1]):
        touched = {name for name, _, _ in elements(data)} if part in ("d", "u", "i") else {part[1:]}
        if not names.isdisjoint(touched):
            return True
    return False


# On the donor


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the sessions: all up to `lsid` have been read, and of that one the history of `txn_number` down
    to the entry before `step`; all of it if that is None.
    """

    lsid: bytes
    txn_number: int
    step: OpTime | None


class _Page:
    """Statements collected until the page is full."""

    def __init__(self, oplog: Oplog, concerns: Concern) -> None:
        self.statements: list[Statement] = []
        self._oplog = oplog
        self._concerns = concerns
        self._reads = self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._reads >= MAX_PAGE_READS or self._bytes >= MAX_PAGE_BYTES

    def count_read(self) -> None:
        self._reads += 1

    def read(self, optime: OpTime) -> bytes | None:
        """The entry at an optime, which must be of a session; None where the log does not have it."""
        self.count_read()
        return self._oplog.entry(optime.timestamp)

    def add(self, statement: Statement) -> None:
        self.statements.append(statement)
        self._bytes += statement.size

    def take(self, entry: bytes) -> bool:
        """Add the statements of an entry that concerns the migration; return whether it does."""
        fields = {name: (code, data) for name, code, data in elements(entry)}
        session = entry_session(fields)
        if session is None or not session[1]:
            return False
        (lsid, txn_number), stmt_ids, _ = session
        op = str(to_python(fields["op"]))
        if op == _NOTHING:
            self.add(Statement(lsid, txn_number, stmt_ids, op))
            return True
        if to_python(fields["ns"]) != STATEMENTS and not self._concerns(fields):
            return False
        document = raw_field(entry, "o") if op == "i" and len(stmt_ids) == 1 else None
        self.add(Statement(lsid, txn_number, stmt_ids, op, document, self._image(entry)))
        return True

    def _image(self, entry: bytes) -> tuple[str, bytes] | None:
        for name in _IMAGES:
            link = get_field(entry, f"{name}OpTime")
            if link is not None:
                stamp = get_field(link[1], "ts")
                assert stamp is not None, "an optime without ts"
                image = self._oplog.entry(int.from_bytes(stamp[1], "little"))
                return None if image is None else (name, raw_field(image, "o"))
        return None


def read_sessions(store: Store, concerns: Concern, after: Position | None) -> tuple[list[Statement], Position | None]:
    """Return a page of the history that concerns a migration, of each session the newest first, and the position at
    its end.

    The position is None with the last page. The page may hold statements that no majority has.
    """
    oplog = store.oplog
    assert oplog is not None, "a member of a shard has one"
    page = _Page(oplog, concerns)
    oldest = (oplog.cluster_time >> 32) - LIFETIME_SECONDS << 32
    position = after
    first = SESSION_PREFIX + (b"" if after is None else after.lsid)
    for key, raw in store.engine.items(Family.META, first, after_prefix(SESSION_PREFIX)):
        if page.is_full:
            return page.statements, position
        page.count_read()
        lsid, row = key[len(SESSION_PREFIX) :], unpack_row(raw)
        step: OpTime | None = row.last
        has_begun = False
        if after is not None and lsid == after.lsid and (after.step is None or after.txn_number == row.txn_number):
            step, has_begun = after.step, True
        if step is not None and row.last.timestamp > oldest:
            step = _read_session(page, lsid, row, step, has_begun=has_begun)
        else:
            step = None
        position = Position(lsid, row.txn_number, step)
        if step is not None:
            return page.statements, position
    return page.statements, None


def _read_session(page: _Page, lsid: bytes, row: SessionRow, step: OpTime, *, has_begun: bool) -> OpTime | None:
    """Read a session's history from `step` on, one entry at least; where the page ends within it, None where it does
    not.
    """
    concerned = has_begun
    while not row.of_transaction and step.timestamp:
        entry = page.read(step)
        if entry is None:
            page.add(_dead_end(lsid, row.txn_number))
            return None
        concerned = page.take(entry) or concerned
        step = previous_optime(entry)
        if page.is_full:
            break
    if not concerned and row.txn_number > 0:
        page.add(_dead_end(lsid, row.txn_number - 1))
    return step if step.timestamp and not row.of_transaction else None


class SessionPages:
    """`read_sessions` page by page."""

    def __init__(self, store: Store, concerns: Concern, after: Position | None = None) -> None:
        self._store = store
        self._concerns = concerns
        self.position = after
        self.is_over = False

    def next_page(self) -> list[Statement] | None:
        """Return the next page; None after the last."""
        if self.is_over:
            return None
        statements, self.position = read_sessions(self._store, self._concerns, self.position)
        self.is_over = self.position is None
        return statements


class SessionHistory:
    """Pages of the history that concerns a migration: first of all sessions, then of entries logged since."""

    def __init__(self, store: Store, concerns: Concern) -> None:
        self._store = store
        self._concerns = concerns
        self._sessions: SessionPages | None = None
        self._scanned = NULL_OPTIME
        """The end of the log that has been read: initially the end when the reading of sessions began."""

    def next_page(self, until: OpTime) -> list[Statement] | None:
        """Return the next page, perhaps empty; None when all up to `until` has been read."""
        oplog = self._store.oplog
        assert oplog is not None, "a member of a shard has one"
        if self._sessions is None or (self._scanned.timestamp < oplog.first.timestamp):
            # The log was truncated past the position that was read: read the sessions anew.
            self._sessions, self._scanned = SessionPages(self._store, self._concerns), self._store.last_optime
        statements = self._sessions.next_page()
        if statements is None and self._scanned < until:
            return self._read_log(oplog, until)
        return statements

    def _read_log(self, oplog: Oplog, until: OpTime) -> list[Statement]:
        page = _Page(oplog, self._concerns)
        last = None
        for entry in oplog.scan(self._store.engine, self._scanned.timestamp, until.timestamp + 1):
            page.count_read()
            page.take(entry)
            last = entry
            if page.is_full:
                break
        self._scanned = entry_optime(last) if last is not None and page.is_full else until
        return page.statements


async def read_batch(node: DataNode, next_page: Callable[[], list[Statement] | None]) -> tuple[list[Statement], bool]:
    """Return about one message of statements, and whether there are more.

    A majority of this shard has them: the pages are read first, then the newest optime is awaited. Errors: those of
    `MigrationRecords.committed`; InterruptedDueToReplStateChange if this member was elected anew meanwhile, because
    the statements may then have been rolled back.
    """
    oplog = node.store.oplog
    assert oplog is not None, "a member of a shard has one"
    statements: list[Statement] = []
    size, term, read_at, has_more = 0, oplog.term, NULL_OPTIME, True
    while len(statements) < MAX_BATCH_STATEMENTS and size < MAX_BATCH_BYTES:
        page = next_page()
        if page is None:
            has_more = False
            break
        statements += page
        size += sum(statement.size for statement in page)
        read_at = node.store.last_optime
        await node.pause()
    if statements:
        await MigrationRecords(node).committed(read_at)
    if oplog.term != term:
        raise CommandError(Code.InterruptedDueToReplStateChange, "this member was elected anew")
    return statements, has_more


# On the recipient


def remember(store: Store, statements: Sequence[Statement]) -> None:
    """Log statements of one transaction number of one session, except those already known; none if a later number is
    known.
    """
    lsid, txn_number = statements[0].lsid, statements[0].txn_number
    row = store.engine.get(Family.META, SESSION_PREFIX + lsid)
    if row is not None:
        newest = unpack_row(row)
        if txn_number < newest.txn_number or (txn_number == newest.txn_number and newest.of_transaction):
            return
    fresh = list(_unknown(statements, store.sessions.statement_ids(lsid, txn_number)))
    if not fresh:
        return
    collection = store.collection(STATEMENTS) or make_collection(store, STATEMENTS)
    with store.unit(session=SessionWrite(lsid, txn_number), from_migrate=True) as unit:
        for statement in fresh:
            _log(unit, collection, statement)
        unit.commit()
    assert collection.count == 0, "the collection of statements is empty between them"


def _unknown(statements: Iterable[Statement], known_numbers: Iterable[int]) -> Iterable[Statement]:
    """Yield the statements whose numbers are not known yet, each number once."""
    numbers = set(known_numbers)
    for statement in statements:
        stmt_ids = tuple(stmt_id for stmt_id in statement.stmt_ids if stmt_id not in numbers)
        if stmt_ids:
            numbers.update(stmt_ids)
            yield replace(statement, stmt_ids=stmt_ids)


def _log(unit: WriteUnitOfWork, collection: Collection, statement: Statement) -> None:
    image = None if statement.image is None else Image(*statement.image)
    stmt_id = statement.stmt_ids if len(statement.stmt_ids) > 1 else statement.stmt_ids[0]
    if statement.op == _NOTHING:
        unit.noop(EMPTY_DOCUMENT, stmt_id=DEAD_END)
    elif statement.op == "i":
        document = statement.document or _PLACEHOLDER
        unit.remove(collection, unit.insert(collection, document, stmt_id=stmt_id), document)
    elif statement.op == "u":
        record_id = unit.insert(collection, _PLACEHOLDER)
        unit.replace(collection, record_id, _PLACEHOLDER, _CHANGED, stmt_id=stmt_id, image=image)
        unit.remove(collection, record_id, _CHANGED)
    else:
        record_id = unit.insert(collection, _PLACEHOLDER)
        unit.remove(collection, record_id, _PLACEHOLDER, stmt_id=stmt_id, image=image)
