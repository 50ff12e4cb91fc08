"""getnonce: a random number, for a way of authentication that is long gone; old clients still ask."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role


def run(context: Context, _arguments: Arguments) -> Result:
    return {"nonce": f"{context.services.cursors.random64():016x}"}


COMMAND = Command("getnonce", run, privilege=PUBLIC, role=Role.ANY, tolerant=True, help="a random number")
