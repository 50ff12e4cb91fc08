"""A database that gets another primary shard: what is not sharded is copied there, and then goes here.

Always true: while it is copied nothing of it changes, because writes wait on the old primary shard; the copy is read at
a majority's state from after the operation held that shard. The retryable writes that were executed on it go along: no
retry is executed again on the new primary shard. The new primary shard shows the definitions of sharded
collections too, like any primary shard. The old one notes for good that this version of the database is over before it
drops anything, so no router, and no config server that lags, finds an empty database there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from docstore.bson import array_documents, document_to_python, get_field
from docstore.collection.catalog.options import parse_options
from docstore.collection.collection import Collection
from docstore.collection.index.spec import parse_index_spec
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.namespace import replicates, split_namespace
from docstore.net.errors import NetworkError
from docstore.replicaset.sync.remote import RemoteMember
from docstore.sharding.ddl.incarnations import DATABASES, dropped
from docstore.sharding.ddl.operation import HOLDS, Blocks, Operation
from docstore.sharding.ddl.requests import executed_statements
from mongod.migration.holds import stored_document
from mongod.migration.recipient.batches import remember

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

_IN_A_UNIT = 128
_SETTLED_BYTES = 4 << 20
"""A majority of the shard must have so much of the copy before more is read."""
_SECONDS = 30.0


async def copy(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """On the new primary shard. Errors: NamespaceExists where it has other documents under a name; HostUnreachable."""
    facts = operation.facts
    for definition in facts["collections"]:
        _make_room(shard, definition)
    client = await shard.client_of(facts["from"])
    try:
        source = RemoteMember(shard.pool, await client.primary(_SECONDS), timeout=_SECONDS)
        for definition in facts["collections"]:
            collection = _make(shard, definition)
            if not definition["sharded"]:
                await _copy_documents(shard, source, collection, facts["after"])
        await _copy_history(shard, source, operation)
    except NetworkError as error:
        raise CommandError(Code.HostUnreachable, f"{facts['from']} does not answer: {error}") from error
    finally:
        await client.close()
    return {}


async def undo(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Drop the copies."""
    for definition in operation.facts["collections"]:
        if not definition["sharded"] and _is_here(shard, definition):
            _drop(shard, definition["ns"])
    return {}


async def block(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Have reads wait too, on every member."""
    hold = shard.shard_filter.holds.standing(operation.id)
    shard.records.write((HOLDS, replace(hold, blocks=Blocks.UNSHARDED).document()))
    return {}


async def leave(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """On the old primary shard: all that is not sharded goes."""
    database, facts = operation.namespace, operation.facts
    known = stored_document(shard.node, DATABASES, database)
    timestamps = [facts["databaseVersion"]["timestamp"]]
    note = dropped(database, timestamps, None if known is None else document_to_python(known))
    shard.records.write((DATABASES, note))
    sharded = set(facts["sharded"])
    for namespace in shard.node.store.namespaces(database):
        if namespace not in sharded and replicates(namespace):
            _drop(shard, namespace)
            await shard.node.pause()
    return {}


def _is_here(shard: Shard, definition: Mapping[str, Any]) -> bool:
    collection = shard.node.store.collection(definition["ns"])
    return collection is not None and collection.uuid.bytes == bytes(definition["uuid"])


def _make_room(shard: Shard, definition: Mapping[str, Any]) -> None:
    """Drop what an earlier attempt has left, and what is empty."""
    collection = shard.node.store.collection(definition["ns"])
    if collection is None:
        return
    if _is_here(shard, definition):
        if not definition["sharded"]:
            _drop(shard, collection.ns)
    elif collection.count:
        raise CommandError(Code.NamespaceExists, f"{shard.name} has another collection {collection.ns}")
    else:
        _drop(shard, collection.ns)


def _drop(shard: Shard, namespace: str) -> None:
    shard.node.replication.check_write()
    with shard.node.store.unit() as unit:
        shard.node.store.drop_collection(unit, namespace)
        unit.commit()


def _make(shard: Shard, definition: Mapping[str, Any]) -> Collection:
    """The collection with its indexes; as it is where this shard holds a part of it."""
    store, namespace = shard.node.store, definition["ns"]
    shard.node.replication.check_write()
    if store.collection(namespace) is None:
        with store.unit() as unit:
            uuid = definition["uuid"].as_uuid()
            store.create_collection(unit, namespace, parse_options(bytes(definition["options"])), uuid=uuid)
            unit.commit()
    collection = store.collection(namespace)
    assert collection is not None, "it has just been made"
    for spec in map(parse_index_spec, map(bytes, definition["indexes"])):
        if not any(index.spec.holds_the_same(spec) for index in collection.indexes.values()):
            with store.unit() as unit:
                store.create_index(unit, collection, spec)
                unit.commit()
    return collection


async def _copy_history(shard: Shard, source: RemoteMember, operation: Operation) -> None:
    position = None
    while True:
        raw = await source.command("admin", executed_statements(operation, position))
        statements, after = get_field(raw, "statements"), get_field(raw, "next")
        assert statements is not None, "the reply has them"
        await remember(shard.node, array_documents(statements[1]))
        if after is None:
            return
        position = document_to_python(after[1])


async def _copy_documents(shard: Shard, source: RemoteMember, collection: Collection, after: Any) -> None:
    database, name = split_namespace(collection.ns)
    concern = {"level": "majority", "afterClusterTime": after}
    unsettled = 0
    async for documents in source.cursor(database, {"find": name, "readConcern": concern}):
        for at in range(0, len(documents), _IN_A_UNIT):
            shard.node.replication.check_write()
            with shard.node.store.unit(from_migrate=True) as unit:
                for raw in documents[at : at + _IN_A_UNIT]:
                    unit.insert(collection, raw)
                unit.commit()
            await shard.node.pause()
        unsettled += sum(map(len, documents))
        if unsettled >= _SETTLED_BYTES:
            unsettled = 0
            await shard.records.committed(shard.node.store.last_optime)
