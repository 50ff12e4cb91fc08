"""Compilation of prepared scans: one per filter form, from the plan that the planner chooses for its first filter.

- A prepared scan depends only on the form, the sort and the current indexes.
- A filter that contradicts itself prepares nothing: its plan says nothing about others of the form.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from docstore.aggregation.expression_context import new_context
from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements
from docstore.bson.walk import values as list_values
from docstore.collection.collection import Collection, Index
from docstore.collection.read.counting import count_shape, plan_count
from docstore.collection.read.index_filters import is_lookup
from docstore.collection.read.plan_cache import PreparedForm, ScanKey, patience_of
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.errors import CommandError
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from docstore.query.find import FindQuery, parse_hint
from docstore.query.plan.access import CollectionScan, Eof, IndexScan, Plan
from docstore.query.plan.candidates import index_plan
from docstore.query.plan.partial_filters import decision_of
from docstore.query.plan.plan import choose
from docstore.query.plan.prepared_scan import PreparedScan, prepared_collection, prepared_scan, prepared_union
from docstore.query.plan.shapes import Prepared, lookup, prepared, shape_of
from docstore.query.plan.special.prepared import prepared_search
from docstore.query.sort import UNSORTED, Sort, parse_sort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from docstore.storage import Reader


def prepared_form(coll: Collection, key: ScanKey, filter_: bytes, values: list[Value], reader: Reader) -> PreparedForm:
    """Return the form cached under the key, or prepare it from this filter. `reader`: for a trial among several
    plans.
    """
    try:
        return coll.plans.scan(key)
    except KeyError:
        pass
    try:
        form = _prepared(coll, key, filter_, values, reader) if key[3] is None else _hinted(coll, key, filter_, values)
    except _Contradiction:
        return None
    coll.plans.prepare(key, form)
    return form


class _Contradiction(Exception):
    """No document can satisfy the filter: its plan says nothing about others of the form."""


def _prepared(coll: Collection, key: ScanKey, filter_: bytes, values: list[Value], reader: Reader) -> PreparedForm:
    _, sort, counted, _, rules, decided = key
    if any(code == OBJECT for code, _ in values):
        return None if rules is not None else _search(coll, sort, filter_, values, reader)
    filter_, values = _with_several(filter_, values)
    # An empty context rejects what depends on the request: the time, variables, scripts.
    context = new_context(collation=rules)
    try:
        tree = parse_filter(filter_, query_context=context)
        order = parse_sort(sort, context)
    except CommandError:
        # The batched path reports the error.
        return None
    if coll.index_filters.about(tree, order) and not is_lookup(tree):
        return None
    looked_up = lookup(tree, coll.id_index)
    if looked_up is not None:
        return _scan(coll, filter_, values, tree, looked_up, UNSORTED, 0)
    indexes = usable_indexes(coll)
    shape = count_shape(coll, tree) if counted else shape_of(tree, order, indexes)
    if shape is None:
        return None
    if not decided:
        decision = decision_of(filter_, values, tree, indexes)
        if decision is not None:
            return decision
    entry = coll.plans.kept(shape)
    if entry is None:
        if counted:
            plan = plan_count(coll, FindQuery(filter=tree), reader)
        else:
            plan = plan_query(coll, FindQuery(filter=tree, sort=order), reader)
        entry = coll.plans.kept(shape)
        if entry is None and counted:
            # No plan counts better than the plan of the find.
            finding = shape_of(tree, UNSORTED, indexes)
            entry = None if finding is None else coll.plans.kept(finding)
        if entry is None:
            return _of_plan(coll, filter_, values, tree, order, plan)
    return _scan(coll, filter_, values, tree, entry.plan, order, entry.patience)


def _of_plan(
    coll: Collection, filter_: bytes, values: list[Value], tree: Filter, order: Sort, plan: Plan
) -> PreparedForm:
    """Prepare from a plan that is not cached for its shape."""
    patience = patience_of(plan.works) if plan.rejected else 0
    if isinstance(plan.access, Eof):
        raise _Contradiction
    if isinstance(plan.access, CollectionScan) and plan.access.key_scan is not None:
        return _clustered(coll, filter_, values, tree, order, patience)
    pattern = _pattern(order, plan.provides_sort)
    if pattern is None and not plan.provides_sort:
        return None
    if isinstance(plan.access, CollectionScan):
        return prepared_collection(filter_, values, tree, order=pattern) if plan.access.direction > 0 else None
    branch = partial(_of_branch, usable_indexes(coll), coll.id_index)
    return prepared_union(filter_, values, tree, plan, branch, order=pattern, patience=patience)


def _clustered(
    coll: Collection, filter_: bytes, values: list[Value], tree: Filter, order: Sort, patience: int
) -> PreparedScan | None:
    """Prepare the scan of a clustered collection, by the index of its cluster key."""
    own = coll.id_index
    plan = index_plan(tree, own, order)
    if isinstance(plan.access, Eof):
        raise _Contradiction
    prepared_plan = prepared(tree, order, plan, [own])
    scan = None if prepared_plan is None else _scan(coll, filter_, values, tree, prepared_plan, order, patience)
    if prepared_plan is None or scan is None:
        return None
    return replace(
        scan, looks_through=not prepared_plan.fields and (not order.fields or not prepared_plan.provides_sort)
    )


def _search(coll: Collection, sort: bytes, filter_: bytes, values: list[Value], reader: Reader) -> PreparedForm:
    """Prepare a search in a geo or text index."""
    if coll.index_filters or coll.options.clustered is not None:
        return None
    try:
        tree = parse_filter(filter_, query_context=new_context())
        order = parse_sort(sort, tree=tree)
        plan = plan_query(coll, FindQuery(filter=tree, sort=order), reader)
        return prepared_search(filter_, values, tree, plan, order, usable_indexes(coll), attrgetter("prefix"))
    except CommandError:
        return None


def _hinted(coll: Collection, key: ScanKey, filter_: bytes, values: list[Value]) -> PreparedForm:
    """Prepare a scan of the hinted index."""
    _, sort, _, hint, rules, _ = key
    context = new_context(collation=rules)
    try:
        tree, order = parse_filter(filter_, query_context=context), parse_sort(sort, context)
        named = None if hint is None else parse_hint(hint)
        if named is None or named.natural or coll.index_filters or shape_of(tree, order, ()) is None:
            return None
        plan = plan_query(coll, FindQuery(filter=tree, sort=order, hint=named))
    except CommandError:
        return None
    access = plan.access
    if not isinstance(access, IndexScan) or access.index.partial is not None:
        # The bounds of a partial index depend on values.
        return None
    # A hint excludes all other indexes, for any values.
    prepared_plan = prepared(tree, order, plan, [access.index])
    return None if prepared_plan is None else _scan(coll, filter_, values, tree, prepared_plan, order, 0)


def _scan(
    coll: Collection, filter_: bytes, values: list[Value], tree: Filter, found: Prepared, order: Sort, patience: int
) -> PreparedScan | None:
    """Prepare the scan of a plan that is valid for all filters of a shape."""
    if found.bind(tree) is None:
        raise _Contradiction
    pattern = _pattern(order, found.provides_sort)
    if pattern is None and not found.provides_sort:
        return None
    prefix = cast("Index", found.index).prefix
    return prepared_scan(filter_, values, tree, found, prefix=prefix, order=pattern, patience=patience)


def _with_several(filter_: bytes, values: list[Value]) -> tuple[bytes, list[Value]]:
    """Return a filter of the same form whose `$in` on `_id` has several values: a single value has another plan."""
    for position, (name, code, data) in enumerate(fields := elements(filter_)):
        operators = elements(data) if name == "_id" and code == OBJECT else []
        listed = operators[0][1:] if len(operators) == 1 and operators[0][:2] == ("$in", ARRAY) else None
        if listed is not None and listed in values and len(members := list_values(listed[1])) == 1:
            twice = (ARRAY, array_from(members * 2))
            fields[position] = (name, OBJECT, document_from([("$in", *twice)]))
            return document_from(fields), [twice if value == listed else value for value in values]
    return filter_, values


def _pattern(order: Sort, provided: bool) -> KeyPattern | None:
    """Return the order of a remaining in-memory sort; None if the plan provides it, or it needs more than keys."""
    pattern = None if provided else order.pattern()
    return pattern if isinstance(pattern, KeyPattern) else None


def _of_branch(indexes: Sequence[Index], id_index: Index, tree: Filter) -> tuple[Prepared, bytes] | None:
    """Return the plan of an `$or` branch, and the key prefix of its index."""
    looked_up = lookup(tree, id_index)
    if looked_up is not None:
        return looked_up, id_index.prefix
    prepared_plan = prepared(tree, UNSORTED, replace(choose(tree, indexes), rejected=()), indexes)
    return None if prepared_plan is None else (prepared_plan, cast("Index", prepared_plan.index).prefix)
