"""Tailable cursors: they stay at the end of an ordered log and return what is appended.

A log is the oplog or a capped collection.

* A tail reads the newest state with each batch, and sees a document in the step after its commit.
* It skips none, because positions only grow.
* If its last document was removed it fails with CappedPositionLost: later documents may be gone too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from docstore.collection.changes import Commit
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.documents import EXHAUSTED, scan
from docstore.key_layout import last_long, record_id_bytes
from docstore.node.node import DataNode
from docstore.node.read.sources import Batch, Documents
from docstore.query.filter.compile import compile_filter
from docstore.query.find import FindQuery
from docstore.query.projection.projection import DocumentProjection
from docstore.storage import Family


class Log(Protocol):
    """Documents in the order of their positions, which are positive integers."""

    def after(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Iterate (position, document) behind a position. Errors: QueryPlanKilled if the log was dropped."""

    def documents_after(self, position: int) -> Iterator[bytes] | None:
        """Iterate only the documents, if they contain their position (`position_of`); else return None."""

    def position_of(self, document: bytes) -> int:
        """Return the position that a document contains."""

    def holds(self, position: int) -> bool:
        """Return True if the document at a position still exists."""

    async def wait(self, position: int, timeout: float) -> None:
        """Return when a document exists behind the position, or after `timeout` seconds."""


class Selection:
    """Filter, skip, limit and projection over documents in order. `picks_all`: all documents pass the filter."""

    def __init__(self, query: FindQuery, *, picks_all: bool = False) -> None:
        self.predicate: Predicate | None = None if picks_all else compile_filter(query.filter)
        self._projection: DocumentProjection | None = query.projection
        self._skip = query.skip
        self._left = query.limit or None

    @property
    def satisfied(self) -> bool:
        return self._left == 0

    def wanted(self, most: int) -> int:
        """Return how many matching documents are needed to return `most`."""
        return self._skip + (most if self._left is None else min(most, self._left))

    def take(self, documents: list[bytes]) -> list[bytes]:
        skipped = min(self._skip, len(documents))
        self._skip -= skipped
        window = documents[skipped:] if skipped else documents
        if self._left is not None:
            window = window[: self._left]
            self._left -= len(window)
        return window if self._projection is None else [self._projection.apply(document) for document in window]


class Tail:
    """A tail as a cursor's source. `picks_all`: all documents behind `start` pass the filter.

    It is never exhausted, not even at its limit, except with `ends_empty` if the log was empty at the first read.
    """

    def __init__(
        self,
        node: DataNode,
        log: Log,
        query: FindQuery,
        *,
        start: int,
        await_data: bool,
        ends_empty: bool,
        picks_all: bool = False,
    ) -> None:
        self.await_data = await_data
        self._node = node
        self._log = log
        self._selection = Selection(query, picks_all=picks_all)
        self._position = start
        self._seen = False
        self._ends_empty = ends_empty

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        if self._seen and not self._log.holds(self._position):
            raise CommandError(Code.CappedPositionLost, "what the cursor has seen last has been removed")
        selection = self._selection
        if selection.satisfied:
            return Documents([], False, at_end=True)
        matches: list[bytes] = []
        limit, clock = selection.wanted(max_docs), self._node.clock
        documents = self._log.documents_after(self._position) if selection.predicate is None else None
        if documents is not None:
            status = scan(documents, None, matches, limit, max_bytes, clock, deadline)
            reached = self._log.position_of(matches[-1]) if matches else None
        else:
            entries = _Passed(self._log.after(self._position))
            status = scan(entries, selection.predicate, matches, limit, max_bytes, clock, deadline)
            reached = entries.position
        if reached is not None:
            self._position, self._seen = reached, True
        return Documents(selection.take(matches), self._ends_empty and not self._seen, at_end=status == EXHAUSTED)

    async def wait(self, timeout: float) -> None:
        """Return when a document exists behind the last one read, or after `timeout` seconds."""
        await self._log.wait(self._position, timeout)

    def close(self) -> None:
        """Do nothing: no resource is held between batches."""


class _Passed:
    """Iterates the documents of a log and keeps the position of the last one."""

    __slots__ = ("_documents", "position")

    def __init__(self, documents: Iterator[tuple[int, bytes]]) -> None:
        self._documents = documents
        self.position: int | None = None

    def __iter__(self) -> _Passed:
        return self

    def __next__(self) -> bytes:
        self.position, document = next(self._documents)
        return document


class CappedLog:
    """A capped collection as a log: positions are record ids."""

    def __init__(self, node: DataNode, collection: Collection) -> None:
        self._node = node
        self._collection = collection

    def after(self, position: int) -> Iterator[tuple[int, bytes]]:
        coll, store = self._collection, self._node.store
        if store.collection(coll.ns) is not coll:
            raise CommandError(Code.QueryPlanKilled, f"collection dropped. UUID {coll.uuid}")
        start = coll.prefix + record_id_bytes(max(position + 1, coll.oldest))
        for key, raw in store.engine.items(Family.RECORDS, start, coll.end):
            yield last_long(key), raw

    def documents_after(self, position: int) -> None:
        """Return None: documents do not contain their record ids."""

    def position_of(self, document: bytes) -> int:
        raise AssertionError("documents of a collection do not hold their record ids")

    def holds(self, position: int) -> bool:
        coll, store = self._collection, self._node.store
        is_dropped = store.collection(coll.ns) is not coll
        return is_dropped or coll.record(store.engine, position) is not None

    async def wait(self, position: int, timeout: float) -> None:
        if self._collection.next_record_id > position + 1 or timeout <= 0:
            return
        arrived = asyncio.Event()

        def committed(commit: Commit) -> None:
            if any(change.ns == self._collection.ns or change.op == "c" for change in commit.changes):
                arrived.set()

        unsubscribe = self._node.store.subscribe(committed)
        try:
            async with asyncio.timeout(timeout):
                await arrived.wait()
        except TimeoutError:
            return
        finally:
            unsubscribe()
