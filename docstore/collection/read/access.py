"""Execution of access paths, and the statistics of a running plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar, cast

from docstore.collection.collection import Collection, Index
from docstore.collection.read.batching import both
from docstore.collection.read.covered import covered, told_condition
from docstore.collection.read.fetch import ReadAhead, fetched, fetching
from docstore.collection.read.index_access import merged_entries
from docstore.collection.read.near import nearest_documents
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.fetch import LARGEST_CHUNK, Examined
from docstore.key_layout import RECORD_ID_BYTES, record_id_bytes
from docstore.query.filter.compile import compile_filter
from docstore.query.plan.access import Access, CollectionScan, Eof, IdLookup, IndexScan, Merge, NearScan, Plan, Union
from docstore.query.value.long_lists import paced
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader


T = TypeVar("T")
Pair = tuple[bytes, bytes]
"""(the 8 bytes of the record id, document)."""

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES


@dataclass(slots=True)
class PlanStats:
    """The running plan and its counters, for explain and the profiler. `sorts`: the sort is done in memory.

    `matched` documents passed the filter. `exhausted`: the access path reached its end. `covered`: the index answers
    without fetching documents. `counted`: the query is a count of index entries.
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
    """Counters per branch of a union or a merge."""

    ahead: int = LARGEST_CHUNK
    """Entries that may be examined before they are requested (read-ahead); 1 keeps the counters exact."""

    wanted: int = 0
    """Documents of the access path that the query will request; 0: unknown."""

    @property
    def keys_examined(self) -> int:
        if isinstance(self.plan.access, CollectionScan):
            return 0
        if isinstance(self.plan.access, Merge):
            return sum(branch.keys for branch in self.branches)
        return self.examined.keys + sum(branch.keys for branch in self.branches)

    @property
    def docs_examined(self) -> int:
        return self.examined.documents + sum(branch.documents for branch in self.branches)


def count_uses(coll: Collection, access: Access) -> None:
    """Increment the use counters of the indexes that an access path reads."""
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
    """Return the predicate still to be applied to documents of the access path: the plan's residual and `owned`."""
    return both(None if plan.residual is None else compile_filter(plan.residual), owned)


def documents_of(coll: Collection, reader: Reader, stats: PlanStats) -> Iterator[bytes]:
    """Return the documents of the plan's access path. A plain collection scan returns the engine's iterator,
    uncounted.
    """
    access = stats.plan.access
    if isinstance(access, CollectionScan):
        if access.key_scan is None:
            return reader.values(_RECORDS, coll.prefix, coll.end, access.direction < 0)
        fetched_documents = fetched(
            coll, access.key_scan, reader, stats.examined, bare=True, read_ahead=ReadAhead(stats.ahead, stats.wanted)
        )
        documents = cast("Iterator[bytes]", fetched_documents)
        return documents if stats.ahead > 1 else chain(documents, _beyond(access.key_scan, reader, stats.examined))
    if isinstance(access, IndexScan):
        if stats.covered:
            return covered(coll, access, reader, stats.examined)
        return cast(
            "Iterator[bytes]",
            fetched(
                coll, access, reader, stats.examined,
                bare=True, read_ahead=ReadAhead(stats.ahead, stats.wanted), condition=told_condition(stats.plan),
            ),
        )  # fmt: skip
    return map(itemgetter(1), pairs_of(coll, reader, stats))


def counted_documents(documents: Iterator[T], stats: PlanStats) -> Iterator[T]:
    """Yield the documents (or pairs) of a plain scan, counting each as examined when it is requested."""
    for document in documents:
        stats.examined.documents += 1
        yield document


def _beyond(scan: IndexScan, reader: Reader, examined: Examined) -> Iterator[bytes]:
    """Yield nothing; count the document after the upper bound, which ends a scan of a clustered collection."""
    index = cast("Index", scan.index)
    if scan.ranges:
        low, high = index.prefix + scan.ranges[0][0], index.prefix + scan.ranges[-1][1]
        start, end = (high, index.end) if scan.direction > 0 else (index.prefix, low)
        if next(iter(reader.keys(_INDEXES, start, end, scan.direction < 0)), None) is not None:
            examined.documents += 1
            examined.ended_by_key = True
    yield from ()


def pairs_of(coll: Collection, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    access = stats.plan.access
    if isinstance(access, CollectionScan) and access.key_scan is not None:
        return _branch(coll, access.key_scan, reader, stats.examined, ahead=stats.ahead)
    if isinstance(access, CollectionScan):
        records = reader.items(_RECORDS, coll.prefix, coll.end, access.direction < 0)
        return ((key[-RECORD_ID_BYTES:], raw) for key, raw in records)
    if isinstance(access, NearScan):
        return nearest_documents(coll, access, reader, stats.examined, stats.wanted)
    if isinstance(access, Union):
        return _united(coll, access, reader, stats)
    if isinstance(access, Merge):
        stats.branches = [Examined() for _ in access.branches]
        entries = merged_entries(coll, access, reader, stats.branches)
        return cast("Iterator[Pair]", fetching(coll, entries, reader, stats.examined, set(), read_ahead=ReadAhead(1)))
    if isinstance(access, IndexScan):
        condition = told_condition(stats.plan)
        pairs = fetched(coll, access, reader, stats.examined, read_ahead=ReadAhead(stats.ahead), condition=condition)
        return cast("Iterator[Pair]", pairs)
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
        return cast("Iterator[Pair]", fetched(coll, access, reader, examined, seen, read_ahead=ReadAhead(ahead)))
    if isinstance(access, IdLookup):
        return _looked_up(coll, access, reader, examined, seen)
    return iter(())


def _looked_up(
    coll: Collection, access: IdLookup, reader: Reader, examined: Examined, seen: set[bytes] | None
) -> Iterator[Pair]:
    record = coll.by_id(reader, access.value)
    if record is not None:
        examined.keys += 1
        rid = record_id_bytes(record[0])
        if seen is not None:
            if rid in seen:
                return
            seen.add(rid)
        examined.documents += 1
        yield rid, record[1]


def _united(coll: Collection, access: Union, reader: Reader, stats: PlanStats) -> Iterator[Pair]:
    record_ids: set[bytes] = set()
    stats.branches = [Examined() for _ in access.branches]
    return chain.from_iterable(
        _branch(coll, branch, reader, examined, record_ids, ahead=stats.ahead)
        for branch, examined in zip(paced(access.branches), stats.branches, strict=True)
    )
