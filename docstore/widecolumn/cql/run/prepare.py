"""Preparing a statement: its tree resolved against the current schema, once for any number of executions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from docstore.query.pausing import PAUSED, allowing
from docstore.widecolumn.cql.errors import invalid, no_keyspace, no_table, unsupported
from docstore.widecolumn.cql.parser import parse
from docstore.widecolumn.cql.plan.batch import BatchPlan, batch_plan
from docstore.widecolumn.cql.plan.bindings import Variable
from docstore.widecolumn.cql.plan.conditions import ConditionalPlan, conditional_plan, is_conditional
from docstore.widecolumn.cql.plan.select import SelectPlan, select_plan
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.plan.write import WritePlan, write_plan
from docstore.widecolumn.cql.schema.tables import Table, table_of
from docstore.widecolumn.cql.statements import (
    Batch,
    Delete,
    Describe,
    Insert,
    SchemaChange,
    Select,
    Statement,
    TableName,
    Update,
    Use,
)
from docstore.widecolumn.model.executor import Executor, StoredFamily

Plan = SelectPlan | WritePlan | ConditionalPlan | BatchPlan | SchemaChange | Use | Describe


@dataclass(frozen=True, slots=True)
class Prepared:
    """`keyspace`: the one in use when it was prepared, which unqualified names refer to. `families`: the tables that it
    reads or writes, as they were then. `id` is the same on every router.
    """

    text: str
    keyspace: str | None
    plan: Plan
    families: tuple[StoredFamily, ...] = ()
    variables: tuple[Variable, ...] = ()
    columns: tuple[ResultColumn, ...] = ()
    literals: Mapping[int, bytes] = field(default_factory=dict)
    """The values of literals in whose places the plan has markers, by the positions of these."""

    @property
    def id(self) -> bytes:
        digest_input = (self.keyspace or "") + self.text
        return hashlib.md5(digest_input.encode(), usedforsecurity=False).digest()


def waits_for_others(plan: Plan) -> bool:
    """True if a plan may wait for more than pauses and locks, so that it has to run in a task."""
    return not isinstance(plan, SelectPlan | WritePlan | BatchPlan) or (isinstance(plan, WritePlan) and plan.reads_row)


class TableAccess(Protocol):
    """Which tables a statement may read or write."""

    def check(self, text: str, namespace: str, *, conditional: bool = False) -> None:
        """Raise Unauthorized if the statement of a text may not use a table, whether or not the table exists.

        `conditional`: it is a conditional write, which shows values.
        """


async def prepare(
    executor: Executor,
    text: str,
    keyspace: str | None,
    access: TableAccess | None = None,
    *,
    parsed: Statement | None = None,
) -> Prepared:
    """The statement of a text, with unqualified names taken from a keyspace. CqlError.

    A table is not looked up before `access` has been asked; None: everything is allowed. `parsed`: as `parse` returns
    it, where that has been done.
    """
    statement = parse(text) if parsed is None else parsed
    if access is not None:
        for name, conditional in _named_tables(statement):
            access.check(text, f"{keyspace_name(name, keyspace)}.{name.name}", conditional=conditional)
    if isinstance(statement, Select):
        family = await find_family(executor, statement.table, keyspace)
        plan = allowing(PAUSED, select_plan, table_of(*family), statement)
        return Prepared(text, keyspace, plan, (family,), plan.variables, plan.selection.metadata(plan.table))
    if isinstance(statement, Insert | Update | Delete):
        family = await find_family(executor, statement.table, keyspace)
        modification = allowing(PAUSED, _modification_plan, table_of(*family), statement)
        return Prepared(text, keyspace, modification, (family,), modification.variables)
    if isinstance(statement, Batch):
        families = [await find_family(executor, member.table, keyspace) for member in statement.statements]
        if any(is_conditional(member) for member in statement.statements):
            raise unsupported("Conditional updates in a batch are")
        batch = allowing(PAUSED, _batch_plan, statement, families)
        return Prepared(text, keyspace, batch, tuple(families), batch.variables)
    return Prepared(text, keyspace, statement)


def _named_tables(statement: Statement) -> Iterator[tuple[TableName, bool]]:
    """Yield the tables that a statement reads or writes, and whether by a conditional write."""
    if isinstance(statement, Select):
        yield statement.table, False
    elif isinstance(statement, Insert | Update | Delete):
        yield statement.table, is_conditional(statement)
    elif isinstance(statement, Batch):
        for member in statement.statements:
            yield from _named_tables(member)


def _modification_plan(table: Table, statement: Insert | Update | Delete) -> WritePlan | ConditionalPlan:
    return (conditional_plan if is_conditional(statement) else write_plan)(table, statement)


def _batch_plan(batch: Batch, families: Sequence[StoredFamily]) -> BatchPlan:
    pairs = zip(batch.statements, families, strict=True)
    return batch_plan(batch, [write_plan(table_of(*family), member) for member, family in pairs])


def keyspace_name(name: TableName, keyspace: str | None) -> str:
    """The keyspace of a table's name. CqlError when none is named and none in use."""
    space = name.keyspace or keyspace
    if space is None:
        raise invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
    return space


async def find_table(executor: Executor, name: TableName, keyspace: str | None) -> Table:
    """The table of that name. CqlError when there is none."""
    return table_of(*await find_family(executor, name, keyspace))


async def find_family(executor: Executor, name: TableName, keyspace: str | None) -> StoredFamily:
    """The column family that stores the table of that name. CqlError when there is none."""
    space = keyspace_name(name, keyspace)
    family = await executor.family(space, name.name)
    if family is None:
        if await executor.keyspace(space) is None:
            raise no_keyspace(space)
        raise no_table(name.name)
    if family.definition.table is None:
        raise invalid(f"{space}.{name.name} is a column family of the column model, which CQL does not serve yet")
    return family
