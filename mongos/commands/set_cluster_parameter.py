"""`setClusterParameter`: the config servers store the parameter, and shards copy it from there."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import SET_CLUSTER_PARAMETER
from mongos.routing.broadcast import to_config_servers


async def run(context: Context, _arguments: Arguments) -> bytes:
    return await to_config_servers(context)


COMMAND = SET_CLUSTER_PARAMETER.command(run)
