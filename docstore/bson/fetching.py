"""The loop from index entries to stored documents.

Entries and records are read ahead in chunks that grow. Where the record ids of a chunk follow one another, as they do
when an index follows the order of insertion, the records are read in one walk, which is several times cheaper than one
by one. What is read ahead is not counted as examined before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cython

_ID_BYTES = 8
_FIRST_CHUNK = 8
_LARGEST_CHUNK = 256
_READ_AHEAD_BYTES = 1 << 18


class Examined:
    """How many index entries and documents have been looked at."""

    keys: int
    documents: int

    def __init__(self) -> None:
        self.keys = 0
        self.documents = 0


class Fetching:
    """An iterator over (8 bytes of the record id, document) for the entries of an index; only documents when `bare`.

    `entries` end in the 8 bytes of a record id; `get` gives the record behind a key, or None; `values` the records
    between two keys; `prefix` begins the key of every record. `seen`: the record ids that were met, if later entries of
    a document are to be passed over. A document that has gone between its entry and its record is passed over too.
    """

    _entries: Iterator[bytes]
    _get: Callable[[bytes], bytes | None]
    _values: Callable[[bytes, bytes], Iterator[bytes]]
    _prefix: bytes
    _once: cython.bint
    _bare: cython.bint
    _seen: set[bytes]
    _examined: Examined
    _chunk: list[bytes]
    _found: list[bytes | None]
    _at: cython.Py_ssize_t
    _size: cython.Py_ssize_t

    def __init__(
        self,
        entries: Iterator[bytes],
        get: Callable[[bytes], bytes | None],
        values: Callable[[bytes, bytes], Iterator[bytes]],
        prefix: bytes,
        seen: set[bytes] | None,
        bare: bool,
        examined: Examined,
    ) -> None:
        self._entries = entries
        self._get = get
        self._values = values
        self._prefix = prefix
        self._once = seen is not None
        self._bare = bare
        self._seen = set() if seen is None else seen
        self._examined = examined
        self._chunk = []
        self._found = []
        self._at = 0
        self._size = _FIRST_CHUNK

    def __iter__(self) -> Fetching:
        return self

    def __next__(self) -> tuple[bytes, bytes] | bytes:
        rid: bytes
        raw: bytes | None
        while True:
            if self._at == len(self._found):
                if self._at == len(self._chunk):
                    self._read_ahead()
                if not self._chunk:
                    raise StopIteration
                if self._at == len(self._found):
                    self._read_records()
            rid = self._chunk[self._at]
            raw = self._found[self._at]
            self._at += 1
            self._examined.keys += 1
            if self._once:
                if rid in self._seen:
                    continue
                self._seen.add(rid)
            if raw is not None:
                self._examined.documents += 1
                if self._bare:
                    return raw
                return rid, raw

    def _read_ahead(self) -> None:
        entry: bytes
        rid: bytes
        before: bytes = b""
        rising: cython.bint = True
        chunk: list[bytes] = []
        left: cython.Py_ssize_t = self._size
        for entry in self._entries:
            rid = entry[len(entry) - _ID_BYTES :]
            chunk.append(rid)
            if rid <= before:
                rising = False
            before = rid
            left -= 1
            if left == 0:
                break
        self._chunk = chunk
        self._at = 0
        self._size = min(2 * self._size, _LARGEST_CHUNK)
        self._found = []
        if rising and len(chunk) >= _FIRST_CHUNK and _span(chunk[0], before) < len(chunk):
            self._walk_records(chunk[0], before)

    def _walk_records(self, first: bytes, last: bytes) -> None:
        """Read the records of the chunk, which has all ids between two, in one walk; nothing if one is not there."""
        raw: bytes
        room: cython.Py_ssize_t = _READ_AHEAD_BYTES
        found: list[bytes | None] = []
        for raw in self._values(self._prefix + first, self._prefix + last + b"\0"):
            found.append(raw)
            room -= len(raw)
            if room < 0:
                return
        if len(found) == len(self._chunk):
            self._found = found

    def _read_records(self) -> None:
        """Read on in the chunk, one by one, at least one record and not many bytes."""
        raw: bytes | None
        room: cython.Py_ssize_t = _READ_AHEAD_BYTES
        at: cython.Py_ssize_t
        for at in range(self._at, len(self._chunk)):
            raw = self._record(self._chunk[at])
            self._found.append(raw)
            if raw is not None:
                room -= len(raw)
                if room < 0:
                    self._size = _FIRST_CHUNK
                    return

    def _record(self, rid: bytes) -> bytes | None:
        # A document of a multikey index is read once.
        if self._once and rid in self._seen:
            return None
        return self._get(self._prefix + rid)


def _span(lowest: bytes, highest: bytes) -> int:
    return int.from_bytes(highest, "big") - int.from_bytes(lowest, "big")
