"""createUser: refused, after the checks of its fields: there is no authentication yet."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.bson.walk import ARRAY
from docstore.commands.arguments import Arguments
from docstore.commands.builtin_roles import roles_of
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    roles: list[Any] = to_python((ARRAY, arguments["roles"]))
    for each in roles:
        name, db = (each.get("role"), each.get("db")) if isinstance(each, dict) else (each, context.db)
        if name not in roles_of(str(db)):
            raise CommandError(Code.RoleNotFound, f"Could not find role: {name}@{db}")
    raise CommandError(Code.CommandNotSupported, "there is no authentication yet")


COMMAND = Command(
    "createUser", run, privilege=Privilege("createUser", Resource.DATABASE), role=Role.PRIMARY, value=Type.STRING,
    parameters=(
        Parameter("pwd", Type.STRING),
        Parameter("roles", Type.ARRAY, required=True),
        Parameter("customData", Type.OBJECT),
        Parameter("digestPassword", Type.BOOL),
        Parameter("mechanisms", Type.ARRAY),
        Parameter("authenticationRestrictions", Type.ARRAY),
    ),
    help="refused: there is no authentication yet",
)  # fmt: skip
