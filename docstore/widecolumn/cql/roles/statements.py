"""Statements about roles, as trees."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.widecolumn.cql.statements import TableName


@dataclass(frozen=True, slots=True)
class RoleOptions:
    """The options of a role; None: not given."""

    password: str | None = None
    login: bool | None = None
    superuser: bool | None = None

    def __repr__(self) -> str:
        return f"RoleOptions(login={self.login}, superuser={self.superuser})"


@dataclass(frozen=True, slots=True)
class CreateRole:
    name: str
    if_not_exists: bool
    options: RoleOptions


@dataclass(frozen=True, slots=True)
class AlterRole:
    name: str
    options: RoleOptions


@dataclass(frozen=True, slots=True)
class DropRole:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class GrantRole:
    """`revoke`: take it away again."""

    role: str
    to: str
    revoke: bool = False


@dataclass(frozen=True, slots=True)
class DataResource:
    """All keyspaces; a keyspace; a table, whose keyspace may be the one in use."""

    keyspace: str | None = None
    table: TableName | None = None


@dataclass(frozen=True, slots=True)
class GrantPermissions:
    """`permissions`: in capitals."""

    permissions: tuple[str, ...]
    on: DataResource
    to: str
    revoke: bool = False


@dataclass(frozen=True, slots=True)
class ListRoles:
    """`of`: the roles that this one has. `users`: those that may log in, as LIST USERS shows them."""

    of: str | None = None
    recursive: bool = True
    users: bool = False


@dataclass(frozen=True, slots=True)
class ListPermissions:
    permissions: tuple[str, ...]
    on: DataResource | None = None
    of: str | None = None
    recursive: bool = True


RoleStatement = CreateRole | AlterRole | DropRole | GrantRole | GrantPermissions | ListRoles | ListPermissions
