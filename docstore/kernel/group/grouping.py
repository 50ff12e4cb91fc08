"""Groups documents by a key and accumulates over each group, on raw bytes.

A `Grouping` reads documents, or with `unwind` the elements of one of their arrays. It finds the group of each and adds
its values to the group's states. Keys are the same if they compare equal; the first one names the group. The values of
a document come from sources: a path, a constant, a document of sources, or a function.

A missing value is null as a key, and no field in a key that is a document. Accumulators have rules of their own.

Groups are returned as documents of results (`documents`), or as rows, which can be spilled to disk and made into
documents later (`rows`, `merged`). A row is the array of the key and the states' parts. Like states, groups are not
tracked by the garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import PathSource, Source, ValueRef
from docstore.kernel.group.states import Start
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_PROBED_SLOTS, MAX_TABLE_SLOTS

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, NULL, UNDEFINED, document_stop, name_end, part, same_bytes, value_end
    from docstore.kernel.group.sources import ConstantSource

_PER_GROUP = 220
_PER_STATE = 90
"""Bytes of memory charged for a group, and for each of its states, besides its key."""


Finish = Callable[[int, State, bool], Value]
"""Returns the result (with a third argument of True: the part to merge) of a field's state that has `extras`."""

_FEW_FIELDS = 8
_PER_FIELD = 16
"""Units of work charged for each accumulator and document, where there are more than a few accumulators."""


@cython.no_gc
@cython.cclass
class Group:
    """A group: the first of its equal keys, and the first of its states."""

    code: cython.int
    raw: bytes
    first: State | None

    def __init__(self, code: int, raw: bytes, first: State | None) -> None:
        self.code = code
        self.raw = raw
        self.first = first


@cython.no_gc
@cython.cclass
class KnownKey:
    """A key as it occurred, and its group."""

    code: cython.int
    raw: bytes
    mark: cython.longlong
    group: Group

    def __init__(self, code: int, raw: bytes, mark: int, group: Group) -> None:
        self.code = code
        self.raw = raw
        self.mark = mark
        self.group = group


class KnownKeys:
    """A cache of the groups of keys, looked up by the bytes of a value in a document.

    The table has open addressing. It omits a key more than a few slots from its home, and every new key once it is
    full. On a miss the caller looks the key up by its encoded form.
    """

    _slots: list[KnownKey | None]
    _mask: cython.Py_ssize_t
    _count: cython.Py_ssize_t

    def __init__(self) -> None:
        self._slots = [None] * 64
        self._mask = 63
        self._count = 0

    @cython.cfunc
    def find(self, value: ValueRef) -> Group | None:
        """Return the group of a value, or None."""
        mark: cython.longlong = _mark(value.raw, value.at, value.end)
        slot: cython.Py_ssize_t = mark & self._mask
        probes: cython.int = MAX_PROBED_SLOTS
        entry: KnownKey | None
        while probes > 0:
            probes -= 1
            entry = self._slots[slot]
            if entry is None:
                return None
            if entry.mark == mark and entry.code == value.code and _same(entry.raw, value.raw, value.at, value.end):
                return entry.group
            slot = (slot + 1) & self._mask
        return None

    def keep(self, value: ValueRef, group: Group) -> None:
        """Insert the group of a value, which must not be in the table."""
        if 2 * self._count > self._mask:
            if self._mask + 1 >= MAX_TABLE_SLOTS:
                return
            self._grow()
        raw = part(value.raw, value.at, value.end)
        self._insert(KnownKey(value.code, raw, _mark(raw, 0, len(raw)), group))

    def _insert(self, entry: KnownKey) -> None:
        slot: cython.Py_ssize_t = entry.mark & self._mask
        probes: cython.int = MAX_PROBED_SLOTS
        while probes > 0:
            probes -= 1
            if self._slots[slot] is None:
                self._slots[slot] = entry
                self._count += 1
                return
            slot = (slot + 1) & self._mask

    def _grow(self) -> None:
        entries = [entry for entry in self._slots if entry is not None]
        self._mask = 4 * (self._mask + 1) - 1
        self._slots = [None] * (self._mask + 1)
        self._count = 0
        for entry in entries:
            self._insert(entry)


@cython.exceptval(check=False)
def _mark(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """Return a hash below 2**31."""
    mark: cython.longlong = end - at
    while at < end:
        mark = ((mark ^ raw[at]) * 16777619) & 0x7FFFFFFF
        at += 1
    return mark ^ (mark >> 15)


@cython.exceptval(check=False)
def _same(key: bytes, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    return len(key) == end - at and same_bytes(key, 0, raw, at, end - at)


class Grouping:
    """Groups under construction. `fields` are (name, function that makes a state of its accumulator, source of its
    values).

    With `unwind`, a path through embedded documents, each element of the array there counts as a document; documents
    without one, or with an empty one, do not count. ValueError if a source does not support unwound documents. `finish`
    is called if a state cannot compute its result.
    """

    memory: cython.Py_ssize_t
    _cost: cython.Py_ssize_t
    _key: Source
    _names: list[bytes]
    _sources: list[Source]
    _repeats: list[bool]
    _starts: list[Callable[[], State]]
    _finish: Finish
    _unwind: PathSource | None
    _groups: dict[bytes, Group]
    _only: Group | None
    _single: cython.bint
    _known_keys: KnownKeys
    _value: ValueRef
    _member: ValueRef
    _out: KeyWriter

    def __init__(
        self,
        key: Source,
        fields: Sequence[tuple[str, Start, Source]],
        finish: Finish,
        unwind: str | None = None,
    ) -> None:
        self.memory = 0
        self._key = key
        self._names = [encoded_name(name) + b"\0" for name, _, _ in fields]
        self._sources = [source for _, _, source in fields]
        self._starts = [start for _, start, _ in fields]
        self._finish = finish
        self._groups = {}
        self._only = None
        self._single = isinstance(key, ConstantSource)
        self._known_keys = KnownKeys()
        self._value = ValueRef()
        self._member = ValueRef()
        self._out = KeyWriter()
        self._cost = _PER_FIELD * len(self._names) if len(self._names) > _FEW_FIELDS else 0
        self._unwind = None
        if unwind is not None:
            self._unwind = PathSource(unwind, through=False)
            key.bind(unwind.split("."))
            for source in self._sources:
                source.bind(unwind.split("."))
        self._repeats = [
            position > 0 and source.same_as(self._sources[position - 1])
            for position, source in enumerate(self._sources)
        ]

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._groups)

    def add(self, documents: list[bytes]) -> None:
        """Add documents. `memory` grows by the bytes of memory that they take."""
        document: bytes
        for document in documents:
            if self._unwind is None:
                self._take(document, None)
            else:
                self._take_members(document)

    def _take_members(self, document: bytes) -> cython.int:
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t
        member: ValueRef = self._member
        array: ValueRef = ValueRef()
        unwind: PathSource | None = self._unwind
        assert unwind is not None
        unwind.locate(document, None, array)
        if array.code != ARRAY:
            if array.code not in (0, NULL, UNDEFINED):
                self._take(document, array)
            return 0
        stop = document_stop(document, array.at, array.end)
        at = array.at + 4
        while at < stop:
            at = member.take_member(document, at, stop)
            self._take(document, member)
        return 0

    def _take(self, document: bytes, member: ValueRef | None) -> cython.int:
        value: ValueRef = self._value
        state: State | None
        source: Source
        position: cython.Py_ssize_t = 0
        group: Group | None = self._only
        if self._cost:
            spend(self._cost)
        if group is None:
            self._key.locate(document, member, value)
            if value.code == 0:
                value.put(NULL, b"")
            group = self._known_keys.find(value)
            if group is None:
                group = self._group(value)
                if self._single:
                    self._only = group
                else:
                    self._known_keys.keep(value, group)
        state = group.first
        while state is not None:
            if not self._repeats[position]:
                source = self._sources[position]
                source.locate(document, member, value)
            self.memory += state.add(value)
            state = state.following
            position += 1
        return 0

    @cython.cfunc
    def _group(self, value: ValueRef) -> Group:
        """Return the group of a key, which may be new."""
        raw = part(value.raw, value.at, value.end)
        encoded = encode_key((value.code, raw))
        group = self._groups.get(encoded)
        if group is None:
            group = Group(value.code, raw, self._started())
            self._groups[encoded] = group
            self.memory += len(encoded) + len(raw) + _PER_GROUP + _PER_STATE * len(self._starts)
        return group

    @cython.cfunc
    def _started(self) -> State | None:
        """Return the initial states of a group."""
        state: State
        first: State | None = None
        for start in reversed(self._starts):
            state = start()
            state.following = first
            first = state
        return first

    def groups(self) -> Iterator[Group]:
        """Return the groups in the order of their first documents, for `documents`. Nothing may be added meanwhile."""
        return iter(self._groups.values())

    def keys(self) -> Iterator[bytes]:
        """Return the groups' keys in their encoded form, for `rows`."""
        return iter(self._groups)

    def documents(self, groups: Iterable[Group], partly: bool) -> list[bytes]:
        """Return the documents of some groups: their results, or if `partly` the parts to merge."""
        group: Group
        documents: list[bytes] = []
        for group in groups:
            self._begin(group.code, group.raw)
            documents.append(self._document(group.first, partly))
        return documents

    def _document(self, first: State | None, partly: cython.bint) -> bytes:
        """Return the document that was begun, with the fields of these states."""
        state: State | None = first
        position: cython.Py_ssize_t = 0
        while state is not None:
            if state.extras is not None:
                self._append(self._names[position], self._finish(position, state, partly))
            else:
                self._append(self._names[position], state.partial() if partly else state.result())
            state = state.following
            position += 1
        return self._ended()

    def rows(self, keys: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (key, row) of the groups with these keys."""
        key: bytes
        group: Group
        state: State | None
        position: cython.Py_ssize_t
        rows: list[tuple[bytes, bytes]] = []
        out: KeyWriter = self._out
        for key in keys:
            group = self._groups[key]
            out.clear()
            out.put_little(0, 4)
            self._append(b"\0", (group.code, group.raw))
            state = group.first
            position = 0
            while state is not None:
                self._append(b"\0", state.partial() if state.extras is None else self._finish(position, state, True))
                state = state.following
                position += 1
            rows.append((key, self._ended()))
        return rows

    def merged(self, rows: Sequence[bytes], partly: bool) -> bytes | None:
        """Return the document of the group that has these rows; None if states cannot merge them."""
        row: bytes
        state: State | None
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        partial: ValueRef = self._value
        first: State | None = self._started()
        for row in rows:
            stop = document_stop(row, 0, len(row))
            at = value_end(row, row[4], name_end(row, 5, stop) + 1, stop)
            partial.raw = row
            state = first
            while state is not None:
                partial.code = row[at]
                partial.at = name_end(row, at + 1, stop) + 1
                partial.end = value_end(row, partial.code, partial.at, stop)
                at = partial.end
                if not state.merge(partial):
                    return None
                state = state.following
        row = rows[0]
        at = name_end(row, 5, len(row)) + 1
        self._begin(row[4], part(row, at, value_end(row, row[4], at, len(row))))
        return self._document(first, partly)

    def _begin(self, code: cython.int, raw: bytes) -> cython.int:
        out: KeyWriter = self._out
        out.clear()
        out.put_little(0, 4)
        out.put(code)
        out.put_bytes(b"_id\0")
        out.put_bytes(raw)
        return 0

    def _append(self, name: bytes, value: Value) -> cython.int:
        out: KeyWriter = self._out
        out.put(value[0])
        out.put_bytes(name)
        out.put_bytes(value[1])
        return 0

    @cython.cfunc
    def _ended(self) -> bytes:
        out: KeyWriter = self._out
        out.put(0)
        out.set_little(0, out.size, 4)
        return out.contents()
