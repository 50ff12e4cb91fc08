"""`create`: make an unsharded collection on its database's primary shard."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import CREATE
from mongos.router import router_of
from mongos.routing.broadcast import to_primary


async def run(context: Context, args: Arguments) -> bytes:
    await router_of(context).ensure_database(context.namespace)
    return await to_primary(context, "create")


COMMAND = CREATE.command(run)
