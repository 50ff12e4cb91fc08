"""The functions that a database keeps for its scripts, as a router learns them from the database's primary shard."""

from __future__ import annotations

from docstore.commands.context import Context
from docstore.js.stored import COLLECTION, functions_of
from mongos.router import router_of
from mongos.routing.requests import cursor_of
from mongos.routing.targeting import primary_of


async def stored_functions(context: Context) -> bytes | None:
    """A document of them all by name; None where there are none. At most as many as one reply holds."""
    router = router_of(context)
    routing = await router.cache.get(f"{context.db}.{COLLECTION}")
    if routing.primary is None:
        return None
    shard = await router.shards.get(primary_of(routing))
    command = {"find": COLLECTION, "batchSize": 100_000, "singleBatch": True}
    answer = await shard.command(context.db, command, repeatable=True, deadline=context.deadline)
    return functions_of(cursor_of(answer.body).documents)
