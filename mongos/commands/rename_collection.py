"""`renameCollection`: of unsharded collections whose databases have the same primary shard, and within a database."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import RENAME_COLLECTION
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.ddl.requests import rename_collection
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.broadcast import coordinated
from mongos.routing.requests import forwarded
from mongos.routing.targeting import documents_only, primary_of


async def run(context: Context, args: Arguments) -> Result:
    router = router_of(context)
    await router.ensure_database(args["to"])

    async def attempt(routing: Routing) -> Result:
        target: Routing = await router.cache.refresh(args["to"])
        for namespace_routing in (routing, target):
            documents_only(context, namespace_routing)
        if routing.collection is not None or target.collection is not None:
            return await _coordinated(context, routing, target, drop_target=args["dropTarget"])
        shard = primary_of(routing)
        if primary_of(target) != shard:
            raise CommandError(Code.CommandFailed, "source and destination collections must be on the same shard")
        body = forwarded(context.raw, add={"toShardVersion": target.version().to_document()})
        (answer,) = await router.ask(context, routing, [shard], body, repeatable=False)
        return answer.relayed()

    await router.cache.refresh(args.value)
    reply: Result = await router.cache.routed(args.value, attempt)
    return reply


async def _coordinated(context: Context, source: Routing, target: Routing, *, drop_target: bool) -> dict[str, Any]:
    if source.namespace == target.namespace:
        raise CommandError(Code.IllegalOperation, "Can't rename a collection to itself")
    if split_namespace(source.namespace)[0] != split_namespace(target.namespace)[0]:
        raise CommandError(Code.CommandFailed, "Source and destination collections must be on same database")
    try:
        await coordinated(context, source, rename_collection(source, target, drop_target=drop_target))
    finally:
        for routing in (source, target):
            router_of(context).cache.forget(routing.namespace)
    return {}


COMMAND = RENAME_COLLECTION.command(run)
