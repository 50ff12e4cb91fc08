"""The keys of large documents, calculated where others may run, before the unit that writes them.

Always true: what is kept is what `Index.marked_keys` says of the same document, so it may be used whenever the unit
comes, whatever has happened to the collection meanwhile.
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
    """Whether the keys of a document may take more than a moment: it is large, and so is what an index reads of it.

    `changed`: as in `Entries.changed_keys`.
    """
    return len(raw) > LARGE_BYTES and any(reads_much(index, raw) for index in coll.indexes_of(changed))


def reads_much(index: Index, raw: bytes) -> bool:
    """Whether what an index reads of a document is large."""
    fields = index.fields_read
    if fields is None:
        return True
    values = (get_field(raw, name) for name in fields)
    return any(value is not None and len(value[1]) > LARGE_BYTES for value in values)


def marked_keys_with_pauses(index: Index, raw: bytes) -> Marked:
    """As `Index.marked_keys` of a document that the index covers, where others may run in between, too."""
    return allowing(PAUSED, index.calculation(), raw)


class KeysAhead:
    """Of a few documents, by index."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[Index, bytes], Marked | CommandError] = {}

    def calculate(self, coll: Collection, raw: bytes, changed: frozenset[bytes] | None = None) -> None:
        """Find out what is not known yet of a document. Errors: those with which the request is ended.

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
        """Whether everything is known of a document."""
        return all((index, raw) in self._kept for index in coll.secondary)

    def of(self, index: Index, raw: bytes, *, tolerant: bool) -> Marked:
        """As `Index.marked_keys`."""
        found = self._kept.get((index, raw))
        if found is None:
            return index.marked_keys(raw, tolerant=tolerant)
        if not isinstance(found, CommandError):
            return found
        if tolerant:
            return [], 0, b""
        raise found

    def clear(self) -> None:
        """What is kept has done its duty."""
        self._kept.clear()
