"""Document sources of cursors, read in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from docstore.bson.build import bytes_of
from docstore.buffers import BUFFERS, OperationBuffers


class Batch(Protocol):
    """The result of one step. `exhausted`: no documents remain."""

    @property
    def documents(self) -> list[bytes]: ...

    @property
    def exhausted(self) -> bool: ...


class DocumentSource(Protocol):
    """A source of documents for a cursor."""

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        """Return at most that many documents and bytes (but at least one document).

        Fewer if `deadline` passes first.
        """

    def close(self) -> None: ...


class Evaluating(ABC):
    """A source whose batches may be computed by pipeline stages."""

    __slots__ = ()

    @abstractmethod
    def evaluates(self) -> bool:
        """Return True if stages still have to run."""


@dataclass(frozen=True, slots=True)
class Documents:
    """A batch as a value. `at_end`: no more documents exist yet."""

    documents: list[bytes]
    exhausted: bool
    at_end: bool = False


class ListSource:
    """A source over a list of documents."""

    def __init__(self, documents: list[bytes]) -> None:
        self._documents = documents
        self._at = 0

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        del deadline
        documents: list[bytes] = []
        size = 0
        while self._at < len(self._documents) and len(documents) < max_docs:
            raw = self._documents[self._at]
            if documents and size + len(raw) > max_bytes:
                break
            documents.append(raw)
            size += len(raw)
            self._at += 1
        return Documents(documents, self._at == len(self._documents))

    def close(self) -> None:
        self._documents = []


def kept_source(documents: list[bytes]) -> DocumentSource | None:
    """Return a source of these documents, counted in the memory of all cursors; None if that would exceed its limit."""
    size = bytes_of(documents)
    if BUFFERS.held + size > BUFFERS.limit:
        return None
    buffers = OperationBuffers()
    buffers.change(size)
    return ReleasingSource(ListSource(documents), buffers.close)


class MadeSource:
    """A source over a generator; its None values stand for work without a document."""

    def __init__(self, made: Iterator[bytes | None], clock: Callable[[], float]) -> None:
        self._made = made
        self._clock = clock
        self._next: bytes | None = None

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        documents: list[bytes] = []
        size = 0
        while True:
            if self._next is None:
                for document in self._made:
                    self._next = document
                    if document is not None or self._clock() >= deadline:
                        break
                else:
                    return Documents(documents, True)
            raw = self._next
            if raw is None or len(documents) == max_docs or (documents and size + len(raw) > max_bytes):
                return Documents(documents, False)
            documents.append(raw)
            size += len(raw)
            self._next = None
            if self._clock() >= deadline:
                return Documents(documents, False)

    def close(self) -> None:
        self._made = iter(())


class ReleasingSource(Evaluating):
    """A source that releases its snapshot when closed."""

    __slots__ = ("_release", "_source", "next_batch")

    def __init__(self, source: DocumentSource, release: Callable[[], None]) -> None:
        self._source = source
        self._release = release
        self.next_batch = source.next_batch

    def evaluates(self) -> bool:
        return isinstance(self._source, Evaluating) and self._source.evaluates()

    def close(self) -> None:
        self._source.close()
        self._release()


class HeldBack(Evaluating):
    """A source with one document pushed back that did not fit into a batch. `ended`: it is the last one."""

    __slots__ = ("_document", "_ended", "source")

    def __init__(self, source: DocumentSource, document: bytes, ended: bool) -> None:
        self.source = source
        self._document: bytes | None = document
        self._ended = ended

    @property
    def is_spent(self) -> bool:
        """True if the document was returned and the underlying source can be used directly."""
        return self._document is None and not self._ended

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        if self._document is None:
            return Documents([], True) if self._ended else self.source.next_batch(max_docs, max_bytes, deadline)
        documents, ended, at_end = [self._document], self._ended, False
        room = max_bytes - len(self._document)
        if not ended and max_docs > 1 and room > 0:
            batch = self.source.next_batch(max_docs - 1, room, deadline)
            documents += batch.documents
            ended, at_end = batch.exhausted, isinstance(batch, Documents) and batch.at_end
        self._document, self._ended = None, ended
        return Documents(documents, ended, at_end)

    def evaluates(self) -> bool:
        return isinstance(self.source, Evaluating) and self.source.evaluates()

    def close(self) -> None:
        self.source.close()
