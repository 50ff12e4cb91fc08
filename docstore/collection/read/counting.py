"""How many documents a query finds: from the collection's counter, from the entries of an index, or by looking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection, Index
from docstore.collection.read.access import PlanStats, count_uses, counted_documents, documents_of, predicate_of
from docstore.collection.read.covered import covers_filter
from docstore.collection.read.index_access import entries_of
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.collection.read.script_filter import has_scripts, screened
from docstore.collection.read.taking import Clock
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
    """The number of documents that a query finds. Done when `advance` says so.

    `newest`: whether the collection's counter may be taken for the count of all documents. It is that of the newest
    state outside of transactions.
    `examined`: what has been passed over in an index whose entries are counted. `exact`: the documents that are looked
    at are counted too, which is slower.
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
            if exact and isinstance(access, CollectionScan) and access.within is None:
                self._values = counted_documents(self._values, self._stats)
        if scripted:
            assert plan.residual is not None, "the filter with the scripts"
            self._values = screened(self._values, plan.residual, owned, clock, pairs=False)

    def _once(self, entries: Iterator[bytes], access: IndexScan) -> Iterator[bytes]:
        """The entries; one for each document."""
        return self._different(entries) if access.index.multikey else entries

    def _different(self, entries: Iterator[bytes]) -> Iterator[bytes]:
        seen: set[bytes] = set()
        for entry in entries:
            rid = entry[-RECORD_ID_BYTES:]
            if rid in seen:
                self._dropped += 1
            else:
                seen.add(rid)
                yield entry

    def plan_stats(self) -> PlanStats:
        """The plan and the counts so far."""
        stats = self._stats
        if stats.counted and isinstance(stats.plan.access, IndexScan):
            # The entry that shows that no further one counts is looked at too.
            last = self._exhausted and not stats.plan.access.checked
            stats.examined.keys = self.examined.keys + self.entries + last
        return stats

    @property
    def entries(self) -> int:
        """How many entries have been counted so far, those that lead to a document a second time too."""
        return self._found + self._dropped

    @property
    def found(self) -> int:
        """The number found so far, before skip and limit."""
        return self._found

    @property
    def count(self) -> int:
        """The number found so far, after skip and limit."""
        found = max(0, self._found - self._skip)
        return min(found, self._limit) if self._limit else found

    def advance(self, deadline: float) -> bool:
        """Go on counting until `deadline`; True when all has been counted."""
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
        try:
            found, exhausted = count_scan(self._values, self._predicate, self._clock, deadline)
        finally:
            PAUSING.level = level
        self._found += found
        self._exhausted = exhausted
        return exhausted or (self._limit > 0 and self._found >= self._skip + self._limit)


def counts_at_once(plan: Plan, owned: Predicate | None) -> bool:
    """Whether a count is the collection's own counter."""
    return owned is None and plan.residual is None and isinstance(plan.access, CollectionScan)


def counts_entries(plan: Plan, owned: Predicate | None) -> bool:
    """Whether a count needs no documents: each entry of an index stands for one that matches."""
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
    """The plan of a count: entries that stand for documents are taken before all else. The rest as `plan_query`."""
    shape = None
    limited = coll is not None and coll.index_filters.of_query(query) is not None
    if kept and indexes is None and coll is not None and query.hint is None and not limited:
        shape = count_shape(coll, query.filter)
        found = None if shape is None else coll.plans.bound(shape, query.filter)
        if found is not None:
            return found
    plan = plan_query(coll, query.filter, hint=query.hint, indexes=indexes, kept=False)
    for each in (plan, *plan.rejected):
        if counts_entries(each, None):
            chosen = replace(each, rejected=())
            if shape is not None:
                assert coll is not None
                coll.plans.keep(shape, query.filter, UNSORTED, chosen, usable_indexes(coll))
            return chosen
    if query.filter == MATCH_ALL:
        # There is nothing to choose.
        return plan
    return plan_query(coll, query.filter, hint=query.hint, reader=reader, indexes=indexes, kept=kept)


def count_shape(coll: Collection, tree: Filter) -> Shape | None:
    """The shape of a count: what is best to count by need not be best to find by."""
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
    """A count of what the query finds. Without filter and `owned`, and with `newest`, it is the collection's counter.

    `indexes`, `exact`: as in `open_find`.
    """

    def opened() -> Counting:
        plan = plan_count(coll, query, reader, indexes=indexes)
        return Counting(coll, query, plan, reader, owned, clock, newest=newest, exact=exact)

    return opened() if indexes is None else allowing(PAUSED, opened)
