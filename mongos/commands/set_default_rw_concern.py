"""setDefaultRWConcern through a router: the config servers store the defaults, and shards copy them from there."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.concerns import SET_DEFAULT_RW_CONCERN
from mongos.routing.broadcast import to_config_servers


async def run(context: Context, _arguments: Arguments) -> bytes:
    return await to_config_servers(context)


COMMAND = SET_DEFAULT_RW_CONCERN.command(run)
