"""Index entries collected in any order and returned in the order of their keys (a k-way merge of sorted runs).

Compiled, they are contiguous in a buffer, and become `bytes` only when they are returned. Invariants:

- No step sorts more than one run of entries, so that none takes long.
- A key added twice, with one value, is returned once.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

import cython

from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_INSERTION_SORT_ENTRIES

if cython.compiled:
    from cython.cimports.libc.stdlib import free, realloc
    from cython.cimports.libc.string import memcmp, memcpy

RUN_ENTRIES = 16_384
"""Entries of a run, which is sorted in one step: a millisecond or two."""


Entry: TypeAlias = cython.struct(  # type: ignore[valid-type]
    order=cython.ulonglong, at=cython.Py_ssize_t, size=cython.int, value=cython.int
)
EntryPointer: TypeAlias = cython.typedef(cython.pointer[Entry])  # type: ignore[valid-type]
Source: TypeAlias = cython.struct(next=EntryPointer, end=EntryPointer)  # type: ignore[valid-type]
SourcePointer: TypeAlias = cython.typedef(cython.pointer[Source])  # type: ignore[valid-type]

_key = itemgetter(0)


class GatheredEntries:
    """Collects entries. `skip`: the known length of the common prefix of all keys.

    First `add`, then `put_next` until it returns 0; nothing may be added after the first `put_next`.
    """

    size: cython.Py_ssize_t
    count: cython.Py_ssize_t
    _skip: cython.Py_ssize_t
    _sorted: cython.Py_ssize_t
    _bytes: cython.p_char
    _room: cython.Py_ssize_t
    _used: cython.Py_ssize_t
    _entries: EntryPointer
    _entry_room: cython.Py_ssize_t
    _spare: EntryPointer
    _sources: SourcePointer
    _source_count: cython.Py_ssize_t
    _last: EntryPointer
    _starts: list[int]
    _values: list[bytes]
    _value_indexes: dict[bytes, int]
    _newest_value: bytes
    _newest_index: cython.int
    _plain: list[tuple[bytes, bytes]]
    _runs: list[list[tuple[bytes, bytes]]]
    _merged: Iterator[tuple[bytes, bytes]] | None

    def __init__(self, skip: int = 0) -> None:
        self.size = 0
        self.count = 0
        self._skip = skip
        self._sorted = 0
        self._room = self._used = self._entry_room = self._source_count = 0
        self._starts = []
        self._values = [b""]
        self._value_indexes = {b"": 0}
        self._newest_value = b""
        self._newest_index = 0
        self._plain = []
        self._runs = []
        self._merged = None

    def __dealloc__(self) -> None:
        if cython.compiled:
            free(self._bytes)
            free(self._entries)
            free(self._spare)
            free(self._sources)

    def add(self, key: bytes, value: bytes) -> None:
        """Add one entry."""
        if cython.compiled:
            self._append(cython.cast(cython.p_char, key), len(key))
            self._give_newest(self.count - 1, value)
        else:
            self._plain.append((key, value))
            self.count += 1
            self.size += len(key) + len(value)

    def add_written(self, out: KeyWriter) -> cython.int:
        """Add an entry with the key in the buffer, without a value."""
        if cython.compiled:
            self._append(cython.cast(cython.p_char, out._buffer), out.size)
        else:
            self.add(out.contents(), b"")
        return 0

    def give_value(self, start: cython.Py_ssize_t, value: bytes) -> cython.int:
        """Set the value of every entry added since there were `start`, before a run was sorted."""
        if cython.compiled:
            self._give_newest(start, value)
        else:
            start -= self._sorted
            self.size += len(value) * (len(self._plain) - start)
            self._plain[start:] = [(key, value) for key, _ in self._plain[start:]]
        return 0

    def sort_run(self, least: int = RUN_ENTRIES) -> bool:
        """Sort the next run; False if fewer than `least` entries are unsorted."""
        waiting: cython.Py_ssize_t = self.count - self._sorted
        if waiting == 0 or waiting < least:
            return False
        waiting = min(waiting, RUN_ENTRIES)
        if cython.compiled:
            if self._spare == cython.NULL:
                self._spare = cython.cast(EntryPointer, _room_for(cython.NULL, RUN_ENTRIES * cython.sizeof(Entry)))
            _sort(self._entries + self._sorted, waiting, self._spare, self._bytes, self._skip)
            self._starts.append(self._sorted)
        else:
            run = self._plain[:waiting]
            del self._plain[:waiting]
            run.sort()
            self._runs.append(run)
        self._sorted += waiting
        return True

    def put_next(self, target: Any, most: int) -> int:
        """Put the next entries into `target`, a mapping, in order, and return their number: 0 at the end. Sorts all
        runs.
        """
        assert self._sorted == self.count, "runs are sorted before they are merged"
        if cython.compiled:
            return self._put_next(target, most)
        if self._merged is None:
            self._merged = _distinct(self._runs)
        done = 0
        for key, value in islice(self._merged, most):
            target[key] = value
            done += 1
        return done

    def _append(self, key: cython.p_char, size: cython.Py_ssize_t) -> cython.int:
        entry: EntryPointer
        if self._room - self._used < size:
            self._room = 2 * self._room + size + 4096
            self._bytes = cython.cast(cython.p_char, _room_for(self._bytes, self._room))
        if self.count == self._entry_room:
            self._entry_room = 2 * self._entry_room + 256
            self._entries = cython.cast(EntryPointer, _room_for(self._entries, self._entry_room * cython.sizeof(Entry)))
        entry = self._entries + self.count
        entry.at = self._used
        entry.size = size
        entry.value = 0
        memcpy(cython.address(self._bytes[self._used]), key, size)
        entry.order = _order_of(self._bytes, self._used + self._skip, self._used + size)
        self._used += size
        self.count += 1
        self.size += size
        return 0

    def _give_newest(self, start: cython.Py_ssize_t, value: bytes) -> cython.int:
        value_index: cython.int
        at: cython.Py_ssize_t
        if value != self._newest_value:
            index: int | None = self._value_indexes.get(value)
            if index is None:
                index = self._value_indexes[value] = len(self._values)
                self._values.append(value)
            self._newest_value = value
            self._newest_index = index
        value_index = self._newest_index
        for at in range(start, self.count):
            self._entries[at].value = value_index
        self.size += len(value) * (self.count - start)
        return 0

    def _begin_merge(self) -> cython.int:
        number: cython.Py_ssize_t
        runs: cython.Py_ssize_t = len(self._starts)
        self._sources = cython.cast(SourcePointer, _room_for(cython.NULL, (runs + 1) * cython.sizeof(Source)))
        for number in range(runs):
            start: cython.Py_ssize_t = self._starts[number]
            end: cython.Py_ssize_t = self._starts[number + 1] if number + 1 < runs else self.count
            self._sources[number].next = self._entries + start
            self._sources[number].end = self._entries + end
        self._source_count = runs
        for number in range(runs // 2 - 1, -1, -1):
            self._sink(number)
        return 0

    def _put_next(self, target: Any, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
        done: cython.Py_ssize_t = 0
        entry: EntryPointer
        values: list[bytes] = self._values
        if self._sources == cython.NULL:
            self._begin_merge()
        while done < most and self._source_count > 0:
            entry = self._sources[0].next
            if self._last == cython.NULL or _before(self._last, entry, self._bytes, self._skip):
                key: bytes = (self._bytes + entry.at)[: entry.size]
                target[key] = values[entry.value]
                done += 1
            self._last = entry
            self._sources[0].next += 1
            if self._sources[0].next == self._sources[0].end:
                self._source_count -= 1
                self._sources[0] = self._sources[self._source_count]
            self._sink(0)
        return done

    def _sink(self, number: cython.Py_ssize_t) -> cython.int:
        """Sift a source down the heap below `number`; the first source has the least entry."""
        sunk: Source = self._sources[number]
        below: cython.Py_ssize_t = 2 * number + 1
        count: cython.Py_ssize_t = self._source_count
        while below < count:
            if below + 1 < count and _before(
                self._sources[below + 1].next, self._sources[below].next, self._bytes, self._skip
            ):
                below += 1
            if not _before(self._sources[below].next, sunk.next, self._bytes, self._skip):
                break
            self._sources[number] = self._sources[below]
            number = below
            below = 2 * number + 1
        if number < count:
            self._sources[number] = sunk
        return 0


def _distinct(runs: list[list[tuple[bytes, bytes]]]) -> Iterator[tuple[bytes, bytes]]:
    for _, same in groupby(merge(*runs), _key):
        yield next(same)


def _room_for(memory: cython.p_void, size: cython.Py_ssize_t) -> cython.p_void:
    """Return memory of that size, with the contents of `memory`."""
    room: cython.p_void = realloc(memory, size)
    if room == cython.NULL:
        raise MemoryError
    return room


@cython.exceptval(check=False)
def _order_of(keys: cython.p_char, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the first 8 bytes of [at, end) as a number that compares like them, padded with zeros."""
    order: cython.ulonglong = 0
    offset: cython.Py_ssize_t
    for offset in range(at, at + 8):
        order <<= 8
        if offset < end:
            order |= cython.cast(cython.uchar, keys[offset])
    return order


@cython.exceptval(check=False)
def _before(entry: EntryPointer, other: EntryPointer, keys: cython.p_char, skip: cython.Py_ssize_t) -> cython.bint:
    """True if the first key is less than the second."""
    size: cython.Py_ssize_t
    comparison: cython.int
    if entry.order != other.order:
        return bool(entry.order < other.order)
    size = min(entry.size, other.size)
    comparison = memcmp(keys + entry.at + skip, keys + other.at + skip, size - skip) if size > skip else 0
    if comparison == 0:
        return bool(entry.size < other.size)
    return comparison < 0


def _sort(
    entries: EntryPointer,
    count: cython.Py_ssize_t,
    spare: EntryPointer,
    keys: cython.p_char,
    skip: cython.Py_ssize_t,
) -> cython.int:
    """Sort entries by their keys, with room for as many in `spare`."""
    half: cython.Py_ssize_t = count // 2
    at: cython.Py_ssize_t
    position: cython.Py_ssize_t
    left_index: cython.Py_ssize_t = 0
    right_index: cython.Py_ssize_t = half
    moved: Entry
    if count <= MAX_INSERTION_SORT_ENTRIES:
        for at in range(1, count):
            moved = entries[at]
            position = at
            while position > 0 and _before(cython.address(moved), entries + position - 1, keys, skip):
                entries[position] = entries[position - 1]
                position -= 1
            entries[position] = moved
        return 0
    _sort(entries, half, spare, keys, skip)
    _sort(entries + half, count - half, spare, keys, skip)
    if not _before(entries + half, entries + half - 1, keys, skip):
        return 0
    memcpy(spare, entries, half * cython.sizeof(Entry))
    at = 0
    while left_index < half:
        if right_index < count and _before(entries + right_index, spare + left_index, keys, skip):
            entries[at] = entries[right_index]
            right_index += 1
        else:
            entries[at] = spare[left_index]
            left_index += 1
        at += 1
    return 0
