"""The functions that a database keeps for its scripts, as a router learns them from the database's primary shard."""

from __future__ import annotations

import bson

from docstore.commands.context import Context
from docstore.js.stored import COLLECTION, functions_of
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import cursor_of, versioned


async def stored_functions(context: Context) -> bytes | None:
    """A document of them all by name; None where there are none. At most as many as one reply holds."""
    router = router_of(context)
    command = bson.encode({"find": COLLECTION, "batchSize": 100_000, "singleBatch": True})

    async def attempt(routing: Routing) -> bytes | None:
        if routing.primary is None:
            return None
        shard = await router.shards.of_routing(routing.primary)
        body = versioned(command, routing.shard_version(shard.name))
        answer = await shard.command(context.db, body, repeatable=True, deadline=context.deadline)
        return functions_of(cursor_of(answer.body).documents)

    functions: bytes | None = await router.cache.routed(f"{context.db}.{COLLECTION}", attempt)
    return functions
