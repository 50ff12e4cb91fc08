"""Index builds and drops, and changed options, on this shard: as the client's command asks, for a collection that is
spread over several.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, document_to_python, elements, from_python, get_field
from docstore.collection.collection import Collection
from docstore.commands.context import Context
from docstore.commands.declaration import in_one_piece
from docstore.commands.envelope import open_request
from docstore.errors import Code, CommandError
from docstore.node.ddl.index_choice import chosen_indexes, drops_all
from docstore.node.ddl.shard_key_rules import droppable, shard_key_of
from docstore.sharding.ddl.operation import HOLDS, Operation
from docstore.wire.message import Message

if TYPE_CHECKING:
    from mongod.migration.shard import Shard


async def as_asked(shard: Shard, context: Context, operation: Operation) -> dict[str, Any]:
    """Run the client's command here; its reply."""
    _collection(shard, operation)
    request = operation.request["request"]
    assert isinstance(request, RawBSONDocument), "a request is kept raw"
    body = document_from([*elements(bytes(request.raw)), ("$db", *from_python(operation.database))])
    inner, arguments = open_request(Message(0, 0, body), context.connection, context.services, context.started)
    inner_context = context.derived(
        command=inner.command, raw=inner.raw, db=inner.db, namespace=inner.namespace, session=None,
        write_concern=inner.write_concern, explicit_write_concern=inner.explicit_write_concern,
    )  # fmt: skip
    answered = inner.command.run(inner_context, arguments)
    reply = in_one_piece(await answered if isinstance(answered, Awaitable) else answered)
    return document_to_python(reply) if isinstance(reply, bytes) else dict(reply)


async def create(shard: Shard, context: Context, operation: Operation) -> dict[str, Any]:
    """Build the indexes, having noted which there were before."""
    hold, collection = shard.shard_filter.holds.standing(operation.id), _collection(shard, operation)
    if hold.indexes is None:
        noted = replace(hold, indexes=tuple(collection.indexes))
        shard.records.write((HOLDS, noted.document()))
    return await as_asked(shard, context, operation)


async def undo(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Drop the indexes that `create` has built. The operation still holds the collection, so no others were added."""
    hold = shard.shard_filter.holds.standing(operation.id)
    collection = shard.node.store.collection(operation.namespace)
    if hold.indexes is None or collection is None:
        return {}
    requested_names = {index.get("name") for index in operation.request["request"]["indexes"]}
    built_names = [name for name in collection.indexes if name not in hold.indexes and name in requested_names]
    _drop(shard, collection, built_names)
    return {}


async def choose(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Return the names of the indexes to drop. Errors: those of `chosen_indexes`; CannotDropShardKeyIndex."""
    collection = _collection(shard, operation)
    selector = get_field(operation.request["request"].raw, "index")
    assert selector is not None, "the router has checked the command"
    key = await shard_key_of(shard.node, operation.namespace)
    chosen = droppable(key, collection, chosen_indexes(collection, selector), every=drops_all(selector))
    return {"indexes": [index.name for index in chosen]}


async def drop(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Drop those that are meant and are here."""
    collection = _collection(shard, operation)
    reply: dict[str, Any] = {"nIndexesWas": len(collection.counted_indexes)}
    selector = get_field(operation.request["request"].raw, "index")
    if selector is not None and drops_all(selector):
        reply["msg"] = "non-_id indexes dropped for collection"
    _drop(shard, collection, [name for name in operation.facts["indexes"] if name in collection.indexes])
    return reply


def _drop(shard: Shard, collection: Collection, names: list[str]) -> None:
    store = shard.node.store
    with store.unit() as unit:
        for name in names:
            store.drop_index(unit, collection, name)
        unit.commit()


def _collection(shard: Shard, operation: Operation) -> Collection:
    """The collection here, of the incarnation that is meant. NamespaceNotFound."""
    collection = shard.node.store.collection(operation.namespace)
    if collection is None or collection.uuid.bytes != bytes(operation.facts["uuid"]):
        raise CommandError(Code.NamespaceNotFound, f"ns not found {operation.namespace}")
    return collection
