"""Results of a map-reduce on their way from its worker to their destination.

Results are lists of raw `{_id, value}` documents in the order of keys. A sink takes them list by list and is awaited,
so that a worker makes no more than are taken.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from docstore.bson import get_field
from docstore.bson.walk import Value
from docstore.errors import Code, CommandError
from docstore.js.frames import split_documents
from docstore.js.job import MEBIBYTE, Counts, MapReduceJob
from docstore.js.workers import Sink, Workers

INLINE_BYTES = 16 * MEBIBYTE
"""The maximal size of a reply."""
HELD_BYTES = 8 * MEBIBYTE
"""The bytes kept in memory before results go to a file."""

Existing = Callable[[list[Value]], Awaitable[Sequence[bytes | None]]]
"""Returns the documents of a target under these keys; None for each missing one."""


class InlineResults:
    """A sink for results in the reply. Errors: BSONObjectTooLarge once they exceed the limit."""

    def __init__(self) -> None:
        self.documents: list[bytes] = []
        self._size = 0

    async def take(self, documents: list[bytes]) -> None:
        self._size += sum(map(len, documents))
        if self._size > INLINE_BYTES:
            raise CommandError(Code.BSONObjectTooLarge, "the results are too large to be returned inline")
        self.documents += documents


class KeptResults:
    """A sink that keeps results until they are read. Large ones go to an unnamed file in `directory`, which
    disappears with its owner.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pieces: list[bytes] = []
        self._sizes: list[int] = []
        self._held = 0
        self._file: IO[bytes] | None = None

    async def take(self, documents: list[bytes]) -> None:
        piece = b"".join(documents)
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held > HELD_BYTES:
            if self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115, it outlives this call
            self._file.writelines(self._pieces)
            self._sizes += map(len, self._pieces)
            self._pieces, self._held = [], 0

    def batches(self) -> Iterator[list[bytes]]:
        """Yield all results, from the beginning."""
        if self._file is not None:
            self._file.seek(0)
            for size in self._sizes:
                yield split_documents(self._file.read(size))
        for piece in self._pieces:
            yield split_documents(piece)

    def documents(self) -> Iterator[bytes]:
        """Yield all results one at a time."""
        for batch in self.batches():
            yield from batch

    def close(self) -> None:
        self._pieces = []
        if self._file is not None:
            self._file.close()


async def reduce_with_existing(
    workers: Workers, job: MapReduceJob, results: KeptResults, existing: Existing, sink: Sink
) -> Counts:
    """Pass each result to the sink, reduced with the target's document of its key, if any.

    Results without one are not reduced. Reduced results come after the unreduced ones of their batch.
    """

    async def pairs() -> AsyncIterator[list[bytes]]:
        for batch in results.batches():
            documents = await existing([_key(result) for result in batch])
            alone = [result for result, before in zip(batch, documents, strict=True) if before is None]
            if alone:
                await sink(alone)
            together: list[bytes] = []
            for result, before in zip(batch, documents, strict=True):
                if before is not None:
                    together += (before, result)
            if together:
                yield together

    return await workers.merge_reduce(job, [pairs()], sink)


def _key(result: bytes) -> Value:
    key = get_field(result, "_id")
    assert key is not None, "a result has a key"
    return key
