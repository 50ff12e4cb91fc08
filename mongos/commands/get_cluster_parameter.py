"""`getClusterParameter`: the config servers return the cluster's parameters."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import GET_CLUSTER_PARAMETER
from mongos.routing.broadcast import to_config_servers


async def run(context: Context, _arguments: Arguments) -> bytes:
    return await to_config_servers(context)


COMMAND = GET_CLUSTER_PARAMETER.command(run)
