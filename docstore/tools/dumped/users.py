"""Users and roles of a dump, restored to the server's own collections.

They are documents of `admin.system.users` and `admin.system.roles` and hold credentials, not passwords: no command
creates a user from them, so they are written as documents. Existing ones of the same name are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne

from docstore.tools.connection import RAW, Client
from docstore.tools.dumped.sources import AUTHORITY, OF_DATABASE, ROLES, USERS, VERSION
from docstore.tools.terminal import ToolFailed

_SCHEMA = 5


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
    target = client.get_database(AUTHORITY).get_collection(name, codec_options=RAW)
    if records:
        target.bulk_write([ReplaceOne({"_id": record["_id"]}, record, upsert=True) for record in records])
    if drop:
        removal_filter: dict[str, Any] = {"_id": {"$nin": [record["_id"] for record in records]}}
        target.delete_many(removal_filter if database is None else removal_filter | {"db": database})
    return len(records)
