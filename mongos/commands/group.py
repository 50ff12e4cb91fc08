"""`group`: the classic command, for collections that are not sharded; their shard carries it out."""

from __future__ import annotations

from docstore.commands.arguments import Arguments, parse_fields
from docstore.commands.context import Context
from docstore.commands.requests.group import GROUP_FIELDS
from docstore.commands.specs.reads import GROUP
from docstore.namespace import check_collection_name
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import unsharded_only


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    fields = parse_fields("group", args.value, GROUP_FIELDS)
    context = context.about(check_collection_name(context.db, fields["ns"]))

    async def attempt(routing: Routing) -> bytes:
        shard = unsharded_only(routing, "group")
        (answer,) = await router.ask(context, routing, [shard], forwarded(context.raw))
        return answer.relayed()

    return await router.routed(context, attempt)


COMMAND = GROUP.command(run)
