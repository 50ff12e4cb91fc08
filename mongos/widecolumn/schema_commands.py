"""The commands of definitions through a router: each goes as it came to the shard that has them, in the steps in which
plans change them too (`mongos.widecolumn.schema_executor`).
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import bson

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.widecolumn.model.definition_commands import keyspace_of
from docstore.widecolumn.model.storage_conf import parse_storage_conf
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.shards import Shard, each
from mongos.routing.targeting import primary_of
from mongos.widecolumn.definition_cache import COMPARATORS
from mongos.widecolumn.schema_executor import RouterSchema, mark_of
from mongos.widecolumn.shard_requests import nearest

_SPREAD = {"spread": True}


async def describe_keyspace(context: Context, arguments: Arguments) -> Result:
    """Return the description of one keyspace."""
    del arguments
    request = forwarded(context.raw)
    return (await RouterSchema(context).at_home(mark_of(context.db), request, reading=True, repeatable=True)).relayed()


async def describe_keyspaces(context: Context, arguments: Arguments) -> Result:
    """Return the keyspaces of all shards, each as the shard of its definitions reports it."""
    del arguments
    router, request = router_of(context), forwarded(context.raw)

    async def one(shard: Shard) -> list[tuple[str, dict[str, Any]]]:
        answer = await shard.command("admin", request, read_preference=nearest(context), repeatable=True)
        return [(shard.name, keyspace) for keyspace in answer.decoded()["keyspaces"]]

    keyspaces: list[dict[str, Any]] = []
    listed = await each(await router.shards.all(), one)
    for shard, keyspace in chain.from_iterable(listed):
        routing = await router.cache.get(mark_of(keyspace["keyspace"]))
        if routing.primary in (None, shard):
            keyspaces.append(keyspace)
    return {"keyspaces": sorted(keyspaces, key=lambda keyspace: str(keyspace["keyspace"]))}


async def create_keyspace(context: Context, arguments: Arguments) -> Result:
    """Create the keyspace on the shard that becomes the primary of the database."""
    keyspace = keyspace_of(arguments.value, arguments.sent_values())
    shard = await RouterSchema(context).place_keyspace(keyspace.name)
    return (await shard.command("admin", forwarded(context.raw))).relayed()


async def drop_keyspace(context: Context, arguments: Arguments) -> Result:
    """Drop the keyspace on all shards."""
    del arguments
    schema = RouterSchema(context)
    await schema.at_home(mark_of(context.db), bson.encode({"describeKeyspace": 1}), repeatable=True)
    await schema.drop_keyspace(context.db)
    return {}


async def create_family(context: Context, arguments: Arguments) -> Result:
    """Create a column family, sharded."""
    request = forwarded(context.raw, add=_SPREAD)
    return (await RouterSchema(context).spread_family(context.db, arguments.value, request)).relayed()


async def alter_family(context: Context, arguments: Arguments) -> Result:
    """Alter the column family on the shard of the definitions; the others follow."""
    schema = RouterSchema(context)
    answer = await schema.at_home(context.namespace, forwarded(context.raw), repeatable=False)
    await schema.copy_definition(context.db, arguments.value)
    return answer.relayed()


async def drop_family(context: Context, arguments: Arguments) -> Result:
    """Drop the column family on all shards."""
    await RouterSchema(context).drop_family(context.db, arguments.value)
    return {}


async def truncate(context: Context, arguments: Arguments) -> Result:
    """Truncate the column family on every shard that may have rows."""
    request = forwarded(context.raw, without=("truncatedAt",))
    return (await RouterSchema(context).truncate_at_owners(context.db, arguments.value, request)).relayed()


async def load_storage_conf(context: Context, arguments: Arguments) -> Result:
    """Create all keyspaces of a text on one shard, all or none; then their column families, sharded."""
    router = router_of(context)
    loaded = parse_storage_conf(arguments.value, COMPARATORS)
    homes = set()
    for keyspace in loaded.keyspaces:
        routing = await router.cache.refresh(mark_of(keyspace.name))
        if routing.primary is not None:
            homes.add(routing.primary)
    if len(homes) > 1:
        raise CommandError(
            Code.IllegalOperation,
            f"the keyspaces of the text live on several shards ({', '.join(sorted(homes))}): load them one by one",
        )
    home = next(iter(homes), None)
    for keyspace in loaded.keyspaces:
        command = requests.enable_sharding(keyspace.name, home, keyspace=True)
        await router.config.command("admin", command, repeatable=True)
        home = primary_of(await router.cache.refresh(mark_of(keyspace.name)))
    if home is None:
        return {"keyspaces": [], "columnFamilies": [], "warnings": list(loaded.warnings)}
    reply = (await (await router.shards.get(home)).command("admin", forwarded(context.raw, add=_SPREAD))).relayed()
    for keyspace in loaded.keyspaces:
        router.cache.forget_database(keyspace.name)
    return reply
