"""features: what an old shell asks of a server's JavaScript; the machine part of ObjectIds."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role


def run(_context: Context, _arguments: Arguments) -> Result:
    return {"js": {"utf8": True}}


COMMAND = Command("features", run, privilege=PUBLIC, role=Role.ANY, help="what the server's JavaScript can do")
