"""Grouping documents by a key and accumulating over each group, on raw bytes.

A `Grouping` takes documents (with `unwind`, one array of theirs element by element), finds the group of each and lets
the group's states take in their values. Keys are the same when they compare equal; the first one seen names the group.
The values of a document come from sources: a path, a constant, a document of sources, or a function.

What a missing value is: of a key, null; of a field of a key that is a document, no field; of an accumulator, its own
rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import cython

from docstore.bson.group_states import STATES, State
from docstore.bson.group_values import PathSource, Place, Source
from docstore.bson.keys import encode_key
from docstore.bson.walk import Value

if not cython.compiled:
    from docstore.bson.walk import ARRAY, NULL, UNDEFINED, document_stop, name_end, part, value_end

PER_GROUP = 300
"""Bytes of memory that a group, and each of its states, is taken to cost besides its key."""

_MOST_TRIES = 16


class KnownKey:
    """A key as it was met, and the states of its group."""

    code: cython.int
    raw: bytes
    mark: cython.longlong
    states: list[State]

    def __init__(self, code: int, raw: bytes, mark: int, states: list[State]) -> None:
        self.code = code
        self.raw = raw
        self.mark = mark
        self.states = states


class KnownKeys:
    """The groups of the keys met so far, found by the bytes of a value where it lies.

    A table with open addressing. A key that would lie more than a few places from where it belongs is not kept: whoever
    does not find a key here looks it up by its encoded form.
    """

    _slots: list[KnownKey | None]
    _mask: cython.Py_ssize_t
    _count: cython.Py_ssize_t

    def __init__(self) -> None:
        self._slots = [None] * 64
        self._mask = 63
        self._count = 0

    def find(self, found: Place) -> list[State] | None:
        """The states for the value at a place, or None."""
        mark: cython.longlong = _mark(found.raw, found.at, found.end)
        slot: cython.Py_ssize_t = mark & self._mask
        left: cython.int = _MOST_TRIES
        known: KnownKey | None
        while left > 0:
            left -= 1
            known = self._slots[slot]
            if known is None:
                return None
            if known.mark == mark and known.code == found.code and _same(known.raw, found.raw, found.at, found.end):
                return known.states
            slot = (slot + 1) & self._mask
        return None

    def keep(self, found: Place, states: list[State]) -> None:
        """Remember the states for the value at a place, which is not known."""
        if 2 * self._count > self._mask:
            self._grow()
        raw = part(found.raw, found.at, found.end)
        self._put(KnownKey(found.code, raw, _mark(raw, 0, len(raw)), states))

    def _put(self, known: KnownKey) -> None:
        slot: cython.Py_ssize_t = known.mark & self._mask
        left: cython.int = _MOST_TRIES
        while left > 0:
            left -= 1
            if self._slots[slot] is None:
                self._slots[slot] = known
                self._count += 1
                return
            slot = (slot + 1) & self._mask

    def _grow(self) -> None:
        kept = [known for known in self._slots if known is not None]
        self._mask = 4 * (self._mask + 1) - 1
        self._slots = [None] * (self._mask + 1)
        self._count = 0
        for known in kept:
            self._put(known)


def _mark(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """A number below 2**31 that differs for most different bytes."""
    mark: cython.longlong = end - at
    while at < end:
        mark = ((mark ^ raw[at]) * 16777619) & 0x7FFFFFFF
        at += 1
    return mark ^ (mark >> 15)


def _same(one: bytes, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    i: cython.Py_ssize_t = 0
    if len(one) != end - at:
        return False
    while at < end:
        if one[i] != raw[at]:
            return False
        i += 1
        at += 1
    return True


class Grouping:
    """Groups in the making. `fields` are pairs of an accumulator's name (of `STATES`) and the source of its values.

    With `unwind`, a path through embedded documents, each element of the array there counts as a document; documents
    without one, or with an empty one, do not count. ValueError when a source cannot be had of unwound documents.
    """

    held: cython.Py_ssize_t
    _key: Source
    _sources: list[Source]
    _starts: list[Callable[[], State]]
    _unwind: PathSource | None
    _groups: dict[bytes, list[State]]
    _keys: list[Value]
    _known: KnownKeys
    _found: Place
    _member: Place

    def __init__(self, key: Source, fields: Sequence[tuple[str, Source]], unwind: str | None = None) -> None:
        self.held = 0
        self._key = key
        self._sources = [source for _, source in fields]
        self._starts = [STATES[name] for name, _ in fields]
        self._groups = {}
        self._keys = []
        self._known = KnownKeys()
        self._found = Place()
        self._member = Place()
        self._unwind = None
        if unwind is not None:
            self._unwind = PathSource(unwind, lambda document: None)
            key.bind(unwind.split("."))
            for source in self._sources:
                source.bind(unwind.split("."))

    def add(self, documents: list[bytes]) -> None:
        """Take documents in. `held` grows by what they cost in memory."""
        document: bytes
        for document in documents:
            if self._unwind is None:
                self._take(document, None)
            else:
                self._take_members(document)

    def _take_members(self, document: bytes) -> cython.int:
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t
        member: Place = self._member
        array: Place = Place()
        unwind: PathSource | None = self._unwind
        assert unwind is not None
        unwind.locate(document, None, array)
        if array.code != ARRAY:
            if array.code not in (0, NULL, UNDEFINED):
                self._take(document, array)
            return 0
        stop = document_stop(document, array.at, array.end)
        at = array.at + 4
        member.raw = document
        while at < stop:
            member.code = document[at]
            member.at = name_end(document, at + 1, stop) + 1
            member.end = value_end(document, member.code, member.at, stop)
            at = member.end
            self._take(document, member)
        return 0

    def _take(self, document: bytes, member: Place | None) -> cython.int:
        found: Place = self._found
        state: State
        source: Source
        position: cython.Py_ssize_t
        self._key.locate(document, member, found)
        if found.code == 0:
            found.put(NULL, b"")
        states: list[State] | None = self._known.find(found)
        if states is None:
            states = self._group((found.code, part(found.raw, found.at, found.end)))
            self._known.keep(found, states)
        for position in range(len(states)):
            state = states[position]
            source = self._sources[position]
            source.locate(document, member, found)
            self.held += state.add(found)
        return 0

    def _group(self, key: Value) -> list[State]:
        """The states of the group that a key belongs to, which may be new."""
        encoded = encode_key(key)
        states = self._groups.get(encoded)
        if states is None:
            states = [start() for start in self._starts]
            self._groups[encoded] = states
            self._keys.append(key)
            self.held += len(encoded) + PER_GROUP * (1 + len(states))
        self.held += 2 * len(key[1])
        return states

    def groups(self) -> Iterator[tuple[Value, list[State]]]:
        """(key, states) of each group, in the order of their first documents."""
        return iter(zip(self._keys, self._groups.values(), strict=True))
