"""Plans that the request determines: a hint names the index, `min` and `max` the keys to read."""

from __future__ import annotations

from collections.abc import Sequence

from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import And, Filter
from docstore.query.find import Hint, KeyBetween
from docstore.query.plan.access import IndexScan, Plan
from docstore.query.plan.candidates import collection_scan, index_plan
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import HIGHEST, LOWEST
from docstore.query.plan.ordering import sort_direction
from docstore.query.sort import Sort
from docstore.query.value.collation import holds_strings


def hinted_plan(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint) -> Plan:
    """Return the plan that a hint requires. Errors: BadValue, IndexNotFound, NoQueryExecutionPlans."""
    if sort.natural and not hint.natural:
        raise CommandError(Code.BadValue, "index hint not allowed with $natural sort order")
    if hint.natural:
        return collection_scan(tree, sort, hint.natural)
    return index_plan(tree, named(indexes, hint), sort)


def named(indexes: Sequence[IndexInfo], hint: Hint) -> IndexInfo:
    """Return the index of a hint. Errors: BadValue for none, IndexNotFound for several."""
    matches = [
        index for index in indexes if index.name == hint.name or (hint.key is not None and index.key_id == hint.key)
    ]
    if not matches:
        raise CommandError(Code.BadValue, "hint provided does not correspond to an existing index")
    if len(matches) > 1:
        raise CommandError(Code.IndexNotFound, "several indexes of different collations have the key of the hint")
    return matches[0]


def between_plan(
    tree: Filter, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint | None, between: KeyBetween
) -> Plan:
    """Return the scan of the keys between `min` and `max`. Errors: 51173 without a hint, 51174 if the index has other
    fields or another collation, 51175 for bounds in the wrong order, NoQueryExecutionPlans for the natural order.
    """
    if hint is None:
        raise CommandError(51173, "When using min()/max() a hint of which index to use must be provided")
    if hint.natural:
        raise CommandError(Code.NoQueryExecutionPlans, "min and max are incompatible with $natural")
    index = named(indexes, hint)
    low = LOWEST if between.lowest is None else _key(index, between.lowest, between)
    high = HIGHEST if between.highest is None else _key(index, between.highest, between)
    if low >= high:
        raise CommandError(51175, "The value provided for min() does not come before the value provided for max()")
    direction = 0 if index.multikey else sort_direction(index, (), sort)
    scan = IndexScan(index, ((low, high),), direction or 1, exact=False)
    return Plan(scan, None if tree == And(()) else tree, not sort or direction != 0)


def _key(index: IndexInfo, limit: bytes, between: KeyBetween) -> bytes:
    fields = elements(limit)
    if index.wildcard is not None or [name for name, _, _ in fields] != [path for path, _ in index.fields]:
        raise CommandError(51174, "The index chosen is not compatible with min/max")
    if between.collation != index.collation and any(holds_strings((code, data)) for _, code, data in fields):
        raise CommandError(51174, "The index chosen compares strings by another collation than the request")
    return index.key_pattern.encode([(code, data) for _, code, data in fields])
