"""The loop from index entries to stored documents.

Entries and records are read ahead in chunks that grow. Records of a chunk that lie close together are read in one scan
by record id, in any order of their entries. That is several times cheaper than separate reads. Read-ahead counts as
examined only when the consumer reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import cython

from docstore.kernel.limits import MAX_STEP_BYTES
from docstore.kernel.match.predicate import Predicate

if not cython.compiled:
    from docstore.bson.walk import part

_ID_BYTES: cython.Py_ssize_t = 8
_FIRST_CHUNK: cython.Py_ssize_t = 8
_READ_AHEAD_BYTES: cython.Py_ssize_t = 1 << 18
_SHORTEST_WALK: cython.Py_ssize_t = 8
_WIDEST_GAP: cython.Py_ssize_t = 2


Walk = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]

if not cython.compiled:
    LARGEST_CHUNK = 256
_WIDEST_ORDER: cython.Py_ssize_t = 1 << 40
_UNREAD: object = object()
"""Stands for a record that has not been read yet."""


class Examined:
    """Counts the index entries and documents that a query examined.

    `seeks`: the number of seeks in the index after the first; `ended_by_key`: the last entry examined proved that no
    further one can be within the bounds.
    """

    keys: cython.Py_ssize_t
    documents: cython.Py_ssize_t
    seeks: cython.Py_ssize_t
    ended_by_key: bool

    def __init__(self) -> None:
        self.keys = 0
        self.documents = 0
        self.seeks = 0
        self.ended_by_key = False


class Fetching:
    """An iterator over (record id in 8 bytes, document) for the entries of an index; only documents if `bare`.

    - `entries` end in the 8 bytes of a record id. `get` returns the record of a key, or None.
    - `walks` returns, for records that are read at once, an iterator over (key, record) pairs from one key up to
      another or beyond.
    - `prefix` begins the key of every record.
    - `seen` are the record ids yielded so far, if later entries of a document are to be skipped.
    - A document deleted between the reads of its entry and its record is skipped, too.
    - `read_ahead` limits (the entries read ahead, no more than 256; those of the first step: the number of documents
      that are needed, 0: unknown).
    - `entry` is the entry of the document yielded last.
    """

    entry: bytes

    _entries: Iterator[bytes]
    _get: Callable[[bytes], bytes | None]
    _walks: Callable[[], Walk]
    _prefix: bytes
    _once: cython.bint
    _bare: cython.bint
    _visited_ids: set[bytes]
    _examined: Examined
    _chunk: list[bytes]
    """The entries read ahead; `_records` has their records."""
    _records: list[object]
    _order: list[int]
    """The entries of the chunk, sorted by record id: each is its distance from the least record id, times the largest
    chunk, plus its position. Empty if these numbers would be too large.
    """
    _at: cython.Py_ssize_t
    _size: cython.Py_ssize_t
    _largest: cython.Py_ssize_t

    def __init__(
        self,
        entries: Iterator[bytes],
        get: Callable[[bytes], bytes | None],
        walks: Callable[[], Walk],
        prefix: bytes,
        visited_ids: set[bytes] | None,
        bare: bool,
        examined: Examined,
        read_ahead: Sequence[int] = (LARGEST_CHUNK, 0),
    ) -> None:
        self._entries = entries
        self._get = get
        self._walks = walks
        self._prefix = prefix
        self._once = visited_ids is not None
        self._bare = bare
        self._visited_ids = set() if visited_ids is None else visited_ids
        self._examined = examined
        self._chunk = []
        self.entry = b""
        self._records = []
        self._order = []
        self._at = 0
        self._largest = min(read_ahead[0], LARGEST_CHUNK)
        self._size = min(read_ahead[1] or _FIRST_CHUNK, self._largest)

    def __iter__(self) -> Fetching:
        return self

    def __next__(self) -> tuple[bytes, bytes] | bytes:
        entry: bytes
        rid: bytes
        raw: bytes
        record: object
        while True:
            if self._at == len(self._chunk):
                self._read_ahead()
                if not self._chunk:
                    raise StopIteration
            record = self._records[self._at]
            if record is _UNREAD:
                self._read_records()
                record = self._records[self._at]
            entry = self._chunk[self._at]
            self._at += 1
            self._examined.keys += 1
            if self._once:
                rid = _rid_of(entry)
                if rid in self._visited_ids:
                    continue
                self._visited_ids.add(rid)
            if record is not None:
                raw = record  # type: ignore[assignment]
                self.entry = entry
                self._examined.documents += 1
                if self._bare:
                    return raw
                return _rid_of(entry), raw

    @cython.cfunc
    def _read_ahead(self) -> None:
        entry: bytes
        chunk: list[bytes] = []
        remaining: cython.Py_ssize_t = self._size
        for entry in self._entries:
            chunk.append(entry)
            remaining -= 1
            if remaining == 0:
                break
        self._chunk = chunk
        self._at = 0
        self._size = min(2 * self._size, self._largest)
        self._records = [_UNREAD] * len(chunk)
        if len(chunk) >= _SHORTEST_WALK:
            self._walk_runs()

    @cython.cfunc
    def _walk_runs(self) -> None:
        """Read the records that lie close together, up to the read-ahead's limit of bytes."""
        order: list[int] = self._in_order()
        count: cython.Py_ssize_t = len(order)
        first: cython.Py_ssize_t = 0
        position: cython.Py_ssize_t
        room: cython.Py_ssize_t = _READ_AHEAD_BYTES
        walk: Walk | None = None
        number: cython.Py_ssize_t = 0
        previous: cython.Py_ssize_t = 0
        for position in range(1, count + 1):
            if position < count:
                number = order[position]
                number //= LARGEST_CHUNK
                if number - previous <= _WIDEST_GAP:
                    previous = number
                    continue
                previous = number
            if position - first >= _SHORTEST_WALK:
                if walk is None:
                    walk = self._walks()
                room = self._walk(walk, first, position, room)
                if room < 0:
                    break
            first = position

    @cython.cfunc
    def _in_order(self) -> list[int]:
        """Return `_order`, after computing it."""
        number: cython.Py_ssize_t
        position: cython.Py_ssize_t
        least: cython.Py_ssize_t = _number(self._chunk[0])
        most: cython.Py_ssize_t = least
        order: list[int] = []
        self._order = order
        for position in range(1, len(self._chunk)):
            number = _number(self._chunk[position])
            if number < least:
                least = number
            elif number > most:
                most = number
        if least < 0 or most - least > _WIDEST_ORDER:
            return order
        for position in range(len(self._chunk)):
            order.append((_number(self._chunk[position]) - least) * LARGEST_CHUNK + position)
        order.sort()
        return order

    def _walk(
        self, walk: Walk, first: cython.Py_ssize_t, end: cython.Py_ssize_t, room: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the records at the positions [first, end) in order. Return the room left, negative if it was too little
        for them.
        """
        order: list[int] = self._order
        pair: tuple[bytes, bytes]
        raw: bytes
        number: cython.Py_ssize_t
        at: cython.Py_ssize_t = first
        lowest: bytes = self._chunk[order[first] % LARGEST_CHUNK]
        highest: bytes = self._chunk[order[end - 1] % LARGEST_CHUNK]
        here: cython.Py_ssize_t = order[first]
        least: cython.Py_ssize_t = _number(lowest) - here // LARGEST_CHUNK
        for pair in walk(self._prefix + _rid_of(lowest), self._prefix + _rid_of(highest) + b"\0"):
            raw = pair[1]
            number = _number(pair[0]) - least
            while at < end:
                here = order[at]
                if here // LARGEST_CHUNK > number:
                    break
                if here // LARGEST_CHUNK == number:
                    self._records[here % LARGEST_CHUNK] = raw
                at += 1
            room -= len(raw)
            if room < 0 or at == end:
                break
        return room

    @cython.cfunc
    def _read_records(self) -> None:
        """Read further records of the chunk one by one, at least one and not many bytes."""
        raw: bytes | None
        room: cython.Py_ssize_t = _READ_AHEAD_BYTES
        at: cython.Py_ssize_t
        for at in range(self._at, len(self._chunk)):
            if self._records[at] is not _UNREAD:
                continue
            raw = self._record(_rid_of(self._chunk[at]))
            self._records[at] = raw
            if raw is not None:
                room -= len(raw)
                if room < 0:
                    self._size = min(_FIRST_CHUNK, self._largest)
                    return

    @cython.cfunc
    def _record(self, rid: bytes) -> bytes | None:
        # A document of a multikey index is read once.
        if self._once and rid in self._visited_ids:
            return None
        return self._get(self._prefix + rid)


@cython.cfunc
def _rid_of(entry: bytes) -> bytes:
    """Return the record id at the end of an entry, or of a record's key."""
    return part(entry, len(entry) - _ID_BYTES, len(entry))


def _number(entry: bytes) -> cython.Py_ssize_t:
    """Return it as a number."""
    number: cython.Py_ssize_t = 0
    offset: cython.Py_ssize_t
    for offset in range(len(entry) - _ID_BYTES, len(entry)):
        number = number << 8 | entry[offset]
    return number


def fetch_few(
    entries: Iterator[bytes],
    get: Callable[[bytes], bytes | None],
    prefix: bytes,
    predicate: Predicate | None,
    owned: Predicate | None,
    once: bool,
    max_documents: int,
    most: int,
    documents: list[bytes],
    matched_entries: list[bytes] | None,
) -> bool:
    """Append the documents of entries that satisfy both predicates to `documents`, up to `max_documents`, and their
    entries to `matched_entries`. True if these are all, or `max_documents`.

    False if the work exceeds a step: `most` entries have been read, or the documents are large. `entries`, `get` and
    `prefix` are as in `Fetching`; `once`: later entries of a document are skipped.
    """
    entry: bytes
    rid: bytes
    raw: bytes
    record: object
    remaining: cython.Py_ssize_t = max_documents
    looks: cython.Py_ssize_t = most
    room: cython.Py_ssize_t = MAX_STEP_BYTES
    visited_ids: set[bytes] | None = set() if once else None
    if remaining <= 0:
        return True
    for entry in entries:
        if looks == 0 or room < 0:
            return False
        looks -= 1
        rid = _rid_of(entry)
        if visited_ids is not None:
            if rid in visited_ids:
                continue
            visited_ids.add(rid)
        record = get(prefix + rid)
        if record is None:
            continue
        raw = record
        room -= len(raw)
        if predicate is not None and not predicate.test(raw, 0, len(raw)):
            continue
        if owned is not None and not owned.test(raw, 0, len(raw)):
            continue
        documents.append(raw)
        if matched_entries is not None:
            matched_entries.append(entry)
        remaining -= 1
        if remaining == 0:
            return True
    return True


def fetch_several(
    fetching: Fetching,
    predicate: Predicate | None,
    owned: Predicate | None,
    max_documents: int,
    most: int,
    documents: list[bytes],
    matched_entries: list[bytes] | None,
) -> bool:
    """Fetch as `fetch_few` does, with the read-ahead of `fetching`, which is bare: for more than single reads suit."""
    raw: bytes
    remaining: cython.Py_ssize_t = max_documents
    room: cython.Py_ssize_t = MAX_STEP_BYTES
    if remaining <= 0:
        return True
    for raw in fetching:  # type: ignore[assignment]
        if fetching._examined.keys > most or room < 0:
            return False
        room -= len(raw)
        if predicate is not None and not predicate.test(raw, 0, len(raw)):
            continue
        if owned is not None and not owned.test(raw, 0, len(raw)):
            continue
        documents.append(raw)
        if matched_entries is not None:
            matched_entries.append(fetching.entry)
        remaining -= 1
        if remaining == 0:
            return True
    return True
