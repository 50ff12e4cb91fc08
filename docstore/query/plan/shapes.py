"""Plans that are kept for filters of one shape: the same conditions on the same paths, with other values.

An application sends few shapes. What the choice of a plan finds out about one (which index, which of its fields by
which conditions, in which direction, what is left to be checked) holds for all values that the planner treats alike;
only the ranges of keys are made of the values.

Always true: what `Prepared.bind` gives for a filter is what `choose` gives for it, or one of the plans that it rejects,
as long as the indexes are as they were. So only such shapes are kept as leave no more to the values: comparisons by
bytes with one value of a type that has ranges of its own, and indexes of values under no collation and no filter. Which
of several plans is the best depends on the data: `docstore.collection.read.plan_cache`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from struct import unpack

from docstore.bson.walk import BOOL, DATE, DOUBLE, INT32, INT64, OBJECT_ID, STRING, TIMESTAMP, Value
from docstore.query.filter.tree import And, Comparison, Filter, Op, conjunction
from docstore.query.plan.access import IndexScan, Plan, index_scan
from docstore.query.plan.bounds import FieldBounds, arrays_on
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import EVERYTHING, Ranges, intersection, point
from docstore.query.plan.value_ranges import value_ranges
from docstore.query.sort import Sort

Shape = tuple[object, ...]
"""What has to be the same for a plan to be used again; hashable."""

_KINDS = {INT32: 1, INT64: 1, DOUBLE: 1, STRING: 2, OBJECT_ID: 7, BOOL: 8, DATE: 9, TIMESTAMP: 17}
"""The types whose values have ranges of their own; those that compare with each other have one number."""


def shape_of(tree: Filter, sort: Sort) -> Shape | None:
    """The shape of a filter and an order; None where plans are not kept."""
    if sort.natural or sort.measures:
        return None
    found: list[object] = [sort.fields, sort.collation]
    for each in _conjuncts(tree):
        if not isinstance(each, Comparison) or each.collation is not None:
            return None
        kind = _KINDS.get(each.value[0])
        equal = each.op is Op.EQ
        if kind is None or (equal and each.path == "_id") or _is_nan(each.value):
            return None
        found += (each.path, equal or each.op.value, kind)
    return tuple(found)


def _is_nan(value: Value) -> bool:
    return value[0] == DOUBLE and isnan(unpack("<d", value[1])[0])


def _conjuncts(tree: Filter) -> tuple[Filter, ...]:
    return tree.children if isinstance(tree, And) else (tree,)


@dataclass(frozen=True, slots=True)
class _Field:
    """A bounded field of the index, and which conditions of the filter bound it; none: it is left open."""

    path: str
    direction: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the plan of an index has for all filters of a shape."""

    index: IndexInfo
    direction: int
    exact: bool
    provides_sort: bool
    fields: tuple[_Field, ...]
    left: tuple[int, ...]
    """Which conditions are still to be checked."""

    def bind(self, tree: Filter) -> Plan | None:
        """The plan for a filter of the shape; None where its conditions contradict each other."""
        conditions = _conjuncts(tree)
        bounds = []
        for field in self.fields:
            ranges = _ranges([conditions[place] for place in field.places])
            if not ranges:
                return None
            met = tuple(conditions[place] for place in field.places)
            bounds.append(FieldBounds(field.path, field.direction, ranges, met))
        residual = conjunction([conditions[place] for place in self.left]) if self.left else None
        return Plan(index_scan(self.index, bounds, self.direction, exact=self.exact), residual, self.provides_sort)


def _ranges(conditions: Sequence[Filter]) -> Ranges:
    found = EVERYTHING
    for each in conditions:
        if isinstance(each, Comparison) and each.op is Op.EQ:
            return (point(each.value),)
        bounded = value_ranges(each)
        assert bounded is not None, "a comparison with such a value bounds"
        found = bounded[0] if found is EVERYTHING else intersection(found, bounded[0])
    return found


def prepared(tree: Filter, plan: Plan, indexes: Sequence[IndexInfo]) -> Prepared | None:
    """What is kept of a plan for a filter that has a shape; None where it may not be used for others of that shape.

    `indexes`: all that there were to choose from.
    """
    access = plan.access
    if not isinstance(access, IndexScan) or access.once or not all(map(_is_plain, indexes)):
        return None
    conditions = _conjuncts(tree)
    fields = []
    for item in access.bounds:
        places: tuple[int, ...] = ()
        if item.bounded:
            places = tuple(place for place, each in enumerate(conditions) if _path(each) == item.path)
        if len(places) > 1 and (arrays_on(item.path, access.index.arrays) or item.is_point):
            # One of them was chosen, or their values happen to leave one point.
            return None
        fields.append(_Field(item.path, item.direction, places))
    met = {condition for item in access.bounds for condition in item.met}
    left = tuple(place for place, each in enumerate(conditions) if each not in met)
    found = Prepared(access.index, access.direction, access.exact, plan.provides_sort, tuple(fields), left)
    return found if found.bind(tree) == plan else None


def _path(condition: Filter) -> str:
    return condition.path if isinstance(condition, Comparison) else ""


def _is_plain(index: IndexInfo) -> bool:
    """Whether what the index has to offer is not decided by values: one of values as they stand, without a filter."""
    special = (index.partial, index.wildcard, index.geometry, index.text, index.collation)
    return all(each is None for each in special) and all(direction for _, direction in index.fields)
