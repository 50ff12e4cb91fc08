"""Index keys of large documents, computed before the write unit, while other tasks may run.

- The keys equal those of `Index.marked_keys` for the same document, so they stay valid if the collection
  changes before the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.bson import get_field
from docstore.collection.index.keys import REFUSALS
from docstore.errors import CommandError
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.query.pausing import PAUSED, allowing

if TYPE_CHECKING:
    from docstore.collection.collection import Collection, Index


Marked = tuple[list[bytes], int, bytes]


def keys_take_long(coll: Collection, raw: bytes, changed: frozenset[bytes] | None = None) -> bool:
    """True if computing a document's keys may be slow: the document is large, and an index reads a large part of it.

    `changed`: as in `Entries.changed_keys`.
    """
    return len(raw) > LARGE_BYTES and any(reads_much(index, raw) for index in coll.indexes_of(changed))


def reads_much(index: Index, raw: bytes) -> bool:
    """True if the index reads large values of the document."""
    fields = index.fields_read
    if fields is None:
        return True
    values = (get_field(raw, name) for name in fields)
    return any(value is not None and len(value[1]) > LARGE_BYTES for value in values)


def marked_keys_with_pauses(index: Index, raw: bytes) -> Marked:
    """Return the keys of a covered document, as `Index.marked_keys`, yielding to other tasks meanwhile."""
    return allowing(PAUSED, index.calculation(), raw)


class KeysAhead:
    """Precomputed keys of a few documents, by index."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[Index, bytes], Marked | CommandError] = {}

    def calculate(self, coll: Collection, raw: bytes, changed: frozenset[bytes] | None = None) -> None:
        """Compute the missing keys of a document. Errors: those that end the request, but not refusals of the document.

        `changed`: as in `Entries.changed_keys`.
        """
        for index in coll.indexes_of(changed):
            if (index, raw) in self._kept:
                continue
            if not index.covers(raw):
                self._kept[index, raw] = [], 0, b""
                continue
            try:
                self._kept[index, raw] = marked_keys_with_pauses(index, raw)
            except CommandError as error:
                if error.code not in REFUSALS:
                    raise
                self._kept[index, raw] = error.with_traceback(None)

    def has(self, coll: Collection, raw: bytes) -> bool:
        """True if the keys of all secondary indexes are known for the document."""
        return all((index, raw) in self._kept for index in coll.secondary)

    def of(self, index: Index, raw: bytes, *, tolerant: bool) -> Marked:
        """Return the precomputed keys, or compute them now, as `Index.marked_keys`."""
        entry = self._kept.get((index, raw))
        if entry is None:
            return index.marked_keys(raw, tolerant=tolerant)
        if not isinstance(entry, CommandError):
            return entry
        if tolerant:
            return [], 0, b""
        raise entry

    def clear(self) -> None:
        """Drop the keys, after the unit."""
        self._kept.clear()
