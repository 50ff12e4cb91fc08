"""Sorting of raw documents by a key pattern, all of them or the first few. The sort is stable."""

from __future__ import annotations

from collections.abc import Iterable

import cython

from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.scan.pairs import items_of, sorted_pairs


def keyed(pattern: KeyPattern, documents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return (sort key, document) of each document, in the given order."""
    document: bytes
    pairs: list[tuple[bytes, bytes]] = []
    for document in documents:
        pairs.append((pattern.sort_key(document), document))
    return pairs


def sort_documents(pattern: KeyPattern, documents: Iterable[bytes]) -> list[bytes]:
    """Return the documents in order."""
    return items_of(sorted_pairs(keyed(pattern, documents)))


class FirstDocuments:
    """The first `limit` documents of a stream in order (a top-n sort), holding at most twice as many."""

    _pattern: KeyPattern
    _limit: cython.Py_ssize_t
    _documents: list[tuple[bytes, bytes]]
    _worst: bytes | None

    def __init__(self, pattern: KeyPattern, limit: int) -> None:
        assert limit > 0, "a limit of nothing needs no sorting"
        self._pattern = pattern
        self._limit = limit
        self._documents = []
        self._worst = None

    @property
    def memory(self) -> int:
        """The bytes of the documents and keys held."""
        return sum(len(key) + len(document) for key, document in self._documents)

    def push(self, documents: Iterable[bytes]) -> None:
        """Add documents."""
        document: bytes
        key: bytes
        for document in documents:
            key = self._pattern.sort_key(document)
            if self._worst is not None and key >= self._worst:
                continue
            self._documents.append((key, document))
            if len(self._documents) >= 2 * self._limit:
                self._prune()

    def _prune(self) -> None:
        self._documents = sorted_pairs(self._documents)
        del self._documents[self._limit :]
        if len(self._documents) == self._limit:
            self._worst = self._documents[self._limit - 1][0]

    def documents(self) -> list[bytes]:
        """Return the first of all documents that were pushed, in order."""
        self._prune()
        return [document for _, document in self._documents]
