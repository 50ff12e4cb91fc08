"""Running a plan: from a filter, an order and a reader to documents, in batches bounded by number, bytes and time.

A source reads one state: what is written while it is open does not show (give it a snapshot; over the engine itself
each range shows the state at the moment it was begun). A document is met once, whatever happens to it meanwhile:
record ids are remembered wherever an access path can lead to one twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from docstore.bson import EXHAUSTED, FULL, TIME_IS_UP, And, Predicate, count_scan, scan, scan_pairs
from docstore.bson.fetching import Examined, Fetching
from docstore.bson.layout import RECORD_ID_BYTES, long_of, record_id_bytes
from docstore.collection.answers import answering
from docstore.collection.collection import Collection
from docstore.collection.sorter import Sorter
from docstore.query.compile import compile_filter
from docstore.query.find import FindQuery, Hint, KeyBetween
from docstore.query.plan import CollectionScan, Eof, IdLookup, IndexScan, Plan, Union, choose
from docstore.query.sort import UNSORTED, Sort
from docstore.query.tree import Filter
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

Clock = Callable[[], float]
Match = tuple[int, bytes]
"""(record id, document)."""

Pair = tuple[bytes, bytes]
"""(the 8 bytes of the record id, document)."""

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES
_NO_LIMIT = 1 << 62
_SEARCH_SECONDS = 0.002
_SEARCH_AHEAD = 128
_SORT_AHEAD = 512
_EOF = Plan(Eof(), None, True)


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """What one step gave. `exhausted`: nothing comes after these documents."""

    documents: list[bytes]
    exhausted: bool


@dataclass(slots=True)
class PlanStats:
    """The plan that runs, and what it has looked at so far. `sorts`: the order is made in memory."""

    plan: Plan
    sorts: bool = False
    examined: Examined = field(default_factory=Examined)
    returned: int = 0

    @property
    def keys_examined(self) -> int:
        return self.examined.keys

    @property
    def docs_examined(self) -> int:
        return self.examined.documents


def plan_query(
    coll: Collection | None,
    tree: Filter,
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    between: KeyBetween | None = None,
) -> Plan:
    """The plan for a filter and an order; BadValue for a hint that names no index. No collection: nothing is found."""
    if coll is None:
        return _EOF
    visible = [index for index in coll.indexes.values() if not index.hidden]
    return choose(tree, visible, sort=sort, hint=hint, between=between)


def open_find(
    coll: Collection | None,
    query: FindQuery,
    reader: Reader,
    *,
    owned: Predicate | None = None,
    clock: Clock,
    measured: bool = False,
) -> Source:
    """A source for the query. `owned` is one more condition: the ranges that the node owns.

    `clock` and the deadlines of `next_batch` have one unit. `measured`: `plan_stats` counts the documents of a
    collection scan too, which makes that slower. BadValue for a hint that names no index.
    """
    plan = plan_query(coll, query.filter, sort=query.sort, hint=query.hint, between=query.between)
    source = Source(coll, query, plan, reader, owned, clock)
    if measured:
        source.measure()
    return source


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
    ) -> None:
        self._clock = clock
        self._stats = PlanStats(plan)
        self._predicate = _predicate(plan, owned)
        self._skip = query.skip
        self._left = query.limit or _NO_LIMIT
        self._projection = answering(query, plan, coll, reader)
        self._held: bytes | None = None
        self._sorter: Sorter[bytes] | None = None
        if query.sort.fields and not plan.provides_sort:
            self._stats.sorts = True
            self._sorter = Sorter(query.sort.pattern(), query.skip + query.limit if query.limit else 0)
        self._documents: Iterator[bytes] = iter(()) if coll is None else _documents(coll, reader, self._stats)

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        """At most that many documents and bytes, but one document at least; fewer when `deadline` passes first."""
        if self._sorter is not None and not self._gather(self._sorter, deadline):
            return DocumentBatch([], False)
        if self._skip and not self._pass_over(deadline):
            return DocumentBatch([], False)
        found: list[bytes] = []
        room = max_bytes
        if self._held is not None:
            found.append(self._held)
            room -= len(self._held)
            self._held = None
        wanted = min(max_docs, self._left)
        status = FULL
        if len(found) < wanted and room > 0:
            status = scan(self._documents, self._predicate, found, wanted - len(found), room, self._clock, deadline)
            if status == FULL and len(found) > 1 and sum(map(len, found)) > max_bytes:
                self._held = found.pop()
        self._left -= len(found)
        self._stats.returned += len(found)
        if self._projection is not None:
            found = list(map(self._projection.apply, found))
        return DocumentBatch(found, status == EXHAUSTED or self._left == 0)

    def _gather(self, sorter: Sorter[bytes], deadline: float) -> bool:
        """Take in what is to be sorted; True when all of it is there and the order is made."""
        status = FULL
        while status == FULL:
            taken: list[bytes] = []
            status = scan(self._documents, self._predicate, taken, _SORT_AHEAD, _NO_LIMIT, self._clock, deadline)
            for raw in taken:
                sorter.add(raw, raw)
            if status != EXHAUSTED and self._clock() >= deadline:
                return False
        if status == TIME_IS_UP:
            return False
        self._documents = sorter.result()
        self._predicate = None
        self._sorter = None
        return True

    def _pass_over(self, deadline: float) -> bool:
        """Skip what the query skips; True when all of it has been."""
        passed: list[bytes] = []
        while self._skip:
            status = scan(
                self._documents, self._predicate, passed, min(self._skip, _SORT_AHEAD), _NO_LIMIT, self._clock, deadline
            )
            self._skip -= len(passed)
            passed.clear()
            if status == EXHAUSTED:
                self._skip = 0
            elif status == TIME_IS_UP or self._clock() >= deadline:
                return self._skip == 0
        return True

    def measure(self) -> None:
        """Count the documents of a collection scan from now on, as the other access paths do by themselves."""
        if isinstance(self._stats.plan.access, CollectionScan):
            self._documents = _counted(self._documents, self._stats)

    def plan_stats(self) -> PlanStats:
        """The plan and the counts so far."""
        return self._stats

    def close(self) -> None:
        """Let go of the iterators; the reader stays its owner's."""
        self._documents = iter(())
        self._held = None
        self._left = 0


class Counting:
    """The number of documents that a query finds. Done when `advance` says so."""

    def __init__(
        self,
        coll: Collection | None,
        query: FindQuery,
        plan: Plan,
        reader: Reader,
        owned: Predicate | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._skip = query.skip
        self._limit = query.limit
        self._predicate = _predicate(plan, owned)
        self._found = 0
        self._values: Iterator[bytes] = iter(())
        access = plan.access
        if coll is None:
            return
        if self._predicate is None and isinstance(access, CollectionScan):
            self._found = coll.count
        elif self._predicate is None and isinstance(access, IndexScan) and not access.index.multikey:
            self._values = _entries(coll, access, reader)
        else:
            self._values = _documents(coll, reader, PlanStats(plan))

    @property
    def count(self) -> int:
        """The number found so far, after skip and limit."""
        found = max(0, self._found - self._skip)
        return min(found, self._limit) if self._limit else found

    def advance(self, deadline: float) -> bool:
        """Go on counting until `deadline`; True when all has been counted."""
        found, exhausted = count_scan(self._values, self._predicate, self._clock, deadline)
        self._found += found
        return exhausted or (self._limit > 0 and self._found >= self._skip + self._limit)


def open_count(
    coll: Collection | None, query: FindQuery, reader: Reader, *, owned: Predicate | None = None, clock: Clock
) -> Counting:
    """A count of what the query finds. Without filter and `owned` it is the collection's counter, its newest value."""
    return Counting(coll, query, plan_query(coll, query.filter, hint=query.hint), reader, owned, clock)


def find_matches(
    coll: Collection,
    tree: Filter,
    reader: Reader,
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    owned: Predicate | None = None,
    clock: Clock,
) -> Iterator[Match | None]:
    """What a write is to change: each document once, as it stood when it was read.

    Gives None now and then while it finds nothing, so that the caller can look at its own clock. `clock` counts
    seconds. A caller that lets others write in between looks again at what it is given (`Collection.record`).
    """
    plan = plan_query(coll, tree, sort=sort, hint=hint)
    pairs = _pairs(coll, reader, PlanStats(plan))
    predicate = _predicate(plan, owned)
    if sort.fields and not plan.provides_sort:
        return _sorted_matches(pairs, predicate, Sorter(sort.pattern(), 0), clock)
    return _matches(pairs, predicate, clock)


def _matches(pairs: Iterator[Pair], predicate: Predicate | None, clock: Clock) -> Iterator[Match | None]:
    ahead = 1
    status = FULL
    while status != EXHAUSTED:
        found: list[Pair] = []
        status = scan_pairs(pairs, predicate, found, ahead, _NO_LIMIT, clock, clock() + _SEARCH_SECONDS)
        ahead = min(2 * ahead, _SEARCH_AHEAD)
        for rid, raw in found:
            yield long_of(rid), raw
        if status == TIME_IS_UP:
            yield None


def _sorted_matches(
    pairs: Iterator[Pair], predicate: Predicate | None, sorter: Sorter[Match], clock: Clock
) -> Iterator[Match | None]:
    status = FULL
    while status != EXHAUSTED:
        found: list[Pair] = []
        status = scan_pairs(pairs, predicate, found, _SORT_AHEAD, _NO_LIMIT, clock, clock() + _SEARCH_SECONDS)
        for rid, raw in found:
            sorter.add(raw, (long_of(rid), raw))
        yield None
    yield from sorter.result()


def _predicate(plan: Plan, owned: Predicate | None) -> Predicate | None:
    """What a document that the access path yields must still satisfy."""
    if plan.residual is None:
        return owned
    own = compile_filter(plan.residual)
    return own if owned is None else And([own, owned])


def _documents(coll: Collection, reader: Reader, stats: PlanStats) -> Iterator[bytes]:
    """The documents of the plan's access path. The plain scan is the engine's iterator itself, and is not counted."""
    access = stats.plan.access
    if isinstance(access, CollectionScan):
        return reader.values(_RECORDS, coll.prefix, coll.end, access.direction < 0)
    if isinstance(access, IndexScan):
        return cast("Iterator[bytes]", _fetched(coll, access, reader, stats, bare=True))
    return map(itemgetter(1), _pairs(coll, reader, stats))


def _counted(documents: Iterator[bytes], stats: PlanStats) -> Iterator[bytes]:
    for raw in documents:
        stats.examined.documents += 1
        yield raw


def _pairs(coll: Collection, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    access = stats.plan.access
    if isinstance(access, CollectionScan):
        records = reader.items(_RECORDS, coll.prefix, coll.end, access.direction < 0)
        return ((key[-RECORD_ID_BYTES:], raw) for key, raw in records)
    if isinstance(access, Union):
        return _united(coll, access, reader, stats)
    return _branch(coll, access, reader, stats)


def _branch(coll: Collection, access: IndexScan | IdLookup | Eof, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    if isinstance(access, IndexScan):
        return cast("Iterator[Pair]", _fetched(coll, access, reader, stats, bare=False))
    if isinstance(access, IdLookup):
        stats.examined.keys += 1
        found = coll.by_id(reader, access.value)
        if found is not None:
            stats.examined.documents += 1
            return iter(((record_id_bytes(found[0]), found[1]),))
    return iter(())


def _united(coll: Collection, access: Union, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    seen: set[bytes] = set()
    for branch in access.branches:
        for pair in _branch(coll, branch, reader, stats):
            if pair[0] not in seen:
                seen.add(pair[0])
                yield pair


def _fetched(coll: Collection, access: IndexScan, reader: Reader, stats: PlanStats, *, bare: bool) -> Fetching:
    """The documents behind an index's entries, each once; without their record ids when `bare`."""
    return Fetching(
        _entries(coll, access, reader),
        partial(reader.get, _RECORDS),
        partial(reader.values, _RECORDS),
        coll.prefix,
        access.index.multikey or len(access.ranges) > 1,
        bare,
        stats.examined,
    )


def _entries(coll: Collection, access: IndexScan, reader: Reader) -> Iterator[bytes]:
    """What ends in the record ids of the entries in the plan's ranges, in its direction."""
    index = coll.indexes[access.index.name]
    reverse = access.direction < 0
    # Entries of the `_id` index hold the record id as their value.
    read = reader.values if index.is_id else reader.keys
    prefix = index.prefix
    ranges = access.ranges
    if len(ranges) == 1:
        return read(_INDEXES, prefix + ranges[0][0], prefix + ranges[0][1], reverse)
    return chain.from_iterable(
        read(_INDEXES, prefix + lo, prefix + hi, reverse) for lo, hi in (reversed(ranges) if reverse else ranges)
    )
