"""`renameCollection`: of unsharded collections whose databases have the same primary shard."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import RENAME_COLLECTION
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import unsharded_only


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    await router.ensure_database(args["to"])

    async def attempt(routing: Routing) -> bytes:
        target: Routing = await router.cache.refresh(args["to"])
        shard = unsharded_only(routing, "renameCollection")
        if unsharded_only(target, "renameCollection") != shard:
            raise CommandError(Code.CommandFailed, "source and destination collections must be on the same shard")
        body = forwarded(context.raw, add={"toShardVersion": target.version().to_document()})
        (answer,) = await router.ask(context, routing, [shard], body, repeatable=False)
        return answer.relayed()

    await router.cache.refresh(args.value)
    reply: bytes = await router.cache.routed(args.value, attempt)
    return reply


COMMAND = RENAME_COLLECTION.command(run)
