"""getDefaultRWConcern through a router: the config servers return the cluster's defaults."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.concerns import GET_DEFAULT_RW_CONCERN
from mongos.router import router_of
from mongos.routing.requests import forwarded


async def run(context: Context, _arguments: Arguments) -> bytes:
    request = forwarded(context.raw)
    return (await router_of(context).config.command(context.db, request, repeatable=True)).relayed()


COMMAND = GET_DEFAULT_RW_CONCERN.command(run)
