"""A list of documents as the source of a router's cursor."""

from __future__ import annotations


class Listed:
    """Returns its documents in batches, like a `MergedCursor`."""

    partial: bool | None = None

    def __init__(self, documents: list[bytes]) -> None:
        self._documents = documents
        self._at = 0

    async def next_batch(self, max_documents: int, max_bytes: int) -> tuple[list[bytes], bool]:
        """Return at most this many documents and bytes, at least one document if any is left, and whether they were
        the last.
        """
        first = self._at
        size = 0
        for raw in self._documents[first : first + max_documents]:
            size += len(raw)
            if size > max_bytes and self._at > first:
                break
            self._at += 1
        return self._documents[first : self._at], self._at == len(self._documents)

    def close(self) -> None:
        self._documents = []
