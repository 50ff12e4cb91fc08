"""Documents that are all there, as what a cursor of the router gives out."""

from __future__ import annotations


class Listed:
    """Gives its documents in batches, as a `MergedCursor` does those of shards."""

    def __init__(self, documents: list[bytes]) -> None:
        self._documents = documents
        self._at = 0

    async def next_batch(self, max_documents: int, max_bytes: int) -> tuple[list[bytes], bool]:
        """Up to so many documents and bytes, at least one where there is one, and whether they were the last."""
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
