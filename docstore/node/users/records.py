"""Writes of user and role documents: each change is one unit of work; collections are created when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import bson

from docstore.bson import document_from, document_to_python, elements, from_python, get_field, to_python
from docstore.collection.collection import Collection
from docstore.collection.index.spec import parse_index_spec
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.namespace import AUTH_SCHEMA, ROLES_NS, USERS_NS, VERSIONS_NS
from docstore.node.ddl.catalog_changes import change
from docstore.node.node import DataNode, node_of

_SCHEMA = {"_id": AUTH_SCHEMA, "currentVersion": 5}
_INDEXES = {
    USERS_NS: {"v": 2, "key": {"user": 1, "db": 1}, "name": "user_1_db_1", "unique": True},
    ROLES_NS: {"v": 2, "key": {"role": 1, "db": 1}, "name": "role_1_db_1", "unique": True},
}


class Records:
    """The documents of users and roles within one unit of work."""

    def __init__(self, node: DataNode, unit: WriteUnitOfWork) -> None:
        self._node = node
        self._unit = unit

    def _ensure_collection(self, namespace: str) -> Collection:
        store, unit = self._node.store, self._unit
        collection = store.collection(namespace)
        if collection is None:
            collection = store.create_collection(unit, namespace)
            index = _INDEXES.get(namespace)
            if index is not None:
                store.create_index(unit, collection, parse_index_spec(bson.encode(index)))
        return collection

    def insert(self, namespace: str, document: Mapping[str, Any]) -> None:
        """Insert a document. Errors: DuplicateKey."""
        self._write_schema()
        self._unit.insert(self._ensure_collection(namespace), bson.encode(document))

    def _write_schema(self) -> None:
        """Write the schema version, which other programs expect, and which shows that users or roles have existed."""
        versions = self._ensure_collection(VERSIONS_NS)
        if versions.by_id(self._unit, from_python(_SCHEMA["_id"])) is None:
            self._unit.insert(versions, bson.encode(_SCHEMA))

    def find(self, namespace: str, key: str) -> dict[str, Any] | None:
        match = self._find(namespace, key)
        return None if match is None else document_to_python(match[1])

    def replace(self, namespace: str, document: Mapping[str, Any]) -> None:
        """Replace the document with the same `_id`."""
        self._replace(namespace, document["_id"], bson.encode(document))

    def _replace(self, namespace: str, key: Any, raw: bytes) -> None:
        match = self._find(namespace, key)
        assert match is not None, "it was read in this unit"
        if raw != match[1]:
            self._unit.replace(self._ensure_collection(namespace), *match, raw)

    def remove(self, namespace: str, key: str) -> bool:
        """Remove a document; return True if it existed."""
        match = self._find(namespace, key)
        if match is not None:
            self._unit.remove(self._ensure_collection(namespace), *match)
        return match is not None

    def remove_of(self, namespace: str, db: str) -> list[dict[str, Any]]:
        """Remove the users or roles of a database; return their names, as `{role, db}` or `{user, db}`."""
        own = "role" if namespace == ROLES_NS else "user"
        names: list[dict[str, Any]] = []
        for raw in self._all(namespace):
            if _field(raw, "db") == db:
                names.append({own: _field(raw, own), "db": db})
                self.remove(namespace, _field(raw, "_id"))
        return names

    def revoke(self, namespace: str, is_revoked: Callable[[Any], bool]) -> None:
        """Revoke the roles that `is_revoked` selects from all users or roles."""
        for raw in self._all(namespace):
            roles = _field(raw, "roles")
            if isinstance(roles, list) and any(map(is_revoked, roles)):
                roles_field = "roles", *from_python([role for role in roles if not is_revoked(role)])
                changed = document_from(roles_field if field[0] == "roles" else field for field in elements(raw))
                self._replace(namespace, _field(raw, "_id"), changed)

    def _all(self, namespace: str) -> list[bytes]:
        collection = self._node.store.collection(namespace)
        return [] if collection is None else list(collection.documents(self._unit))

    def _find(self, namespace: str, key: Any) -> tuple[int, bytes] | None:
        collection = self._node.store.collection(namespace)
        return None if collection is None else collection.by_id(self._unit, from_python(key))


def _field(raw: bytes, name: str) -> Any:
    """Return a field as a Python value; None if it is absent. The others are not decoded: privileges may be many."""
    value = get_field(raw, name)
    return None if value is None else to_python(value)


async def change_records(
    context: Context, namespace: str, act: Callable[[Records], None], reply: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Run `act` in one unit of work, wait for the write concern and return the reply, which `act` may fill.

    Errors: those of `act`.
    """
    node = node_of(context)
    about = context.derived(db="admin", namespace=namespace)
    return await change(about, {} if reply is None else reply, lambda unit: act(Records(node, unit)))


def is_duplicate(error: CommandError) -> bool:
    return error.code == Code.DuplicateKey
