"""Users and roles. Nothing grants anything yet: there are no users, and of roles the built-in ones have names only."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.bson.walk import ARRAY, OBJECT, STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import NUMBERS, number_of
from docstore.errors import Code, CommandError

_ROLES_EVERYWHERE = ("dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin")
_ROLES_OF_ADMIN = (
    "__queryableBackup", "__system", "backup", "clusterAdmin", "clusterManager", "clusterMonitor",
    "dbAdminAnyDatabase", "directShardOperations", "hostManager", "readAnyDatabase", "readWriteAnyDatabase", "restore",
    "root", "userAdminAnyDatabase",
)  # fmt: skip


def _roles_of(database: str) -> tuple[str, ...]:
    return (*_ROLES_EVERYWHERE, *_ROLES_OF_ADMIN) if database == "admin" else _ROLES_EVERYWHERE


def create_user(context: Context, arguments: Arguments) -> Result:
    """Refused, after the checks of its fields."""
    roles: list[Any] = to_python((ARRAY, arguments["roles"]))
    for each in roles:
        name, db = (each.get("role"), each.get("db")) if isinstance(each, dict) else (each, context.db)
        if name not in _roles_of(str(db)):
            raise CommandError(Code.RoleNotFound, f"Could not find role: {name}@{db}")
    raise CommandError(Code.CommandNotSupported, "there is no authentication yet")


def change_user(context: Context, arguments: Arguments) -> Result:
    raise CommandError(Code.UserNotFound, f"User '{arguments.value}@{context.db}' not found")


def users_info(_context: Context, arguments: Arguments) -> Result:
    code, data = arguments.value
    everyone = code in NUMBERS and number_of(code, data) == 1
    if not everyone and code not in (STRING, OBJECT, ARRAY):
        raise CommandError(Code.BadValue, "UserName must be either a string or an object")
    return {"users": []}


def roles_info(context: Context, arguments: Arguments) -> Result:
    asked = to_python(arguments.value)
    if asked == 1:
        found = [(name, context.db) for name in _roles_of(context.db)] if arguments["showBuiltinRoles"] else []
        return {"roles": [_described(name, db) for name, db in found]}
    wanted = [_name(each, context.db) for each in (asked if isinstance(asked, list) else [asked])]
    return {"roles": [_described(name, db) for name, db in wanted if name in _roles_of(db)]}


def _name(asked: Any, db: str) -> tuple[str, str]:
    if isinstance(asked, str):
        return asked, db
    if isinstance(asked, dict) and isinstance(asked.get("role"), str) and isinstance(asked.get("db"), str):
        return asked["role"], asked["db"]
    raise CommandError(Code.BadValue, "RoleName must be either a string or an object")


def _described(name: str, db: str) -> dict[str, Any]:
    return {"db": db, "role": name, "roles": [], "inheritedRoles": [], "isBuiltin": True}


def _changes_user(name: str, action: str, *parameters: Parameter, tolerant: bool = False) -> Command:
    return Command(
        name, change_user, privilege=Privilege(action, Resource.DATABASE), role=Role.PRIMARY, value=Type.STRING,
        parameters=parameters, tolerant=tolerant, refuses="there are no users to find",
    )  # fmt: skip


_ROLES = Parameter("roles", Type.ARRAY, required=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        "createUser", create_user, privilege=Privilege("createUser", Resource.DATABASE), role=Role.PRIMARY,
        value=Type.STRING,
        parameters=(
            Parameter("pwd", Type.STRING),
            _ROLES,
            Parameter("customData", Type.OBJECT),
            Parameter("digestPassword", Type.BOOL),
            Parameter("mechanisms", Type.ARRAY),
            Parameter("authenticationRestrictions", Type.ARRAY),
        ),
        refuses="there is no authentication yet",
    ),
    _changes_user("dropUser", "dropUser"),
    _changes_user("grantRolesToUser", "grantRole", _ROLES),
    _changes_user("revokeRolesFromUser", "revokeRole", _ROLES),
    _changes_user("updateUser", "changePassword", tolerant=True),
    Command(
        "usersInfo", users_info, privilege=Privilege("viewUser", Resource.DATABASE), role=Role.SECONDARY_OK,
        parameters=(
            Parameter("filter", Type.OBJECT),
            Parameter("showPrivileges", Type.BOOL, default=False),
            Parameter("showCredentials", Type.BOOL, default=False),
            Parameter("showCustomData", Type.BOOL, default=True),
            Parameter("showAuthenticationRestrictions", Type.BOOL, default=False),
        ),
        help="users: there are none",
    ),
    Command(
        "rolesInfo", roles_info, privilege=Privilege("viewRole", Resource.DATABASE), role=Role.SECONDARY_OK,
        parameters=(
            Parameter("showBuiltinRoles", Type.BOOL, default=False),
            Parameter("showPrivileges", Type.BOOL, default=False, unsupported="privileges of roles are not listed yet"),
            Parameter("showAuthenticationRestrictions", Type.BOOL, default=False),
        ),
        help="the built-in roles",
    ),
)  # fmt: skip
