"""Rows that a WHERE clause selects: half-open ranges of clustering keys (`docstore.widecolumn.cql.schema.layout`).

A region is a list of ranges in ascending order that do not overlap; an empty upper end is open. Clustering keys sort
like the clustering columns, so every condition on leading clustering columns is a region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from docstore.kernel.limits import MAX_COLUMN_KEY_BYTES
from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.restrictions import (
    ColumnCondition,
    Restriction,
    Restrictions,
    RowCondition,
    TupleIn,
    TupleSlice,
)
from docstore.widecolumn.cql.schema.layout import beyond
from docstore.widecolumn.cql.schema.tables import Column, Table
from docstore.widecolumn.limits import MAX_COMBINATIONS

Range = tuple[bytes, bytes]
Region = list[Range]
EVERYTHING: Range = (b"", b"")
Point = ColumnCondition | TupleIn
Slice = ColumnCondition | TupleSlice


@dataclass(frozen=True, slots=True)
class ClusteringRanges:
    """The rows of a partition that some conditions select. `consumed`: the conditions that make up `region`, and no
    others. `is_complete`: they name all clustering columns, so a range is one row.
    """

    region: Callable[[Bindings], Region]
    consumed: tuple[RowCondition, ...]
    is_complete: bool


def clustering_ranges(table: Table, restrictions: Restrictions) -> ClusteringRanges:
    """Return the clustering keys that the conditions on leading clustering columns allow.

    First come points, one column after the other; then the slices that begin after the last point.
    """
    points: list[Point] = []
    position = 0
    while (point := _point_at(table, restrictions, position)) is not None:
        points.append(point)
        position += len(point.columns)
    slices = _slices_at(table, restrictions, position)

    def region(bindings: Bindings) -> Region:
        prefixes = [b""]
        for point in points:
            keys = _point_keys(point, bindings)
            check_combinations(len(prefixes), len(keys))
            prefixes = [prefix + key for prefix in prefixes for key in keys]
        ranges: Region = []
        for prefix in prefixes:
            part: Region = [(prefix, beyond(prefix))]
            for condition in slices:
                part = intersected(part, _slice_region(prefix, condition, bindings))
            ranges += part
        return joined(ranges)

    return ClusteringRanges(region, (*points, *slices), position == len(table.clustering))


def check_combinations(*counts: int) -> None:
    """Refuse IN restrictions that name more rows together than one statement is to touch. `counts`: values of each.

    Errors: CqlError.
    """
    combinations = prod(counts)
    if combinations > MAX_COMBINATIONS:
        raise invalid(
            f"The IN restrictions of the statement name {combinations} combinations of values, and at most"
            f" {MAX_COMBINATIONS} are allowed"
        )


def _conditions_at(table: Table, restrictions: Restrictions, position: int) -> list[RowCondition]:
    """The conditions whose first column is the clustering column at that position."""
    if position == len(table.clustering):
        return []
    column = table.clustering[position]
    return [condition for condition in restrictions.on_any((column,)) if condition.columns[0] == column]


def _point_at(table: Table, restrictions: Restrictions, position: int) -> Point | None:
    for condition in _conditions_at(table, restrictions, position):
        if isinstance(condition, TupleIn):
            return condition
        if isinstance(condition, ColumnCondition) and condition.restriction.is_point:
            return condition
    return None


def _slices_at(table: Table, restrictions: Restrictions, position: int) -> list[Slice]:
    return [
        condition
        for condition in _conditions_at(table, restrictions, position)
        if isinstance(condition, TupleSlice)
        or (isinstance(condition, ColumnCondition) and condition.restriction.is_slice)
    ]


def _encoded(column: Column, value: bytes) -> bytes:
    if len(value) > MAX_COLUMN_KEY_BYTES:
        raise invalid(f"The sum of all clustering columns is too long ({len(value)} > {MAX_COLUMN_KEY_BYTES})")
    return column.comparator.encode(value)


def _point_keys(point: Point, bindings: Bindings) -> list[bytes]:
    """The encoded values of the point's columns, each once, in ascending order."""
    rows: Iterable[tuple[bytes, ...]]
    if isinstance(point, TupleIn):
        rows = point.values(bindings)
    elif point.restriction.equal is not None:
        rows = [(point.restriction.equal(bindings),)]
    else:
        assert point.restriction.among is not None, "a point names its values"
        rows = [(value,) for value in point.restriction.among(bindings)]
    return sorted(
        {b"".join(_encoded(column, value) for column, value in zip(point.columns, row, strict=True)) for row in rows}
    )


def _slice_region(prefix: bytes, condition: Slice, bindings: Bindings) -> Region:
    """The clustering keys behind the prefix that the condition allows."""
    if isinstance(condition, TupleSlice):
        return _tuple_region(prefix, condition, bindings)
    return [_slice(prefix, condition.columns[0], condition.restriction, bindings)]


def _slice(prefix: bytes, column: Column, restriction: Restriction, bindings: Bindings) -> Range:
    """The clustering keys behind the prefix whose next value lies in the column's range."""
    start, end = prefix, beyond(prefix)
    for bound, lower in ((restriction.lower, True), (restriction.upper, False)):
        if bound is None:
            continue
        at = prefix + _encoded(column, bound.value(bindings))
        if lower != column.descending:
            start = at if bound.inclusive else beyond(at)
        else:
            end = beyond(at) if bound.inclusive else at
    return start, end


def _tuple_region(prefix: bytes, part: TupleSlice, bindings: Bindings) -> Region:
    """The clustering keys behind the prefix that a comparison of several columns allows: where the first differing
    column does as the comparison says, or none differs and it includes equality.
    """
    upwards = part.is_lower
    ranges: Region = []
    for column, value in zip(part.columns, part.values, strict=True):
        at = prefix + _encoded(column, value(bindings))
        ranges.append((beyond(at), beyond(prefix)) if upwards != column.descending else (prefix, at))
        prefix = at
    if part.inclusive:
        ranges.append((prefix, beyond(prefix)))
    return joined(ranges)


def joined(ranges: Iterable[Range]) -> Region:
    """The ranges in order, empty ones left out, those that overlap made one."""
    region: Region = []
    for start, end in sorted(ranges):
        if end and start >= end:
            continue
        if region and (not region[-1][1] or start < region[-1][1]):
            last_start, last_end = region[-1]
            region[-1] = (last_start, b"" if not end or not last_end else max(end, last_end))
        else:
            region.append((start, end))
    return region


def intersected(first: Sequence[Range], second: Sequence[Range]) -> Region:
    ranges: Region = []
    for start, end in first:
        for other_start, other_end in second:
            ends = [bound for bound in (end, other_end) if bound]
            ranges.append((max(start, other_start), min(ends, default=b"")))
    return joined(ranges)
