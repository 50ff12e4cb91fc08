"""The choice of an access path in a clustered collection, whose documents are in the order of `_id`.

To the planner the cluster key is no index, as in a real server. Conditions on `_id` bound a scan of the collection
(`CLUSTERED_IXSCAN`), and an index that serves another condition takes precedence. Invariant: a bounded scan yields the
documents of a full scan that satisfy the filter, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docstore.bson.order import compare
from docstore.bson.walk import (
    ARRAY,
    BINARY,
    BOOL,
    DATE,
    OBJECT,
    OBJECT_ID,
    REGEX,
    STRING,
    TIMESTAMP,
    Value,
    elements,
)
from docstore.errors import CommandError
from docstore.kernel.keys.bounds import prefix_end
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.tree import And, Comparison, Filter, In, Op
from docstore.query.find import Hint, KeyBetween
from docstore.query.plan.access import CollectionScan, IndexScan, Plan
from docstore.query.plan.candidates import best_plan, collection_scan, index_plan, index_plans
from docstore.query.plan.disjunction import union_plans
from docstore.query.plan.hinted import between_plan, hinted_plan, named
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import HIGHEST, LOWEST
from docstore.query.sort import UNSORTED, Sort
from docstore.query.value.collation import Collation, holds_strings
from docstore.query.value.long_lists import paced
from docstore.query.value.values import NUMBERS, double_value

_EXTREMES: dict[int, tuple[Value, Value]] = {
    STRING: ((STRING, b"\1\0\0\0\0"), (OBJECT, b"\5\0\0\0\0")),
    OBJECT: ((OBJECT, b"\5\0\0\0\0"), (ARRAY, b"\5\0\0\0\0")),
    ARRAY: ((ARRAY, b"\5\0\0\0\0"), (BINARY, b"\0\0\0\0\0")),
    BINARY: ((BINARY, b"\0\0\0\0\0"), (OBJECT_ID, bytes(12))),
    OBJECT_ID: ((OBJECT_ID, bytes(12)), (OBJECT_ID, b"\xff" * 12)),
    BOOL: ((BOOL, b"\0"), (BOOL, b"\1")),
    DATE: ((DATE, b"\0" * 7 + b"\x80"), (DATE, b"\xff" * 7 + b"\x7f")),
    TIMESTAMP: ((TIMESTAMP, bytes(8)), (TIMESTAMP, b"\xff" * 8)),
    **dict.fromkeys(NUMBERS, (double_value(float("nan")), double_value(float("inf")))),
}
"""The bounds of the values that compare with values of a type."""
_LOWER, _UPPER = (Op.EQ, Op.GT, Op.GTE), (Op.EQ, Op.LT, Op.LTE)


def choose_clustered(
    tree: Filter,
    own: IndexInfo,
    secondary: Sequence[IndexInfo],
    *,
    sort: Sort,
    hint: Hint | None,
    between: KeyBetween | None,
) -> Plan:
    """Return the plan for a filter and an order; `own` is the index of the cluster key. Errors: those of `choose`,
    6137400 to 6137402 for `min` and `max` of the cluster key.
    """
    if hint is not None:
        return _hinted(tree, own, secondary, sort, hint, between)
    if between is not None:
        return between_plan(tree, secondary, sort, hint, between)
    if sort.natural:
        return _scan(tree, own, sort, sort.natural)
    scan = _scan(tree, own, sort, _direction(own, sort))
    best = best_plan([*index_plans(tree, secondary, sort), *union_plans(tree, secondary, sort, _branch)])
    if best is None:
        return scan
    return replace(best, rejected=(*best.rejected, scan)) if sort.fields and scan.provides_sort else best


def _hinted(
    tree: Filter, own: IndexInfo, secondary: Sequence[IndexInfo], sort: Sort, hint: Hint, between: KeyBetween | None
) -> Plan:
    if hint.natural and between is None:
        return _scan(tree, own, sort, hint.natural)
    if hint.natural or sort.natural or named([own, *secondary], hint) is not own:
        if between is not None:
            return between_plan(tree, secondary, sort, hint, between)
        return hinted_plan(tree, secondary, sort, hint)
    scan = _scan(tree, own, sort, _direction(own, sort))
    return scan if between is None else _between(scan, own, between)


def _branch(tree: Filter, indexes: Sequence[IndexInfo]) -> Plan:
    """Return the plan of a branch of a disjunction."""
    plan = best_plan([*index_plans(tree, indexes, UNSORTED), *union_plans(tree, indexes, UNSORTED, _branch)])
    return collection_scan(tree, UNSORTED, 1) if plan is None else plan


def _direction(own: IndexInfo, sort: Sort) -> int:
    return sort.fields[0][1] if _is_order(own, sort) else 1


def _is_order(own: IndexInfo, sort: Sort) -> bool:
    """True if the collection is in the order, or in its reverse."""
    return [path for path, _ in sort.fields] == ["_id"] and sort.collation == own.collation and not sort.measures


def _scan(tree: Filter, own: IndexInfo, sort: Sort, direction: int) -> Plan:
    """Return the scan of the collection, within the bounds that the filter sets to `_id`."""
    least, greatest = _record_range(tree, own.collation)
    if least is None or greatest is None:
        # A list of values, for example, has several ranges: a real server reads all documents between them.
        id_scan = index_plan(tree, own, UNSORTED).access
        if isinstance(id_scan, IndexScan):
            read = replace(id_scan, direction=direction, exact=False)
        else:
            # An empty list matches no keys.
            read = IndexScan(own, (), direction, exact=False)
    else:
        low, high = encode_key(least), prefix_end(encode_key(greatest))
        read = IndexScan(own, ((low, high),) if low < high else (), direction, exact=False)
    access = CollectionScan(direction, read, least, greatest)
    provides = not sort.fields or (_is_order(own, sort) and sort.fields[0][1] == direction)
    return Plan(access, None if tree == And(()) else tree, provides)


def _between(plan: Plan, own: IndexInfo, between: KeyBetween) -> Plan:
    assert isinstance(plan.access, CollectionScan)
    access = plan.access
    if access.direction < 0:
        raise CommandError(
            6137402, "min() / max() are only supported for forward collection scans on clustered collections"
        )
    low, high = _edge(own, between.lowest, between), _edge(own, between.highest, between)
    if low is not None and high is not None and compare(low, high) >= 0:
        raise CommandError(6137401, "max() must be greater than min()")
    start = LOWEST if low is None else own.key_pattern.encode([low])
    end = HIGHEST if high is None else own.key_pattern.encode([high])
    least = [value for value in (access.least, low) if value is not None]
    greatest = [value for value in (access.greatest, high) if value is not None]
    read = IndexScan(own, ((start, end),), 1, exact=False)
    return replace(plan, access=CollectionScan(1, read, _highest(least), _lowest(greatest)))


def _edge(own: IndexInfo, limit: bytes | None, between: KeyBetween) -> Value | None:
    if limit is None:
        return None
    fields = elements(limit)
    folded = between.collation != own.collation and any(holds_strings((code, data)) for _, code, data in fields)
    if [name for name, _, _ in fields] != ["_id"] or folded:
        raise CommandError(6137400, "The clustered index is not compatible with the values provided for min/max")
    return fields[0][1:]


def _record_range(tree: Filter, collation: Collation | None) -> tuple[Value | None, Value | None]:
    """Return the least and the greatest `_id` that the comparisons allow, both inclusive; None: no bound."""
    least: list[Value] = []
    greatest: list[Value] = []
    for conjunct in paced(tree.children if isinstance(tree, And) else (tree,)):
        comparison = _compared(conjunct)
        if comparison is None:
            continue
        op, value, rules = comparison
        low, high = _EXTREMES.get(value[0], (value, value))
        if rules != collation and holds_strings(value):
            least.append(low)
            greatest.append(high)
            continue
        if collation is not None:
            value = collation.fold(value)
        least.append(value if op in _LOWER else low)
        greatest.append(value if op in _UPPER else high)
    return _highest(least), _lowest(greatest)


def _compared(condition: Filter) -> tuple[Op, Value, Collation | None] | None:
    """Return the operator, the value and the collation of a comparison of `_id`; None for other conditions."""
    match condition:
        case Comparison("_id", op, value, rules) if value[0] != REGEX:
            return op, value, rules
        case In("_id", (value,), (), rules) if value[0] != REGEX:
            return Op.EQ, value, rules
        case _:
            return None


def _highest(values: list[Value]) -> Value | None:
    highest: Value | None = None
    for value in values:
        highest = value if highest is None or compare(value, highest) > 0 else highest
    return highest


def _lowest(values: list[Value]) -> Value | None:
    lowest: Value | None = None
    for value in values:
        lowest = value if lowest is None or compare(value, lowest) < 0 else lowest
    return lowest
