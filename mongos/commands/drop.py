"""`drop`: drop a collection, on every shard when it is sharded."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import DROP
from docstore.sharding.ddl.requests import drop_collection
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.broadcast import coordinated, require_database
from mongos.routing.requests import forwarded
from mongos.routing.targeting import documents_only, primary_of


async def run(context: Context, args: Arguments) -> dict[str, Any] | bytes:
    router = router_of(context)
    await router.cache.refresh(context.namespace)

    async def attempt(routing: Routing) -> dict[str, Any] | bytes:
        require_database(routing)
        documents_only(context, routing)
        if routing.collection is not None:
            await coordinated(context, routing, drop_collection(context.namespace, routing.collection.uuid))
            return {"ns": context.namespace}
        (answer,) = await router.ask(context, routing, [primary_of(routing)], forwarded(context.raw), repeatable=False)
        return answer.relayed()

    try:
        return await router.routed(context, attempt)
    finally:
        router.cache.forget(context.namespace)


COMMAND = DROP.command(run)
