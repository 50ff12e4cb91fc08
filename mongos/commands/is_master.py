"""`isMaster`: the role of this router, in the spelling of 2012, with which drivers still open connections."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.greeting import greet
from docstore.commands.specs.processes import IS_MASTER
from mongos.router import router_of


def run(context: Context, args: Arguments) -> Response:
    return greet(context, args, router_of(context).greeter, legacy=True)


COMMAND = IS_MASTER.command(run)
