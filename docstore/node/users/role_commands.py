"""Commands that change user-defined roles; built-in roles cannot be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Result
from docstore.commands.specs.users import (
    CREATE_ROLE,
    DROP_ALL_ROLES,
    DROP_ROLE,
    GRANT_PRIVILEGES_TO_ROLE,
    GRANT_ROLES_TO_ROLE,
    REVOKE_PRIVILEGES_FROM_ROLE,
    REVOKE_ROLES_FROM_ROLE,
    UPDATE_ROLE,
)
from docstore.errors import Code, CommandError
from docstore.namespace import ROLES_NS, USERS_NS
from docstore.node.node import node_of
from docstore.node.users.records import Records, change_records, is_duplicate
from docstore.node.users.user_commands import asked_restrictions, asked_roles, changed_roles, documents_of
from docstore.query.pausing import PAUSED, allowing
from docstore.security.builtin_roles import is_builtin
from docstore.security.names import RoleName
from docstore.security.privileges import Privileges
from docstore.security.roles import privileges_of_documents
from docstore.security.user_arguments import check_reach, privilege_list


def _given_privileges(arguments: Arguments) -> Privileges:
    return allowing(PAUSED, lambda: privilege_list(map(document_to_python, arguments["privileges"])))


def _check_grantable(context: Context, role: RoleName, names: Iterable[RoleName]) -> None:
    """Check that roles may be granted to `role`. Errors: InvalidRoleModification for a cycle, RoleNotFound."""
    graph = node_of(context).users.graph
    check_reach(role, Privileges(), names)
    for name in names:
        if name == role:
            raise CommandError(Code.InvalidRoleModification, f"Cannot grant role {role} to itself.")
        if graph.find(name) is None:
            raise CommandError(Code.RoleNotFound, f"Cannot grant roles to '{role}': Could not find role: {name}")
        if role in graph.inherited([name]).roles:
            raise CommandError(
                Code.InvalidRoleModification, f"Granting roles to {role} would introduce a cycle in the role graph"
            )


def _present(records: Records, name: RoleName) -> dict[str, Any]:
    """Return the document of a role to change. Errors: BadValue for a built-in one, RoleNotFound."""
    _check_own(name)
    present = records.find(ROLES_NS, name.key)
    if present is None:
        raise CommandError(Code.RoleNotFound, f"Role {name} not found")
    return present


def _check_own(name: RoleName) -> None:
    if is_builtin(name):
        raise CommandError(Code.BadValue, f"{name} is a built-in role and cannot be modified")


async def create_role(context: Context, arguments: Arguments) -> Result:
    name = RoleName(arguments.value, context.db)
    if not name.role:
        raise CommandError(Code.BadValue, "Role name must be non-empty")
    if name.db in ("local", "$external"):
        raise CommandError(Code.BadValue, f"Cannot create roles in the {name.db} database")
    if is_builtin(name):
        raise CommandError(Code.BadValue, "Cannot create roles with the same name as a built-in role")
    roles = asked_roles(context, arguments["roles"])
    privileges = _given_privileges(arguments)
    restrictions = asked_restrictions(context, arguments)
    document: dict[str, Any] = {
        "_id": name.key,
        "role": name.role,
        "db": name.db,
        "privileges": privileges.documents(),
        "roles": documents_of(roles),
    }
    if restrictions:
        document["authenticationRestrictions"] = restrictions

    def act(records: Records) -> None:
        _check_grantable(context, name, roles)
        check_reach(name, privileges)
        try:
            records.insert(ROLES_NS, document)
        except CommandError as error:
            if is_duplicate(error):
                raise CommandError(51002, f'Role "{name}" already exists') from None
            raise

    return await change_records(context, ROLES_NS, act)


async def update_role(context: Context, arguments: Arguments) -> Result:
    name = RoleName(arguments.value, context.db)
    if all(arguments[field] is None for field in ("privileges", "roles", "authenticationRestrictions")):
        raise CommandError(Code.BadValue, "Must specify at least one field to update in updateRole")
    if is_builtin(name):
        raise CommandError(Code.RoleNotFound, f"Role {name} not found")
    changes: dict[str, Any] = {}
    roles = None if arguments["roles"] is None else asked_roles(context, arguments["roles"])
    if arguments["privileges"] is not None:
        privileges = _given_privileges(arguments)
        check_reach(name, privileges)
        changes["privileges"] = privileges.documents()
    restrictions = asked_restrictions(context, arguments)
    if restrictions is not None:
        changes["authenticationRestrictions"] = restrictions

    def act(records: Records) -> None:
        present = records.find(ROLES_NS, name.key)
        if present is None:
            raise CommandError(Code.RoleNotFound, f"Could not find role: {name}")
        if roles is not None:
            _check_grantable(context, name, roles)
            changes["roles"] = documents_of(roles)
        records.replace(ROLES_NS, {**present, **changes})

    return await change_records(context, ROLES_NS, act)


async def drop_role(context: Context, arguments: Arguments) -> Result:
    name = RoleName(arguments.value, context.db)
    _check_own(name)

    def act(records: Records) -> None:
        if not records.remove(ROLES_NS, name.key):
            raise CommandError(Code.RoleNotFound, f"Could not find role: {name}")
        _take_from_all(records, lambda each: each == name.document())

    return await change_records(context, ROLES_NS, act)


async def drop_all_roles(context: Context, _arguments: Arguments) -> Result:
    reply: dict[str, Any] = {}

    def act(records: Records) -> None:
        removed = records.remove_of(ROLES_NS, context.db)
        reply["n"] = len(removed)
        names = {str(name["role"]) for name in removed}
        _take_from_all(records, lambda role: role.get("db") == context.db and str(role.get("role")) in names)

    return await change_records(context, ROLES_NS, act, reply)


def _take_from_all(records: Records, is_dropped: Callable[[dict[str, Any]], bool]) -> None:
    """Revoke dropped roles from all users and roles."""
    for namespace in (USERS_NS, ROLES_NS):
        records.revoke(namespace, lambda role: isinstance(role, dict) and is_dropped(role))


async def _change_privileges(context: Context, arguments: Arguments, *, granting: bool) -> Result:
    name = RoleName(arguments.value, context.db)
    if not arguments["privileges"]:
        raise CommandError(Code.BadValue, f'{context.command.name} command requires a non-empty "privileges" array')
    privilege_changes = _given_privileges(arguments)
    if granting:
        check_reach(name, privilege_changes)

    def act(records: Records) -> None:
        present = _present(records, name)
        privileges = privileges_of_documents(present.get("privileges", []))
        for resource, actions in privilege_changes.items():
            if granting:
                privileges.grant(resource, actions)
            else:
                privileges.revoke(resource, actions)
        records.replace(ROLES_NS, {**present, "privileges": privileges.documents()})

    return await change_records(context, ROLES_NS, act)


async def grant_privileges(context: Context, arguments: Arguments) -> Result:
    return await _change_privileges(context, arguments, granting=True)


async def revoke_privileges(context: Context, arguments: Arguments) -> Result:
    return await _change_privileges(context, arguments, granting=False)


async def _change_roles(context: Context, arguments: Arguments, *, granting: bool) -> Result:
    name = RoleName(arguments.value, context.db)
    names = asked_roles(context, arguments["roles"])
    if not names:
        raise CommandError(Code.BadValue, f'{context.command.name} command requires a non-empty "roles" array')

    def act(records: Records) -> None:
        present = _present(records, name)
        if granting:
            _check_grantable(context, name, names)
        records.replace(ROLES_NS, {**present, "roles": changed_roles(present.get("roles", []), names, granting)})

    return await change_records(context, ROLES_NS, act)


async def grant_roles(context: Context, arguments: Arguments) -> Result:
    return await _change_roles(context, arguments, granting=True)


async def revoke_roles(context: Context, arguments: Arguments) -> Result:
    return await _change_roles(context, arguments, granting=False)


COMMANDS: tuple[Command, ...] = (
    CREATE_ROLE.command(create_role),
    UPDATE_ROLE.command(update_role),
    DROP_ROLE.command(drop_role),
    DROP_ALL_ROLES.command(drop_all_roles),
    GRANT_PRIVILEGES_TO_ROLE.command(grant_privileges),
    REVOKE_PRIVILEGES_FROM_ROLE.command(revoke_privileges),
    GRANT_ROLES_TO_ROLE.command(grant_roles),
    REVOKE_ROLES_FROM_ROLE.command(revoke_roles),
)
