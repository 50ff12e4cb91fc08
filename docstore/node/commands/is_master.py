"""isMaster: hello under its legacy name, which drivers still use to open connections."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.greeting import greet
from docstore.commands.specs.processes import IS_MASTER
from docstore.node.node import node_of


def run(context: Context, arguments: Arguments) -> Response:
    return greet(context, arguments, node_of(context).replication, legacy=True)


COMMAND = IS_MASTER.command(run)
