"""The states of accumulators that keep n values of a group: the first or last, the least or greatest, and those that
are first or last in an order of documents.

The latter take pairs from a `RankedSource`: {k: sort key, v: value}, with arrays of pairs as their parts. Values are
kept in order, each beside its key; of equal ones the earlier is first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import cython

from docstore.bson.build import array_value
from docstore.bson.walk import Value
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import ARRAY, BINARY, NULL, OBJECT, UNDEFINED, document_stop, int32_at, part
    from docstore.kernel.keys.elements import append_directed
    from docstore.kernel.keys.encoding import append_key

    _PER_MEMBER = 100
    _KEY_AT = 12

_member: ValueRef = ValueRef()
"""The member of the parts being merged; shared, since no other task runs during a merge."""

_writer: KeyWriter = KeyWriter()


class RankedSource(Source):
    """{k: the key of a document in an order, v: a value of it}; `rank`: (source, 1 or -1) of each field of the order.

    Missing values count, and are returned, as null. If a rank value is an array, `otherwise` makes the document's pair.
    Cannot be used with `unwind`.
    """

    _rank: list[Source]
    _descending: list[bool]
    _value: Source
    _otherwise: Callable[[bytes], Value]
    _out: KeyWriter

    def __init__(self, rank: Sequence[tuple[Source, int]], value: Source, otherwise: Callable[[bytes], Value]) -> None:
        self._rank = [source for source, _ in rank]
        self._descending = [direction < 0 for _, direction in rank]
        self._value = value
        self._otherwise = otherwise
        self._out = KeyWriter()

    def bind(self, unwind: list[str]) -> None:
        raise ValueError("a ranking needs the unwound document")

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        out: KeyWriter = self._out
        source: Source
        position: cython.Py_ssize_t
        _begin_pair(out)
        for position in range(len(self._rank)):
            source = self._rank[position]
            source.locate(document, member, result)
            if result.code == ARRAY:
                return result.put(OBJECT, self._otherwise(document)[1])
            append_directed(
                out, result.code or NULL, result.raw, result.at, result.end, self._descending[position], None
            )
        self._value.locate(document, member, result)
        if result.code == 0:
            result.put(NULL, b"")
        return result.put(OBJECT, _ended_pair(out, result))


@cython.no_gc
@cython.cclass
class ManyState(State):
    """At most `count` values; its part is the array of them."""

    _count: cython.Py_ssize_t
    _last: cython.bint
    _values: list[Value]

    def __init__(self, count: int, last: bool) -> None:
        super().__init__()
        self._count = count
        self._last = last
        self._values = []

    def merge(self, partial: ValueRef) -> cython.bint:
        stop: cython.Py_ssize_t = document_stop(partial.raw, partial.at, partial.end)
        at: cython.Py_ssize_t = partial.at + 4
        while at < stop:
            at = _member.take_member(partial.raw, at, stop)
            self.add(_member)
        return True


@cython.no_gc
@cython.cclass
class EndsState(ManyState):
    """The first or the last values; a missing one as null.

    `_oldest`: the position of the oldest value, which the next of the last ones replaces.
    """

    _oldest: cython.Py_ssize_t

    def __init__(self, count: int, last: bool) -> None:
        super().__init__(count, last)
        self._oldest = 0

    def add(self, value: ValueRef) -> cython.int:
        own_value: Value
        grown: cython.Py_ssize_t
        if len(self._values) == self._count and not self._last:
            return 0
        own_value = _value_or_null(value)
        grown = len(own_value[1])
        if len(self._values) < self._count:
            self._values.append(own_value)
            return _PER_MEMBER + cython.cast(cython.int, grown)
        grown -= len(self._values[self._oldest][1])
        self._values[self._oldest] = own_value
        self._oldest += 1
        if self._oldest == self._count:
            self._oldest = 0
        return _non_negative(grown)

    def partial(self) -> Value:
        return self.result()

    def result(self) -> Value:
        return array_value(self._values[self._oldest :] + self._values[: self._oldest])


@cython.cfunc
def _value_or_null(value: ValueRef) -> Value:
    if value.code == 0:
        return NULL, b""
    return value.code, part(value.raw, value.at, value.end)


@cython.exceptval(check=False)
def _non_negative(grown: cython.Py_ssize_t) -> cython.int:
    """Return at least zero: compiled, a negative value would be taken for an exception."""
    return cython.cast(cython.int, grown) if grown > 0 else 0


@cython.no_gc
@cython.cclass
class OrderedState(ManyState):
    """Values in the order of their keys. Of equal ones the first kept is first, unless a new one `replaces` it."""

    _replaces: cython.bint
    _keys: list[bytes]

    def __init__(self, count: int, last: bool, replaces: bool) -> None:
        super().__init__(count, last)
        self._replaces = replaces
        self._keys = []

    def _keep(
        self, key: bytes, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        position: cython.Py_ssize_t
        worst: cython.Py_ssize_t = 0 if self._last else len(self._keys) - 1
        grown: cython.Py_ssize_t = len(key) + end - at
        full: cython.bint = len(self._keys) == self._count
        edge: bytes
        value: Value
        if full:
            edge = self._keys[worst]
            if (key >= edge) if not self._last else (key < edge or (key == edge and not self._replaces)):
                return 0
        position = bisect_right(self._keys, key)
        self._keys.insert(position, key)
        self._values.insert(position, (code, part(raw, at, end)))
        if not full:
            return _PER_MEMBER + cython.cast(cython.int, grown)
        worst = 0 if self._last else self._count
        edge = self._keys[worst]
        value = self._values[worst]
        del self._keys[worst]
        del self._values[worst]
        return _non_negative(grown - len(edge) - len(value[1]))


@cython.no_gc
@cython.cclass
class ExtremesState(OrderedState):
    """The least values, or with `last` the greatest, which are returned first; null and missing ones do not count."""

    def add(self, value: ValueRef) -> cython.int:
        out: KeyWriter = _writer
        if value.code in (0, NULL, UNDEFINED):
            return 0
        out.clear()
        append_key(out, value.code, value.raw, value.at, value.end)
        return self._keep(out.contents(), value.code, value.raw, value.at, value.end)

    def partial(self) -> Value:
        return self.result()

    def result(self) -> Value:
        return array_value(list(reversed(self._values)) if self._last else self._values)


@cython.no_gc
@cython.cclass
class RankedState(OrderedState):
    """The values with the least keys, or with `last` the greatest; a `single` one is not in an array."""

    _single: cython.bint

    def __init__(self, count: int, last: bool, single: bool) -> None:
        super().__init__(count, last, True)
        self._single = single

    def add(self, value: ValueRef) -> cython.int:
        at: cython.Py_ssize_t = value.at + _KEY_AT
        end: cython.Py_ssize_t = at + int32_at(value.raw, value.at + 7)
        key = part(value.raw, at, end)
        return self._keep(key, value.raw[end], value.raw, end + 3, value.end - 1)

    def partial(self) -> Value:
        return array_value(list(map(_pair, self._keys, self._values)))

    def result(self) -> Value:
        if not self._single:
            return array_value(self._values)
        return self._values[0] if self._values else (NULL, b"")


def _pair(key: bytes, value: Value) -> Value:
    out: KeyWriter = _writer
    code, raw = value
    _begin_pair(out)
    out.put_bytes(key)
    _member.put(code, raw)
    return OBJECT, _ended_pair(out, _member)


def _begin_pair(out: KeyWriter) -> cython.int:
    """Write the bytes in front of the key of a pair."""
    out.clear()
    out.begin_document()
    out.put(BINARY)
    out.put_bytes(b"k\0")
    out.put_little(0, 5)
    return 0


@cython.cfunc
def _ended_pair(out: KeyWriter, value: ValueRef) -> bytes:
    """Return the pair of the key that has been written and a value."""
    out.set_little(_KEY_AT - 5, out.size - _KEY_AT, 4)
    out.put(value.code)
    out.put_bytes(b"v\0")
    out.put_part(value.raw, value.at, value.end)
    out.end_document(0)
    return out.contents()
