"""Who a connection is authenticated as: nobody yet. Conversations of authentication are refused."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import AUTHENTICATED, PUBLIC, Command, Parameter, Result, Role, Type
from docstore.errors import Code, CommandError

_NONE_YET = "there is no authentication yet"


def sasl_start(_context: Context, arguments: Arguments) -> Result:
    raise CommandError(
        Code.MechanismUnavailable,
        f"Received authentication for mechanism {arguments['mechanism']} which is not enabled",
    )


def sasl_continue(_context: Context, _arguments: Arguments) -> Result:
    raise CommandError(Code.ProtocolError, "No SASL session state found")


def logout(_context: Context, _arguments: Arguments) -> Result:
    """Nobody is logged in, so nothing changes."""
    return {}


def getnonce(context: Context, _arguments: Arguments) -> Result:
    """For a way of authentication that is long gone; old clients still ask."""
    return {"nonce": f"{context.services.cursors.random64():016x}"}


def connection_status(_context: Context, arguments: Arguments) -> Result:
    information: dict[str, Any] = {"authenticatedUsers": [], "authenticatedUserRoles": []}
    if arguments["showPrivileges"]:
        information["authenticatedUserPrivileges"] = []
    return {"authInfo": information}


COMMANDS: tuple[Command, ...] = (
    Command(
        "saslStart", sasl_start, privilege=PUBLIC, role=Role.ANY, tolerant=True, stable=True,
        parameters=(Parameter("mechanism", Type.STRING, required=True),), refuses=_NONE_YET,
    ),
    Command(
        "saslContinue", sasl_continue, privilege=PUBLIC, role=Role.ANY, tolerant=True, stable=True, refuses=_NONE_YET
    ),
    Command(
        "logout", logout, privilege=AUTHENTICATED, role=Role.ANY, help="end the authentication of this connection"
    ),
    Command("getnonce", getnonce, privilege=PUBLIC, role=Role.ANY, tolerant=True, help="a random number"),
    Command(
        "connectionStatus", connection_status, privilege=PUBLIC, role=Role.ANY,
        parameters=(Parameter("showPrivileges", Type.SAFE_BOOL, default=False),),
        help="the users authenticated on this connection",
    ),
)  # fmt: skip
