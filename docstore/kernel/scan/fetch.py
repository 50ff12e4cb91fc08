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

_ID_BYTES = 8
_FIRST_CHUNK = 8
_READ_AHEAD_BYTES = 1 << 18
_SHORTEST_WALK = 8
_WIDEST_GAP = 2


Walk = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]

if not cython.compiled:
    LARGEST_CHUNK = 256
_WIDEST_ORDER = 1 << 40
_UNREAD = object()
"""Stands for a record that has not been read yet."""


class Examined:
    """Counts the index entries and documents that a query examined.

    `seeks`: the number of seeks in the index after the first; `ended_by_key`: the last entry examined proved that no
    further one can be within the bounds.
    """

    keys: int
    documents: int
    seeks: int
    ended_by_key: bool

    def __init__(self) -> None:
        self.keys = 0
        self.documents = 0
        self.seeks = 0
        self.ended_by_key = False


class Fetching:
    """An iterator over (8 bytes of the record id, document) for the entries of an index; only documents if `bare`.

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
    _seen: set[bytes]
    _examined: Examined
    _chunk: list[bytes]
    """The entries read ahead; `_found` has their records."""
    _found: list[object]
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
        seen: set[bytes] | None,
        bare: bool,
        examined: Examined,
        read_ahead: Sequence[int] = (LARGEST_CHUNK, 0),
    ) -> None:
        self._entries = entries
        self._get = get
        self._walks = walks
        self._prefix = prefix
        self._once = seen is not None
        self._bare = bare
        self._seen = set() if seen is None else seen
        self._examined = examined
        self._chunk = []
        self.entry = b""
        self._found = []
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
        found: object
        while True:
            if self._at == len(self._chunk):
                self._read_ahead()
                if not self._chunk:
                    raise StopIteration
            found = self._found[self._at]
            if found is _UNREAD:
                self._read_records()
                found = self._found[self._at]
            entry = self._chunk[self._at]
            self._at += 1
            self._examined.keys += 1
            if self._once:
                rid = _rid_of(entry)
                if rid in self._seen:
                    continue
                self._seen.add(rid)
            if found is not None:
                raw = found  # type: ignore[assignment]
                self.entry = entry
                self._examined.documents += 1
                if self._bare:
                    return raw
                return _rid_of(entry), raw

    def _read_ahead(self) -> None:
        entry: bytes
        chunk: list[bytes] = []
        left: cython.Py_ssize_t = self._size
        for entry in self._entries:
            chunk.append(entry)
            left -= 1
            if left == 0:
                break
        self._chunk = chunk
        self._at = 0
        self._size = min(2 * self._size, self._largest)
        self._found = [_UNREAD] * len(chunk)
        if len(chunk) >= _SHORTEST_WALK:
            self._walk_runs()

    def _walk_runs(self) -> None:
        """Read the records that lie close together, up to the read-ahead's limit of bytes."""
        order: list[int] = self._in_order()
        count: cython.Py_ssize_t = len(order)
        first: cython.Py_ssize_t = 0
        place: cython.Py_ssize_t
        room: cython.Py_ssize_t = _READ_AHEAD_BYTES
        walk: Walk | None = None
        number: cython.Py_ssize_t = 0
        previous: cython.Py_ssize_t = 0
        for place in range(1, count + 1):
            if place < count:
                number = order[place]
                number //= LARGEST_CHUNK
                if number - previous <= _WIDEST_GAP:
                    previous = number
                    continue
                previous = number
            if place - first >= _SHORTEST_WALK:
                if walk is None:
                    walk = self._walks()
                room = self._walk(walk, first, place, room)
                if room < 0:
                    break
            first = place

    def _in_order(self) -> list[int]:
        """Return `_order`, after computing it."""
        number: cython.Py_ssize_t
        place: cython.Py_ssize_t
        least: cython.Py_ssize_t = _number(self._chunk[0])
        most: cython.Py_ssize_t = least
        order: list[int] = []
        self._order = order
        for place in range(1, len(self._chunk)):
            number = _number(self._chunk[place])
            if number < least:
                least = number
            elif number > most:
                most = number
        if least < 0 or most - least > _WIDEST_ORDER:
            return order
        for place in range(len(self._chunk)):
            order.append((_number(self._chunk[place]) - least) * LARGEST_CHUNK + place)
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
                    self._found[here % LARGEST_CHUNK] = raw
                at += 1
            room -= len(raw)
            if room < 0 or at == end:
                break
        return room

    def _read_records(self) -> None:
        """Read further records of the chunk one by one, at least one and not many bytes."""
        raw: bytes | None
        room: cython.Py_ssize_t = _READ_AHEAD_BYTES
        at: cython.Py_ssize_t
        for at in range(self._at, len(self._chunk)):
            if self._found[at] is not _UNREAD:
                continue
            raw = self._record(_rid_of(self._chunk[at]))
            self._found[at] = raw
            if raw is not None:
                room -= len(raw)
                if room < 0:
                    self._size = min(_FIRST_CHUNK, self._largest)
                    return

    def _record(self, rid: bytes) -> bytes | None:
        # A document of a multikey index is read once.
        if self._once and rid in self._seen:
            return None
        return self._get(self._prefix + rid)


def _rid_of(entry: bytes) -> bytes:
    """Return the record id at the end of an entry, or of a record's key."""
    return part(entry, len(entry) - _ID_BYTES, len(entry))


def _number(entry: bytes) -> cython.Py_ssize_t:
    """Return it as a number."""
    number: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    for place in range(len(entry) - _ID_BYTES, len(entry)):
        number = number << 8 | entry[place]
    return number


def fetch_few(
    entries: Iterator[bytes],
    get: Callable[[bytes], bytes | None],
    prefix: bytes,
    predicate: Predicate | None,
    owned: Predicate | None,
    once: bool,
    wanted: int,
    most: int,
    found: list[bytes],
    met: list[bytes] | None,
) -> bool:
    """Append the documents of entries that satisfy both predicates to `found`, up to `wanted`, and their entries to
    `met`. True if these are all, or as many as wanted.

    False if the work exceeds a step: `most` entries have been read, or the documents are large. `entries`, `get` and
    `prefix` are as in `Fetching`; `once`: later entries of a document are skipped.
    """
    entry: bytes
    rid: bytes
    raw: bytes
    record: object
    left: cython.Py_ssize_t = wanted
    looks: cython.Py_ssize_t = most
    room: cython.Py_ssize_t = MAX_STEP_BYTES
    seen: set[bytes] | None = set() if once else None
    if left <= 0:
        return True
    for entry in entries:
        if looks == 0 or room < 0:
            return False
        looks -= 1
        rid = _rid_of(entry)
        if seen is not None:
            if rid in seen:
                continue
            seen.add(rid)
        record = get(prefix + rid)
        if record is None:
            continue
        raw = record
        room -= len(raw)
        if predicate is not None and not predicate.test(raw, 0, len(raw)):
            continue
        if owned is not None and not owned.test(raw, 0, len(raw)):
            continue
        found.append(raw)
        if met is not None:
            met.append(entry)
        left -= 1
        if left == 0:
            return True
    return True


def fetch_several(
    fetching: Fetching,
    predicate: Predicate | None,
    owned: Predicate | None,
    wanted: int,
    most: int,
    found: list[bytes],
    met: list[bytes] | None,
) -> bool:
    """Fetch as `fetch_few` does, with the read-ahead of `fetching`, which is bare: for more than single reads suit."""
    raw: bytes
    left: cython.Py_ssize_t = wanted
    room: cython.Py_ssize_t = MAX_STEP_BYTES
    if left <= 0:
        return True
    for raw in fetching:  # type: ignore[assignment]
        if fetching._examined.keys > most or room < 0:
            return False
        room -= len(raw)
        if predicate is not None and not predicate.test(raw, 0, len(raw)):
            continue
        if owned is not None and not owned.test(raw, 0, len(raw)):
            continue
        found.append(raw)
        if met is not None:
            met.append(fetching.entry)
        left -= 1
        if left == 0:
            return True
    return True
