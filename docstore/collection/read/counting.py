"""Counts: from the collection's counter, from index entries, or by a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection, Index
from docstore.collection.read.access import PlanStats, count_uses, counted_documents, documents_of, predicate_of
from docstore.collection.read.batching import Clock
from docstore.collection.read.covered import covers_filter
from docstore.collection.read.index_access import entries_of
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.collection.read.script_filter import has_scripts, screened
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.documents import count_scan
from docstore.kernel.scan.fetch import Examined
from docstore.key_layout import RECORD_ID_BYTES
from docstore.query.filter.tree import MATCH_ALL, Filter
from docstore.query.find import FindQuery
from docstore.query.pausing import PAUSED, PAUSING, allowing
from docstore.query.plan.access import CollectionScan, IndexScan, Plan
from docstore.query.plan.shapes import Shape, shape_of
from docstore.query.sort import UNSORTED

if TYPE_CHECKING:
    from docstore.storage import Reader


class Counting:
    """A running count of the documents that match a query. Call `advance` until it returns True.

    `newest`: the collection's counter may serve as the count of all documents. The counter reflects the newest state
    outside of transactions.
    `examined`: the counters of the index scan. `exact`: count fetched documents as examined too, which is slower.
    """

    def __init__(
        self,
        coll: Collection | None,
        query: FindQuery,
        plan: Plan,
        reader: Reader,
        owned: Predicate | None,
        clock: Clock,
        *,
        newest: bool = True,
        exact: bool = False,
    ) -> None:
        self._stats = PlanStats(plan, covered=owned is None and covers_filter(plan))
        self._clock = clock
        self._skip = query.skip
        self._limit = query.limit
        scripted = has_scripts(plan.residual)
        self._predicate = None if scripted else predicate_of(plan, owned)
        self._found = 0
        self._dropped = 0
        self._exhausted = False
        self.examined = Examined()
        self._values: Iterator[bytes] = iter(())
        access = plan.access
        if coll is None:
            return
        if newest and counts_at_once(plan, owned):
            self._found = coll.count
            self._stats.counted = True
            return
        count_uses(coll, access)
        if counts_entries(plan, owned):
            assert isinstance(access, IndexScan)
            self._stats.counted = True
            self._values = self._once(entries_of(coll, access, reader, self.examined), access)
        else:
            if exact:
                self._stats.ahead = 1
            self._values = documents_of(coll, reader, self._stats)
            if exact and isinstance(access, CollectionScan) and access.key_scan is None:
                self._values = counted_documents(self._values, self._stats)
        if scripted:
            assert plan.residual is not None, "the filter with the scripts"
            self._values = screened(self._values, plan.residual, owned, clock, pairs=False)

    def _once(self, entries: Iterator[bytes], access: IndexScan) -> Iterator[bytes]:
        """Yield the entries, one per document."""
        return self._different(entries) if access.index.multikey else entries

    def _different(self, entries: Iterator[bytes]) -> Iterator[bytes]:
        record_ids: set[bytes] = set()
        for entry in entries:
            rid = entry[-RECORD_ID_BYTES:]
            if rid in record_ids:
                self._dropped += 1
            else:
                record_ids.add(rid)
                yield entry

    def plan_stats(self) -> PlanStats:
        """Return the plan with its counters so far."""
        stats = self._stats
        if stats.counted and isinstance(stats.plan.access, IndexScan):
            # The entry that ends the count is examined too.
            last = self._exhausted and not stats.plan.access.checked
            stats.examined.keys = self.examined.keys + self.entries + last
        return stats

    @property
    def entries(self) -> int:
        """Entries counted so far, including repeated entries of one document."""
        return self._found + self._dropped

    @property
    def found(self) -> int:
        """The count so far, before skip and limit."""
        return self._found

    @property
    def count(self) -> int:
        """The count so far, after skip and limit."""
        match_count = max(0, self._found - self._skip)
        return min(match_count, self._limit) if self._limit else match_count

    def advance(self, deadline: float) -> bool:
        """Continue the count until `deadline`; True when it is complete."""
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
        try:
            match_count, exhausted = count_scan(self._values, self._predicate, self._clock, deadline)
        finally:
            PAUSING.level = level
        self._found += match_count
        self._exhausted = exhausted
        return exhausted or (self._limit > 0 and self._found >= self._skip + self._limit)


def counts_at_once(plan: Plan, owned: Predicate | None) -> bool:
    """True if the collection's counter is the count."""
    return owned is None and plan.residual is None and isinstance(plan.access, CollectionScan)


def counts_entries(plan: Plan, owned: Predicate | None) -> bool:
    """True if index entries suffice for the count: each entry of the plan's index represents one match."""
    access = plan.access
    return owned is None and plan.residual is None and isinstance(access, IndexScan)


def plan_count(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader | None,
    *,
    indexes: Sequence[Index] | None = None,
    kept: bool = True,
) -> Plan:
    """Return the plan of a count, preferring one that counts index entries. Otherwise as `plan_query`."""
    shape = None
    limited = coll is not None and coll.index_filters.of_query(query) is not None
    if kept and indexes is None and coll is not None and query.hint is None and not limited:
        shape = count_shape(coll, query.filter)
        cached_plan = None if shape is None else coll.plans.bound(shape, query.filter)
        if cached_plan is not None:
            return cached_plan
    search = FindQuery(filter=query.filter, hint=query.hint)
    plan = plan_query(coll, search, indexes=indexes, kept=False)
    for candidate in (plan, *plan.rejected):
        if counts_entries(candidate, None):
            chosen = replace(candidate, rejected=())
            if shape is not None:
                assert coll is not None
                coll.plans.keep(shape, query.filter, UNSORTED, chosen, usable_indexes(coll))
            return chosen
    if query.filter == MATCH_ALL:
        # Only one plan is possible.
        return plan
    return plan_query(coll, search, reader, indexes=indexes, kept=kept)


def count_shape(coll: Collection, tree: Filter) -> Shape | None:
    """Return the plan cache shape of a count. It differs from the shape of a find: the best plans may differ."""
    shape = shape_of(tree, UNSORTED, usable_indexes(coll))
    return None if shape is None else ("count", *shape)


def open_count(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader,
    *,
    owned: Predicate | None = None,
    clock: Clock,
    indexes: Sequence[Index] | None = None,
    newest: bool = True,
    exact: bool = False,
) -> Counting:
    """Return a count of the query's matches. Without filter and `owned`, and with `newest`, read the collection's
    counter.

    `indexes`, `exact`: as in `open_find`.
    """

    def opened() -> Counting:
        plan = plan_count(coll, query, reader, indexes=indexes)
        return Counting(coll, query, plan, reader, owned, clock, newest=newest, exact=exact)

    return opened() if indexes is None else allowing(PAUSED, opened)
