"""Inserts documents into a collection in batches.

Workers send several batches at once while the next is read. In order, one batch is under way at a time, and the first
refused document ends the work. Otherwise documents that are there already, or that the collection's validator refuses,
are reported, counted and skipped; any other refusal ends the work, since it says nothing of the document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from docstore.tools.terminal import Terminal, ToolFailed

MOST_DOCUMENTS = 10_000
_BYTES = 16 << 20
_OF_DOCUMENTS = frozenset((121, 11000, 11001, 12582))
"""Codes of a failed validation, and of a key that is there already."""
_TOLD = 10
"""The number of refusals of a batch that are reported singly."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Documents that were written, and documents that the server refused."""

    done: int = 0
    failed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.done + other.done, self.failed + other.failed)


class Refused(ToolFailed):
    """The server refused a document, and the work stops there."""

    def __init__(self, counts: Counts, message: str) -> None:
        super().__init__(message)
        self.counts = counts


def batches_of(documents: Iterable[RawBSONDocument]) -> Iterator[list[RawBSONDocument]]:
    """Documents in lists of some 16 MiB, or 10,000 documents: each a request, where the server takes as much."""
    batch: list[RawBSONDocument] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.raw)
        if len(batch) >= MOST_DOCUMENTS or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Workers:
    """Threads that call one function with each batch, `count` at once and as many waiting. In order, none waits."""

    def __init__(self, act: Callable[[list[Any]], Counts], count: int, *, in_order: bool) -> None:
        self._act = act
        self._pool = None if in_order else ThreadPoolExecutor(count, "insertion")
        self._most = 2 * count
        self._under_way: deque[Future[Counts]] = deque()
        self.counts = Counts()
        """The counts of the finished batches: of a prefix of those put."""

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(cancel_futures=kind is not None)
        for future in self._under_way:
            if not future.cancelled() and future.exception() is None:
                self.counts += future.result()
        self._under_way.clear()

    def submit(self, batch: list[Any]) -> None:
        """Hand over a batch. Errors: those that the function raised for this batch or an earlier one."""
        if self._pool is None:
            self.counts += self._act(batch)
            return
        while len(self._under_way) >= self._most:
            self.counts += self._under_way.popleft().result()
        self._under_way.append(self._pool.submit(self._act, batch))

    def finish(self) -> Counts:
        """Wait for all batches. Errors: see `submit`."""
        while self._under_way:
            self.counts += self._under_way.popleft().result()
        return self.counts


def insert(
    collection: Collection[Any],
    batch: Sequence[RawBSONDocument],
    terminal: Terminal,
    *,
    in_order: bool,
    unvalidated: bool,
    is_there: Callable[[RawBSONDocument], bool] | None = None,
) -> Counts:
    """Insert a batch. A refused document counts as written if `is_there` accepts it. Errors: Refused, in order."""
    counts = Counts()
    while batch:
        try:
            collection.insert_many(batch, ordered=in_order, bypass_document_validation=unvalidated or None)
            return counts + Counts(len(batch))
        except BulkWriteError as error:
            details = dict(error.details or {})
        refused = details.get("writeErrors", [])
        harmless_errors = [
            write_error for write_error in refused if is_there is not None and is_there(batch[write_error["index"]])
        ]
        details["writeErrors"] = [write_error for write_error in refused if write_error not in harmless_errors]
        counts += Counts(len(harmless_errors)) + refusals(details, terminal, in_order=in_order)
        # In order, nothing behind the first one that was refused has been tried.
        batch = batch[harmless_errors[0]["index"] + 1 :] if in_order and harmless_errors else ()
    return counts


def refusals(details: Mapping[str, Any] | None, terminal: Terminal, *, in_order: bool) -> Counts:
    """Return the counts of a bulk write that failed in part. Errors: Refused, in order, without acknowledgement, and
    where a document was refused for what it has nothing to do with, as a full disk.
    """
    reply = details or {}
    refused = reply.get("writeErrors", ())
    done = sum(reply.get(name, 0) for name in ("nInserted", "nModified", "nUpserted", "nRemoved"))
    counts = Counts(done, len(refused))
    if reply.get("writeConcernErrors"):
        raise Refused(counts, f"write concern: {reply['writeConcernErrors'][0]['errmsg']}")
    if in_order and refused:
        raise Refused(counts, refused[0]["errmsg"])
    for write_error in refused:
        if write_error.get("code") not in _OF_DOCUMENTS:
            raise Refused(counts, write_error["errmsg"])
    for write_error in refused[:_TOLD]:
        terminal.say(f"continuing through error: {write_error['errmsg']}")
    if len(refused) > _TOLD:
        terminal.say(f"continuing through {len(refused) - _TOLD} more errors")
    return counts
