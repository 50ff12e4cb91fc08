"""connectionStatus: who is authenticated on this connection. Nobody yet: there is no authentication."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Parameter, Result, Role, Type


def run(_context: Context, arguments: Arguments) -> Result:
    information: dict[str, Any] = {"authenticatedUsers": [], "authenticatedUserRoles": []}
    if arguments["showPrivileges"]:
        information["authenticatedUserPrivileges"] = []
    return {"authInfo": information}


COMMAND = Command(
    "connectionStatus", run, privilege=PUBLIC, role=Role.ANY,
    parameters=(Parameter("showPrivileges", Type.SAFE_BOOL, default=False),),
    help="the users authenticated on this connection",
)  # fmt: skip
