"""_shardsvrShardCollection: see `docstore.sharding.requests.shard_collection`."""

from __future__ import annotations

from typing import Any

import bson
from bson.binary import Binary

from docstore.bson import document_to_python
from docstore.collection.collection import Collection, Index
from docstore.collection.index.spec import parse_index_spec
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.ddl.catalog_changes import make_collection
from docstore.sharding import requests
from docstore.sharding.key import ShardKey
from docstore.sharding.token_ring import SHARD_KEY
from mongod.migration.changes import log
from mongod.migration.range_cloner import cloner_of
from mongod.migration.ranges import serves
from mongod.migration.shard import Shard, shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    namespace: str = arguments.value
    key = ShardKey.parse(document_to_python(arguments["key"]))
    if split_namespace(namespace)[1].startswith("system.") or split_namespace(namespace)[0] in ("admin", "local"):
        raise CommandError(Code.IllegalOperation, f"{namespace} cannot be sharded")
    await log(shard, "shardCollection.start", namespace, {"shardKey": key.document(), "primary": shard.name})
    collection = _prepare(shard, namespace, key, arguments["unique"])
    await shard.records.committed(shard.node.store.last_optime)
    uuid = Binary.from_uuid(collection.uuid)
    cloner = cloner_of(shard.node, collection)
    partitioner = None if cloner is None else cloner.partitioner(collection)
    await shard.config_servers().command(
        requests.commit_shard_collection(
            namespace, key.document(), arguments["unique"], uuid, shard.name, partitioner=partitioner
        )
    )
    shard.shard_filter.forget(namespace)
    return {"collectionsharded": namespace, "collectionUUID": uuid}


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
                f"can't shard collection '{collection.ns}' with unique index on {dict(index.fields)}: uniqueness can't "
                f"be maintained across unequal shard keys",
            )


def _is_unique_by(index: Index, key: ShardKey) -> bool:
    return (index.unique or index.is_id) and len(index.fields) == len(key.fields)


COMMAND = Command(
    "_shardsvrShardCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("key", Type.OBJECT, required=True, internal=True),
        Parameter("unique", Type.BOOL, default=False, internal=True),
    ),
    help="make a collection of this shard ready to be sharded and have it committed",
)
