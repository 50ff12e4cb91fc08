"""Query planning on a collection: the cached plan, or the best of those that its indexes offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection, Index
from docstore.collection.read.access import PlanStats, documents_of, predicate_of
from docstore.collection.read.index_filters import answered_by, is_lookup
from docstore.collection.read.plan_ranking import ENOUGH, Trial, best_of
from docstore.collection.read.script_filter import has_scripts
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.special_conditions import special_condition
from docstore.query.filter.tree import Filter, TextSearch, strengthened
from docstore.query.find import FindQuery, Hint, KeyBetween
from docstore.query.plan.access import CollectionScan, Eof, Plan
from docstore.query.plan.clustered import choose_clustered
from docstore.query.plan.distinct_scan import over_distinct
from docstore.query.plan.plan import choose
from docstore.query.plan.shapes import shape_of
from docstore.query.plan.special.near import near_plan
from docstore.query.plan.special.text import text_plan
from docstore.query.sort import Sort

if TYPE_CHECKING:
    from docstore.storage import Reader


_EOF = Plan(Eof(), None, True)


def plan_query(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader | None = None,
    owned: Predicate | None = None,
    indexes: Sequence[Index] | None = None,
    *,
    kept: bool = True,
) -> Plan:
    """Return the plan of a query. Without a collection it is an empty plan.

    `reader`: used for a trial among several candidates, which shows the one that finds the requested documents with the
    least work. With `owned`, no plan reads one document per distinct value. `indexes`: the candidates, if they are not
    all indexes usable now. `kept`: the plan may come from the plan cache. Errors: BadValue for a hint that names no
    index.
    """
    tree, sort, hint, between = query.filter, query.sort, query.hint, query.between
    distinct = query.distinct if owned is None else None
    visible = usable_indexes(coll) if indexes is None else indexes
    shape = None
    if coll is not None and coll.index_filters and between is None and not is_lookup(tree):
        distinct_plan = over_distinct(tree, visible, distinct, hint) if distinct is not None else None
        limit = coll.index_filters.of(tree, sort, answered_by(query)) if distinct_plan is None else None
        if limit is not None:
            visible, hint, kept, distinct = limit.admitted(visible), None, False, None
    if kept and coll is not None and hint is None and between is None and distinct is None and indexes is None:
        shape = shape_of(tree, sort, visible)
        if shape is not None:
            plan = coll.plans.bound(shape, tree)
            if plan is not None:
                return plan
    special = special_condition(tree, visible)
    if isinstance(special, TextSearch):
        return text_plan(tree, special, visible, sort, hint)
    if special is not None and (sort.natural or (hint is not None and hint.natural)):
        raise CommandError(Code.BadValue, "geoNear expression not allowed with $natural")
    if coll is None:
        return _EOF
    if special is not None:
        return near_plan(tree, special, visible, sort, hint)
    if coll.options.clustered is not None:
        # The planner does not treat the order of a clustered collection as an index.
        visible = [index for index in visible if not index.is_id]
        distinct = distinct if hint is None else None
    distinct_plan = over_distinct(tree, visible, distinct, hint) if distinct is not None else None
    if distinct_plan is not None:
        return distinct_plan
    plan = _chosen(coll, tree, visible, sort, hint, between)
    if reader is not None and plan.rejected:
        chosen = None if shape is None else coll.plans.chosen(shape, plan)
        requested = min(query.limit and query.limit + query.skip, ENOUGH) or ENOUGH
        plan = chosen or best_of(plan, lambda each: _trial(coll, each, sort, reader), requested)
    if shape is not None:
        coll.plans.keep(shape, tree, sort, plan, visible)
    return plan


def _chosen(
    coll: Collection,
    tree: Filter,
    indexes: Sequence[Index],
    sort: Sort,
    hint: Hint | None,
    between: KeyBetween | None,
) -> Plan:
    """Choose among the indexes; conditions implied by an `$expr` count if they lead to an index."""
    if coll.options.clustered is not None:
        return choose_clustered(tree, coll.id_index, indexes, sort=sort, hint=hint, between=between)
    stronger = strengthened(tree)
    plan = choose(stronger, indexes, sort=sort, hint=hint, between=between)
    if stronger is not tree and isinstance(plan.access, CollectionScan):
        return choose(tree, indexes, sort=sort, hint=hint, between=between)
    return plan


def usable_indexes(coll: Collection | None) -> list[Index]:
    """Return the indexes that plans may use: those that are not hidden."""
    return [] if coll is None else [index for index in coll.indexes.values() if not index.hidden]


def _trial(coll: Collection, plan: Plan, sort: Sort, reader: Reader) -> Trial:
    stats = PlanStats(plan, ahead=1)
    predicate = None if has_scripts(plan.residual) else predicate_of(plan, None)
    blocking = bool(sort.fields) and not plan.provides_sort
    documents = documents_of(coll, reader, stats)
    return Trial(plan, documents, predicate, lambda: max(stats.keys_examined, stats.docs_examined), blocking)
