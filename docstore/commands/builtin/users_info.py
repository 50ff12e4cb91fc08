"""usersInfo: the users of a database. There is no authentication, so there are none."""

from __future__ import annotations

from docstore.bson.walk import ARRAY, OBJECT, STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import NUMBERS, number_of
from docstore.errors import Code, CommandError


def run(_context: Context, arguments: Arguments) -> Result:
    code, data = arguments.value
    everyone = code in NUMBERS and number_of(code, data) == 1
    if not everyone and code not in (STRING, OBJECT, ARRAY):
        raise CommandError(Code.BadValue, "UserName must be either a string or an object")
    return {"users": []}


COMMAND = Command(
    "usersInfo", run, privilege=Privilege("viewUser", Resource.DATABASE), role=Role.SECONDARY_OK,
    parameters=(
        Parameter("filter", Type.OBJECT),
        Parameter("showPrivileges", Type.BOOL, default=False),
        Parameter("showCredentials", Type.BOOL, default=False),
        Parameter("showCustomData", Type.BOOL, default=True),
        Parameter("showAuthenticationRestrictions", Type.BOOL, default=False),
    ),
    help="users: there are none",
)  # fmt: skip
