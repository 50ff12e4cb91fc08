"""The sources of a dump: the selected collections and views of a server, with their metadata; users and roles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import click
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database

from docstore.tools.connection import Client
from docstore.tools.dumped.families import KEYSPACE, describe_families
from docstore.tools.dumped.families import TYPE as FAMILY
from docstore.tools.dumped.files import SERIES, documents_name
from docstore.tools.dumped.targets import Source
from docstore.tools.terminal import Terminal, ToolFailed
from docstore.tools.text.extended_json import EXACT

AUTHORITY = "admin"
USERS, ROLES, VERSION = "system.users", "system.roles", "system.version"
OF_DATABASE = "$admin."
"""The prefix of the names of one database's users and roles, in its dump."""

_OWN = ("local", "config")
"""Databases of the server itself; a dump has them where they are named."""
_OF_SYSTEM = {AUTHORITY: {USERS, ROLES, VERSION, "system.js"}}
_OF_KEYSPACES = {KEYSPACE, FAMILY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The selected databases, collections and documents; an absent criterion selects all."""

    database: str | None
    collection: str | None
    query: dict[str, Any] | None
    excluded: tuple[str, ...]
    excluded_prefixes: tuple[str, ...]
    views_as_collections: bool
    with_users: bool
    in_natural_order: bool

    def limited_to(self, database: str | None) -> Choice:
        """Return the choice limited to the database of the URI, unless an option names one."""
        return self if self.database is not None else replace(self, database=database)

    def check(self) -> None:
        """Raise click.UsageError for options that contradict each other."""
        if self.collection is not None and self.database is None:
            raise click.UsageError("--collection needs --db")
        if self.query is not None and self.collection is None:
            raise click.UsageError("--query needs --collection")
        if (self.excluded or self.excluded_prefixes) and (self.database is None or self.collection is not None):
            raise click.UsageError("--excludeCollection needs --db, and no --collection")
        if self.with_users and (self.database is None or self.collection is not None):
            raise click.UsageError("--dumpDbUsersAndRoles needs --db, and no --collection")
        if self.with_users and self.database == AUTHORITY:
            raise click.UsageError("a dump of admin has the users and roles of all databases")

    def takes(self, database: str, name: str) -> bool:
        if self.collection is not None:
            return name == self.collection
        if name.startswith("system.") and name not in _OF_SYSTEM.get(database, {"system.js"}):
            return False
        return name not in self.excluded and not name.startswith(self.excluded_prefixes)


def sources_of(client: Client, choice: Choice, terminal: Terminal) -> list[Source]:
    """Return the collections to dump, by name. Errors: ToolFailed."""
    names = [choice.database] if choice.database is not None else client.list_database_names()
    sources: list[Source] = []
    for name in names:
        if choice.database is None and name in _OWN:
            continue
        database = client.get_database(name)
        name_filter = {} if choice.collection is None else {"name": choice.collection}
        listed = [
            dict(description) for description in database.with_options(EXACT).list_collections(filter=name_filter)
        ]
        if any(_OF_KEYSPACES & description["options"].keys() for description in listed):
            sources += _in_keyspace(client, name, choice, terminal)
            continue
        if choice.collection is not None and not listed:
            raise ToolFailed(f"there is no collection {name}.{choice.collection}")
        chosen = [
            description
            for description in sorted(listed, key=itemgetter("name"))
            if choice.takes(name, description["name"])
        ]
        sources += filter(None, (_source(database, description, choice) for description in chosen))
    if choice.with_users:
        sources += _of_users(client, str(choice.database))
    return sources


def check_names(client: Client, sources: Iterable[Source], *, at_one_time: bool) -> None:
    """Check that no collection has been renamed since the listing: nothing of it would be read under the listed name.

    `at_one_time`: nor may another collection have its name, with its own options and indexes. A collection may have
    been dropped. Errors: ToolFailed, PyMongoError.
    """
    uuids = {source.namespace: source.metadata["uuid"] for source in sources if "uuid" in source.metadata}
    names: dict[str, str] = {}
    for name in {source.database for source in sources}:
        for described in client.get_database(name).with_options(EXACT).list_collections():
            if "uuid" in described.get("info", {}):
                names[bytes(described["info"]["uuid"]).hex()] = f"{name}.{described['name']}"
    current_namespaces = set(names.values())
    for namespace, uuid in uuids.items():
        now = names.get(uuid)
        if now is not None and now != namespace:
            raise ToolFailed(f"the collections changed while they were dumped: {namespace} is {now} now")
        if now is None and at_one_time and namespace in current_namespaces:
            raise ToolFailed(f"the collections changed while they were dumped: {namespace} is another one now")


def _source(database: Database[RawBSONDocument], described: dict[str, Any], choice: Choice) -> Source | None:
    name, kind = described["name"], described.get("type", "collection")
    if kind == SERIES and choice.query is not None:
        raise ToolFailed(f"{database.name}.{name} is a time series: --query is for collections")
    if choice.views_as_collections and kind != "view":
        return None
    is_view = kind == "view" and not choice.views_as_collections
    options = {} if kind == "view" and not is_view else described.get("options", {})
    metadata: dict[str, Any] = {
        "indexes": [],
        "collectionName": name,
        "type": kind if is_view or kind == SERIES else "collection",
    }
    if "uuid" in described.get("info", {}):
        metadata["uuid"] = bytes(described["info"]["uuid"]).hex()
    metadata["options"] = options
    if kind != "view":
        indexes = database.get_collection(name).with_options(EXACT).list_indexes()
        metadata["indexes"] = [dict(index) for index in indexes]
    return Source(
        database.name, documents_name(name, metadata), database.name, name, metadata, choice.query or {},
        has_documents=not is_view, of_view=kind == "view" and not is_view,
        in_natural_order=choice.in_natural_order and kind != "view",
    )  # fmt: skip


def _in_keyspace(client: Client, keyspace: str, choice: Choice, terminal: Terminal) -> Iterator[Source]:
    """Return the selected column families. Errors: ToolFailed."""
    families, tables = describe_families(client, keyspace)
    if choice.collection is not None and choice.collection not in families:
        raise ToolFailed(f"there is no column family {keyspace}.{choice.collection}")
    if choice.query is not None:
        raise ToolFailed(f"{keyspace}.{choice.collection} is a column family: --query is for collections")
    for name in filter(lambda each: choice.takes(keyspace, each), tables):
        terminal.say(f"skipping {keyspace}.{name}, a table of CQL")
    for name, metadata in families.items():
        if choice.takes(keyspace, name) and not choice.views_as_collections:
            yield Source(keyspace, name, keyspace, name, metadata, {}, has_documents=True, is_family=True)


def _of_users(client: Client, database: str) -> Iterator[Source]:
    """Return users and roles of one database, as collections of it."""
    names = client.get_database(AUTHORITY).list_collection_names(filter={"name": {"$in": [USERS, ROLES]}})
    for name in sorted(names):
        metadata: Mapping[str, Any] = {"indexes": [], "collectionName": OF_DATABASE + name, "type": "collection"}
        yield Source(
            AUTHORITY, name, database, OF_DATABASE + name, dict(metadata) | {"options": {}}, {"db": database},
            has_documents=True,
        )  # fmt: skip
