"""saslStart: no mechanism of authentication is enabled."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Parameter, Result, Role, Type
from docstore.errors import Code, CommandError


def run(_context: Context, arguments: Arguments) -> Result:
    raise CommandError(
        Code.MechanismUnavailable,
        f"Received authentication for mechanism {arguments['mechanism']} which is not enabled",
    )


COMMAND = Command(
    "saslStart", run, privilege=PUBLIC, role=Role.ANY, tolerant=True, stable=True,
    parameters=(Parameter("mechanism", Type.STRING, required=True),), help="refused: there is no authentication yet",
)  # fmt: skip
