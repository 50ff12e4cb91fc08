"""Conditions that are tested row by row, for SELECT with ALLOW FILTERING. A null value meets no condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.restrictions import (
    ColumnCondition,
    Condition,
    Restriction,
    TokenCondition,
    TupleIn,
    TupleSlice,
)
from docstore.widecolumn.cql.plan.selection import Evaluate, reader
from docstore.widecolumn.cql.run.rows import Row
from docstore.widecolumn.cql.schema.tables import Column

Test = Callable[[Row, Bindings], bool]


def compile_tests(conditions: Iterable[Condition]) -> tuple[Test, ...]:
    """The tests of the conditions, one for each."""
    return tuple(map(_compile, conditions))


def _compile(condition: Condition) -> Test:
    if isinstance(condition, ColumnCondition):
        return _column_test(condition.columns[0], condition.restriction)
    if isinstance(condition, TupleSlice):
        return _tuple_slice_test(condition)
    if isinstance(condition, TupleIn):
        return _tuple_in_test(condition)
    if isinstance(condition, TokenCondition):
        raise AssertionError("the ring is read by the token")
    assert_never(condition)


def _column_test(column: Column, restriction: Restriction) -> Test:
    read = reader(column)

    def test(row: Row, bindings: Bindings) -> bool:
        value = read(row, bindings)
        if value is None:
            return False
        if restriction.equal is not None:
            return column.type.order(value, restriction.equal(bindings)) == 0
        if restriction.among is not None:
            return any(column.type.order(value, member) == 0 for member in restriction.among(bindings))
        return _in_range(column, restriction, value, bindings)

    return test


def _tuple_slice_test(condition: TupleSlice) -> Test:
    read = _tuple_reader(condition.columns)

    def test(row: Row, bindings: Bindings) -> bool:
        values = read(row, bindings)
        if values is None:
            return False
        bounds = [value(bindings) for value in condition.values]
        order = _order_of_tuples(condition.columns, values, bounds)
        if order == 0:
            return condition.inclusive
        return (order > 0) == condition.is_lower

    return test


def _tuple_in_test(condition: TupleIn) -> Test:
    read = _tuple_reader(condition.columns)

    def test(row: Row, bindings: Bindings) -> bool:
        values = read(row, bindings)
        if values is None:
            return False
        return any(_order_of_tuples(condition.columns, values, member) == 0 for member in condition.values(bindings))

    return test


def _tuple_reader(columns: Sequence[Column]) -> Callable[[Row, Bindings], list[bytes] | None]:
    """The values of the columns; None where one of them is null."""
    readers: list[Evaluate] = [reader(column) for column in columns]

    def read(row: Row, bindings: Bindings) -> list[bytes] | None:
        values = [value for evaluate in readers if (value := evaluate(row, bindings)) is not None]
        return values if len(values) == len(readers) else None

    return read


def _order_of_tuples(columns: Sequence[Column], first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """Compare the first values that differ, in the order of their types, even if columns are stored in reverse."""
    orders = (column.type.order(*pair) for column, *pair in zip(columns, first, second, strict=True))
    return next((order for order in orders if order), 0)


def _in_range(column: Column, restriction: Restriction, value: bytes, bindings: Bindings) -> bool:
    lower, upper = restriction.lower, restriction.upper
    if lower is not None:
        order = column.type.order(value, lower.value(bindings))
        if order < 0 or (order == 0 and not lower.inclusive):
            return False
    if upper is not None:
        order = column.type.order(value, upper.value(bindings))
        if order > 0 or (order == 0 and not upper.inclusive):
            return False
    return True
