"""Projections of documents: fields kept or dropped at any level, and computed ones added at the top level.

Computed fields take an existing field's place, or come last. Kept fields keep their bytes and their stored order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cython

from docstore.bson.walk import encoded_name
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_COMPARED_NAMES, MAX_TRACKED_NAMES

if not cython.compiled:
    from docstore.bson.walk import ARRAY, OBJECT, document_stop, name_end, same_bytes, value_end


class TopFields:
    """The fields in `names` are kept, or with `exclude` dropped; `added` are (name, source of the value) pairs.

    A projection that only keeps fields stops after the last of the names, so it keeps no second field of a name there.

    With `in_place` an added field takes the place of one with its name. Missing values are omitted.
    """

    _names: list[bytes]
    _exclude: cython.bint
    _in_place: cython.bint
    _added: list[bytes]
    _sources: list[Source]
    _hints: bytes
    _added_hints: bytes
    _positions: dict[bytes, int] | None
    _added_positions: dict[bytes, int] | None
    _placed: bytearray
    _value: ValueRef
    _out: KeyWriter
    _all: cython.ulonglong

    def __init__(
        self,
        names: Iterable[str],
        exclude: bool = False,
        added: Sequence[tuple[str, Source]] = (),
        in_place: bool = False,
    ) -> None:
        self._names = [encoded_name(name) for name in names]
        self._exclude = exclude
        self._in_place = in_place
        self._added = [encoded_name(name) + b"\0" for name, _ in added]
        self._sources = [source for _, source in added]
        self._hints = _hints_of(self._names)
        self._added_hints = _hints_of(self._added)
        self._positions = _positions_of(self._names)
        self._added_positions = _positions_of(self._added)
        self._placed = bytearray(len(added))
        watched = not exclude and not added and 0 < len(self._names) <= MAX_TRACKED_NAMES
        self._all = (1 << len(self._names)) - 1 if watched else 0
        self._value = ValueRef()
        self._out = KeyWriter()

    @cython.ccall
    def apply(self, raw: bytes) -> bytes:
        """Return the projected document."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        kept_from: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        position: cython.Py_ssize_t
        index: cython.Py_ssize_t
        missing: cython.ulonglong = self._all
        bit: cython.ulonglong = 1
        out: KeyWriter = self._out
        out.clear()
        out.put_little(0, 4)
        for position in range(len(self._sources)):
            self._placed[position] = 0
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            position = index = -1
            if self._in_place:
                position = _place_of(raw, at + 1, named + 1, self._added, self._added_hints, self._added_positions)
            if position < 0:
                index = _place_of(raw, at + 1, named, self._names, self._hints, self._positions)
            if position >= 0 or (index >= 0) == self._exclude:
                out.put_part(raw, kept_from, at)
                kept_from = end
            if position >= 0:
                self._add(position, raw)
            at = end
            if missing != 0 and index >= 0:
                missing &= ~(bit << index)
                if missing == 0:
                    break
        out.put_part(raw, kept_from, at)
        for position in range(len(self._sources)):
            if self._placed[position] == 0:
                self._add(position, raw)
        out.put(0)
        out.set_little(0, out.size, 4)
        return out.contents()

    def apply_all(self, documents: Iterable[bytes]) -> list[bytes]:
        """Return the projected documents."""
        document: bytes
        results: list[bytes] = []
        for document in documents:
            results.append(self.apply(document))
        return results

    def _add(self, position: cython.Py_ssize_t, raw: bytes) -> cython.int:
        """Write an added field."""
        value: ValueRef = self._value
        source: Source = self._sources[position]
        self._placed[position] = 1
        source.locate(raw, None, value)
        if value.code != 0:
            self._out.put(value.code)
            self._out.put_bytes(self._added[position])
            self._out.put_part(value.raw, value.at, value.end)
        return 0


class FieldTree:
    """Fields kept or dropped at any depth. `fields`: by name, whether the field is kept, or the tree of its subfields.

    Arrays are traversed at any depth, and their members renumbered. With `keep_others`, unnamed fields are kept, and so
    are scalars below a tree.
    """

    _keep_others: cython.bint
    _names: list[bytes]
    _hints: bytes
    _positions: dict[bytes, int] | None
    _below: list[FieldTree | None]
    _stays: list[bool]
    _out: KeyWriter

    def __init__(self, fields: Mapping[str, FieldTree | bool], keep_others: bool) -> None:
        self._keep_others = keep_others
        self._names = [encoded_name(name) for name in fields]
        self._hints = _hints_of(self._names)
        self._positions = _positions_of(self._names)
        self._below = [field if isinstance(field, FieldTree) else None for field in fields.values()]
        self._stays = [field is True for field in fields.values()]
        self._out = KeyWriter()

    @cython.ccall
    def apply(self, raw: bytes) -> bytes:
        """Return the projected document."""
        self._out.clear()
        self._put_document(raw, 0, len(raw), self._out)
        return self._out.contents()

    def apply_all(self, documents: Iterable[bytes]) -> list[bytes]:
        """Return the projected documents."""
        document: bytes
        results: list[bytes] = []
        for document in documents:
            results.append(self.apply(document))
        return results

    def _put_document(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, out: KeyWriter
    ) -> cython.int:
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        kept_from: cython.Py_ssize_t = at
        begin: cython.Py_ssize_t = out.size
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        position: cython.Py_ssize_t
        stays: cython.bint
        below: FieldTree | None
        out.enter()
        out.put_little(0, 4)
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            position = _place_of(raw, at + 1, named, self._names, self._hints, self._positions)
            below = None if position < 0 else self._below[position]
            if below is not None and raw[at] in (OBJECT, ARRAY):
                out.put_part(raw, kept_from, named + 1)
                below._put_value(raw, raw[at], named + 1, end, out)
                kept_from = end
            else:
                stays = self._keep_others if position < 0 or below is not None else self._stays[position]
                if not stays:
                    out.put_part(raw, kept_from, at)
                    kept_from = end
            at = end
        out.put_part(raw, kept_from, at)
        out.put(0)
        out.set_little(begin, out.size - begin, 4)
        return out.leave()

    def _put_value(
        self, raw: bytes, code: cython.int, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, out: KeyWriter
    ) -> cython.int:
        """Write a projected document, or an array of its projected members."""
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t = start + 4
        begin: cython.Py_ssize_t = out.size
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        if code == OBJECT:
            return self._put_document(raw, start, limit, out)
        stop = document_stop(raw, start, limit)
        out.enter()
        out.put_little(0, 4)
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            if self._keep_others or raw[at] in (OBJECT, ARRAY):
                out.put(raw[at])
                out.put_digits(count)
                out.put(0)
                count += 1
                if raw[at] in (OBJECT, ARRAY):
                    self._put_value(raw, raw[at], named + 1, end, out)
                else:
                    out.put_part(raw, named + 1, end)
            at = end
        out.put(0)
        out.set_little(begin, out.size - begin, 4)
        return out.leave()


@cython.exceptval(check=False)
def _hint(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return a hash below 256 of a name, by its length and its ends."""
    hint: cython.int = end - at
    if end - at >= 2:
        hint = hint * 61 + raw[end - 1] * 7 + raw[end - 2]
    if end - at >= 3:
        hint += raw[end - 3] * 31
    return hint & 0xFF


@cython.cfunc
def _hints_of(names: list[bytes]) -> bytes:
    """Return a table by hash: 1 if one of these names has it."""
    hints = bytearray(256)
    for name in names:
        hints[_hint(name, 0, len(name))] = 1
    return bytes(hints)


@cython.cfunc
def _positions_of(names: list[bytes]) -> dict[bytes, int] | None:
    """Return the position of each name, None if there are few."""
    if len(names) <= MAX_COMPARED_NAMES:
        return None
    positions: dict[bytes, int] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, position)
    return positions


def _place_of(
    raw: bytes,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    names: list[bytes],
    hints: bytes,
    positions: dict[bytes, Any] | None,
) -> cython.Py_ssize_t:
    """Return the position in `names` of the name at [at, end), or -1; `hints` and `positions` are of these names."""
    name: bytes
    position: cython.Py_ssize_t
    size: cython.Py_ssize_t = end - at
    if hints[_hint(raw, at, end)] == 0:
        return -1
    if positions is not None:
        position = positions.get(raw[at:end], -1)
        return position
    for position in range(len(names)):
        name = names[position]
        if len(name) == size and same_bytes(raw, at, name, 0, size):
            return position
    return -1
