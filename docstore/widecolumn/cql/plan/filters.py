"""Conditions that are tested row by row: what ALLOW FILTERING lets a SELECT ask. A null value meets no condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docstore.widecolumn.cql.errors import unsupported
from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.restrictions import Restriction, Restrictions
from docstore.widecolumn.cql.plan.selection import reader
from docstore.widecolumn.cql.run.rows import Row
from docstore.widecolumn.cql.schema.tables import Column, Table

Test = Callable[[Row, Bindings], bool]


def tests(table: Table, restrictions: Restrictions, columns: Sequence[Column]) -> tuple[Test, ...]:
    """The tests of what is asked of these columns."""
    tuples = restrictions.in_tuples()
    found: list[Test] = []
    for column in columns:
        if column.name in tuples:
            raise unsupported("Filtering on several columns at once is")
        restriction = restrictions.on(column)
        assert restriction is not None, "something is asked of the column"
        found.append(_test(column, restriction))
    return tuple(found)


def _test(column: Column, restriction: Restriction) -> Test:
    read = reader(column)

    def test(row: Row, bindings: Bindings) -> bool:
        value = read(row, bindings)
        if value is None:
            return False
        if restriction.equal is not None:
            return _compared(column, value, restriction.equal(bindings)) == 0
        if restriction.among is not None:
            return any(_compared(column, value, wanted) == 0 for wanted in restriction.among(bindings))
        return _in_range(column, restriction, value, bindings)

    return test


def _in_range(column: Column, restriction: Restriction, value: bytes, bindings: Bindings) -> bool:
    lower, upper = restriction.lower, restriction.upper
    if lower is not None:
        order = _compared(column, value, lower.value(bindings))
        if order < 0 or (order == 0 and not lower.inclusive):
            return False
    if upper is not None:
        order = _compared(column, value, upper.value(bindings))
        if order > 0 or (order == 0 and not upper.inclusive):
            return False
    return True


def _compared(column: Column, first: bytes, second: bytes) -> int:
    comparator = column.type.comparator
    if comparator is None:
        return (first > second) - (first < second)
    return comparator.compare(first, second)
