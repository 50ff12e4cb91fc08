"""logout: nobody is logged in, so nothing changes."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role


def run(_context: Context, _arguments: Arguments) -> Result:
    return {}


COMMAND = Command("logout", run, privilege=PUBLIC, role=Role.ANY, help="end the authentication of this connection")
