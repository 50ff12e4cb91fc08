"""`listIndexes`: the indexes of a collection, as a shard that holds it has them."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import LIST_INDEXES
from docstore.sharding.routing import Routing
from mongos.merge.opened import opened_reply
from mongos.relay.relay import Relaying, relayed
from mongos.router import router_of
from mongos.routing.broadcast import holders, require_database
from mongos.routing.requests import ShardReply, forwarded


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)

    async def attempt(routing: Routing) -> bytes:
        require_database(routing)
        collection = routing.collection
        names = sorted(collection.chunks.shards)[:1] if collection is not None else holders(routing)
        (answer,) = await router.ask(context, routing, names, forwarded(context.raw))
        return await open_cursor(context, args, answer)

    return await router.routed(context, attempt)


async def open_cursor(context: Context, _args: Arguments, answer: ShardReply) -> bytes:
    """The reply to a shard's, whose cursor is read on by one of this router."""
    return await opened_reply(context, [answer], batch_size=1000, catalog=True)


RELAYING = Relaying(lambda _args, targets, _language: targets.of_any(), b"\x03cursor\0", open_cursor=open_cursor)

COMMAND = LIST_INDEXES.command(relayed(run, RELAYING))
