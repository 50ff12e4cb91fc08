"""`getClusterParameter`: the config servers return the cluster's parameters."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import GET_CLUSTER_PARAMETER
from mongos.router import router_of
from mongos.routing.requests import forwarded


async def run(context: Context, _arguments: Arguments) -> bytes:
    return (await router_of(context).config.command("admin", forwarded(context.raw), repeatable=True)).relayed()


COMMAND = GET_CLUSTER_PARAMETER.command(run)
