"""Users and roles of a dump, restored to the server's own. Existing ones of the same name are replaced.

Users are documents of `admin.system.users` and hold credentials, not passwords: no command creates a user from them, so
they are written as documents. Roles are made by commands, since nobody but the server writes `admin.system.roles` where
there is access control.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson import decode
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.errors import OperationFailure

from docstore.tools.connection import RAW, Client
from docstore.tools.dumped.sources import AUTHORITY, OF_DATABASE, ROLES, USERS, VERSION
from docstore.tools.terminal import ToolFailed

_SCHEMA = 5
_ROLE_EXISTS = 51002


def is_of_users(database: str, collection: str) -> bool:
    """True if a collection of a dump holds users or roles."""
    name = collection.removeprefix(OF_DATABASE)
    return name in (USERS, ROLES) and (name != collection or database == AUTHORITY)


def is_version(database: str, collection: str) -> bool:
    return database == AUTHORITY and collection == VERSION


def check_version(documents: Iterable[RawBSONDocument]) -> None:
    """Raise ToolFailed if the dump's users have another format than that of servers since 3.0."""
    for document in documents:
        if document["_id"] == "authSchema" and document.get("currentVersion") != _SCHEMA:
            raise ToolFailed(f"the users of the dump have the schema {document.get('currentVersion')}, not {_SCHEMA}")


def restore_users(
    client: Client, collection: str, documents: Iterable[RawBSONDocument], database: str | None, *, drop: bool
) -> int:
    """Write the users or roles of a collection of the dump; return how many. `drop`: remove those of the database, or
    all, that are not in the dump.
    """
    name = collection.removeprefix(OF_DATABASE)
    records = list(documents)
    if name == ROLES:
        _restore_roles(client, [decode(record.raw) for record in records])
        if drop:
            _drop_roles(client, {(record["db"], record["role"]) for record in records}, database)
        return len(records)
    target = client.get_database(AUTHORITY).get_collection(name, codec_options=RAW)
    if records:
        target.bulk_write([ReplaceOne({"_id": record["_id"]}, record, upsert=True) for record in records])
    if drop:
        removal_filter: dict[str, Any] = {"_id": {"$nin": [record["_id"] for record in records]}}
        target.delete_many(removal_filter if database is None else removal_filter | {"db": database})
    return len(records)


def _restore_roles(client: Client, roles: list[dict[str, Any]]) -> None:
    """Make roles, or change those that are there. What they inherit is set once all are there."""
    for role in roles:
        try:
            client[role["db"]].command("createRole", role["role"], privileges=[], roles=[])
        except OperationFailure as error:
            if error.code != _ROLE_EXISTS:
                raise
    for role in roles:
        restrictions = role.get("authenticationRestrictions") or []
        client[role["db"]].command(
            "updateRole", role["role"], privileges=role["privileges"], roles=role["roles"],
            authenticationRestrictions=restrictions,
        )  # fmt: skip


def _drop_roles(client: Client, kept: set[tuple[str, str]], database: str | None) -> None:
    condition = {} if database is None else {"db": database}
    for role in client[AUTHORITY][ROLES].find(condition, {"db": 1, "role": 1}):
        if (role["db"], role["role"]) not in kept:
            client[role["db"]].command("dropRole", role["role"])
