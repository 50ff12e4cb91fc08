"""CQL's statements about roles, carried out by the commands about users and roles.

A role of CQL is a role of the database admin. One that may log in has a user of its name there, who has that role; one
that is a superuser has the role root. Permissions on keyspaces and tables are privileges on databases and collections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from docstore.commands.context import Context
from docstore.commands.requests.inner import carry_out
from docstore.errors import Code, CommandError
from docstore.widecolumn.cql.errors import invalid, translated
from docstore.widecolumn.cql.roles.grammar import is_about_roles, parse
from docstore.widecolumn.cql.roles.permissions import display_resource, permissions_of, privilege_of, resource_of
from docstore.widecolumn.cql.roles.statements import (
    AlterRole,
    CreateRole,
    DropRole,
    GrantPermissions,
    GrantRole,
    ListPermissions,
    ListRoles,
    RoleOptions,
    RoleStatement,
)

__all__ = ["is_about_roles", "run_role_statement"]
_ADMIN = "admin"
_ROOT = "root"
_ROLES = (("role", "text"), ("super", "boolean"), ("login", "boolean"))
_USERS = (("name", "text"), ("super", "boolean"))
_PERMISSIONS = (("role", "text"), ("username", "text"), ("resource", "text"), ("permission", "text"))


async def run_role_statement(context: Context, text: str, in_use: str | None) -> dict[str, Any]:
    """Return the reply to a statement about roles. Errors: CqlError; those of the commands, with `cqlCode`."""
    try:
        return await _Roles(context, in_use).run(parse(text))
    except CommandError as error:
        raise translated(error) from None


class _Roles:
    """Carries out one statement for a client. `in_use`: the keyspace of unqualified tables."""

    def __init__(self, context: Context, in_use: str | None) -> None:
        self._context = context
        self._in_use = in_use

    async def run(self, statement: RoleStatement) -> dict[str, Any]:
        match statement:
            case CreateRole():
                await self._create(statement)
            case AlterRole():
                await self._alter(statement.name, statement.options)
            case DropRole():
                await self._drop(statement)
            case GrantRole():
                await self._grant_role(statement)
            case GrantPermissions():
                await self._grant_permissions(statement)
            case ListRoles():
                return await self._list_roles(statement)
            case ListPermissions():
                return await self._list_permissions(statement)
        return {}

    async def _do(self, **command: Any) -> dict[str, Any]:
        return await carry_out(self._context, _ADMIN, command)

    async def _create(self, statement: CreateRole) -> None:
        name, options = statement.name, statement.options
        _check(options, logs_in=bool(options.login))
        if await self._find(name) is not None:
            if statement.if_not_exists:
                return
            raise invalid(f"{name} already exists")
        if options.login and options.password is None:
            raise invalid("a role that may log in needs a PASSWORD")
        await self._do(createRole=name, privileges=[], roles=[_ROOT] if options.superuser else [])
        if options.login:
            try:
                await self._make_user(name, options)
            except CommandError:
                with suppress(CommandError):
                    await self._do(dropRole=name)
                raise

    async def _make_user(self, name: str, options: RoleOptions) -> None:
        await self._do(createUser=name, pwd=options.password, roles=[name])

    async def _alter(self, name: str, options: RoleOptions) -> None:
        await self._must_be(name)
        logged_in = await self._has_user(name)
        login = logged_in if options.login is None else options.login
        _check(options, logs_in=login)
        if options.superuser is not None:
            verb = "grantRolesToRole" if options.superuser else "revokeRolesFromRole"
            await self._do(**{verb: name}, roles=[_ROOT])
        if login and not logged_in:
            if options.password is None:
                raise invalid("a role that may log in needs a PASSWORD")
            await self._make_user(name, options)
        elif logged_in and not login:
            await self._do(dropUser=name)
        elif options.password is not None:
            await self._do(updateUser=name, pwd=options.password)

    async def _drop(self, statement: DropRole) -> None:
        if await self._find(statement.name) is None:
            if statement.if_exists:
                return
            raise invalid(f"{statement.name} doesn't exist")
        if await self._has_user(statement.name):
            await self._do(dropUser=statement.name)
        await self._do(dropRole=statement.name)

    async def _grant_role(self, statement: GrantRole) -> None:
        await self._must_be(statement.to)
        role = await self._must_be(statement.role)
        if statement.revoke:
            await self._do(revokeRolesFromRole=statement.to, roles=[statement.role])
            return
        if statement.to in (statement.role, *_names(role["inheritedRoles"])):
            raise invalid(f"{statement.role} is a member of {statement.to}")
        await self._do(grantRolesToRole=statement.to, roles=[statement.role])

    async def _grant_permissions(self, statement: GrantPermissions) -> None:
        privilege = privilege_of(statement.permissions, statement.on, self._in_use)
        verb = "revokePrivilegesFromRole" if statement.revoke else "grantPrivilegesToRole"
        try:
            # Whoever may grant the permission need not be allowed to look at the role.
            await self._do(**{verb: statement.to}, privileges=[privilege])
        except CommandError as error:
            if error.code != Code.RoleNotFound:
                raise
            raise invalid(f"{statement.to} doesn't exist") from None

    # What there is

    async def _find(self, name: str) -> dict[str, Any] | None:
        roles = (await self._do(rolesInfo=name, showPrivileges=True))["roles"]
        return roles[0] if roles else None

    async def _must_be(self, name: str) -> dict[str, Any]:
        role = await self._find(name)
        if role is None:
            raise invalid(f"{name} doesn't exist")
        return role

    async def _has_user(self, name: str) -> bool:
        return bool((await self._do(usersInfo=name))["users"])

    async def _all(self) -> dict[str, dict[str, Any]]:
        roles = (await self._do(rolesInfo=1, showPrivileges=True))["roles"]
        return {role["role"]: role for role in roles if not role["isBuiltin"]}

    async def _requested_roles(self, of: str | None, recursive: bool) -> dict[str, dict[str, Any]]:
        """Return all roles, or one with the roles granted to it."""
        every = await self._all()
        if of is None:
            return every
        own = await self._must_be(of)
        names = {of, *_names(own["inheritedRoles" if recursive else "roles"])}
        return {name: role for name, role in every.items() if name in names}

    async def _list_roles(self, statement: ListRoles) -> dict[str, Any]:
        roles = await self._requested_roles(statement.of, statement.recursive)
        users = {user["user"] for user in (await self._do(usersInfo=1))["users"]}
        rows = [(name, _ROOT in _names(role["inheritedRoles"]), name in users) for name, role in sorted(roles.items())]
        if statement.users:
            return _rows(_USERS, ((name, superuser) for name, superuser, logs_in in rows if logs_in))
        return _rows(_ROLES, rows)

    async def _list_permissions(self, statement: ListPermissions) -> dict[str, Any]:
        roles = await self._requested_roles(statement.of, statement.recursive)
        resource = None if statement.on is None else resource_of(statement.on, self._in_use)
        return _rows(_PERMISSIONS, _granted_permissions(roles, statement.permissions, resource))


def _granted_permissions(
    roles: dict[str, dict[str, Any]], permissions: tuple[str, ...], resource_filter: dict[str, str] | None
) -> Iterator[tuple[str, str, str, str]]:
    for name, role in sorted(roles.items()):
        for privilege in role["privileges"]:
            resource, resource_name = privilege["resource"], display_resource(privilege["resource"])
            if resource_name is not None and resource_filter in (None, resource):
                for permission in permissions_of(privilege["actions"]):
                    if permission in permissions:
                        yield name, name, resource_name, permission


def _names(roles: list[dict[str, str]]) -> list[str]:
    return [role["role"] for role in roles]


def _check(options: RoleOptions, *, logs_in: bool) -> None:
    if options.password is not None and not logs_in:
        raise invalid("a PASSWORD is for a role that may log in: say LOGIN = true too")


def _rows(columns: tuple[tuple[str, str], ...], rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    return {"columns": [{"name": name, "type": kind} for name, kind in columns], "rows": [list(row) for row in rows]}
