"""The matches of a write's filter, one at a time, with pauses for other tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection
from docstore.collection.read.access import Pair, PlanStats, count_uses, counted_documents, pairs_of, predicate_of
from docstore.collection.read.batching import NO_LIMIT, Clock
from docstore.collection.read.plan_ranking import ENOUGH
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.collection.read.script_filter import has_scripts, screened
from docstore.collection.read.sorter import Sorter
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.documents import EXHAUSTED, FULL, TIME_IS_UP, scan_pairs
from docstore.key_layout import long_of
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Filter
from docstore.query.find import FindQuery, Hint
from docstore.query.metadata import Order
from docstore.query.plan.access import CollectionScan, Plan
from docstore.query.plan.shapes import shape_of
from docstore.query.sort import UNSORTED, Sort

if TYPE_CHECKING:
    from docstore.storage import Reader

Match = tuple[int, bytes]
"""(record id, document)."""

_SEARCH_SECONDS = 0.002
_SEARCH_AHEAD = 128
_FIRST_MATCHES = 32


@dataclass(frozen=True, slots=True)
class PlannedSearch:
    """A plan that remains valid until the indexes change.

    `whole`: the predicate of the full filter. `residual`: the predicate for documents of the plan; None if all match.
    If the filter contains scripts (`scripted`), `residual` is None, as is `whole`.
    """

    plan: Plan
    whole: Predicate | None
    residual: Predicate | None
    scripted: bool = False


def plan_search(
    coll: Collection, tree: Filter, reader: Reader, *, sort: Sort = UNSORTED, hint: Hint | None = None
) -> PlannedSearch:
    """Plan the search of a write. Errors: BadValue for a hint that names no index."""
    plan = plan_query(coll, FindQuery(filter=tree, sort=sort, hint=hint), reader)
    full_predicate = None if has_scripts(tree) else compile_filter(tree)
    if plan.residual is tree:
        return PlannedSearch(plan, full_predicate, full_predicate, full_predicate is None)
    scripted = full_predicate is None and has_scripts(plan.residual)
    return PlannedSearch(plan, full_predicate, None if scripted else predicate_of(plan, None), scripted)


def find_matches(
    coll: Collection,
    tree: Filter,
    reader: Reader,
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    planned: PlannedSearch | None = None,
    stats: PlanStats | None = None,
    clock: Clock,
) -> Iterator[Match | None]:
    """Yield the documents that match a write's filter: each once, as of the time it was read.

    Yield None now and then while nothing matches, so that the caller can check its clock, and before each wait for
    scripts, during which others may write. `clock` counts seconds. `stats`: counters to update; they are exact if it
    allows no read-ahead. A caller that lets others write between matches must read each document again
    (`Collection.record`).
    """
    planned = planned or plan_search(coll, tree, reader, sort=sort, hint=hint)
    plan, predicate = planned.plan, planned.residual
    stats = stats or PlanStats(plan)
    count_uses(coll, plan.access)
    scripted = planned.scripted

    def opened() -> Iterator[Pair]:
        pairs = pairs_of(coll, reader, stats)
        if stats.ahead == 1 and isinstance(plan.access, CollectionScan) and plan.access.key_scan is None:
            pairs = counted_documents(pairs, stats)
        if not scripted:
            return pairs
        assert plan.residual is not None, "the filter with the scripts"
        return screened(pairs, plan.residual, None, clock, pairs=True)

    stats.sorts = bool(sort.fields) and not plan.provides_sort
    matches = (
        _sorted_matches(opened, predicate, sort.pattern(), clock)
        if stats.sorts
        else _matches(opened(), predicate, clock, scripted)
    )
    if not plan.patience:
        return matches
    return _watched(matches, stats, lambda: coll.plans.forget(shape_of(tree, sort, usable_indexes(coll))))


def _watched(found: Iterator[Match | None], stats: PlanStats, forget: Callable[[], None]) -> Iterator[Match | None]:
    """Yield the matches of a cached plan; evict the plan if the first few matches cost far too much."""
    count = 0
    for match in found:
        count += match is not None
        if count == ENOUGH:
            yield match
            yield from found
            return
        if stats.docs_examined > stats.plan.patience:
            break
        yield match
    else:
        match = None
    if max(stats.keys_examined, stats.docs_examined) > stats.plan.patience:
        forget()
        if match is not None:
            yield match
        yield from found


def _matches(
    pairs: Iterator[Pair], predicate: Predicate | None, clock: Clock, scripted: bool
) -> Iterator[Match | None]:
    batch_size = 1
    status = FULL
    while status != EXHAUSTED:
        batch: list[Pair] = []
        status = scan_pairs(pairs, predicate, batch, batch_size, NO_LIMIT, clock, clock() + _SEARCH_SECONDS)
        batch_size = min(2 * batch_size, _SEARCH_AHEAD)
        for rid, raw in batch:
            yield long_of(rid), raw
        if status == TIME_IS_UP or scripted:
            yield None


def _sorted_matches(
    opened: Callable[[], Iterator[Pair]], predicate: Predicate | None, pattern: Order, clock: Clock
) -> Iterator[Match | None]:
    """Yield matches in sort order: the first few by a top-k sort, since usually only one is requested.

    All matches are sorted only if the caller has skipped the first few.
    """
    first = Sorter[Match](pattern, _FIRST_MATCHES)
    yield from _gathered(opened(), predicate, first, clock)
    first_ids: set[int] = set()
    for match in first.result():
        first_ids.add(match[0])
        yield match
    if not first.cut:
        return
    full_sorter = Sorter[Match](pattern, 0)
    yield from _gathered(opened(), predicate, full_sorter, clock)
    for match in full_sorter.result():
        yield None if match[0] in first_ids else match


def _gathered(
    pairs: Iterator[Pair], predicate: Predicate | None, sorter: Sorter[Match], clock: Clock
) -> Iterator[None]:
    """Feed the matches to the sorter."""
    status = FULL
    while status != EXHAUSTED:
        batch: list[Pair] = []
        status = scan_pairs(pairs, predicate, batch, _SEARCH_AHEAD, NO_LIMIT, clock, clock() + _SEARCH_SECONDS)
        sort_key = sorter.pattern.sort_key
        keyed = [(sort_key(raw), (long_of(rid), raw)) for rid, raw in batch]
        sorter.add(keyed, sum(len(raw) for _, raw in batch))
        yield None
