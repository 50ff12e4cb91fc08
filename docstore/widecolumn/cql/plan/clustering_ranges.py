"""Which rows a WHERE clause asks for: half-open ranges of clustering keys (`docstore.widecolumn.cql.schema.layout`).

A region is a list of ranges in ascending order that do not overlap; an empty upper end is open. The order of
clustering keys is that of the clustering columns, so every condition on leading clustering columns is such a region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.restrictions import Restriction, Restrictions, TupleSlice
from docstore.widecolumn.cql.schema.layout import beyond
from docstore.widecolumn.cql.schema.tables import Column, Table
from docstore.widecolumn.cql.statements import Operator
from docstore.widecolumn.model.values import MAX_KEY_BYTES

Range = tuple[bytes, bytes]
Region = list[Range]
EVERYTHING: Range = (b"", b"")


@dataclass(frozen=True, slots=True)
class ClusteringRanges:
    """The rows of a partition that are asked for. `leading`: how many clustering columns the region takes care of."""

    region: Callable[[Bindings], Region]
    leading: int
    whole: bool
    """Whether they name all clustering columns, so each range is one row."""


def clustering_ranges(table: Table, restrictions: Restrictions) -> ClusteringRanges:
    """The clustering keys that the conditions on leading clustering columns allow."""
    tuples = restrictions.in_tuples()
    steps: list[tuple[Column, Restriction]] = []
    for column in table.clustering:
        restriction = restrictions.on(column)
        if restriction is None:
            break
        steps.append((column, restriction))
        if restriction.is_slice:
            break
    leading = len(steps)
    points = leading - (1 if steps and steps[-1][1].is_slice else 0)
    while leading < len(table.clustering) and table.clustering[leading].name in tuples:
        leading += 1
    among = [part for part in restrictions.among if part.columns[0].position == points]
    slices = [part for part in restrictions.slices if part.columns[0].position == points]
    whole = points == len(table.clustering) or any(
        points + len(part.columns) == len(table.clustering) for part in among
    )

    def region(bindings: Bindings) -> Region:
        prefixes = [b""]
        for column, restriction in steps[:points]:
            prefixes = [prefix + part for prefix in prefixes for part in _points(column, restriction, bindings)]
        for part in among:
            rows = {
                b"".join(_encoded(column, value) for column, value in zip(part.columns, row, strict=True))
                for row in part.values(bindings)
            }
            prefixes = [prefix + row for prefix in prefixes for row in sorted(rows)]
        found: Region = []
        for prefix in prefixes:
            ranges: Region = [(prefix, beyond(prefix))]
            if points < len(steps):
                ranges = [_slice(prefix, *steps[points], bindings)]
            for compared in slices:
                ranges = intersected(ranges, _tuple_region(prefix, compared, bindings))
            found += ranges
        return joined(found)

    return ClusteringRanges(region, leading, whole)


def _encoded(column: Column, value: bytes) -> bytes:
    if len(value) > MAX_KEY_BYTES:
        raise invalid(f"The sum of all clustering columns is too long ({len(value)} > {MAX_KEY_BYTES})")
    return column.comparator.encode(value)


def _points(column: Column, restriction: Restriction, bindings: Bindings) -> list[bytes]:
    if restriction.equal is not None:
        return [_encoded(column, restriction.equal(bindings))]
    assert restriction.among is not None, "the restriction names its values"
    return sorted({_encoded(column, value) for value in restriction.among(bindings)})


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
    upwards = part.operator in (Operator.GT, Operator.GE)
    found: Region = []
    for column, value in zip(part.columns, part.values, strict=True):
        at = prefix + _encoded(column, value(bindings))
        found.append((beyond(at), beyond(prefix)) if upwards != column.descending else (prefix, at))
        prefix = at
    if part.operator in (Operator.GE, Operator.LE):
        found.append((prefix, beyond(prefix)))
    return joined(found)


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
    found: Region = []
    for start, end in first:
        for other_start, other_end in second:
            ends = [bound for bound in (end, other_end) if bound]
            found.append((max(start, other_start), min(ends, default=b"")))
    return joined(found)
