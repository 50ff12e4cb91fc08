"""The choice of an access path, as a pure function of the filter, the order, the hint and the indexes.

A plan is a source of documents; the filter is applied to all of them unless the bounds are `exact`. Invariants:

- A plan's source holds every document that satisfies the filter (`docstore.query.plan.bounds`).
- `provides_sort` is only set if the source yields them in the requested order.

The choice:

* A filter that fixes `_id` is a lookup (`id_lookup`), unless it has other conditions and that index may not be used.
* Otherwise the best of the indexes' plans is taken (`candidates`), in the order that they yield (`ordering`).
* A disjunction is a union if every branch has an index of its own (`disjunction`).
* An index that does not hold every document serves the filters of `docstore.query.plan.index_bounds.covers`.
* A hint, or `min` and `max`, leave no choice (`hinted`).
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.query.filter.tree import Comparison, Filter
from docstore.query.find import Hint, KeyBetween
from docstore.query.plan.access import IdLookup, Plan
from docstore.query.plan.candidates import best_plan, collection_scan, index_plans
from docstore.query.plan.disjunction import union_plans
from docstore.query.plan.hinted import between_plan, hinted_plan
from docstore.query.plan.id_lookup import beside_id, id_value
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.sort import UNSORTED, Sort


def choose(
    tree: Filter,
    indexes: Sequence[IndexInfo],
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    between: KeyBetween | None = None,
) -> Plan:
    """Return the plan for a filter and an order. Error: BadValue for a hint that names no index.

    `between` needs a hint whose index has its fields: errors 51173, 51174, 51175 for bounds in the wrong order.
    """
    if between is not None:
        return between_plan(tree, indexes, sort, hint, between)
    if hint is not None:
        return hinted_plan(tree, indexes, sort, hint)
    if sort.natural:
        return collection_scan(tree, sort, sort.natural)
    id_index = next((index for index in indexes if index.is_id), None)
    id_collation = None if id_index is None else id_index.collation
    looked_up = id_value(tree, id_collation)
    if looked_up is not None and (id_index is not None or isinstance(tree, Comparison)):
        return Plan(IdLookup(looked_up), beside_id(tree, looked_up, id_collation), True)
    best = best_plan([*index_plans(tree, indexes, sort), *union_plans(tree, indexes, sort, choose)])
    return collection_scan(tree, sort, 1) if best is None else best
