"""whatsmyuri: the client's own address as the server sees it."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role


def run(context: Context, _arguments: Arguments) -> Result:
    return {"you": context.connection.remote}


COMMAND = Command(
    "whatsmyuri", run, privilege=PUBLIC, role=Role.ANY, tolerant=True, help="the caller's own address, host:port"
)
