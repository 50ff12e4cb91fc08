"""`hello`: the role and the limits of this router."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.greeting import greet
from docstore.commands.specs.processes import HELLO
from mongos.router import router_of


def run(context: Context, args: Arguments) -> Response:
    return greet(context, args, router_of(context).greeter, legacy=False)


COMMAND = HELLO.command(run)
