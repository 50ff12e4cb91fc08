"""Running a plan: from a filter, an order and a reader to documents, in batches bounded by number, bytes and time.

A source reads one state: what is written while it is open does not show (give it a snapshot; over the engine itself
each range shows the state at the moment it was begun). A document is met once, whatever happens to it meanwhile:
record ids are remembered wherever an access path can lead to one twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from docstore.aggregation.stage import Spill
from docstore.buffers import OperationBuffers
from docstore.collection.collection import Collection, Index
from docstore.collection.read.covered import covered, covers_query
from docstore.collection.read.fetch import fetched, fetching
from docstore.collection.read.index_access import merged_entries
from docstore.collection.read.near import nearest_documents
from docstore.collection.read.output import find_output
from docstore.collection.read.plan_ranking import ENOUGH, Trial, best_of
from docstore.collection.read.script_filter import has_scripts, screened
from docstore.collection.read.sorter import Sorter
from docstore.deferred_free import free_later
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import And, Predicate
from docstore.kernel.scan.documents import EXHAUSTED, FULL, TIME_IS_UP, scan
from docstore.kernel.scan.fetch import LARGEST_CHUNK, Examined
from docstore.key_layout import RECORD_ID_BYTES, record_id_bytes
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.special_conditions import special_condition
from docstore.query.filter.tree import Filter, TextSearch, strengthened
from docstore.query.find import FindQuery, Hint, KeyBetween
from docstore.query.metadata import keyed_by
from docstore.query.pausing import PAUSED, PAUSING
from docstore.query.plan.access import Access, CollectionScan, Eof, IdLookup, IndexScan, Merge, NearScan, Plan, Union
from docstore.query.plan.distinct_scan import over_distinct
from docstore.query.plan.near import near_plan
from docstore.query.plan.plan import choose
from docstore.query.plan.text import text_plan
from docstore.query.sort import UNSORTED, Sort
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

Clock = Callable[[], float]
Pair = tuple[bytes, bytes]
"""(the 8 bytes of the record id, document)."""

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES
NO_LIMIT = 1 << 62
_SORT_AHEAD = 128
_PROJECTED_AHEAD = 256
_EOF = Plan(Eof(), None, True)


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """What one step gave. `exhausted`: nothing comes after these documents."""

    documents: list[bytes]
    exhausted: bool


@dataclass(slots=True)
class PlanStats:
    """The plan that runs, and what it has looked at so far. `sorts`: the order is made in memory.

    `matched` documents passed the filter; `exhausted`: the access to the data came to its end; `covered`: the index
    answers without the documents; `counted`: its entries are all that is asked for.
    """

    plan: Plan
    sorts: bool = False
    examined: Examined = field(default_factory=Examined)
    matched: int = 0
    skipped: int = 0
    returned: int = 0
    sorted_bytes: int = 0
    exhausted: bool = False
    covered: bool = False
    counted: bool = False

    branches: list[Examined] = field(default_factory=list)
    """What the branches of a union or of a merge have looked at, one by one."""

    ahead: int = LARGEST_CHUNK
    """How many entries may be looked at before they are asked for; 1 where the figures are to be exact."""

    @property
    def keys_examined(self) -> int:
        if isinstance(self.plan.access, Merge):
            return sum(branch.keys for branch in self.branches)
        return self.examined.keys + sum(branch.keys for branch in self.branches)

    @property
    def docs_examined(self) -> int:
        return self.examined.documents + sum(branch.documents for branch in self.branches)


def plan_query(
    coll: Collection | None,
    tree: Filter,
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    between: KeyBetween | None = None,
    distinct: str | None = None,
    reader: Reader | None = None,
    wanted: int = 0,
    indexes: Sequence[Index] | None = None,
) -> Plan:
    """The plan for a filter and an order; BadValue for a hint that names no index. No collection: nothing is found.

    `indexes`: those to choose from, where they are not all that may be used at this moment.

    `distinct`: only the values at that path are asked for. Where several indexes would do, `reader` shows which of them
    is the best one to find `wanted` documents by (0: all).
    """
    visible = usable_indexes(coll) if indexes is None else indexes
    special = special_condition(tree, visible)
    if isinstance(special, TextSearch):
        return text_plan(tree, special, visible, sort, hint)
    if special is not None and (sort.natural or (hint is not None and hint.natural)):
        raise CommandError(Code.BadValue, "geoNear expression not allowed with $natural")
    if coll is None:
        return _EOF
    if special is not None:
        return near_plan(tree, special, visible, sort, hint)
    stronger = strengthened(tree)
    plan = choose(stronger, visible, sort=sort, hint=hint, between=between)
    if stronger is not tree and isinstance(plan.access, CollectionScan):
        plan = choose(tree, visible, sort=sort, hint=hint, between=between)
    if distinct is not None:
        found = over_distinct(tree, visible, distinct, hint)
        if found is not None:
            return found
    if reader is None or not plan.rejected:
        return plan
    return best_of(plan, lambda each: _trial(coll, each, sort, reader), min(wanted, ENOUGH) or ENOUGH)


def usable_indexes(coll: Collection | None) -> list[Index]:
    """Those that plans may choose."""
    return [] if coll is None else [index for index in coll.indexes.values() if not index.hidden]


def _trial(coll: Collection, plan: Plan, sort: Sort, reader: Reader) -> Trial:
    stats = PlanStats(plan, ahead=1)
    predicate = None if has_scripts(plan.residual) else predicate_of(plan, None)
    blocking = bool(sort.fields) and not plan.provides_sort
    documents = documents_of(coll, reader, stats)
    return Trial(plan, documents, predicate, lambda: max(stats.keys_examined, stats.docs_examined), blocking)


def open_find(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader,
    *,
    owned: Predicate | None = None,
    clock: Clock,
    measured: bool = False,
    spill: Spill | None = None,
    buffers: OperationBuffers | None = None,
    indexes: Sequence[Index] | None = None,
) -> Source:
    """A source for the query. `owned` is one more condition: the ranges that the node owns.

    `clock` and the deadlines of `next_batch` have one unit. `measured`: `plan_stats` counts the documents of a
    collection scan too, and nothing that was not asked for, which is slower. `spill` is where a sort may go that does
    not fit in memory, `buffers` counts what it holds there.
    `indexes`: those that stood in the state of the reader. Others may run then while it is planned, which takes a while
    for a long filter: no index that was built meanwhile is used, and one that was dropped still stands in that state.
    BadValue for a hint that names no index.
    """
    if indexes is None:
        plan = plan_find(coll, query, reader, owned)
        return Source(coll, query, plan, reader, owned, clock, spill, buffers, measured=measured)
    level, PAUSING.level = PAUSING.level, PAUSED
    try:
        plan = plan_find(coll, query, reader, owned, indexes)
        return Source(coll, query, plan, reader, owned, clock, spill, buffers, measured=measured)
    finally:
        PAUSING.level = level


def plan_find(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader | None,
    owned: Predicate | None,
    indexes: Sequence[Index] | None = None,
) -> Plan:
    """The plan of a query, as `plan_query`. What is `owned` is not told by one document for each value."""
    return plan_query(
        coll,
        query.filter,
        sort=query.sort,
        hint=query.hint,
        between=query.between,
        distinct=query.distinct if owned is None else None,
        reader=reader,
        wanted=query.limit and query.limit + query.skip,
        indexes=indexes,
    )


class Source:
    """Documents of a query, a batch at a time."""

    def __init__(
        self,
        coll: Collection | None,
        query: FindQuery,
        plan: Plan,
        reader: Reader,
        owned: Predicate | None,
        clock: Clock,
        spill: Spill | None = None,
        buffers: OperationBuffers | None = None,
        *,
        measured: bool = False,
    ) -> None:
        self._clock = clock
        self._stats = PlanStats(plan, covered=owned is None and covers_query(query, plan))
        if measured:
            self._stats.ahead = 1
        scripted = has_scripts(plan.residual)
        self._predicate = None if scripted else predicate_of(plan, owned)
        self._skip = query.skip
        self._left = query.limit or NO_LIMIT
        self._projection = find_output(query, plan, coll, reader)
        self._held: bytes | None = None
        self._sorter: Sorter[bytes] | None = None
        if query.sort.fields and not plan.provides_sort:
            self._stats.sorts = True
            wanted = query.skip + query.limit if query.limit else 0
            self._sorter = Sorter(query.sort.pattern(), wanted, spill, buffers)
        self._documents: Iterator[bytes] = iter(())
        if coll is not None:
            count_uses(coll, plan.access)
            self._documents = documents_of(coll, reader, self._stats)
        if scripted:
            assert plan.residual is not None, "the filter with the scripts"
            self._documents = screened(self._documents, plan.residual, owned, clock, pairs=False)
        if measured and isinstance(plan.access, CollectionScan):
            self._documents = _counted(self._documents, self._stats)

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        """At most that many documents and bytes, but one document at least; fewer when `deadline` passes first."""
        if self._sorter is not None and not self._gather(self._sorter, deadline):
            return DocumentBatch([], False)
        if self._skip and not self._pass_over(deadline):
            return DocumentBatch([], False)
        wanted = min(max_docs, self._left)
        if self._projection is None:
            found, status = self._take(wanted, max_bytes, deadline)
        else:
            found, status = self._take_projected(self._projection.apply, wanted, max_bytes, deadline)
        self._left -= len(found)
        stats = self._stats
        stats.returned += len(found)
        if not stats.sorts:
            stats.matched = stats.skipped + stats.returned
            stats.exhausted = stats.exhausted or status == EXHAUSTED
        return DocumentBatch(found, status == EXHAUSTED or self._left == 0)

    def _take(self, wanted: int, max_bytes: int, deadline: float) -> tuple[list[bytes], int]:
        """Up to `wanted` documents as they are stored, and how the scan for them has ended."""
        found: list[bytes] = []
        room = max_bytes
        if self._held is not None:
            found.append(self._held)
            room -= len(self._held)
            self._held = None
        status: int = FULL
        if len(found) < wanted and room > 0:
            status = scan(self._documents, self._predicate, found, wanted - len(found), room, self._clock, deadline)
            if status == FULL and len(found) > 1 and sum(map(len, found)) > max_bytes:
                self._held = found.pop()
        return found, status

    def _take_projected(
        self, apply: Callable[[bytes], bytes], wanted: int, max_bytes: int, deadline: float
    ) -> tuple[list[bytes], int]:
        """As `_take`; some are projected before more are looked for, because that takes its time too."""
        found: list[bytes] = []
        room = max_bytes
        while True:
            taken, status = self._take(min(wanted - len(found), _PROJECTED_AHEAD), room, deadline)
            size = sum(map(len, taken))
            if found and size > room:
                self._held = taken.pop()
            room -= size
            found += map(apply, taken)
            if status != FULL or self._held is not None or len(found) >= wanted or room <= 0:
                return found, status
            if self._clock() >= deadline:
                return found, status

    def _gather(self, sorter: Sorter[bytes], deadline: float) -> bool:
        """Take in what is to be sorted; True when all of it is there and the order is made."""
        status = FULL
        while status == FULL:
            taken: list[bytes] = []
            status = scan(self._documents, self._predicate, taken, _SORT_AHEAD, NO_LIMIT, self._clock, deadline)
            size = sum(map(len, taken))
            sorter.add(keyed_by(sorter.pattern, taken), size)
            self._stats.matched += len(taken)
            self._stats.sorted_bytes += size
            if status != EXHAUSTED and self._clock() >= deadline:
                return False
        if status == TIME_IS_UP:
            return False
        self._stats.exhausted = True
        self._documents = sorter.result()
        self._predicate = None
        self._sorter = None
        return True

    def _pass_over(self, deadline: float) -> bool:
        """Skip what the query skips; True when all of it has been."""
        passed: list[bytes] = []
        while self._skip:
            status = scan(
                self._documents, self._predicate, passed, min(self._skip, _SORT_AHEAD), NO_LIMIT, self._clock, deadline
            )
            self._skip -= len(passed)
            self._stats.skipped += len(passed)
            passed.clear()
            if status == EXHAUSTED:
                self._skip = 0
                self._stats.exhausted = True
            elif status == TIME_IS_UP or self._clock() >= deadline:
                return self._skip == 0
        return True

    def plan_stats(self) -> PlanStats:
        """The plan and the counts so far."""
        return self._stats

    def close(self) -> None:
        """Let go of the iterators; the reader stays its owner's."""
        if self._stats.sorts:
            free_later([self._sorter, self._documents])
        self._sorter = None
        self._documents = iter(())
        self._held = None
        self._left = 0


def count_uses(coll: Collection, access: Access) -> None:
    """Note that a request uses the indexes of an access path."""
    match access:
        case IndexScan() | NearScan():
            cast("Index", access.index).uses += 1
        case IdLookup():
            coll.id_index.uses += 1
        case Union(branches) | Merge(branches):
            for branch in branches:
                count_uses(coll, branch)
        case _:
            return


def predicate_of(plan: Plan, owned: Predicate | None) -> Predicate | None:
    """What a document that the access path yields must still satisfy."""
    if plan.residual is None:
        return owned
    own = compile_filter(plan.residual)
    return own if owned is None else And([own, owned])


def documents_of(coll: Collection, reader: Reader, stats: PlanStats) -> Iterator[bytes]:
    """The documents of the plan's access path. The plain scan is the engine's iterator itself, and is not counted."""
    access = stats.plan.access
    if isinstance(access, CollectionScan):
        return reader.values(_RECORDS, coll.prefix, coll.end, access.direction < 0)
    if isinstance(access, IndexScan):
        if stats.covered:
            return covered(coll, access, reader, stats.examined)
        return cast("Iterator[bytes]", fetched(coll, access, reader, stats.examined, bare=True, ahead=stats.ahead))
    return map(itemgetter(1), pairs_of(coll, reader, stats))


def _counted(documents: Iterator[bytes], stats: PlanStats) -> Iterator[bytes]:
    for raw in documents:
        stats.examined.documents += 1
        yield raw


def pairs_of(coll: Collection, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    access = stats.plan.access
    if isinstance(access, CollectionScan):
        records = reader.items(_RECORDS, coll.prefix, coll.end, access.direction < 0)
        return ((key[-RECORD_ID_BYTES:], raw) for key, raw in records)
    if isinstance(access, NearScan):
        return nearest_documents(coll, access, reader, stats.examined)
    if isinstance(access, Union):
        return _united(coll, access, reader, stats)
    if isinstance(access, Merge):
        stats.branches = [Examined() for _ in access.branches]
        entries = merged_entries(coll, access, reader, stats.branches)
        return cast("Iterator[Pair]", fetching(coll, entries, reader, stats.examined, set(), ahead=1))
    return _branch(coll, access, reader, stats.examined, ahead=stats.ahead)


def _branch(
    coll: Collection,
    access: IndexScan | IdLookup | Eof,
    reader: Reader,
    examined: Examined,
    seen: set[bytes] | None = None,
    *,
    ahead: int = LARGEST_CHUNK,
) -> Iterator[Pair]:
    if isinstance(access, IndexScan):
        return cast("Iterator[Pair]", fetched(coll, access, reader, examined, seen, ahead=ahead))
    if isinstance(access, IdLookup):
        return _looked_up(coll, access, reader, examined, seen)
    return iter(())


def _looked_up(
    coll: Collection, access: IdLookup, reader: Reader, examined: Examined, seen: set[bytes] | None
) -> Iterator[Pair]:
    found = coll.by_id(reader, access.value)
    if found is not None:
        examined.keys += 1
        rid = record_id_bytes(found[0])
        if seen is None or rid not in seen:
            examined.documents += 1
            yield rid, found[1]


def _united(coll: Collection, access: Union, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    seen: set[bytes] = set()
    stats.branches = [Examined() for _ in access.branches]
    return chain.from_iterable(
        _branch(coll, branch, reader, examined, seen, ahead=stats.ahead)
        for branch, examined in zip(access.branches, stats.branches, strict=True)
    )
