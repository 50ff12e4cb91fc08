"""Documents taken from a scan, in batches bounded by number, bytes and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from docstore.bson.build import bytes_of
from docstore.collection.collection import Collection
from docstore.kernel.match.predicate import And, Predicate
from docstore.kernel.scan.documents import EXHAUSTED, FULL, scan, scan_pairs
from docstore.query.pausing import PAUSED, PAUSING, REFUSED
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

Clock = Callable[[], float]
NO_LIMIT = 1 << 62
_PROJECTED_AHEAD = 256
_SMALL_COUNT = 1_000
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """What one step gave. `exhausted`: nothing comes after these documents."""

    documents: list[bytes]
    exhausted: bool


class Taking:
    """Takes those of `documents` that satisfy `predicate`, as `projection` makes them. One that did not fit is held
    back for the next batch.
    """

    __slots__ = ("_clock", "_held", "_projection", "documents", "predicate")

    def __init__(
        self,
        documents: Iterator[bytes],
        predicate: Predicate | None,
        projection: Callable[[list[bytes]], list[bytes]] | None,
        clock: Clock,
    ) -> None:
        self.documents = documents
        self.predicate = predicate
        self._projection = projection
        self._clock = clock
        self._held: bytes | None = None

    def take(self, wanted: int, max_bytes: int, deadline: float) -> tuple[list[bytes], int]:
        """Up to `wanted` documents, and how the scan for them has ended (`docstore.kernel.scan.documents.scan`)."""
        if self._projection is None:
            return self._take(wanted, max_bytes, deadline)
        return self._take_projected(self._projection, wanted, max_bytes, deadline)

    def _take(self, wanted: int, max_bytes: int, deadline: float) -> tuple[list[bytes], int]:
        """Documents as they are stored."""
        found: list[bytes] = []
        room = max_bytes
        if self._held is not None:
            found.append(self._held)
            room -= len(self._held)
            self._held = None
        status: int = FULL
        if len(found) < wanted and room > 0:
            status = scan(self.documents, self.predicate, found, wanted - len(found), room, self._clock, deadline)
            if status == FULL and len(found) > 1 and bytes_of(found) > max_bytes:
                self._held = found.pop()
        return found, status

    def _take_projected(
        self, apply: Callable[[list[bytes]], list[bytes]], wanted: int, max_bytes: int, deadline: float
    ) -> tuple[list[bytes], int]:
        """As `_take`; some are projected before more are looked for, because that takes its time too."""
        found: list[bytes] = []
        room = max_bytes
        while True:
            taken, status = self._take(min(wanted - len(found), _PROJECTED_AHEAD), room, deadline)
            size = bytes_of(taken)
            if found and size > room:
                self._held = taken.pop()
            room -= size
            found += apply(taken)
            if status != FULL or self._held is not None or len(found) >= wanted or room <= 0:
                return found, status
            if self._clock() >= deadline:
                return found, status

    def close(self) -> None:
        """Let go of the documents."""
        self.documents = iter(())
        self._held = None


def both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    """What says that two predicates hold, of which there may be none."""
    return one if other is None else other if one is None else And([one, other])


def is_small(coll: Collection) -> bool:
    """Whether looking at all documents of a collection is no more than a step."""
    return coll.count <= _SMALL_COUNT and coll.size <= _SMALL_BYTES


def first_documents(
    coll: Collection, reader: Reader, predicate: Predicate | None, wanted: int, skip: int
) -> list[bytes]:
    """The first `wanted` documents behind `skip` that satisfy a predicate. Errors: CommandError of an expression."""
    documents, most = reader.values(Family.RECORDS, coll.prefix, coll.end), min(skip + wanted, NO_LIMIT)
    if predicate is None:
        return list(islice(documents, min(skip, NO_LIMIT), most))
    found: list[bytes] = []
    scan(documents, predicate, found, most, NO_LIMIT, lambda: 0.0, inf)
    return found[skip:]


def first_pairs(
    coll: Collection, reader: Reader, predicate: Predicate | None, wanted: int, skip: int
) -> list[tuple[bytes, bytes]]:
    """As `first_documents`, each with the key of its record."""
    items, most = reader.items(Family.RECORDS, coll.prefix, coll.end), min(skip + wanted, NO_LIMIT)
    if predicate is None:
        return list(islice(items, min(skip, NO_LIMIT), most))
    found: list[tuple[bytes, bytes]] = []
    scan_pairs(items, predicate, found, most, NO_LIMIT, lambda: 0.0, inf)
    return found[skip:]


class ScanSource:
    """A source of what a scan finds, at most `limit` documents (0: all)."""

    __slots__ = ("_left", "_taking")

    def __init__(self, taking: Taking, limit: int) -> None:
        self._taking = taking
        self._left = limit or NO_LIMIT

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        """At most that many documents and bytes, but one document at least; fewer when `deadline` passes first."""
        return pausing_between(self._next_batch, max_docs, max_bytes, deadline)

    def _next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        found, status = self._taking.take(min(max_docs, self._left), max_bytes, deadline)
        self._left -= len(found)
        return DocumentBatch(found, status == EXHAUSTED or self._left == 0)

    def close(self) -> None:
        """Let go of the iterators; the reader stays its owner's."""
        self._taking.close()
        self._left = 0


def pausing_between(
    step: Callable[[int, int, float], DocumentBatch], max_docs: int, max_bytes: int, deadline: float
) -> DocumentBatch:
    """A step of a source: what it does between two batches others may do in the middle of one."""
    level = PAUSING.level
    if level != REFUSED:
        return step(max_docs, max_bytes, deadline)
    PAUSING.level = PAUSED
    try:
        return step(max_docs, max_bytes, deadline)
    finally:
        PAUSING.level = level
