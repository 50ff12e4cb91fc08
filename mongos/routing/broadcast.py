"""Commands about a whole collection: to the primary shard of its database, or to every shard that has a part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding.ddl.requests import change_collection, drop_database
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import ShardReply, forwarded, whole_request
from mongos.routing.shards import Shard
from mongos.routing.targeting import primary_of, unsharded_only


def holders(routing: Routing) -> list[str]:
    """The shards that hold the collection: those with chunks, and the primary, which had it first."""
    if routing.collection is None:
        return [primary_of(routing)]
    return sorted(routing.collection.chunks.shards | {primary_of(routing)})


def owners(routing: Routing) -> list[str]:
    """The shards that own some of the collection."""
    return [primary_of(routing)] if routing.collection is None else sorted(routing.collection.chunks.shards)


async def to_holders(context: Context, *, repeatable: bool = True) -> list[ShardReply]:
    """The command to all holders, side by side. Errors: the first holder's; NamespaceNotFound without a database."""
    return await _to(context, holders, repeatable)


async def to_owners(context: Context) -> list[ShardReply]:
    """The command to all owners, as `to_holders`."""
    return await _to(context, owners, repeatable=True)


async def to_every_shard(context: Context) -> list[ShardReply]:
    """Run the command on all shards that may ever have held a part of the collection, as `to_holders`."""
    names = [shard.name for shard in await router_of(context).shards.all()]

    def those(routing: Routing) -> list[str]:
        return holders(routing) if routing.collection is None else names

    return await _to(context, those, repeatable=True)


async def _to(context: Context, those: Callable[[Routing], list[str]], repeatable: bool) -> list[ShardReply]:
    body = forwarded(whole_request(context))

    async def attempt(routing: Routing) -> list[ShardReply]:
        return await router_of(context).ask(context, routing, those(routing), body, repeatable=repeatable)

    return await router_of(context).routed(context, attempt)


async def on_all_or_none(context: Context, *, repeatable: bool = True) -> dict[str, Any]:
    """Change indexes or options: for a sharded collection on all the shards that hold it, or on none.

    Errors: that of the first shard that refused, with `raw` if there are several; NamespaceNotFound without a
    database.
    """
    body = forwarded(whole_request(context))

    async def attempt(routing: Routing) -> dict[str, Any]:
        if routing.collection is None:
            shards = [primary_of(routing)]
            (answer,) = await router_of(context).ask(context, routing, shards, body, repeatable=repeatable)
            return answer.decoded()
        command = change_collection(context.namespace, routing.collection.epoch, body)
        try:
            reply = (await coordinated(context, routing, command)).decoded()
        except CommandError as error:
            replies = error.extra.pop("shards", {})
            if len(replies) > 1:
                error.extra["raw"] = await _by_host(context, replies)
            raise
        replies = reply["shards"]
        failed = next((shard_reply for shard_reply in replies.values() if not shard_reply["ok"]), None)
        if failed is not None:
            raise CommandError(failed["code"], failed["errmsg"], extra={"raw": await _by_host(context, replies)})
        first = {name: value for name, value in next(iter(replies.values())).items() if name != "ok"}
        return first if len(replies) == 1 else {"raw": await _by_host(context, replies), **first}

    return await router_of(context).routed(context, attempt)


async def _by_host(context: Context, replies: Mapping[str, Any]) -> dict[str, Any]:
    shards = router_of(context).shards
    return {(await shards.get(name)).host: reply for name, reply in replies.items()}


async def to_config_servers(context: Context) -> bytes:
    """Return the config servers' reply to the command, which is idempotent."""
    return (await router_of(context).config.command(context.db, forwarded(context.raw), repeatable=True)).relayed()


async def on_each(
    shards: Sequence[Shard], body: bytes | Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], list[BaseException]]:
    """Run an administrative command once on each shard; return the replies by shard, and the failures of the others."""
    results = await asyncio.gather(*(shard.command("admin", body) for shard in shards), return_exceptions=True)
    replies = {result.shard: result.decoded() for result in results if not isinstance(result, BaseException)}
    return replies, [result for result in results if isinstance(result, BaseException)]


def longest_lock(replies: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the reply of fsync and fsyncUnlock: that of the shard with the most locks, and all."""
    return {**max(replies.values(), key=lambda reply: reply["lockCount"], default={}), "all": replies}


async def to_primary(context: Context, what: str, *, repeatable: bool = False) -> bytes:
    """The command to the primary shard; refused for sharded collections."""
    body = forwarded(whole_request(context))

    async def attempt(routing: Routing) -> bytes:
        shard = unsharded_only(routing, what)
        (answer,) = await router_of(context).ask(context, routing, [shard], body, repeatable=repeatable)
        return answer.relayed()

    return await router_of(context).routed(context, attempt)


async def coordinated(context: Context, routing: Routing, command: Mapping[str, Any]) -> ShardReply:
    """Run a DDL operation over several shards, coordinated by the primary shard of the database. It is idempotent: a
    repeated request joins it, or finds nothing left to do. It gets the rest of the request's time.
    """
    router = router_of(context)
    shard = await router.shards.of_routing(primary_of(routing))
    if context.max_time_ms and context.deadline is not None:
        command = {**command, "maxTimeMS": max(int((context.deadline - router.clock()) * 1000), 1)}
    return await shard.command("admin", command, repeatable=True, deadline=context.deadline)


async def drop_whole_database(context: Context, database: str) -> bool:
    """Drop a database everywhere; false when there is none of that name."""
    router, about = router_of(context), f"{database}.$cmd"

    async def attempt(routing: Routing) -> bool:
        if routing.database is None:
            return False
        answer = await coordinated(context, routing, drop_database(database, routing.database))
        dropped: bool = answer.decoded()["dropped"]
        return dropped

    await router.cache.refresh(about)
    try:
        return await router.cache.routed(about, attempt)
    finally:
        router.cache.forget_database(database)


def require_database(routing: Routing) -> None:
    """NamespaceNotFound unless the database exists."""
    if routing.primary is None:
        raise CommandError(Code.NamespaceNotFound, "ns not found")
