"""hello: describe the server to drivers; an awaitable hello waits for a topology change."""

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
