"""`dataSize`: documents and bytes of a collection, added up over the shards that own some of it."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import DATA_SIZE
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.broadcast import owners
from mongos.routing.requests import ShardReply, forwarded


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    router = router_of(context)
    context = context.about(arguments.value)

    async def attempt(routing: Routing) -> list[ShardReply]:
        shards = [] if routing.primary is None else owners(routing)
        return await router.ask(context, routing, shards, forwarded(context.raw))

    parts = [answer.decoded() for answer in await router.routed(context, attempt)]
    if len(parts) == 1:
        return parts[0]
    total: dict[str, Any] = {"estimate": arguments["estimate"]} if parts else {}
    total |= {name: sum(part[name] for part in parts) for name in ("size", "numObjects")}
    return total | {"millis": max((part["millis"] for part in parts), default=0)}


COMMAND = DATA_SIZE.command(run)
