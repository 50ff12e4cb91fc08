"""hello: what kind of server this is, for drivers; waits for news when asked to."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.greeting import greet
from docstore.commands.specs.processes import HELLO
from docstore.node.node import node_of


def run(context: Context, arguments: Arguments) -> Response:
    return greet(context, arguments, node_of(context).replication, legacy=False)


COMMAND = HELLO.command(run)
