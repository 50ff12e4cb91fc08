"""The participants of a DDL operation, and the config servers' catalog entries for it.

They are read before the operation takes any hold, and again when it has all of them. Errors: StaleConfig or
StaleDbVersion if the sender's routing is out of date, or those of the config servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bson.binary import Binary

from docstore.bson import document_to_python
from docstore.collection.catalog.views import is_view
from docstore.errors import Code, CommandError
from docstore.sharding.ddl.coordinator import Findings, NothingToDo
from docstore.sharding.ddl.operation import Kind, Operation
from docstore.sharding.key import ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.version import NO_CHUNKS, ShardVersion, stale_config

if TYPE_CHECKING:
    from mongod.migration.shard import Shard


async def find(shard: Shard, operation: Operation) -> Findings | NothingToDo:
    """Return the participants; see the module."""
    if operation.kind is Kind.DROP_DATABASE:
        return await _database(shard, operation)
    if operation.kind is Kind.MOVE_PRIMARY:
        return await _moved_database(shard, operation)
    if operation.kind is Kind.RENAME_COLLECTION:
        return await _renamed(shard, operation)
    routing = await _routing(shard, operation.namespace)
    match operation.kind:
        case Kind.DROP_COLLECTION:
            return await _dropped_collection(shard, operation, routing)
        case Kind.SHARD_COLLECTION:
            return _collection_to_shard(shard, operation, routing)
        case _:
            return _changed_collection(shard, operation, routing)


async def _database(shard: Shard, operation: Operation) -> Findings | NothingToDo:
    name, version = operation.namespace, operation.request["databaseVersion"]
    records = await _config_rows(shard, "databases", {"_id": name})
    if not records or records[0]["version"]["uuid"] != version["uuid"]:
        return NothingToDo({"dropped": False})
    if records[0]["primary"] != shard.name:
        raise CommandError(Code.StaleDbVersion, f"{shard.name} is not the primary shard of {name}")
    collections = [
        {"ns": row["_id"], "uuid": row["uuid"], "timestamp": row["timestamp"]} for row in await _sharded_in(shard, name)
    ]
    facts = {"databaseVersion": records[0]["version"], "collections": collections, "primary": shard.name}
    return Findings(await _all_shards(shard), facts)


async def _moved_database(shard: Shard, operation: Operation) -> Findings | NothingToDo:
    name, to = operation.namespace, operation.request["to"]
    records = await _config_rows(shard, "databases", {"_id": name})
    if not records or records[0]["version"]["uuid"] != operation.request["databaseVersion"]["uuid"]:
        raise CommandError(Code.StaleDbVersion, f"the database {name} is another one by now")
    if records[0]["primary"] == to:
        return NothingToDo({"primary": to})
    if records[0]["primary"] != shard.name:
        raise CommandError(Code.StaleDbVersion, f"{shard.name} is not the primary shard of {name}")
    if any(collection.options.keyspace is not None for collection in shard.node.store.catalog.in_database(name)):
        raise CommandError(Code.CommandNotSupported, f"{name} is a keyspace: its primary shard does not change")
    sharded = [row["_id"] for row in await _sharded_in(shard, name)]
    return Findings((shard.name, to), {"from": shard.name, "to": to, "sharded": sorted(sharded)})


async def _renamed(shard: Shard, operation: Operation) -> Findings | NothingToDo:
    """`sourceUuid` and `targetUuid`: of those that are sharded; `uuid`: of the collection that gets the name."""
    request = operation.request
    source, target = [await _routing(shard, request[name]) for name in ("source", "to")]
    collection = source.collection
    if collection is None and target.collection is not None and target.collection.uuid == request["uuid"]:
        return NothingToDo({"renamed": True})
    for routing, name in ((source, "sourceVersion"), (target, "targetVersion")):
        received = ShardVersion.from_document(request[name])
        if received.epoch != routing.version().epoch:
            raise stale_config(routing.namespace, received, routing.version(), shard.name)
    store = shard.node.store
    if is_view(store, source.namespace):
        raise CommandError(Code.CommandNotSupportedOnView, f"cannot rename view: {source.namespace}")
    if is_view(store, target.namespace):
        raise CommandError(Code.NamespaceExists, f"a view already exists with that name: {target.namespace}")
    stored = store.collection(source.namespace)
    if stored is None and collection is None:
        raise CommandError(Code.NamespaceNotFound, f"Source collection {source.namespace} does not exist")
    target_exists = target.collection is not None or store.collection(target.namespace) is not None
    if target_exists and not request["dropTarget"]:
        raise CommandError(Code.NamespaceExists, "target namespace exists")
    assert stored is not None or collection is not None
    uuid = (
        Binary.from_uuid(stored.uuid) if collection is None and stored is not None else collection and collection.uuid
    )
    facts = {
        "source": source.namespace, "target": target.namespace, "uuid": uuid,
        "sourceUuid": collection and collection.uuid, "sourceTimestamp": collection and collection.timestamp,
        "targetUuid": target.collection and target.collection.uuid,
        "targetTimestamp": target.collection and target.collection.timestamp, "primary": shard.name,
    }  # fmt: skip
    return Findings(await _all_shards(shard), facts)


async def _routing(shard: Shard, namespace: str) -> Routing:
    """Return the routing of the config servers. Errors: StaleDbVersion if this is not the primary shard of its
    database.
    """
    shard.shard_filter.forget(namespace)
    routing = (await shard.shard_filter.refresh(namespace)).routing
    if routing.primary != shard.name or routing.database is None:
        raise CommandError(Code.StaleDbVersion, f"{shard.name} is not the primary shard of the database of {namespace}")
    return routing


async def _sharded_in(shard: Shard, database: str) -> list[dict[str, Any]]:
    return await _config_rows(shard, "collections", {"_id": {"$gt": f"{database}.", "$lt": f"{database}/"}})


async def _dropped_collection(shard: Shard, operation: Operation, routing: Routing) -> Findings | NothingToDo:
    collection = routing.collection
    if collection is None or bytes(collection.uuid) != bytes(operation.request["uuid"]):
        return NothingToDo({"dropped": False})
    facts = {"uuid": collection.uuid, "timestamp": collection.timestamp, "primary": shard.name}
    return Findings(await _all_shards(shard), facts)


def _collection_to_shard(shard: Shard, operation: Operation, routing: Routing) -> Findings | NothingToDo:
    collection, request = routing.collection, operation.request
    if collection is not None:
        if (collection.key, collection.unique) != (key_of(operation), request["unique"]):
            raise CommandError(
                Code.AlreadyInitialized,
                f"{operation.namespace} is already sharded, by {collection.key}",
            )
        return NothingToDo({"collectionsharded": operation.namespace, "collectionUUID": collection.uuid})
    assert routing.database is not None, "its primary is known"
    return Findings((shard.name,), {"databaseVersion": routing.database.to_document()})


def _changed_collection(shard: Shard, operation: Operation, routing: Routing) -> Findings:
    collection = routing.collection
    epoch = operation.request["epoch"]
    if collection is None or collection.epoch != epoch:
        raise stale_config(operation.namespace, ShardVersion(epoch, NO_CHUNKS), routing.version(), shard.name)
    return Findings(owners(collection, shard), {"primary": shard.name, "uuid": collection.uuid})


def owners(collection: CollectionRouting, primary: Shard) -> tuple[str, ...]:
    """Return the shards with chunks, and the primary shard, which shows the definition in listings."""
    return tuple(sorted(collection.chunks.shards | {primary.name}))


async def _all_shards(shard: Shard) -> tuple[str, ...]:
    return tuple(row["_id"] for row in await _config_rows(shard, "shards", {}))


async def _config_rows(shard: Shard, collection: str, condition: Mapping[str, Any]) -> list[dict[str, Any]]:
    command = {
        "find": collection, "filter": condition, "sort": {"_id": 1}, "readConcern": {"level": "majority"},
        "singleBatch": True, "batchSize": 1_000_000,
    }  # fmt: skip
    reply = await shard.config_servers().command(command, db="config")
    rows: list[dict[str, Any]] = document_to_python(reply)["cursor"]["firstBatch"]
    return rows


def key_of(operation: Operation) -> ShardKey:
    """Return the shard key that the request names."""
    key: ShardKey = ShardKey.parse(operation.request["key"])
    return key
