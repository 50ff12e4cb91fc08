"""`listCollections`: the collections of a database, as its primary shard has them: it holds a part of every one."""

from __future__ import annotations

from bson.raw_bson import RawBSONDocument

from docstore.commands.access.visibility import collections_filter
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import LIST_COLLECTIONS
from docstore.sharding.routing import Routing
from mongos.merge.batches import First, first_reply
from mongos.merge.merged import MergedCursor
from mongos.merge.opened import merged_cursor
from mongos.router import router_of
from mongos.routing.requests import forwarded


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    namespace = f"{context.db}.$cmd.listCollections"
    filter_ = collections_filter(context, args)
    add = {} if filter_ is None else {"filter": RawBSONDocument(filter_)}
    request = forwarded(context.raw, without=("authorizedCollections",), add=add)

    async def attempt(routing: Routing) -> MergedCursor:
        shards = [] if routing.primary is None else [routing.primary]
        return merged_cursor(context, await router.ask(context, routing, shards, request))

    merged = await router.cache.routed(namespace, attempt)
    return await first_reply(context, merged, First(100_000, namespace=namespace, catalog=True))


COMMAND = LIST_COLLECTIONS.command(run)
