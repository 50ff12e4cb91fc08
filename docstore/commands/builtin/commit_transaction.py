"""commitTransaction: no transaction can have begun, so there is none to end."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role
from docstore.errors import Code, CommandError


def run(_context: Context, _arguments: Arguments) -> Result:
    raise CommandError(Code.CommandFailed, "commitTransaction must be run within a transaction")


COMMAND = Command(
    "commitTransaction",
    run,
    privilege=PUBLIC,
    role=Role.ANY,
    admin_only=True,
    tolerant=True,
    write_concern=True,
    stable=True,
    help="refused: there are no multi-document transactions yet",
)
