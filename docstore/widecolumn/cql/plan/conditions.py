"""IF: conditional modifications, carried out only if the newest version of the row meets the conditions.

The row is read linearizably and tested. It is written only if the same records still stand at the moment of the
write; else it is read again. Conditional writes of one row are thus serializable. The new timestamp is above all that
were read, so the write is visible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from docstore.errors import Code
from docstore.kernel.columns.encoding import WHOLE
from docstore.widecolumn.cql.errors import WRITE_TIMEOUT, CqlError, invalid, unsupported
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Value, Variable
from docstore.widecolumn.cql.plan.column_changes import WriteContext
from docstore.widecolumn.cql.plan.restrictions import is_in
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.plan.terms import Preparation, Receiver
from docstore.widecolumn.cql.plan.write import RowTarget, WritePlan, prepared_write
from docstore.widecolumn.cql.run.results import Rows
from docstore.widecolumn.cql.run.rows import Row, RowAssembler
from docstore.widecolumn.cql.schema.layout import beyond
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import Insert, Modification, Operator, Relation, TupleTerm
from docstore.widecolumn.cql.types.collections import collection_of_cells, pack_parts
from docstore.widecolumn.cql.types.native import BOOLEAN, has_durations
from docstore.widecolumn.model.cells import Cell, unpack_cell, unpack_deletion
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.executor import Executor, ObservedPage, PartitionRead, RowWrite
from docstore.widecolumn.model.keys import COLUMNS, after_part
from docstore.widecolumn.model.slices import ReadCounts

_PORTION = 1000
_ATTEMPTS = 100
_AT_LEAST = (Level.QUORUM, Level.LOCAL_QUORUM, Level.EACH_QUORUM, Level.ALL)
_NO_LIMIT = 1 << 62
_LAST = (1 << 63) - 1
_EMPTY = pack_parts((), 0)

Test = Callable[[Value, Bindings], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """A test of a column's value; the value is None if the column has none."""

    column: Column
    test: Test


class CurrentRow(NamedTuple):
    """The current state of the row that a statement wants to write, and the partition's static cells.

    `row`: without values of its own if there is none. `exists`: the row exists; for a statement about static columns:
    any static cell does.
    """

    row: Row
    statics: Mapping[int, Cell]
    exists: bool

    def value(self, column: Column) -> Value:
        """Return the value of a column; None if it has none."""
        if column.kind is ColumnKind.STATIC:
            cell = self.statics.get(column.id)
            return None if cell is None else cell.value
        return read_value(self.row, column) if self.exists else None


@dataclass(frozen=True, slots=True)
class ConditionalPlan:
    """`exists`: the row must exist, or must not; None if `conditions` decide."""

    table: Table
    write: WritePlan
    variables: tuple[Variable, ...]
    exists: bool | None
    conditions: tuple[Condition, ...]

    def is_met(self, row: CurrentRow, bindings: Bindings) -> bool:
        """True if the row meets the statement's conditions."""
        if self.exists is not None:
            return row.exists == self.exists
        return all(condition.test(row.value(condition.column), bindings) for condition in self.conditions)

    def refused(self, row: CurrentRow) -> Rows:
        """Return the result of a statement whose conditions failed."""
        columns: Sequence[Column] = ()
        if row.exists and self.exists is not None:
            columns = self.table.columns
        elif row.exists or row.statics:
            names = {condition.column.name for condition in self.conditions}
            columns = [column for column in self.table.columns if column.name in names]
        values = [row.value(column) for column in columns]
        return Rows((self._applied, *map(self._result_column, columns)), [(BOOLEAN.serialise(False), *values)])

    def applied(self, warnings: Sequence[str]) -> Rows:
        return Rows((self._applied,), [(BOOLEAN.serialise(True),)], warnings=tuple(warnings))

    @property
    def _applied(self) -> ResultColumn:
        return ResultColumn(self.table.keyspace.name, self.table.name, "[applied]", BOOLEAN)

    def _result_column(self, column: Column) -> ResultColumn:
        return ResultColumn(self.table.keyspace.name, self.table.name, column.name, column.type)


def is_conditional(statement: Modification) -> bool:
    """True if the statement has an IF."""
    return statement.if_not_exists if isinstance(statement, Insert) else statement.conditions is not None


def conditional_plan(table: Table, statement: Modification) -> ConditionalPlan:
    """The plan of a modification with IF. CqlError."""
    if statement.using.timestamp is not None:
        raise invalid("Cannot provide custom timestamp for conditional updates")
    preparation = Preparation()
    write = prepared_write(preparation, table, statement)
    exists: bool | None = None
    conditions: tuple[Condition, ...] = ()
    if isinstance(statement, Insert):
        exists = False
    else:
        assert statement.conditions is not None, "the statement has an IF"
        conditions = tuple(_condition(preparation, table, relation) for relation in statement.conditions)
        exists = None if conditions else True
        _check_key(table, write)
    return ConditionalPlan(table, write, preparation.ordered(), exists, conditions)


def _check_key(table: Table, write: WritePlan) -> None:
    """Raise CqlError for a conditional modification of more than one row."""
    restrictions = write.restrictions
    for columns, kind in ((table.partition, "partition key"), (table.clustering, "clustering key columns")):
        conditions = restrictions.on_any(columns)
        if any(map(is_in, conditions)):
            raise invalid(f"IN on the {kind} is not supported with conditional updates")
    if write.of_statics:
        return
    for column in table.clustering:
        restriction = restrictions.on(column)
        if restriction is None or restriction.equal is None:
            raise invalid(
                "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to use IF "
                f"conditions, but column '{column.name}' is not restricted"
            )


def _condition(preparation: Preparation, table: Table, relation: Relation) -> Condition:
    column = table.column(relation.column)
    if column.kind.is_key:
        raise invalid(f"PRIMARY KEY column '{column.name}' cannot have IF conditions")
    operator = relation.operator
    receiver = Receiver(column.name, column.type)
    if operator is Operator.IN:
        if not isinstance(relation.value, TupleTerm):
            raise unsupported("A bind marker for all values of an IN condition is")
        terms = [preparation.term(item, receiver) for item in relation.value.items]

        def among(current: Value, bindings: Bindings) -> bool:
            return any(_is_equal(column, current, _checked_bound(term(bindings))) for term in terms)

        return Condition(column, among)
    if operator.is_slice and has_durations(column.type):
        raise invalid(f"Slice conditions ( {operator.value} ) are not supported on {column.type.name} columns")
    term = preparation.term(relation.value, receiver)

    def test(current: Value, bindings: Bindings) -> bool:
        operand = _checked_bound(term(bindings))
        if operator in (Operator.EQ, Operator.NE):
            return _is_equal(column, current, operand) == (operator is Operator.EQ)
        if operand is None:
            raise invalid(f'Invalid comparison with null for operator "{operator.value}"')
        if current is None:
            return False
        order = column.type.order(current, operand)
        return {
            Operator.LT: order < 0,
            Operator.LE: order <= 0,
            Operator.GT: order > 0,
            Operator.GE: order >= 0,
        }[operator]

    return Condition(column, test)


def _checked_bound(bound: object) -> Value:
    if bound is UNSET:
        raise invalid("Invalid 'unset' value in condition")
    assert bound is None or isinstance(bound, bytes), "a bound value is bytes or null"
    return bound


def _is_equal(column: Column, current: Value, expected: Value) -> bool:
    if expected == _EMPTY and collection_of_cells(column.type) is not None:
        expected = None
    if current is None or expected is None:
        return current is expected
    return column.type.order(current, expected) == 0


def read_value(row: Row, column: Column) -> Value:
    """Return the row's value of a key column or a regular one."""
    if column.kind is ColumnKind.PARTITION:
        return row.parts[column.position]
    if column.kind is ColumnKind.CLUSTERING:
        return row.clustering[column.position] if row.clustering else None
    cell = row.cells.get(column.id)
    return None if cell is None else cell.value


async def carry_out(
    executor: Executor,
    plan: ConditionalPlan,
    bindings: Bindings,
    *,
    level: Level,
    max_value: int,
    pause: Callable[[], Awaitable[None]],
) -> Rows:
    """Carry out a conditional modification. Errors: CqlError, those of the executor."""

    def decide(current: CurrentRow, newest: int) -> Rows | list[RowWrite]:
        if not plan.is_met(current, bindings):
            return plan.refused(current)
        at = min(max(executor.timestamp(), newest + 1), _LAST)
        return plan.write.writes(WriteContext(bindings, at, max_value, current.row))

    result = await _write_unchanged(executor, plan.write, bindings, level, pause, decide)
    return result if isinstance(result, Rows) else plan.applied(result)


async def write_with_row(
    executor: Executor, plan: WritePlan, writing: WriteContext, level: Level, pause: Callable[[], Awaitable[None]]
) -> list[str]:
    """Carry out a modification that depends on its row as it is; return the warnings. Errors: as of `carry_out`."""

    def decide(current: CurrentRow, _newest: int) -> Rows | list[RowWrite]:
        return plan.writes(replace(writing, row=current.row))

    warnings = await _write_unchanged(executor, plan, writing.bindings, level, pause, decide)
    assert not isinstance(warnings, Rows), "nothing is refused"
    return warnings


async def _write_unchanged(
    executor: Executor,
    plan: WritePlan,
    bindings: Bindings,
    level: Level,
    pause: Callable[[], Awaitable[None]],
    decide: Callable[[CurrentRow, int], Rows | list[RowWrite]],
) -> Rows | list[str]:
    """Make the writes that `decide` returns for the row as it is, and the highest timestamp in it, if it still is so
    then; return the warnings, or the rows that `decide` returns instead.
    """
    target = plan.target(bindings)
    assembly = RowAssembler(plan.table, bindings.time.seconds, ReadCounts(_NO_LIMIT))
    for _ in range(_ATTEMPTS):
        pages = await _read(executor, plan.table, target)
        decided = decide(_current_row(assembly, target, pages), _newest(pages))
        if isinstance(decided, Rows):
            return decided
        warnings = await executor.apply_if(decided, pages, level if level in _AT_LEAST else Level.QUORUM)
        if warnings is not None:
            return warnings
        await pause()
    raise CqlError(
        WRITE_TIMEOUT, "Operation timed out - received only 0 responses.", Code.WriteConcernFailed, "TimedOutException"
    )


async def _read(executor: Executor, table: Table, target: RowTarget) -> list[ObservedPage]:
    """Read all records that make up the row."""
    start, end = COLUMNS, COLUMNS
    if target.clustering_key is not None:
        start = COLUMNS + target.clustering_key
        bound = beyond(target.clustering_key)
        end = COLUMNS + bound if bound else after_part(COLUMNS)
    pages: list[ObservedPage] = []
    while True:
        read = PartitionRead(
            keyspace=table.keyspace.name, family=table.name, key=target.key, start=start, end=end, limit=_PORTION,
            head=not pages,
        )  # fmt: skip
        page = await executor.read(read, Level.SERIAL)
        pages.append(ObservedPage(read, page))
        if not page.more:
            return pages
        start = page.entries[-1][0] + b"\0"


def _current_row(assembly: RowAssembler, target: RowTarget, pages: Sequence[ObservedPage]) -> CurrentRow:
    head = assembly.head(pages[0].page.head)
    if target.clustering_key is None:
        row = assembly.static_row(target.key, head)
        return CurrentRow(row, head.statics, bool(head.statics))
    records = [stored for part in pages for stored in part.page.entries]
    live_row = assembly.row(target.key, head, target.clustering_key, records)
    row = live_row or assembly.static_row(target.key, head)
    return CurrentRow(row, head.statics, live_row is not None)


def _newest(pages: Sequence[ObservedPage]) -> int:
    """Return the highest timestamp that was read."""
    records = [record for part in pages for _, record in (*part.page.head, *part.page.entries)]
    stamps = [
        unpack_deletion(record).timestamp if record[0] & WHOLE else unpack_cell(record).timestamp for record in records
    ]
    return max(stamps, default=-(1 << 63))
