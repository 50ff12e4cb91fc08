"""Privileges needed by user and role commands.

Granting a role needs `grantRole` on the role's database, for any grantee. Granting a privilege needs it on the
privilege's database. Else a user may hand on what it has itself: that takes `grantPrivilegesToRole` on the resource
and every action granted (AUTHORIZE of CQL). So nobody gets more from it than the granter has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from docstore.bson import document_to_python, to_python
from docstore.bson.walk import ARRAY, each_value
from docstore.commands.access.need import Need, on_database
from docstore.security.privileges import ALL_DATABASES, CLUSTER, Kind
from docstore.security.user_arguments import each_name, privilege_list, role_list, role_name, user_name
from docstore.security.users import User

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context


def _user(context: Context) -> User | None:
    identity = context.identity
    return None if identity is None else identity.user


def _role_needs(context: Context, arguments: Arguments, action: str) -> Iterator[Need]:
    roles = arguments["roles"]
    if roles is not None:
        for db in sorted({name.db for name in role_list(map(to_python, each_value(roles)), context.db)}):
            yield from on_database(db, action)


def _privilege_needs(
    context: Context, arguments: Arguments, action: str, handing_on: str | None = None
) -> Iterator[Need]:
    """Yield the needs to grant or revoke privileges.

    `action`: on the database of each resource, for any privilege. `handing_on`: on the resource, for privileges that
    the user has; None if these make no difference.
    """
    user = _user(context)
    for resource, actions in privilege_list(map(document_to_python, arguments["privileges"] or ())).items():
        database = resource.db if resource.kind is Kind.NAMESPACE and resource.db else "admin"
        [need] = on_database(database, action)
        may_any = user is None or user.privileges.allow(need.resource, action)
        if user is not None and handing_on is not None and not may_any and user.privileges.allow(resource, handing_on):
            yield from (Need(granted, resource) for granted in actions)
        else:
            yield need


def create_user_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from on_database(context.db, "createUser")
    yield from _role_needs(context, arguments, "grantRole")
    if arguments["authenticationRestrictions"]:
        yield from on_database(context.db, "setAuthenticationRestriction")


def update_user_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    user = _user(context)
    own = user is not None and user.name == (arguments.value, context.db)
    for field, action, own_action in (
        ("pwd", "changePassword", "changeOwnPassword"), ("mechanisms", "changePassword", "changeOwnPassword"),
        ("customData", "changeCustomData", "changeOwnCustomData"),
    ):  # fmt: skip
        if arguments[field] is not None:
            may_own = (
                own and user is not None and user.privileges.allow(on_database(context.db, "")[0].resource, own_action)
            )
            if not may_own:
                yield from on_database(context.db, action)
    if arguments["roles"] is not None:
        yield Need("revokeRole", ALL_DATABASES)
        yield from _role_needs(context, arguments, "grantRole")
    if arguments["authenticationRestrictions"] is not None:
        yield from on_database(context.db, "setAuthenticationRestriction")


def grant_roles_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from _role_needs(context, arguments, "grantRole")


def revoke_roles_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from _role_needs(context, arguments, "revokeRole")


def create_role_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from on_database(context.db, "createRole")
    yield from _role_needs(context, arguments, "grantRole")
    yield from _privilege_needs(context, arguments, "grantRole")
    if arguments["authenticationRestrictions"]:
        yield from on_database(context.db, "setAuthenticationRestriction")


def update_role_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield Need("revokeRole", ALL_DATABASES)
    yield from _role_needs(context, arguments, "grantRole")
    yield from _privilege_needs(context, arguments, "grantRole")
    if arguments["authenticationRestrictions"] is not None:
        yield from on_database(context.db, "setAuthenticationRestriction")


def grant_privileges_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from _privilege_needs(context, arguments, "grantRole", "grantPrivilegesToRole")


def revoke_privileges_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from _privilege_needs(context, arguments, "revokeRole", "revokePrivilegesFromRole")


def users_info_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of usersInfo; none for the user itself."""
    user = _user(context)
    for entry in each_name("UserName", arguments.value):
        if isinstance(entry, dict) and "forAllDBs" in entry and arguments.value[0] != ARRAY:
            yield Need("viewUser", CLUSTER)
        elif isinstance(entry, int | float) and arguments.value[0] != ARRAY:
            yield from on_database(context.db, "viewUser")
        else:
            name = user_name(entry, context.db)
            if user is None or user.name != name:
                yield from on_database(name.db, "viewUser")


def roles_info_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of rolesInfo; none for the user's own roles."""
    user = _user(context)
    for entry in each_name("RoleName", arguments.value):
        if isinstance(entry, int | float) and arguments.value[0] != ARRAY:
            yield from on_database(context.db, "viewRole")
            return
        name = role_name(entry, context.db)
        if user is None or name not in user.granted:
            yield from on_database(name.db, "viewRole")
