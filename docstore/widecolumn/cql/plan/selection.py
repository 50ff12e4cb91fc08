"""The outputs of a SELECT for each row: columns, their write times and times to live, tokens, functions, aggregates.

With an aggregate among them, all rows form one; the other outputs then come from the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from docstore.kernel.columns.encoding import EXPIRING
from docstore.widecolumn.cql.errors import invalid, unsupported
from docstore.widecolumn.cql.plan.aggregates import Aggregate, find_aggregate
from docstore.widecolumn.cql.plan.bindings import Bindings, Value
from docstore.widecolumn.cql.plan.functions import find_function
from docstore.widecolumn.cql.plan.partition_keys import token_type, token_value
from docstore.widecolumn.cql.plan.terms import Preparation, Receiver, as_value
from docstore.widecolumn.cql.run.rows import Row
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import (
    Call,
    ColumnName,
    Constant,
    ConstantKind,
    Expression,
    Null,
    Selector,
    Star,
)
from docstore.widecolumn.cql.types.collections import collection_of_cells
from docstore.widecolumn.cql.types.native import BIGINT, INT, CqlType
from docstore.widecolumn.model.cells import Cell

Evaluate = Callable[[Row, Bindings], Value]


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result."""

    keyspace: str
    table: str
    name: str
    type: CqlType


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the result. With an `aggregate`, `evaluate` returns its input for each row. `reads`: the table's
    columns that it needs.
    """

    name: str
    type: CqlType
    evaluate: Evaluate
    reads: tuple[Column, ...]
    aggregate: Aggregate | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The outputs of a SELECT. `columns`: those selected as they are, perhaps under another name."""

    outputs: tuple[OutputColumn, ...]
    columns: tuple[Column, ...]

    @property
    def reads(self) -> frozenset[Column]:
        """Return the table's columns that the outputs need."""
        return frozenset(column for output in self.outputs for column in output.reads)

    @property
    def is_aggregate(self) -> bool:
        return any(output.aggregate is not None for output in self.outputs)

    def metadata(self, table: Table) -> tuple[ResultColumn, ...]:
        return tuple(ResultColumn(table.keyspace.name, table.name, output.name, output.type) for output in self.outputs)

    def project(self, row: Row, bindings: Bindings) -> tuple[Value, ...]:
        return tuple(output.evaluate(row, bindings) for output in self.outputs)


def selection_of(preparation: Preparation, table: Table, selected: Sequence[Selector]) -> Selection:
    """The outputs of a SELECT clause; all columns where it is `*`. CqlError."""
    if not selected:
        outputs = tuple(OutputColumn(column.name, column.type, reader(column), (column,)) for column in table.columns)
        return Selection(outputs, table.columns)
    output_columns = [_output(preparation, table, part) for part in selected]
    plain = tuple(table.column(part.expression.name) for part in selected if isinstance(part.expression, ColumnName))
    return Selection(tuple(output_columns), plain)


def reader(column: Column) -> Evaluate:
    """Return the evaluation that reads a column of a row."""
    position, identity = column.position, column.id
    if column.kind is ColumnKind.PARTITION:
        if position == 0:
            return lambda row, bindings: row.parts[0]
        return lambda row, bindings: row.parts[position]
    if column.kind is ColumnKind.CLUSTERING:
        return lambda row, bindings: row.clustering[position] if row.clustering else None

    def cell_value(row: Row, bindings: Bindings) -> Value:
        cell = cell_of(row, column)
        return None if cell is None else cell.value

    assert identity, "columns that hold cells have ids from 1"
    return cell_value


def cell_of(row: Row, column: Column) -> Cell | None:
    cells = row.statics if column.kind is ColumnKind.STATIC else row.cells
    return cells.get(column.id)


def _output(preparation: Preparation, table: Table, selected: Selector) -> OutputColumn:
    output = _expression(preparation, table, selected.expression)
    if selected.alias is None:
        return output
    return replace(output, name=selected.alias)


def _expression(preparation: Preparation, table: Table, expression: Expression) -> OutputColumn:
    if isinstance(expression, ColumnName):
        column = table.column(expression.name)
        return OutputColumn(column.name, column.type, reader(column), (column,))
    if isinstance(expression, Call):
        return _call(preparation, table, expression)
    if isinstance(expression, Constant | Null):
        raise invalid("Cannot infer type for term in selection clause (try using a cast to force a type)")
    raise unsupported("That expression in a selection clause is")


def _call(preparation: Preparation, table: Table, call: Call) -> OutputColumn:
    name = call.function
    if name in ("writetime", "ttl"):
        return _of_cell(table, call)
    if name == "token":
        return _token(table, call)
    if name == "count" and len(call.arguments) == 1 and _counts_rows(call.arguments[0]):
        return OutputColumn("count", BIGINT, lambda row, bindings: b"", (), find_aggregate("count", BIGINT))
    arguments = [_argument(preparation, table, argument) for argument in call.arguments]
    reads = tuple(column for argument in arguments for column in argument.reads)
    written = f"system.{name}({', '.join(argument.name for argument in arguments)})"
    if len(arguments) == 1:
        aggregate = find_aggregate(name, arguments[0].type)
        if aggregate is not None:
            if arguments[0].aggregate is not None:
                raise invalid("aggregate functions cannot be used as arguments of aggregate functions")
            return OutputColumn(written, aggregate.result, arguments[0].evaluate, reads, aggregate)
    function = find_function(name, [argument.type for argument in arguments])
    if function is None:
        raise invalid(f"Unknown function '{name}'")
    if len(function.arguments) != len(arguments) or any(
        actual.type is not parameter for actual, parameter in zip(arguments, function.arguments, strict=False)
    ):
        raise invalid(f"Invalid call to function {name}, none of its type signatures match")
    if any(argument.aggregate is not None for argument in arguments):
        raise unsupported("Functions of aggregates are")
    callee = function

    def evaluate(row: Row, bindings: Bindings) -> Value:
        return callee.evaluate([argument.evaluate(row, bindings) for argument in arguments], bindings.time)

    return OutputColumn(written, callee.result, evaluate, reads)


def _counts_rows(argument: Expression) -> bool:
    return isinstance(argument, Star) or (isinstance(argument, Constant) and argument.kind is ConstantKind.INTEGER)


def _argument(preparation: Preparation, table: Table, argument: Expression) -> OutputColumn:
    if isinstance(argument, Constant) and argument.kind is ConstantKind.INTEGER:
        evaluate = preparation.term(argument, Receiver("arg", BIGINT))
        return OutputColumn(argument.text, BIGINT, lambda row, bindings: as_value(evaluate(bindings), "arg"), ())
    return _expression(preparation, table, argument)


def _of_cell(table: Table, call: Call) -> OutputColumn:
    """Return the evaluation of writetime(column) or ttl(column)."""
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], ColumnName):
        raise invalid(f"Invalid call to function {call.function}: it takes one column")
    column = table.column(call.arguments[0].name)
    if column.kind.is_key:
        raise invalid(f"Cannot use selection function {call.function} on PRIMARY KEY part {column.name}")
    if collection_of_cells(column.type) is not None:
        raise invalid(f"Cannot use selection function {call.function} on non-frozen collection {column.name}")
    name = f"{call.function}({column.name})"
    if call.function == "writetime":

        def written_at(row: Row, bindings: Bindings) -> Value:
            cell = cell_of(row, column)
            return None if cell is None else BIGINT.serialise(cell.timestamp)

        return OutputColumn(name, BIGINT, written_at, (column,))

    def remaining(row: Row, bindings: Bindings) -> Value:
        cell = cell_of(row, column)
        if cell is None or not cell.flags & EXPIRING:
            return None
        return INT.serialise(cell.local_deletion - bindings.time.seconds)

    return OutputColumn(name, INT, remaining, (column,))


def _token(table: Table, call: Call) -> OutputColumn:
    names = [argument.name for argument in call.arguments if isinstance(argument, ColumnName)]
    if names != [column.name for column in table.partition]:
        expected = ", ".join(column.name for column in table.partition)
        raise invalid(f"Invalid call to function token, its arguments must be the partition key columns: {expected}")
    partitioner = table.keyspace.partitioner
    return OutputColumn(
        f"system.token({', '.join(names)})",
        token_type(partitioner),
        lambda row, bindings: token_value(partitioner, row.key),
        table.partition,
    )
