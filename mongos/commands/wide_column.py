"""The commands of the wide-column mode: each goes to the shard on which the keyspace lives, all of it.

A keyspace is not spread over shards: its column families are on the primary shard of its database. Always true of what
is forwarded: a write carries the timestamp that it got here, so that sending it again after a failover changes nothing;
reads go to the nearest member, which asks the others that the consistency level wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import Any

import bson
from bson.int64 import Int64

from docstore.commands import wide_column as parameters
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import PRIMARY, ReadMode, ReadPreference
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.routing import Routing
from docstore.wide.consistency import Level, level_named
from docstore.wide.definitions import keyspace_of
from docstore.wide.errors import keyspace_absent, unavailable
from docstore.wide.registry import Registry
from docstore.wide.storage_conf import parse_storage_conf
from mongos.router import Router, router_of
from mongos.routing.requests import Answer, forwarded
from mongos.routing.shards import Shard, each
from mongos.routing.targeting import primary_of

_NEAREST = ReadPreference(ReadMode.NEAREST)
_FAILOVER_SECONDS = 5.0
_NO_PRIMARY = (Code.FailedToSatisfyReadPreference, Code.HostUnreachable, Code.MaxTimeMSExpired)


class _Timestamps:
    """Microseconds since 1970, each above the one before."""

    last = 0

    def next(self) -> int:
        self.last = max(self.last + 1, int(time() * 1_000_000))
        return self.last


TIMESTAMPS = _Timestamps()


async def _home(context: Context, body: bytes, *, repeatable: bool) -> Answer:
    """The answer of the shard on which the request's keyspace lives. Errors: NamespaceNotFound."""
    router = router_of(context)
    if not context.namespace:
        context.namespace = f"{context.db}.system.keyspace"

    async def attempt(routing: Routing) -> Answer:
        if routing.primary is None:
            raise keyspace_absent(context.db)
        (answer,) = await router.ask(context, routing, [primary_of(routing)], body, repeatable=repeatable)
        return answer

    return await router.routed(context, attempt)


async def read(context: Context, arguments: Arguments) -> Result:
    """To the nearest member."""
    del arguments
    if context.read_preference is PRIMARY:
        context.read_preference = _NEAREST
    return (await _home(context, forwarded(context.raw), repeatable=True)).relayed()


async def write(context: Context, arguments: Arguments) -> Result:
    """To the primary, with a timestamp. Errors: Unavailable when there is none."""
    level = level_named(arguments["consistency"])
    add: dict[str, Any] = {} if "timestamp" in arguments else {"timestamp": Int64(TIMESTAMPS.next())}
    router = router_of(context)
    asked = context.deadline
    limit = router.clock() + _FAILOVER_SECONDS
    context.deadline = limit if asked is None else min(limit, asked)
    body = forwarded(context.raw, add=add)
    for name, documents in context.sequences.items():
        body = forwarded(body, add={name: [bson.raw_bson.RawBSONDocument(each) for each in documents]})
    try:
        return (await _home(context, body, repeatable=True)).relayed()
    except CommandError as error:
        if error.code not in _NO_PRIMARY or "wcException" in error.extra:
            raise
        raise _unavailable(level) from error


def _unavailable(level: Level) -> CommandError:
    return unavailable(level.value, 1, 0, write=True)


async def schema(context: Context, arguments: Arguments) -> Result:
    """To the primary, once."""
    del arguments
    return (await _home(context, forwarded(context.raw), repeatable=False)).relayed()


async def create_keyspace(context: Context, arguments: Arguments) -> Result:
    """On the shard that becomes the primary of the database."""
    keyspace = keyspace_of(arguments.value, arguments.given())
    router = router_of(context)
    shard = await _place(router, keyspace.name)
    return (await shard.command("admin", forwarded(context.raw))).relayed()


async def _place(router: Router, keyspace: str) -> Shard:
    """The shard of a keyspace, whose database is made when it is not there."""
    namespace = f"{keyspace}.system.keyspace"
    await router.cache.refresh(namespace)
    await router.ensure_database(namespace)
    return await router.shards.get(primary_of(await router.cache.get(namespace)))


async def drop_keyspace(context: Context, arguments: Arguments) -> Result:
    """What the config servers know of its database goes too."""
    del arguments
    await _home(context, bson.encode({"describeKeyspace": 1}), repeatable=True)
    router = router_of(context)
    await router.config.command("admin", requests.drop_database(context.db), repeatable=True)
    router.cache.forget_database(context.db)
    return {}


async def describe_keyspaces(context: Context, arguments: Arguments) -> Result:
    """Of all shards."""
    del arguments
    shards = await router_of(context).shards.all()

    async def one(shard: Shard) -> list[dict[str, Any]]:
        answer = await shard.command("admin", forwarded(context.raw), read_preference=_NEAREST, repeatable=True)
        found: list[dict[str, Any]] = answer.decoded()["keyspaces"]
        return found

    listed = [keyspace for keyspaces in await each(shards, one) for keyspace in keyspaces]
    return {"keyspaces": sorted(listed, key=lambda keyspace: str(keyspace["keyspace"]))}


async def load_storage_conf(context: Context, arguments: Arguments) -> Result:
    """All keyspaces of a text on one shard, which makes all of them or none."""
    router = router_of(context)
    loaded = parse_storage_conf(arguments.value, Registry())
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
    return (await (await router.shards.get(home)).command("admin", forwarded(context.raw))).relayed()


Run = Callable[[Context, Arguments], Any]


def _command(name: str, run: Run, help: str, taken: tuple[Parameter, ...] = (), **traits: Any) -> Command:
    role = traits.pop("role", Role.PRIMARY if run is schema else Role.SECONDARY_OK if run is read else Role.ANY)
    traits.setdefault("privilege", Privilege("find" if run is read else "insert", Resource.DATABASE))
    return Command(name, run, role=role, parameters=taken, help=help, **traits)


_OF_FAMILY: Mapping[str, Any] = {"value": Type.COLLECTION}
_CLUSTER: Mapping[str, Any] = {"admin_only": True, "privilege": Privilege("createCollection", Resource.CLUSTER)}

COMMANDS: tuple[Command, ...] = (
    _command("wcGet", read, "a column or a super column of a row", parameters.GET, **_OF_FAMILY),
    _command("wcGetSlice", read, "columns of a row", parameters.GET_SLICE, **_OF_FAMILY),
    _command("wcMultigetSlice", read, "a slice of each of many rows", parameters.MULTIGET_SLICE, **_OF_FAMILY),
    _command("wcGetRangeSlices", read, "a slice of each row of a range", parameters.GET_RANGE_SLICES, **_OF_FAMILY),
    _command("wcGetCount", read, "the number of live columns of a row", parameters.GET_COUNT, **_OF_FAMILY),
    _command("wcInsert", write, "insert a column into a row", parameters.INSERT, **_OF_FAMILY),
    _command("wcRemove", write, "delete a column, a super column or a row", parameters.REMOVE, **_OF_FAMILY),
    _command("wcBatchMutate", write, "insert and delete columns of many rows", parameters.BATCH_MUTATE),
    _command("describeKeyspace", read, "a keyspace and its column families"),
    _command(
        "createColumnFamily", schema, "make a column family", parameters.CREATE_COLUMN_FAMILY, value=Type.STRING
    ),
    _command(
        "alterColumnFamily", schema, "change a column family", parameters.ALTER_COLUMN_FAMILY, **_OF_FAMILY
    ),
    _command("dropColumnFamily", schema, "drop a column family", **_OF_FAMILY),
    _command("wcTruncate", schema, "take all rows out of a column family", **_OF_FAMILY),
    _command("dropKeyspace", drop_keyspace, "drop a keyspace", role=Role.PRIMARY),
    _command("describeKeyspaces", describe_keyspaces, "all keyspaces", role=Role.SECONDARY_OK, **_CLUSTER),
    _command(
        "createKeyspace", create_keyspace, "make a keyspace", parameters.CREATE_KEYSPACE, value=Type.STRING,
        role=Role.PRIMARY, **_CLUSTER,
    ),
    _command(
        "loadStorageConf", load_storage_conf, "make what a storage-conf.xml defines", parameters.LOAD_STORAGE_CONF,
        value=Type.STRING, role=Role.PRIMARY, **_CLUSTER,
    ),
)  # fmt: skip
