"""saslContinue: no conversation of authentication can have begun."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role
from docstore.errors import Code, CommandError


def run(_context: Context, _arguments: Arguments) -> Result:
    raise CommandError(Code.ProtocolError, "No SASL session state found")


COMMAND = Command(
    "saslContinue",
    run,
    privilege=PUBLIC,
    role=Role.ANY,
    tolerant=True,
    stable=True,
    help="refused: there is no authentication yet",
)
