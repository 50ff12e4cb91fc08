"""rolesInfo: the roles of a database: those that are built in."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.commands.arguments import Arguments
from docstore.commands.builtin_roles import roles_of
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    asked = to_python(arguments.value)
    if asked == 1:
        found = [(name, context.db) for name in roles_of(context.db)] if arguments["showBuiltinRoles"] else []
        return {"roles": [_described(name, db) for name, db in found]}
    wanted = [_name(each, context.db) for each in (asked if isinstance(asked, list) else [asked])]
    return {"roles": [_described(name, db) for name, db in wanted if name in roles_of(db)]}


def _name(asked: Any, db: str) -> tuple[str, str]:
    if isinstance(asked, str):
        return asked, db
    if isinstance(asked, dict) and isinstance(asked.get("role"), str) and isinstance(asked.get("db"), str):
        return asked["role"], asked["db"]
    raise CommandError(Code.BadValue, "RoleName must be either a string or an object")


def _described(name: str, db: str) -> dict[str, Any]:
    return {"db": db, "role": name, "roles": [], "inheritedRoles": [], "isBuiltin": True}


COMMAND = Command(
    "rolesInfo", run, privilege=Privilege("viewRole", Resource.DATABASE), role=Role.SECONDARY_OK,
    parameters=(
        Parameter("showBuiltinRoles", Type.BOOL, default=False),
        Parameter("showPrivileges", Type.BOOL, default=False, unsupported="privileges of roles are not listed yet"),
        Parameter("showAuthenticationRestrictions", Type.BOOL, default=False),
    ),
    help="the built-in roles",
)  # fmt: skip
