"""Where the entries of an index that is being built come from: documents, taken one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cython

from docstore.kernel.keys.gathered import GatheredEntries
from docstore.kernel.keys.pattern import KeyPattern

if not cython.compiled:
    from docstore.bson.walk import part

_RECORD_ID_BYTES = 8


class EntrySource:
    """The entries of documents under one index: those of a pattern, or what `gather(prefix, document, record id, into)`
    gathers, which gives the places where arrays were expanded. `places`: all of them so far.
    """

    prefix: bytes
    places: int
    _pattern: KeyPattern | None
    _gather: Callable[[bytes, bytes, bytes, GatheredEntries], int] | None

    def __init__(
        self, prefix: bytes, gather: KeyPattern | Callable[[bytes, bytes, bytes, GatheredEntries], int]
    ) -> None:
        self.prefix = prefix
        self.places = 0
        self._pattern = gather if isinstance(gather, KeyPattern) else None
        self._gather = None if isinstance(gather, KeyPattern) else gather

    def gather(self, raw: bytes, rid: bytes, into: GatheredEntries) -> None:
        """Gather a document's entries. Errors: those of the index."""
        if self._pattern is not None:
            places = self._pattern.gather(self.prefix, raw, rid, into)
        else:
            assert self._gather is not None, "there is a pattern or a function"
            places = self._gather(self.prefix, raw, rid, into)
        if places:
            self.places |= places


def gather_documents(
    records: Iterator[tuple[bytes, bytes]], sources: list[EntrySource], into: GatheredEntries, most: cython.Py_ssize_t
) -> bytes | None:
    """Gather the entries of the next documents, `most` or fewer, given as (key of the record, document), of which the
    last bytes of the key are the record id; the last record id, None where there were no more documents.
    """
    rid: bytes | None = None
    found: tuple[bytes, bytes]
    key: bytes
    source: EntrySource
    for found in records:
        key = found[0]
        rid = part(key, len(key) - _RECORD_ID_BYTES, len(key))
        for source in sources:
            source.gather(found[1], rid, into)
        most -= 1
        if most == 0:
            break
    return rid
