"""`group`: the classic command, for collections that are not sharded; their shard carries it out."""

from __future__ import annotations

from docstore.bson import get_field
from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.reads import GROUP
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.namespace import check_collection_name
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import unsharded_only


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    name = get_field(args.value, "ns")
    if name is None or name[0] != STRING:
        raise CommandError(Code.BadValue, "group needs 'ns', the name of a collection")
    context = context.about(check_collection_name(context.db, text_of(name[1])))

    async def attempt(routing: Routing) -> bytes:
        shard = unsharded_only(routing, "group")
        (answer,) = await router.ask(context, routing, [shard], forwarded(context.raw))
        return answer.relayed()

    return await router.routed(context, attempt)


COMMAND = GROUP.command(run)
