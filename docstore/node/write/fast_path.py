"""A write of one document, carried out without what slices, pauses and orders many.

Most commands that write are of this kind: one document to insert, or one whose `_id` the filter names, to be deleted or
changed by an update that the kernel applies. Each function does the whole command or answers None, having done nothing.

Always true: the outcome is that of the general way. Whatever else a request may carry (a second statement, `let`, a
hint, an array filter, an upsert) or meet (a validator, a collation, a view, a critical section, a write lock, a
transaction number that the session has used before) is left to it, and errors of a write are the outcome's, as there.
On a shard a request enters as it does there, in the step in which it writes: a stale version is refused, and a document
that the shard does not own is not found.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from docstore.bson import elements, is_storable
from docstore.bson.walk import BOOL, INT32, OBJECT, Value
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import LARGE_BYTES
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.shard_filter import enter_at_once, post_images_of
from docstore.node.write.driver import Outcome, acknowledge, effective_concern, session_write
from docstore.node.write.modification import check_updated
from docstore.node.write.search import identity_in
from docstore.query.update.direct import direct_update

_SAID_ANYWAY = frozenset((("multi", BOOL, b"\0"), ("upsert", BOOL, b"\0")))
_ONE = ("limit", INT32, b"\1\0\0\0")


Reply = bytes | Awaitable[bytes]


class _Place(NamedTuple):
    """A collection that can be written to at once, and what of it this node owns; under which session and statement id;
    when that is acknowledged.
    """

    node: DataNode
    collection: Collection
    owned: Predicate | None
    session: SessionWrite | None
    stmt_id: int | None
    concern: WriteConcern

    def find(self, identity: Value) -> tuple[int, bytes] | None:
        found = self.collection.look_up(self.node.engine, identity)
        return found if found is None or self.owned is None or self.owned.matches(found[1]) else None

    def unit(self) -> WriteUnitOfWork:
        return self.node.store.unit(session=self.session)


def _place(context: Context, node: DataNode, arguments: Arguments) -> _Place | None:
    """Where to write. Errors: those of the session and of the write concern; StaleConfig."""
    store = node.store
    if store.write_lock.held or "let" in arguments:
        return None
    collection = store.collection(context.namespace)
    if collection is None or collection.id_index.collation is not None or collection.options.validator is not None:
        return None
    row = session_write(context, node)
    stmt_id = None
    if row is not None:
        session = context.session
        if session is None or session.stmt_ids == () or store.sessions.state(row.lsid).txn_number == row.txn_number:
            return None
        stmt_id = session.statement_id(0)
    concern = effective_concern(context, node)
    at_once, owned = enter_at_once(node.shard_filter, context.namespace, context.shard_version, write=True)
    return _Place(node, collection, owned, row, stmt_id, concern) if at_once else None


def insert_one(context: Context, node: DataNode, arguments: Arguments, documents: list[bytes]) -> Reply | None:
    """Insert a document that is stored as it came."""
    raw = documents[0]
    if len(documents) > 1 or len(raw) > MAX_DOCUMENT_BYTES or not is_storable(raw):
        return None
    place = _place(context, node, arguments)
    if place is None or (len(raw) > LARGE_BYTES and place.collection.secondary):
        return None
    outcome = Outcome()
    unit = place.unit()
    try:
        unit.insert(place.collection, raw, stmt_id=place.stmt_id)
        outcome.last = unit.commit()
        outcome.n = 1
    except CommandError as error:
        unit.abort()
        outcome.fail(0, error)
    return acknowledge(context, outcome, place.concern)


def update_one(context: Context, node: DataNode, arguments: Arguments, statements: list[bytes]) -> Reply | None:
    """`$set` and `$inc` fields of the document with an `_id`."""
    if len(statements) > 1:
        return None
    given = elements(statements[0])
    if len(given) < 2 or given[0][:2] != ("q", OBJECT) or given[1][:2] != ("u", OBJECT):
        return None
    if not _SAID_ANYWAY.issuperset(given[2:]):
        return None
    identity = identity_in(given[0][2])
    update = None if identity is None else direct_update(given[1][2])
    place = None if update is None else _place(context, node, arguments)
    if identity is None or update is None or place is None:
        return None
    if len(statements[0]) > LARGE_BYTES and place.collection.secondary:
        return None
    rules = post_images_of(node.shard_filter, context.namespace, context.shard_version)
    if rules is not None and rules.concerned(update.names):
        return None
    outcome = Outcome(modified=0)
    found = place.find(identity)
    if found is None:
        return acknowledge(context, outcome, place.concern)
    record_id, before = found
    after = update.change(before)
    if after is None:
        return None
    unit = place.unit()
    try:
        if after is not before:
            check_updated(after)
            unit.replace(place.collection, record_id, before, after, stmt_id=place.stmt_id, changed=update.names)
            outcome.last = unit.commit()
            outcome.modified = 1
        outcome.n = 1
    except CommandError as error:
        unit.abort()
        outcome.fail(0, error)
    return acknowledge(context, outcome, place.concern)


def delete_one(context: Context, node: DataNode, arguments: Arguments, statements: list[bytes]) -> Reply | None:
    """Delete the document with an `_id`."""
    if len(statements) > 1:
        return None
    given = elements(statements[0])
    if len(given) != 2 or given[0][:2] != ("q", OBJECT) or given[1] != _ONE:
        return None
    identity = identity_in(given[0][2])
    place = None if identity is None else _place(context, node, arguments)
    if identity is None or place is None:
        return None
    outcome = Outcome()
    found = place.find(identity)
    if found is None:
        return acknowledge(context, outcome, place.concern)
    unit = place.unit()
    try:
        unit.remove(place.collection, *found, stmt_id=place.stmt_id)
        outcome.last = unit.commit()
        outcome.n = 1
    except CommandError as error:
        unit.abort()
        outcome.fail(0, error)
    return acknowledge(context, outcome, place.concern)
