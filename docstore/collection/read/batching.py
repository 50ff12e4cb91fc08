"""Document batches from a scan, bounded by number, bytes and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from docstore.bson.build import bytes_of
from docstore.collection.collection import Collection
from docstore.collection.limits import MAX_SMALL_BYTES, MAX_SMALL_DOCUMENTS
from docstore.kernel.match.predicate import And, Predicate
from docstore.kernel.scan.documents import EXHAUSTED, FULL, scan, scan_pairs
from docstore.query.pausing import PAUSED, PAUSING, REFUSED
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

Clock = Callable[[], float]
NO_LIMIT = 1 << 62
_PROJECTED_AHEAD = 256


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """One batch of a source. `exhausted`: no documents follow."""

    documents: list[bytes]
    exhausted: bool


class DocumentBatches:
    """Batches of those `documents` that satisfy `predicate`, projected. A document that does not fit waits for the
    next.
    """

    __slots__ = ("_clock", "_postponed", "_projection", "documents", "predicate")

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
        self._postponed: bytes | None = None

    def take(self, max_documents: int, max_bytes: int, deadline: float) -> tuple[list[bytes], int]:
        """Return at most `max_documents`, and the status of the scan (`docstore.kernel.scan.documents.scan`)."""
        if self._projection is None:
            return self._take(max_documents, max_bytes, deadline)
        return self._take_projected(self._projection, max_documents, max_bytes, deadline)

    def _take(self, max_documents: int, max_bytes: int, deadline: float) -> tuple[list[bytes], int]:
        """Return documents as stored, otherwise as `take`."""
        documents: list[bytes] = []
        room = max_bytes
        if self._postponed is not None:
            documents.append(self._postponed)
            room -= len(self._postponed)
            self._postponed = None
        status: int = FULL
        if len(documents) < max_documents and room > 0:
            status = scan(
                self.documents, self.predicate, documents, max_documents - len(documents), room, self._clock, deadline
            )
            if status == FULL and len(documents) > 1 and bytes_of(documents) > max_bytes:
                self._postponed = documents.pop()
        return documents, status

    def _take_projected(
        self, apply: Callable[[list[bytes]], list[bytes]], max_documents: int, max_bytes: int, deadline: float
    ) -> tuple[list[bytes], int]:
        """Return projected documents, otherwise as `take`. Projects in chunks and checks the deadline after each."""
        documents: list[bytes] = []
        room = max_bytes
        while True:
            batch, status = self._take(min(max_documents - len(documents), _PROJECTED_AHEAD), room, deadline)
            size = bytes_of(batch)
            if documents and size > room:
                self._postponed = batch.pop()
            room -= size
            documents += apply(batch)
            if status != FULL or self._postponed is not None or len(documents) >= max_documents or room <= 0:
                return documents, status
            if self._clock() >= deadline:
                return documents, status

    def close(self) -> None:
        """Drop the documents."""
        self.documents = iter(())
        self._postponed = None


def both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    """Return the conjunction of two optional predicates."""
    return one if other is None else other if one is None else And([one, other])


def is_small(coll: Collection) -> bool:
    """True if one step can scan the whole collection."""
    return coll.count <= MAX_SMALL_DOCUMENTS and coll.size <= MAX_SMALL_BYTES


def first_documents(
    coll: Collection, reader: Reader, predicate: Predicate | None, limit: int, skip: int
) -> list[bytes]:
    """Return the first `limit` matches after `skip`. Errors: CommandError of an expression."""
    documents, end = reader.values(Family.RECORDS, coll.prefix, coll.end), min(skip + limit, NO_LIMIT)
    if predicate is None:
        return list(islice(documents, min(skip, NO_LIMIT), end))
    matches: list[bytes] = []
    scan(documents, predicate, matches, end, NO_LIMIT, lambda: 0.0, inf)
    return matches[skip:]


def first_pairs(
    coll: Collection, reader: Reader, predicate: Predicate | None, limit: int, skip: int
) -> list[tuple[bytes, bytes]]:
    """Return (record key, document) pairs, otherwise as `first_documents`."""
    items, end = reader.items(Family.RECORDS, coll.prefix, coll.end), min(skip + limit, NO_LIMIT)
    if predicate is None:
        return list(islice(items, min(skip, NO_LIMIT), end))
    pairs: list[tuple[bytes, bytes]] = []
    scan_pairs(items, predicate, pairs, end, NO_LIMIT, lambda: 0.0, inf)
    return pairs[skip:]


class ScanSource:
    """A source over a scan, with at most `limit` documents (0: no limit)."""

    __slots__ = ("_batches", "_remaining")

    def __init__(self, batches: DocumentBatches, limit: int) -> None:
        self._batches = batches
        self._remaining = limit or NO_LIMIT

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        """Return a batch of at most `max_docs` documents and `max_bytes`, at least one document; fewer after
        `deadline`.
        """
        return pausing_between(self._next_batch, max_docs, max_bytes, deadline)

    def _next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> DocumentBatch:
        documents, status = self._batches.take(min(max_docs, self._remaining), max_bytes, deadline)
        self._remaining -= len(documents)
        return DocumentBatch(documents, status == EXHAUSTED or self._remaining == 0)

    def close(self) -> None:
        """Drop the iterators. The reader belongs to the caller."""
        self._batches.close()
        self._remaining = 0


def pausing_between(
    step: Callable[[int, int, float], DocumentBatch], max_docs: int, max_bytes: int, deadline: float
) -> DocumentBatch:
    """Run a step of a source with yielding allowed: other tasks may run in the middle of a batch."""
    level = PAUSING.level
    if level != REFUSED:
        return step(max_docs, max_bytes, deadline)
    PAUSING.level = PAUSED
    try:
        return step(max_docs, max_bytes, deadline)
    finally:
        PAUSING.level = level
