"""Creation of column families that are sharded from their beginning.

The primary shard of the keyspace does it, in an order in which no row reaches a shard that does not own it:

1. it tries the change and undoes it, so that an invalid one is refused before any effect;
2. it drops the remains of failed attempts everywhere;
3. the config servers give the column family its chunks and its identity;
4. the shards that own some of them create it;
5. the primary shard creates it, which makes it visible. Before that it can only be created anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID, uuid4

from bson.binary import Binary

from docstore.bson import document_to_python
from docstore.collection.catalog.options import CollectionOptions, options_of
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from docstore.node.node import node_of
from docstore.sharding import requests
from docstore.sharding.token_ring import SHARD_KEY
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.node.keyspaces import MARK, wide_of
from docstore.widecolumn.node.schema_changes import SchemaChange, change_schema, check_change
from mongod.ddl.coordinators import coordinators_of
from mongod.migration.shard import Shard, shard_of

HOLD_SECONDS = 10.0
"""The time limit for another shard."""


async def change_spread(
    context: Context, families: Iterable[tuple[Keyspace, ColumnFamily]], act: Callable[[SchemaChange], None]
) -> dict[str, Any]:
    """Like `change_schema`, where `act` creates the families that do not exist yet; these are sharded.

    Errors: those of `act`, of the config servers and of the other shards.
    """
    shard, wide, coordinators = shard_of(context), wide_of(node_of(context)), coordinators_of(context)
    async with shard.making_families, AsyncExitStack() as claims:
        check_change(context, act)
        identities: dict[str, UUID] = {}
        for keyspace, family in families:
            namespace = f"{keyspace.name}.{family.name}"
            if wide.find(keyspace.name, family.name) is None:
                await coordinators.drop_if_sharded(context, namespace)
                await claims.enter_async_context(coordinators.alone(context, namespace))
                identities[namespace] = await _prepare(shard, keyspace, family)
        return await change_schema(context, act, identities)


async def _prepare(shard: Shard, keyspace: Keyspace, family: ColumnFamily) -> UUID:
    namespace = f"{keyspace.name}.{family.name}"
    shard.node.replication.check_write()
    config = shard.config_servers()
    version = (await shard.shard_filter.refresh(namespace)).routing.database
    if version is None:
        raise CommandError(Code.NamespaceNotFound, f"the database of {namespace} has been dropped")
    identity = uuid4()
    commit = requests.commit_shard_collection(
        namespace, SHARD_KEY, False, Binary.from_uuid(identity), shard.name, version,
        partitioner=keyspace.partitioner.name, spread=True,
    )  # fmt: skip
    answer = document_to_python(await config.command(commit))
    shard.shard_filter.forget(namespace)
    options = options_of({"columnFamily": family.to_options()})
    await _have_held(
        shard, answer["shards"], namespace, identity, options, options_of({"keyspace": keyspace.to_options()})
    )
    return identity


async def copy_definition(context: Context, keyspace: str, name: str) -> None:
    """Send the column family's definition to the shards that own rows of it."""
    shard, node = shard_of(context), node_of(context)
    namespace = f"{keyspace}.{name}"
    family, mark = node.store.collection(namespace), node.store.collection(f"{keyspace}.{MARK}")
    routing = (await shard.shard_filter.refresh(namespace)).routing
    if family is None or mark is None or routing.collection is None:
        return
    owners = sorted(routing.collection.chunks.shards)
    await _have_held(shard, owners, namespace, family.uuid, family.options, mark.options)


async def drop_everywhere(context: Context, namespace: str) -> None:
    """Drop a column family on the other shards after it was dropped here."""
    await coordinators_of(context).drop_if_sharded(context, namespace)


async def _have_held(
    shard: Shard, owners: Iterable[str], namespace: str, identity: UUID,
    options: CollectionOptions, keyspace: CollectionOptions,
) -> None:  # fmt: skip
    command = requests.hold_column_family(namespace, Binary.from_uuid(identity), options.raw, keyspace.raw)
    for name in owners:
        if name == shard.name:
            continue
        client = await shard.client_of(name)
        try:
            await client.command("admin", command, retry=True, timeout=HOLD_SECONDS)
        except NetworkError as error:
            raise CommandError(error.code, f"{name} does not make {namespace}: {error}") from error
        finally:
            await client.close()
