"""Permissions of CQL statements on the tables that they name, checked before anything is read or written.

A table is not looked up before its name is checked: who may not use it does not learn whether it exists.
A conditional write shows values, so it needs the permission of a SELECT too. Statements that show the schema omit the
keyspaces and tables on which the user has no privilege (`VisibleSchema`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from docstore.commands.access.authorization import not_authorized, privileges_of
from docstore.commands.access.catalog_needs import cql_actions
from docstore.commands.access.need import Need, on_database, on_namespace
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.security.privileges import ALL_DATABASES, Privileges, collection, database
from docstore.widecolumn.cql.plan.conditions import ConditionalPlan
from docstore.widecolumn.cql.run.prepare import Prepared, keyspace_name
from docstore.widecolumn.cql.schema.describe import SchemaReader
from docstore.widecolumn.cql.statements import (
    AlterKeyspace,
    AlterTable,
    CreateKeyspace,
    CreateTable,
    DropKeyspace,
    DropTable,
    Truncate,
)
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.executor import StoredFamily

_READING = ("find",)


class Permissions:
    """The `TableAccess` of a request's user. `refusal` returns the error to raise when the user lacks a privilege."""

    def __init__(
        self, context: Context, refusal: Callable[[Need], CommandError], *, open_keyspaces: Callable[[str], bool]
    ) -> None:
        self._privileges = privileges_of(context)
        self._refusal = refusal
        self._is_open = open_keyspaces

    def check(self, text: str, namespace: str, *, conditional: bool = False) -> None:
        if self._privileges is None:
            return
        actions = cql_actions(text)
        if actions == _READING and self._is_open(namespace.partition(".")[0]):
            return
        self._require(on_namespace(namespace, *actions, *(_READING if conditional else ())))

    def check_prepared(self, prepared: Prepared) -> None:
        """Errors: Unauthorized; CqlError for a table of no keyspace."""
        if self._privileges is None:
            return
        for family in prepared.families:
            conditional = isinstance(prepared.plan, ConditionalPlan)
            namespace = f"{family.keyspace.name}.{family.definition.name}"
            self.check(prepared.text, namespace, conditional=conditional)
        self._require(_needs(prepared))

    def _require(self, needs: Iterable[Need]) -> None:
        privileges = self._privileges
        assert privileges is not None, "there is access control"
        for need in needs:
            if not privileges.allow(need.resource, need.action):
                raise self._refusal(need)


def permissions_of(context: Context) -> Permissions:
    """Return the permissions of a request by the command `cql`."""
    return Permissions(context, lambda _need: not_authorized(context), open_keyspaces=lambda _name: False)


def _needs(prepared: Prepared) -> list[Need]:
    """Return the needs of a statement about the schema. CqlError for a table of no keyspace."""
    actions, plan = cql_actions(prepared.text), prepared.plan
    if isinstance(plan, CreateKeyspace | AlterKeyspace):
        return [Need("createCollection", ALL_DATABASES)]
    if isinstance(plan, DropKeyspace):
        return [Need("dropDatabase", ALL_DATABASES)]
    if isinstance(plan, CreateTable):
        return list(on_database(keyspace_name(plan.table, prepared.keyspace), *actions))
    if isinstance(plan, AlterTable | DropTable | Truncate):
        namespace = f"{keyspace_name(plan.table, prepared.keyspace)}.{plan.table.name}"
        return list(on_namespace(namespace, *actions))
    return []


class VisibleSchema:
    """The part of a schema on which a user has any privilege, for DESCRIBE and USE (`SchemaReader`)."""

    def __init__(self, schema: SchemaReader, privileges: Privileges) -> None:
        self._schema = schema
        self._privileges = privileges

    async def keyspaces(self) -> list[Keyspace]:
        return [keyspace for keyspace in await self._schema.keyspaces() if is_visible(self._privileges, keyspace.name)]

    async def keyspace(self, name: str) -> Keyspace | None:
        return await self._schema.keyspace(name) if is_visible(self._privileges, name) else None

    async def families(self, keyspace: str) -> list[StoredFamily]:
        families = await self._schema.families(keyspace)
        return [family for family in families if is_visible(self._privileges, keyspace, family.definition.name)]


_TABLE_ACTIONS = ("find", "insert", "update", "remove", "collMod", "dropCollection")


def is_visible(privileges: Privileges, keyspace: str, table: str | None = None) -> bool:
    """True if a user with these privileges may learn of a keyspace, or of a table in it."""
    if table is None:
        return privileges.on_any_in(keyspace)
    if privileges.allow(database(keyspace), "listCollections"):
        return True
    resource = collection(keyspace, table)
    return any(privileges.allow(resource, action) for action in _TABLE_ACTIONS)


def visible_schema(context: Context, schema: SchemaReader) -> SchemaReader:
    """The schema as the client's user may see it; all of it without access control."""
    privileges = privileges_of(context)
    return schema if privileges is None else VisibleSchema(schema, privileges)
