"""What a statement of CQL needs, by its tables: held against the client's user before anything is read or written."""

from __future__ import annotations

from docstore.commands.access.authorization import not_authorized, privileges_of
from docstore.commands.access.catalog_needs import cql_actions
from docstore.commands.access.need import Need, on_database, on_namespace
from docstore.commands.context import Context
from docstore.widecolumn.cql.run.prepare import Prepared, keyspace_name
from docstore.widecolumn.cql.statements import AlterTable, CreateTable, DropTable, Truncate


def check_permissions(context: Context, prepared: Prepared) -> None:
    """Errors: Unauthorized; CqlError for a table of no keyspace."""
    privileges = privileges_of(context)
    if privileges is None:
        return
    for need in _needs(prepared):
        if not privileges.allow(need.resource, need.action):
            raise not_authorized(context)


def _needs(prepared: Prepared) -> list[Need]:
    actions, plan = cql_actions(prepared.text), prepared.plan
    if isinstance(plan, CreateTable):
        return list(on_database(keyspace_name(plan.table, prepared.keyspace), *actions))
    if isinstance(plan, AlterTable | DropTable | Truncate):
        namespace = f"{keyspace_name(plan.table, prepared.keyspace)}.{plan.table.name}"
        return list(on_namespace(namespace, *actions))
    names = {f"{family.keyspace.name}.{family.definition.name}" for family in prepared.families}
    return [need for name in sorted(names) for need in on_namespace(name, *actions)]
