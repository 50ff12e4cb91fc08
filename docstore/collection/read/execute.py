"""Plan execution: from a filter, a sort and a reader to document batches bounded by number, bytes and time.

- A source reads one state: give it a snapshot. Over the engine itself, each range shows the state when its scan began.
- A document is returned at most once: record ids are remembered if an access path can reach a document twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection, Index
from docstore.collection.read.access import PlanStats, count_uses, counted_documents, documents_of, predicate_of
from docstore.collection.read.batching import NO_LIMIT, Clock, DocumentBatch, DocumentBatches, pausing_between
from docstore.collection.read.covered import covers_query
from docstore.collection.read.output import find_output
from docstore.collection.read.plan_ranking import ENOUGH
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.collection.read.script_filter import has_scripts, screened
from docstore.collection.read.sorter import IN_MEMORY, Sorter, SortMemory
from docstore.deferred_free import free_later
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.documents import EXHAUSTED, FULL, TIME_IS_UP, scan
from docstore.query.find import FindQuery
from docstore.query.metadata import keyed_by
from docstore.query.pausing import PAUSED, allowing
from docstore.query.plan.access import CollectionScan, Plan
from docstore.query.plan.shapes import shape_of
from docstore.query.projection.projection import applied_to_all

if TYPE_CHECKING:
    from docstore.storage import Reader

_SORT_AHEAD = 128


def open_find(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader,
    *,
    owned: Predicate | None = None,
    clock: Clock,
    exact: bool = False,
    memory: SortMemory = IN_MEMORY,
    indexes: Sequence[Index] | None = None,
) -> Source:
    """Return a source for the query. `owned`: an additional predicate, the shard's owned ranges.

    `clock` and the deadlines of `next_batch` have one unit. `exact`: `plan_stats` also counts the documents of a
    collection scan, and reads nothing ahead, which is slower. `indexes`: the indexes in the reader's state. Planning a
    long filter may yield to other tasks: an index built meanwhile is not used, and a dropped one still exists in that
    state.
    Errors: BadValue for a hint that names no index.
    """
    if indexes is None:
        plan = plan_query(coll, query, reader, owned)
        return Source(coll, query, plan, reader, owned, clock, memory, measured=exact)

    def opened() -> Source:
        plan = plan_query(coll, query, reader, owned, indexes)
        return Source(coll, query, plan, reader, owned, clock, memory, measured=exact)

    return allowing(PAUSED, opened)


class Source:
    """The results of a query, batch by batch.

    A cached plan is abandoned and the query planned again if its first steps examine far more than the plan did when it
    was chosen. No batch has been returned by then. `measured`: as `exact` in `open_find`.
    """

    def __init__(
        self,
        coll: Collection | None,
        query: FindQuery,
        plan: Plan,
        reader: Reader,
        owned: Predicate | None,
        clock: Clock,
        memory: SortMemory = IN_MEMORY,
        *,
        measured: bool = False,
    ) -> None:
        self._clock = clock
        self._measured = measured
        self._patience = plan.patience
        self._run = (coll, query, reader, owned, memory)
        self._begin(plan)

    def _begin(self, plan: Plan) -> None:
        coll, query, reader, owned, memory = self._run
        self._stats = PlanStats(plan, covered=owned is None and covers_query(query, plan))
        if self._measured:
            self._stats.ahead = 1
        scripted = has_scripts(plan.residual)
        predicate = None if scripted else predicate_of(plan, owned)
        self._skip = query.skip
        self._left = query.limit or NO_LIMIT
        projection = find_output(query, plan, coll, reader)
        self._sorter: Sorter[bytes] | None = None
        if query.sort.fields and not plan.provides_sort:
            self._stats.sorts = True
            sort_limit = query.skip + query.limit if query.limit else 0
            self._sorter = Sorter(query.sort.pattern(), sort_limit, memory)
        elif predicate is None and not scripted:
            self._stats.wanted = query.limit and query.skip + query.limit
        documents: Iterator[bytes] = iter(())
        if coll is not None:
            count_uses(coll, plan.access)
            documents = documents_of(coll, reader, self._stats)
        if scripted:
            assert plan.residual is not None, "the filter with the scripts"
            documents = screened(documents, plan.residual, owned, self._clock, pairs=False)
        if self._measured and isinstance(plan.access, CollectionScan) and plan.access.key_scan is None:
            documents = counted_documents(documents, self._stats)
        batch_projection = None if projection is None else applied_to_all(projection)
        self._batches = DocumentBatches(documents, predicate, batch_projection, self._clock)

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        """Return a batch of at most `max_docs` documents and `max_bytes`, at least one document; fewer after
        `deadline`.
        """
        return pausing_between(self._next_batch, max_docs, max_bytes, deadline)

    def _next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        if self._sorter is not None and not self._gather(self._sorter, deadline):
            if self._patience:
                self._looked_in_vain(0, ended=False)
            return DocumentBatch([], False)
        if self._skip and not self._pass_over(deadline):
            if self._patience:
                self._looked_in_vain(0, ended=False)
            return DocumentBatch([], False)
        limit = min(max_docs, self._left)
        documents, status = self._batches.take(limit, max_bytes, deadline)
        if self._patience and self._looked_in_vain(len(documents), ended=status != TIME_IS_UP):
            return DocumentBatch([], False)
        self._left -= len(documents)
        stats = self._stats
        stats.returned += len(documents)
        if not stats.sorts:
            stats.matched = stats.skipped + stats.returned
            stats.exhausted = stats.exhausted or status == EXHAUSTED
        return DocumentBatch(documents, status == EXHAUSTED or self._left == 0)

    def _looked_in_vain(self, found: int, *, ended: bool) -> bool:
        """Check a cached plan after its first steps. If it matched little for the entries examined, evict it.

        Return True if the query has started again with another plan: the matches so far must be discarded.
        """
        stats = self._stats
        matched = stats.matched if stats.sorts else stats.skipped + found
        in_vain = max(stats.keys_examined, stats.docs_examined) > self._patience and matched < ENOUGH
        if not (in_vain or ended or found):
            return False
        self._patience = 0
        if in_vain:
            coll, query, reader, owned, *_ = self._run
            assert coll is not None, "a plan is kept for it"
            coll.plans.forget(shape_of(query.filter, query.sort, usable_indexes(coll)))
            if not ended:
                self._begin(plan_query(coll, query, reader, owned))
        return in_vain and not ended

    def _gather(self, sorter: Sorter[bytes], deadline: float) -> bool:
        """Read the input of the sort; True when it is complete and sorted."""
        batches = self._batches
        status = FULL
        while status == FULL:
            batch: list[bytes] = []
            status = scan(batches.documents, batches.predicate, batch, _SORT_AHEAD, NO_LIMIT, self._clock, deadline)
            size = sum(map(len, batch))
            sorter.add(keyed_by(sorter.pattern, batch), size)
            self._stats.matched += len(batch)
            self._stats.sorted_bytes += size
            if status != EXHAUSTED and self._clock() >= deadline:
                return False
        if status == TIME_IS_UP:
            return False
        self._stats.exhausted = True
        batches.documents = sorter.result()
        batches.predicate = None
        self._sorter = None
        return True

    def _pass_over(self, deadline: float) -> bool:
        """Skip `skip` documents; True when done."""
        batch: list[bytes] = []
        batches = self._batches
        while self._skip:
            most = min(self._skip, _SORT_AHEAD)
            status = scan(batches.documents, batches.predicate, batch, most, NO_LIMIT, self._clock, deadline)
            self._skip -= len(batch)
            self._stats.skipped += len(batch)
            batch.clear()
            if status == EXHAUSTED:
                self._skip = 0
                self._stats.exhausted = True
            elif status == TIME_IS_UP or self._clock() >= deadline:
                return self._skip == 0
        return True

    def plan_stats(self) -> PlanStats:
        """Return the plan with its counters so far."""
        return self._stats

    def close(self) -> None:
        """Drop the iterators. The reader belongs to the caller."""
        if self._stats.sorts:
            free_later([self._sorter, self._batches.documents])
        self._sorter = None
        self._batches.close()
        self._left = 0
