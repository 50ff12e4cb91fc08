"""getDefaultRWConcern through a router: the config servers return the cluster's defaults."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.concerns import GET_DEFAULT_RW_CONCERN
from mongos.routing.broadcast import to_config_servers


async def run(context: Context, _arguments: Arguments) -> bytes:
    return await to_config_servers(context)


COMMAND = GET_DEFAULT_RW_CONCERN.command(run)
