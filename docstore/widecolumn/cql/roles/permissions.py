"""CQL's permissions as privileges: the actions and the resource of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.roles.statements import DataResource

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "CREATE": ("createCollection", "createIndex"),
    "ALTER": ("collMod",),
    "DROP": ("dropCollection", "dropIndex"),
    "SELECT": ("find",),
    "MODIFY": ("insert", "update", "remove"),
    "AUTHORIZE": ("grantPrivilegesToRole", "revokePrivilegesFromRole"),
    "DESCRIBE": ("listCollections",),
}
PERMISSIONS = tuple(ACTIONS)


def privilege_of(permissions: Iterable[str], on: DataResource, in_use: str | None) -> dict[str, Any]:
    """The privilege, as commands about roles take it. CqlError for a table of no keyspace."""
    actions = sorted({action for permission in permissions for action in ACTIONS[permission]})
    return {"resource": resource_of(on, in_use), "actions": actions}


def resource_of(on: DataResource, in_use: str | None) -> dict[str, str]:
    if on.table is None:
        return {"db": on.keyspace or "", "collection": ""}
    keyspace = on.table.keyspace or in_use
    if keyspace is None:
        raise invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
    return {"db": keyspace, "collection": on.table.name}


def permissions_of(actions: Iterable[str]) -> list[str]:
    """Return the permissions whose actions are all granted."""
    granted_actions = set(actions)
    return [name for name, needed in ACTIONS.items() if granted_actions.issuperset(needed)]


def display_resource(resource: Mapping[str, Any]) -> str | None:
    """A resource as LIST names it; None for one that CQL has no name for."""
    if "db" not in resource or (not resource["db"] and resource["collection"]):
        return None
    if not resource["db"]:
        return "<all keyspaces>"
    if not resource["collection"]:
        return f"<keyspace {resource['db']}>"
    return f"<table {resource['db']}.{resource['collection']}>"


def permission_with(action: str) -> str:
    """Return the permission that an action belongs to."""
    special = {"dropDatabase": "DROP"}
    return next((name for name, actions in ACTIONS.items() if action in actions), special.get(action, "ALL"))
