"""Commands whose success is audited, and their audit events: (kind, parameters) of a request and its reply.

Catalog changes are audited where they happen: documents create collections too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.errors import Code
from docstore.security.user_arguments import role_list

if TYPE_CHECKING:
    from docstore.commands.context import Context

Event = tuple[str, dict[str, Any]]
Shape = Callable[["Context", bytes], Event]


def _fields(context: Context, kind: str, *optional: str) -> dict[str, Any]:
    """Return the user or role of a command, with the optional fields that were given."""
    body = context.body
    fields: dict[str, Any] = {kind: body[context.command.name], "db": context.db}
    for name in optional:
        if name in body:
            value = body[name]
            fields[name] = [role.document() for role in role_list(value, context.db)] if name == "roles" else value
    return fields


def _of_user(*optional: str) -> Shape:
    return lambda context, _body: (context.command.name, _fields(context, "user", *optional))


def _of_role(*optional: str) -> Shape:
    return lambda context, _body: (context.command.name, _fields(context, "role", *optional))


def _of_database(context: Context, _body: bytes) -> Event:
    return context.command.name, {"db": context.db}


def _update_user(context: Context, _body: bytes) -> Event:
    named = _fields(context, "user")
    changed = _fields(context, "user", "customData", "roles")
    return "updateUser", {**named, "passwordChanged": "pwd" in context.body, **changed}


def _enable_sharding(context: Context, _body: bytes) -> Event:
    return "enableSharding", {"ns": context.body["enableSharding"]}


def _shard_collection(context: Context, _body: bytes) -> Event:
    body = context.body
    options = {"unique": bool(body.get("unique"))}
    return "shardCollection", {"ns": body["shardCollection"], "key": body["key"], "options": options}


def _add_shard(context: Context, reply: bytes) -> Event:
    body = context.body
    fields = {"shard": document_to_python(reply)["shardAdded"], "connectionString": body["addShard"]}
    return "addShard", {**fields, **({"maxSize": body["maxSize"]} if "maxSize" in body else {})}


def _remove_shard(context: Context, _body: bytes) -> Event:
    return "removeShard", {"shard": context.body["removeShard"]}


def _get_cluster_parameter(context: Context, _body: bytes) -> Event:
    return "getClusterParameter", {"requestedClusterServerParameters": context.body["getClusterParameter"]}


def _shutdown(_context: Context, _body: bytes) -> Event:
    return "shutdown", {}


def _message(context: Context, _body: bytes) -> Event:
    return "applicationMessage", {"msg": context.body["logApplicationMessage"]}


def _drop(context: Context, _body: bytes) -> Event:
    return "dropCollection", {"ns": context.namespace}


EVENTS: Mapping[str, Shape] = {
    "createUser": _of_user("customData", "roles"),
    "updateUser": _update_user,
    "dropUser": _of_user(),
    "dropAllUsersFromDatabase": _of_database,
    "grantRolesToUser": _of_user("roles"),
    "revokeRolesFromUser": _of_user("roles"),
    "createRole": _of_role("roles", "privileges"),
    "updateRole": _of_role("roles", "privileges"),
    "dropRole": _of_role(),
    "dropAllRolesFromDatabase": _of_database,
    "grantRolesToRole": _of_role("roles"),
    "revokeRolesFromRole": _of_role("roles"),
    "grantPrivilegesToRole": _of_role("privileges"),
    "revokePrivilegesFromRole": _of_role("privileges"),
    "enableSharding": _enable_sharding,
    "shardCollection": _shard_collection,
    "addShard": _add_shard,
    "removeShard": _remove_shard,
    "getClusterParameter": _get_cluster_parameter,
    "shutdown": _shutdown,
    "logApplicationMessage": _message,
}
FAILURES: Mapping[int, Mapping[str, Shape]] = {Code.NamespaceNotFound: {"drop": _drop}}
"""Commands audited when they fail, by error code."""
