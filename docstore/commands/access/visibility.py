"""Visibility of databases, collections and operations in lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import bson
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex

from docstore.commands.access.authorization import privileges_of
from docstore.errors import Code, CommandError
from docstore.security.privileges import CLUSTER, Kind, Privileges, database

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context


def shown_databases(context: Context, arguments: Arguments) -> Callable[[str], bool]:
    """Return a predicate of the databases that listDatabases shows.

    All, if the user may list them; else those with something the user may see. Errors: Unauthorized if the user
    requests all.
    """
    privileges = privileges_of(context)
    if privileges is None:
        return lambda _db: True
    only_own = arguments.sent_values().get("authorizedDatabases")
    if privileges.allow(CLUSTER, "listDatabases"):
        if not only_own:
            return lambda _db: True
    elif only_own is False:
        raise CommandError(Code.Unauthorized, "Insufficient permissions to list all databases")
    granted = privileges
    return lambda db: granted.on_any_in(db, "find")


def collections_filter(context: Context, arguments: Arguments) -> bytes | None:
    """Return the filter of listCollections, restricted to collections the user may see; None for no filter."""
    client_filter: bytes | None = arguments["filter"]
    privileges = privileges_of(context)
    if privileges is None or not (arguments["authorizedCollections"] and arguments["nameOnly"]):
        return client_filter
    own = _names(privileges, context.db)
    if client_filter is None:
        return bson.encode(own)
    return bson.encode({"$and": [RawBSONDocument(client_filter), own]})


def _names(privileges: Privileges, db: str) -> dict[str, Any]:
    """Return a filter for the names of the collections on which there is a privilege."""
    names: list[str] = []
    normal = False
    for resource, _ in privileges.items():
        if resource.kind is Kind.EVERYTHING:
            return {}
        if resource.kind is Kind.NAMESPACE and resource.collection and resource.db in ("", db):
            names.append(resource.collection)
    for action in {action for _, actions in privileges.items() for action in actions}:
        normal = normal or privileges.allow(database(db), action)
    named = {"name": {"$in": sorted(names)}}
    return {"$or": [named, {"name": {"$not": Regex("^system\\.")}}]} if normal else named
