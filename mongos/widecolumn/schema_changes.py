"""Changes of keyspaces and column families through a router.

The primary shard of a keyspace has the definitions; column families are spread over all shards from their creation, and
the shards that own rows follow the definitions there.
"""

from __future__ import annotations

from typing import Any

import bson

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.definition_commands import keyspace_of
from docstore.widecolumn.model.errors import family_absent
from docstore.widecolumn.model.storage_conf import parse_storage_conf
from mongos.router import Router, router_of
from mongos.routing.cache import version_for
from mongos.routing.requests import forwarded, versioned
from mongos.routing.shards import Shard, each
from mongos.routing.targeting import primary_of
from mongos.widecolumn.comparator_registry import AnyComparator
from mongos.widecolumn.definition_cache import stored_schema
from mongos.widecolumn.owners import home_of, owners_of
from mongos.widecolumn.shard_requests import at_home, keyspace_routed, prefer_nearest, routed

_SPREAD = {"spread": True}


async def create_keyspace(context: Context, arguments: Arguments) -> Result:
    """On the shard that becomes the primary of the database."""
    keyspace = keyspace_of(arguments.value, arguments.given())
    shard = await place_keyspace(router_of(context), keyspace.name)
    return (await shard.command("admin", forwarded(context.raw))).relayed()


async def place_keyspace(router: Router, keyspace: str) -> Shard:
    """The shard of a keyspace, whose database is made when it is not there."""
    namespace = f"{keyspace}.system.keyspace"
    await router.cache.refresh(namespace)
    await router.ensure_database(namespace)
    return await router.shards.get(primary_of(await router.cache.get(namespace)))


async def drop_keyspace(context: Context, arguments: Arguments) -> Result:
    """Everywhere, and what the config servers know of its database."""
    del arguments
    await at_home(context, bson.encode({"describeKeyspace": 1}), repeatable=True)
    await forget_keyspace(router_of(context), context.db)
    return {}


async def forget_keyspace(router: Router, name: str) -> None:
    """Drop a keyspace on all shards."""
    await router.config.command("admin", requests.drop_database(name), repeatable=True)
    router.cache.forget_database(name)
    router.definitions.forget(name)


async def describe_keyspaces(context: Context, arguments: Arguments) -> Result:
    """Of all shards, each keyspace as the shard of its definitions shows it."""
    del arguments
    prefer_nearest(context)
    router = router_of(context)

    async def one(shard: Shard) -> list[tuple[str, dict[str, Any]]]:
        answer = await shard.command(
            "admin", forwarded(context.raw), read_preference=context.read_preference, repeatable=True
        )
        return [(shard.name, keyspace) for keyspace in answer.decoded()["keyspaces"]]

    listed = [found for each_found in await each(await router.shards.all(), one) for found in each_found]
    shown: list[dict[str, Any]] = []
    for shard, keyspace in listed:
        routing = await router.cache.get(f"{keyspace['keyspace']}.system.keyspace")
        if routing.primary in (None, shard):
            shown.append(keyspace)
    return {"keyspaces": sorted(shown, key=lambda keyspace: str(keyspace["keyspace"]))}


async def create_family(context: Context, arguments: Arguments) -> Result:
    """Spread over the shards."""
    router = router_of(context)
    keyspace_routed(context)
    await allow_spreading(router, context.db)
    reply = (await at_home(context, forwarded(context.raw, add=_SPREAD), repeatable=False)).relayed()
    router.cache.forget(f"{context.db}.{arguments.value}")
    return reply


async def allow_spreading(router: Router, keyspace: str) -> None:
    """Have column families of the keyspace spread. Errors: NamespaceNotFound."""
    home_of(await router.cache.get(f"{keyspace}.system.keyspace"))
    await router.config.command("admin", requests.enable_sharding(keyspace), repeatable=True)


async def alter_family(context: Context, arguments: Arguments) -> Result:
    """On the shard of the definitions; the others follow."""
    reply = (await at_home(context, forwarded(context.raw), repeatable=False)).relayed()
    await copy_definition(router_of(context), context.db, arguments.value)
    return reply


async def copy_definition(router: Router, keyspace: str, name: str) -> None:
    """Have the shards that own rows of a column family follow its definition.

    A shard to which rows have moved meanwhile may have an older one from where they were: the routing is read again.
    """
    namespace = f"{keyspace}.{name}"
    told: set[str] = set()
    while True:
        routing = await router.cache.refresh(namespace)
        home, *others = owners_of(routing)
        left = [other for other in others if other not in told]
        if not left:
            return
        schema = await stored_schema(router, keyspace, home)
        found = next((each for each in schema.get("families", ()) if each["name"] == name), None)
        if found is None:
            raise family_absent(name)
        command = requests.hold_column_family(
            namespace, found["uuid"], found["options"].raw, schema["keyspace"].raw
        )  # fmt: skip
        for other in left:
            await (await router.shards.get(other)).command("admin", command, repeatable=True)
        told.update(left)


async def drop_family(context: Context, arguments: Arguments) -> Result:
    """Everywhere."""
    await drop_family_of(router_of(context), context.db, arguments.value)
    return {}


async def drop_family_of(router: Router, keyspace: str, name: str) -> None:
    """Drop a column family on all shards. Errors: NamespaceNotFound."""
    namespace = f"{keyspace}.{name}"
    await router.cache.refresh(namespace)

    async def attempt(routing: Routing) -> None:
        home = home_of(routing)
        schema = await stored_schema(router, keyspace, home)
        if not any(each["name"] == name for each in schema.get("families", ())):
            raise family_absent(name)
        if routing.collection is not None:
            await router.config.command("admin", requests.drop_collection(namespace), repeatable=True)
            return
        body = versioned(bson.encode({"dropColumnFamily": name}), version_for(routing, home))
        await (await router.shards.get(home)).command(keyspace, body)

    try:
        await router.cache.routed(namespace, attempt)
    finally:
        router.cache.forget(namespace)


async def truncate(context: Context, arguments: Arguments) -> Result:
    """On every shard that may have rows. All of them must do it under one routing, and a shard that is moving rows away
    gives that up, so no row gets past it.
    """
    del arguments
    body = forwarded(context.raw)

    async def attempt(routing: Routing) -> bytes:
        answers = await router_of(context).ask(context, routing, owners_of(routing), body)
        return answers[0].relayed()

    return await routed(context, attempt)


async def load_storage_conf(context: Context, arguments: Arguments) -> Result:
    """All keyspaces of a text on one shard, which makes all of them or none; their column families are spread."""
    router = router_of(context)
    loaded = parse_storage_conf(arguments.value, AnyComparator())
    homes = set()
    for keyspace in loaded.keyspaces:
        routing = await router.cache.refresh(f"{keyspace.name}.system.keyspace")
        if routing.primary is not None:
            homes.add(routing.primary)
    if len(homes) > 1:
        raise CommandError(
            Code.IllegalOperation,
            f"the keyspaces of the text live on several shards ({', '.join(sorted(homes))}): load them one by one",
        )
    home = next(iter(homes), None)
    for keyspace in loaded.keyspaces:
        command = requests.enable_sharding(keyspace.name, home)
        await router.config.command("admin", command, repeatable=True)
        routing = await router.cache.refresh(f"{keyspace.name}.system.keyspace")
        home = primary_of(routing)
    if home is None:
        return {"keyspaces": [], "columnFamilies": [], "warnings": list(loaded.warnings)}
    shard = await router.shards.get(home)
    reply = (await shard.command("admin", forwarded(context.raw, add=_SPREAD))).relayed()
    for keyspace in loaded.keyspaces:
        router.cache.forget_database(keyspace.name)
    return reply
