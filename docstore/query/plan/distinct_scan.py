"""The plan of a `distinct` that reads one index entry for each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docstore.query.filter.tree import MATCH_ALL, Filter
from docstore.query.find import DistinctPath, Hint
from docstore.query.plan.access import Plan, index_scan
from docstore.query.plan.bounds import FieldBounds, arrays_on
from docstore.query.plan.candidates import residual
from docstore.query.plan.hinted import named
from docstore.query.plan.index_bounds import IndexInfo, asked_of, covers, usable_bounds
from docstore.query.plan.intervals import EVERYTHING


def over_distinct(tree: Filter, indexes: Sequence[IndexInfo], distinct: DistinctPath, hint: Hint | None) -> Plan | None:
    """Return a plan that reads one index entry for each value of the path that the filter admits; None if there is
    none.
    """
    path = distinct.path
    for index in indexes:
        position = next((position for position, (own, _) in enumerate(index.fields) if own == path), None)
        if position is None or index.wildcard is not None or 0 in dict(index.fields).values():
            continue
        if hint is not None and named(indexes, hint) is not index:
            continue
        if arrays_on(path, index.arrays) and (
            not distinct.by_element or tree != MATCH_ALL or any(name.isdigit() for name in path.split("."))
        ):
            # The first entry for an element may be of another array, and bounds on one element would exclude the
            # others.
            continue
        bounds = _bounds(tree, index, position)
        if bounds is not None:
            return Plan(replace(index_scan(index, bounds, 1), once=position + 1), None, True)
    return None


def _bounds(tree: Filter, index: IndexInfo, position: int) -> Sequence[FieldBounds] | None:
    """Return bounds that express the whole filter and fix the fields before `position` to one value; None if there are
    none.
    """
    coverage = covers(tree, index)
    bounds = usable_bounds(asked_of(tree, index.collation), index) if coverage.bounded else []
    if (not bounds and not coverage.unbounded) or index.collation is not None:
        return None
    if any(not item.ranges for item in bounds) or residual(tree, bounds, None) is not None:
        return None
    if position > len(bounds) or not all(item.is_point for item in bounds[:position]):
        return None
    return bounds if len(bounds) > position else [*bounds, FieldBounds(*index.fields[position], EVERYTHING)]
