"""Namespaces: `database.collection` as one string, the rules for their names, and which ones replicate."""

from __future__ import annotations

from functools import lru_cache

from docstore.errors import Code, CommandError

MAX_NAMESPACE_BYTES = 255
_BAD_IN_DATABASE = frozenset('/\\. "$*<>:|?\0')


def split_namespace(namespace: str) -> tuple[str, str]:
    """(database, collection); the collection part may hold dots and is empty when there is none."""
    database, _, collection = namespace.partition(".")
    return database, collection


def check_database_name(name: str) -> None:
    """Refuse a database name that no server accepts (InvalidNamespace)."""
    if not name or len(name.encode()) > 63 or (not _BAD_IN_DATABASE.isdisjoint(name) and name != "$external"):
        raise CommandError(Code.InvalidNamespace, f"Invalid database name: '{name}'")


OWN_NOTES = frozenset(
    f"config.{name}"
    for name in (
        "cache.collections", "cache.databases", "clusterParameters", "collection_critical_sections",
        "databaseDeletions", "mapReduceOutputs", "migratedStatements", "migrationCoordinators", "rangeDeletions",
        "released_critical_sections", "transaction_coordinators",
    )
)  # fmt: skip
"""Collections in which a process notes what it has to finish, and does so with nobody's privileges. No client writes
them: who has rights on `config` alone would have all.
"""
_CURSORS_OF_COMMANDS = frozenset(("$cmd.aggregate", "$cmd.bulkWrite", "$cmd.listCollections"))
"""The collection part of cursors that belong to no collection."""


def check_collection_name(database: str, name: str) -> str:
    """The namespace of a collection, or InvalidNamespace."""
    namespace = f"{database}.{name}"
    if (
        not name
        or name.startswith(".")
        or name.endswith(".")
        or "\0" in name
        or ("$" in name and name not in _CURSORS_OF_COMMANDS)
    ):
        raise CommandError(Code.InvalidNamespace, f"Invalid namespace specified '{namespace}'")
    if len(namespace.encode()) > MAX_NAMESPACE_BYTES:
        raise CommandError(
            Code.InvalidNamespace,
            f"Fully qualified namespace is too long. Namespace: {namespace} Max: {MAX_NAMESPACE_BYTES}",
        )
    return namespace


USERS_NS = "admin.system.users"
ROLES_NS = "admin.system.roles"
SETTINGS_NS = "config.settings"
SECURITY_NAMESPACES = frozenset((USERS_NS, ROLES_NS))
REMEMBERED_NAMESPACES = SECURITY_NAMESPACES | {SETTINGS_NS}
"""Collections whose contents members cache; changes of them are counted."""
"""The collections in which users and roles are kept."""
VERSIONS_NS = "admin.system.version"
AUTH_SCHEMA = "authSchema"
"""The `_id` in `VERSIONS_NS` of the document that exists since the first user or role was created."""
_ACCESS_NAMESPACES = SECURITY_NAMESPACES | {VERSIONS_NS}


def check_removable(namespace: str) -> None:
    """Refuse to drop, rename or replace the collections that decide who is let in. Errors: IllegalOperation."""
    if namespace in _ACCESS_NAMESPACES:
        raise CommandError(Code.IllegalOperation, f"can't drop system collection {namespace}")


@lru_cache(maxsize=1024)
def replicates(namespace: str) -> bool:
    """True if writes to the namespace enter the oplog: all except the `local` database and profiler records."""
    return not (namespace.startswith("local.") or namespace.endswith(".system.profile"))


def wrong_mode(database: str, command: str, *, wide: bool) -> CommandError:
    """A command of one data model on a database of the other. `wide`: the database is a keyspace."""
    if wide:
        text = f"{command} is a command for documents, and {database} is a keyspace: its mode is wide-column"
    else:
        text = f"{command} is a command of the wide-column mode, and {database} is a database of documents"
    return CommandError(Code.CommandNotSupported, text)
