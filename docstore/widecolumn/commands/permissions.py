"""Permissions of CQL statements on the tables that they name, checked before anything is read or written.

A conditional write shows values, so it needs the permission of a SELECT too. Statements that show the schema omit the
keyspaces and tables on which the user has no privilege (`VisibleSchema`).
"""

from __future__ import annotations

from docstore.commands.access.authorization import not_authorized, privileges_of
from docstore.commands.access.catalog_needs import cql_actions
from docstore.commands.access.need import Need, on_database, on_namespace
from docstore.commands.context import Context
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
from docstore.widecolumn.model.executor import Executor, StoredFamily


def check_permissions(context: Context, prepared: Prepared) -> None:
    """Errors: Unauthorized; CqlError for a table of no keyspace."""
    if missing_need(context, prepared) is not None:
        raise not_authorized(context)


def missing_need(context: Context, prepared: Prepared) -> Need | None:
    """Return the first need that the user's privileges do not cover. CqlError for a table of no keyspace."""
    privileges = privileges_of(context)
    if privileges is None:
        return None
    return next((need for need in _needs(prepared) if not privileges.allow(need.resource, need.action)), None)


def _needs(prepared: Prepared) -> list[Need]:
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
    if isinstance(plan, ConditionalPlan):
        actions = (*actions, "find")
    names = {f"{family.keyspace.name}.{family.definition.name}" for family in prepared.families}
    return [need for name in sorted(names) for need in on_namespace(name, *actions)]


class VisibleSchema:
    """The part of a schema on which a user has any privilege, for DESCRIBE and USE (`SchemaReader`)."""

    def __init__(self, schema: SchemaReader, privileges: Privileges) -> None:
        self._schema = schema
        self._privileges = privileges

    async def keyspaces(self) -> list[Keyspace]:
        return [keyspace for keyspace in await self._schema.keyspaces() if self._privileges.on_any_in(keyspace.name)]

    async def keyspace(self, name: str) -> Keyspace | None:
        return await self._schema.keyspace(name) if self._privileges.on_any_in(name) else None

    async def families(self, keyspace: str) -> list[StoredFamily]:
        families = await self._schema.families(keyspace)
        if self._privileges.allow(database(keyspace), "listCollections"):
            return families
        return [family for family in families if self._is_visible(keyspace, family.definition.name)]

    def _is_visible(self, keyspace: str, table: str) -> bool:
        resource = collection(keyspace, table)
        return any(self._privileges.allow(resource, action) for action in _TABLE_ACTIONS)


_TABLE_ACTIONS = ("find", "insert", "update", "remove", "collMod", "dropCollection")


def visible_schema(context: Context, executor: Executor) -> SchemaReader:
    """The schema as the client's user may see it; all of it without access control."""
    privileges = privileges_of(context)
    return executor if privileges is None else VisibleSchema(executor, privileges)
