"""Commands about a whole collection: to the primary shard of its database, or to every shard that has a part of it."""

from __future__ import annotations

from typing import Any

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import ShardReply, forwarded, whole_request
from mongos.routing.targeting import primary_of, unsharded_only


def holders(routing: Routing) -> list[str]:
    """The shards that hold the collection: those with chunks, and the primary, which had it first."""
    if routing.collection is None:
        return [primary_of(routing)]
    return sorted(routing.collection.chunks.shards | {primary_of(routing)})


async def to_holders(context: Context, *, repeatable: bool = True) -> list[ShardReply]:
    """The command to all holders, side by side. Errors: the first holder's; NamespaceNotFound without a database."""
    body = forwarded(whole_request(context))

    async def attempt(routing: Routing) -> list[ShardReply]:
        return await router_of(context).ask(context, routing, holders(routing), body, repeatable=repeatable)

    return await router_of(context).routed(context, attempt)


async def to_primary(context: Context, what: str, *, repeatable: bool = False) -> bytes:
    """The command to the primary shard; refused for sharded collections."""
    body = forwarded(whole_request(context))

    async def attempt(routing: Routing) -> bytes:
        shard = unsharded_only(routing, what)
        (answer,) = await router_of(context).ask(context, routing, [shard], body, repeatable=repeatable)
        return answer.relayed()

    return await router_of(context).routed(context, attempt)


def with_raw(answers: list[ShardReply]) -> dict[str, Any]:
    """One reply of several: each shard's under `raw`, by its address; the fields of the first besides."""
    if len(answers) == 1:
        return answers[0].decoded()
    return {"raw": {answer.address: answer.decoded() for answer in answers}, **answers[0].decoded()}


def require_database(routing: Routing) -> None:
    """NamespaceNotFound unless the database exists."""
    if routing.primary is None:
        raise CommandError(Code.NamespaceNotFound, "ns not found")
