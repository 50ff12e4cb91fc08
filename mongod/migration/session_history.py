"""The retryable writes that a shard has executed, so that a retry which arrives where the documents have gone, with a
chunk or with a database that got another primary shard, is not executed again.

A statement is known by session, transaction number and statement number; what a retry answers is read from its oplog
entry. The recipient therefore logs, under the same numbers, an entry of the same kind with the same content, on a
collection of its own that is empty before and after: nothing but the session table and the oplog keep it.

The newest transaction number of each session goes along whole, whatever range its statements touched: an entry does
not tell the shard key, and a statement that is never retried here does no harm. Statements older than sessions live
(half an hour) stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python, elements, get_field, to_python
from docstore.collection.collection import Collection
from docstore.collection.oplog.entry import previous_optime
from docstore.collection.oplog.journal import Image
from docstore.collection.oplog.sessions import SessionWrite, entry_session
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import CommandError
from docstore.key_layout import SESSION_PREFIX, after_prefix
from docstore.node.ddl.catalog_changes import make_collection
from docstore.sharding.key import raw_field
from docstore.storage import Family

STATEMENTS = "config.migratedStatements"
LIFETIME_SECONDS = 30 * 60
_PLACEHOLDER = bson.encode({"_id": "statement"})
_CHANGED = bson.encode({"_id": "statement", "executed": True})
_PAGE_BYTES = 4 << 20
_PAGE_ENTRIES = 2000
"""Sessions and oplog entries that are looked at for a page."""
_IMAGES = ("preImage", "postImage")
_INCOMPLETE_HISTORY = 217  # IncompleteTransactionHistory


@dataclass(frozen=True, slots=True)
class Statement:
    """One executed statement. `op`: i, u or d; `document`: the entry's `o` of an insert; `image`: (field, document) of
    a findAndModify."""

    lsid: bytes
    txn_number: int
    stmt_id: int
    op: str
    document: bytes | None
    image: tuple[str, bytes] | None

    def fields(self) -> dict[str, Any]:
        """As sent to the recipient."""
        body: dict[str, Any] = {
            "lsid": Binary(self.lsid),
            "txnNumber": Int64(self.txn_number),
            "stmtId": self.stmt_id,
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
        return cls(bytes(body["lsid"]), int(body["txnNumber"]), int(body["stmtId"]), str(body["op"]), document, image)


def executed(store: Store, namespace: str, now_seconds: float) -> Iterator[Statement]:
    """The statements on a collection of the last half hour, of each session the oldest first."""
    prefix = len(SESSION_PREFIX)
    sessions = [key[prefix:] for key in store.engine.keys(Family.META, SESSION_PREFIX, after_prefix(SESSION_PREFIX))]
    for lsid in sessions:
        found = [statement for _, statement in _of_session(store, lsid, namespace.__eq__, now_seconds) if statement]
        yield from reversed(found)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page ends: with a session's entry of that timestamp; 0: with all of the session."""

    lsid: bytes
    timestamp: int


def executed_page(
    store: Store, wanted: Callable[[str], bool], now_seconds: float, after: Position | None
) -> tuple[list[Statement], Position | None]:
    """Some of the statements of the last half hour on namespaces that are `wanted`, of each session the newest first;
    and where they end, None with the last of them."""
    found: list[Statement] = []
    size = looked = 0
    position = after
    first = SESSION_PREFIX + (b"" if after is None else after.lsid)
    for key in store.engine.keys(Family.META, first, after_prefix(SESSION_PREFIX)):
        lsid = key[len(SESSION_PREFIX) :]
        before = after.timestamp if after is not None and lsid == after.lsid else None
        for timestamp, statement in _of_session(store, lsid, wanted, now_seconds, before):
            if statement is not None:
                size += len(statement.document or b"") + len(statement.image[1] if statement.image else b"")
                if found and size > _PAGE_BYTES:
                    return found, position
                found.append(statement)
            position, looked = Position(lsid, timestamp), looked + 1
            if looked >= _PAGE_ENTRIES:
                return found, position
        position, looked = Position(lsid, 0), looked + 1
        if looked >= _PAGE_ENTRIES:
            return found, position
    return found, None


def _of_session(
    store: Store, lsid: bytes, wanted: Callable[[str], bool], now_seconds: float, before: int | None = None
) -> Iterator[tuple[int, Statement | None]]:
    """The session's entries of the last half hour, the newest first, each with its timestamp; those older than the
    entry at `before`, none where that is 0."""
    oplog, oldest = store.oplog, int(now_seconds - LIFETIME_SECONDS) << 32
    if oplog is None:
        return
    step = store.sessions.state(lsid).last
    if before is not None:
        entry = oplog.entry(before)
        if entry is None:
            return
        step = previous_optime(entry)
    while step.timestamp > oldest and (entry := oplog.entry(step.timestamp)) is not None:
        yield step.timestamp, _statement(store, entry, wanted)
        step = previous_optime(entry)


def executed_since(store: Store, namespace: str, after: int) -> Iterator[Statement]:
    """As `executed`, for a time that is not long ago: what is looked through is the oplog, not every session."""
    newest: dict[bytes, list[Statement]] = {}
    entries = iter(()) if store.oplog is None else store.oplog.scan(store.engine, after)
    for entry in entries:
        statement = _statement(store, entry, namespace.__eq__)
        if statement is None:
            continue
        known = newest.setdefault(statement.lsid, [])
        if known and known[0].txn_number != statement.txn_number:
            known.clear()
        known.append(statement)
    for statements in newest.values():
        yield from statements


def _statement(store: Store, entry: bytes, wanted: Callable[[str], bool]) -> Statement | None:
    fields = {name: (code, data) for name, code, data in elements(entry)}
    session, op, ns = entry_session(fields), to_python(fields["op"]), to_python(fields["ns"])
    if session is None or op not in ("i", "u", "d") or not (ns == STATEMENTS or wanted(str(ns))):
        return None
    write, statements, _ = session
    assert statements, "an entry of one document is a statement's"
    if len(statements) > 1:
        # Measurements have come into a bucket together; buckets do not move between shards.
        return None
    document = raw_field(entry, "o") if op == "i" else None
    return Statement(write.lsid, write.txn_number, statements[0], op, document, _image(store, entry))


def _image(store: Store, entry: bytes) -> tuple[str, bytes] | None:
    for name in _IMAGES:
        link = get_field(entry, f"{name}OpTime")
        if link is not None and store.oplog is not None:
            stamp = get_field(link[1], "ts")
            assert stamp is not None, "an optime without ts"
            image = store.oplog.entry(int.from_bytes(stamp[1], "little"))
            return None if image is None else (name, raw_field(image, "o"))
    return None


def remember(store: Store, statements: Sequence[Statement]) -> None:
    """Log statements of one transaction number of one session here, unless they or a later number are known already."""
    lsid, txn_number = statements[0].lsid, statements[0].txn_number
    if txn_number < store.sessions.state(lsid).txn_number:
        return
    try:
        fresh = [each for each in statements if store.sessions.statement(lsid, txn_number, each.stmt_id) is None]
    except CommandError as error:
        if error.code != _INCOMPLETE_HISTORY:
            raise
        return
    if not fresh:
        return
    collection = store.collection(STATEMENTS) or make_collection(store, STATEMENTS)
    with store.unit(session=SessionWrite(lsid, txn_number), from_migrate=True) as unit:
        for statement in {each.stmt_id: each for each in fresh}.values():
            _log(unit, collection, statement)
        unit.commit()
    assert collection.count == 0, "the collection of statements is empty between them"


def _log(unit: WriteUnitOfWork, collection: Collection, statement: Statement) -> None:
    image = None if statement.image is None else Image(*statement.image)
    stmt_id = statement.stmt_id
    if statement.op == "i":
        made = statement.document or _PLACEHOLDER
        unit.remove(collection, unit.insert(collection, made, stmt_id=stmt_id), made)
    elif statement.op == "u":
        record_id = unit.insert(collection, _PLACEHOLDER)
        unit.replace(collection, record_id, _PLACEHOLDER, _CHANGED, stmt_id=stmt_id, image=image)
        unit.remove(collection, record_id, _CHANGED)
    else:
        record_id = unit.insert(collection, _PLACEHOLDER)
        unit.remove(collection, record_id, _PLACEHOLDER, stmt_id=stmt_id, image=image)
