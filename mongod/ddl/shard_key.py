"""Preparation of a collection for sharding: checks or creates the collection and an index that serves the shard key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
from bson.binary import Binary
from bson.int64 import Int64

from docstore.collection.collection import Collection, Index
from docstore.collection.index.spec import parse_index_spec
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.ddl.shard_key_rules import serves
from docstore.query.value.notation import display_document
from docstore.sharding.ddl.operation import Operation
from docstore.sharding.key import ShardKey
from docstore.sharding.token_ring import SHARD_KEY
from mongod.ddl.finding import key_of
from mongod.migration.range_cloner import cloner_of

if TYPE_CHECKING:
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from mongod.migration.shard import Shard


async def prepare(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """`{uuid, [partitioner]}` of the collection. Errors: see `docstore.sharding.requests.shard_collection`."""
    collection = _prepare(shard, operation.namespace, key_of(operation), operation.request["unique"])
    reply: dict[str, Any] = {"uuid": Binary.from_uuid(collection.uuid)}
    cloner = cloner_of(shard.node, collection)
    if cloner is not None:
        reply["partitioner"] = cloner.partitioner(collection)
    return reply


def tell_sharded(shard: Shard, operation: Operation, unit: WriteUnitOfWork) -> None:
    """Log the change stream event of a collection that has been sharded."""
    namespace, request = operation.namespace, operation.request
    collection = shard.node.store.collection(namespace)
    if collection is None or collection.options.family is not None:
        return
    details = {"shardKey": key_of(operation).document(), "unique": request["unique"]}
    details |= {"numInitialChunks": Int64(0), "presplitHashedZones": False}
    event = bson.encode({"shardCollection": namespace, **details})
    unit.noop(bson.encode({"msg": {"shardCollection": namespace}}), collection, event)


def _prepare(shard: Shard, namespace: str, key: ShardKey, unique: bool) -> Collection:
    """The collection with an index that serves the key; both are made where there are no documents yet."""
    node = shard.node
    node.replication.check_write()
    collection = node.store.collection(namespace) or make_collection(node.store, namespace)
    if collection.options.family is not None:
        if key.document() != SHARD_KEY or unique:
            raise CommandError(Code.InvalidOptions, f"{namespace} is a column family: its shard key is {SHARD_KEY}")
        return collection
    _check_collection(collection, key)
    if any(serves(index, key) and (not unique or _is_unique_by(index, key)) for index in collection.indexes.values()):
        return collection
    if collection.count:
        raise CommandError(
            Code.InvalidOptions,
            f"Please create an index that starts with the proposed shard key before sharding {namespace}",
        )
    name = "_".join(f"{field}_1" for field in key.fields)
    spec = {"v": 2, "key": key.document(), "name": name, **({"unique": True} if unique else {})}
    with node.store.unit() as unit:
        node.store.create_index(unit, collection, parse_index_spec(bson.encode(spec)))
        unit.commit()
    return collection


def _check_collection(collection: Collection, key: ShardKey) -> None:
    """Refuse a collection of documents that cannot be sharded by the key."""
    if collection.options.capped:
        raise CommandError(Code.InvalidOptions, "can't shard a capped collection")
    if collection.collation is not None:
        raise CommandError(Code.BadValue, f"{collection.ns} has a default collation, and shard keys compare bytes")
    for index in collection.indexes.values():
        if index.unique and not index.is_id and not key.is_prefix_of(index.fields):
            raise CommandError(
                Code.InvalidOptions,
                f"can't shard collection '{collection.ns}' with unique index on "
                f"{display_document(index.spec.key)}: uniqueness can't be maintained across unequal "
                "shard keys",
            )


def _is_unique_by(index: Index, key: ShardKey) -> bool:
    return (index.unique or index.is_id) and len(index.fields) == len(key.fields)
