"""Grouping documents by a key and accumulating over each group, on raw bytes: the fast path of `$group`.

A `Grouping` takes documents (with `unwind`, one array of theirs element by element), finds the group of each and lets
the group's states take in their values. Keys are the same when they compare equal; the first one seen names the
group. The values of a document come from sources: a path, a constant, a document of sources, or a function.

States hand out what they have gathered in parts, so that the caller's own accumulators can go on from there and decide
about the result: see `State.partial`. What machine arithmetic cannot add exactly (decimals, infinities, sums beyond 62
bits) is kept aside as `State.extras`.

What a missing value is: of a key, null; of a field of a key that is a document, no field; of an accumulator, its own
rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack

import cython

from docstore.bson.build import array_from, document_from
from docstore.bson.keys import encode_key
from docstore.bson.walk import EMPTY_DOCUMENT, Value, encoded_name

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        NULL,
        OBJECT,
        UNDEFINED,
        document_stop,
        double_at,
        find,
        int32_at,
        int64_at,
        name_end,
        part,
        value_end,
    )

PER_GROUP = 300
"""Bytes of memory that a group, and each of its states, is taken to cost besides its key."""

_ZERO_DECIMAL: Value = (0x13, (0x3040 << 112).to_bytes(16, "little"))


class Place:
    """Where a value lies: the bytes [at, end) of `raw`, of type `code`; code 0 for a missing value."""

    code: cython.int
    raw: bytes
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t

    def __init__(self) -> None:
        self.code = 0
        self.raw = b""
        self.at = 0
        self.end = 0

    def put(self, code: cython.int, raw: bytes) -> cython.int:
        """Let it be a value of its own."""
        self.code = code
        self.raw = raw
        self.at = 0
        self.end = len(raw)
        return 0

    def value(self) -> Value:
        return self.code, part(self.raw, self.at, self.end)


class Source:
    """Where the values for a key or an accumulator come from."""

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        """Let `found` be the value for a document, of which `member` is the unwound element."""
        raise NotImplementedError

    def bind(self, unwind: list[str]) -> None:
        """Learn which path is unwound; ValueError when the source needs the unwound document as a whole."""


def _put_result(found: Place, value: Value | None) -> cython.int:
    if value is None:
        return found.put(0, b"")
    return found.put(value[0], value[1])


class ConstantSource(Source):
    """The same value for every document."""

    _code: cython.int
    _raw: bytes

    def __init__(self, value: Value) -> None:
        self._code, self._raw = value

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        return found.put(self._code, self._raw)


class CallSource(Source):
    """What a function makes of the document. Cannot be used with `unwind`."""

    _function: Callable[[bytes], Value | None]

    def __init__(self, function: Callable[[bytes], Value | None]) -> None:
        self._function = function

    def bind(self, unwind: list[str]) -> None:
        raise ValueError("a function needs the unwound document")

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        return _put_result(found, self._function(document))


class PathSource(Source):
    """The value at a dotted path. Where an array is on the way, `otherwise` is asked about the document instead."""

    _path: list[str]
    _names: list[bytes]
    _inside: cython.bint
    _otherwise: Callable[[bytes], Value | None]

    def __init__(self, path: str, otherwise: Callable[[bytes], Value | None]) -> None:
        self._path = path.split(".")
        self._names = [encoded_name(name) for name in self._path]
        self._inside = False
        self._otherwise = otherwise

    def bind(self, unwind: list[str]) -> None:
        depth = len(unwind)
        if self._path[:depth] == unwind:
            self._inside = True
            self._names = self._names[depth:]
        elif unwind[: len(self._path)] == self._path:
            raise ValueError("the path holds what is unwound")

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        name: bytes
        at: cython.Py_ssize_t
        if self._inside and member is not None:
            found.code = member.code
            found.raw = member.raw
            found.at = member.at
            found.end = member.end
        else:
            found.code = OBJECT
            found.raw = document
            found.at = 0
            found.end = len(document)
        for name in self._names:
            if found.code == ARRAY:
                return _put_result(found, self._otherwise(self._whole(document, member)))
            if found.code != OBJECT:
                found.code = 0
                return 0
            at = find(found.raw, found.at, found.end, name)
            if at < 0:
                found.code = 0
                return 0
            found.code = found.raw[at]
            found.at = at + len(name) + 2
            found.end = value_end(found.raw, found.code, found.at, found.end)
        return 0

    def _whole(self, document: bytes, member: Place | None) -> bytes:
        """A document in which the path leads to the same value as in the unwound one."""
        if not self._inside or member is None:
            return document
        value = member.value()
        for name in reversed(self._path[: len(self._path) - len(self._names)]):
            value = (OBJECT, document_from([(name, *value)]))
        return value[1]


class DocumentSource(Source):
    """A document of values from other sources; missing ones are left out."""

    _fields: list[tuple[str, Source]]

    def __init__(self, fields: Sequence[tuple[str, Source]]) -> None:
        self._fields = list(fields)

    def bind(self, unwind: list[str]) -> None:
        for _, source in self._fields:
            source.bind(unwind)

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        source: Source
        made: list[tuple[str, int, bytes]] = []
        for name, source in self._fields:
            source.locate(document, member, found)
            if found.code != 0:
                made.append((name, found.code, part(found.raw, found.at, found.end)))
        return found.put(OBJECT, document_from(made))


class State:
    """What one accumulator has gathered for one group."""

    extras: list[Value]

    def __init__(self) -> None:
        self.extras = []

    def add(self, found: Place) -> cython.int:
        """Take in a value; how many bytes of memory it costs."""
        raise NotImplementedError

    def partial(self) -> Value:
        """What has been gathered, without `extras`."""
        raise NotImplementedError


class SumState(State):
    """Sums; as parts [type byte of the widest number, integers, doubles, their rounding errors, decimals].

    With `counted`, the number of numbers comes first. Integers are added exactly, doubles with compensation.
    """

    _counted: cython.bint
    _count: cython.longlong
    _kind: cython.int
    _whole: cython.longlong
    _high: cython.double
    _low: cython.double

    def __init__(self, counted: bool) -> None:
        super().__init__()
        self._counted = counted
        self._count = 0
        self._kind = INT32
        self._whole = 0
        self._high = 0.0
        self._low = 0.0

    def add(self, found: Place) -> cython.int:
        if found.code == INT32:
            return self._add_integer(int32_at(found.raw, found.at), found)
        if found.code == INT64:
            return self._add_integer(int64_at(found.raw, found.at), found)
        if found.code == DOUBLE:
            return self._add_double(double_at(found.raw, found.at), found)
        if found.code == DECIMAL:
            return self._keep(found)
        return 0

    def _add_integer(self, number: cython.longlong, found: Place) -> cython.int:
        top: cython.longlong = number >> 61
        held: cython.longlong = self._whole >> 61
        if not (-1 <= top <= 0 and -1 <= held <= 0):
            return self._keep(found)
        self._whole += number
        self._count += 1
        if found.code == INT64 and self._kind == INT32:
            self._kind = INT64
        return 0

    def _add_double(self, number: cython.double, found: Place) -> cython.int:
        total: cython.double = self._high + number
        part: cython.double = total - self._high
        if total - total != 0.0:
            return self._keep(found)
        self._low += (self._high - (total - part)) + (number - part)
        self._high = total
        self._count += 1
        self._kind = DOUBLE
        return 0

    def _keep(self, found: Place) -> cython.int:
        self.extras.append(found.value())
        return 100

    def partial(self) -> Value:
        parts = [
            (INT32, self._kind.to_bytes(4, "little")),
            (INT64, self._whole.to_bytes(8, "little", signed=True)),
            (DOUBLE, pack("<d", self._high)),
            (DOUBLE, pack("<d", self._low)),
            _ZERO_DECIMAL,
        ]
        if self._counted:
            parts.insert(0, (INT64, self._count.to_bytes(8, "little")))
        return ARRAY, array_from(parts)


class ExtremeState(State):
    """The least (`sign` -1) or greatest (1) value, null when there was none; null and missing values do not count."""

    _sign: cython.int
    _code: cython.int
    _raw: bytes

    def __init__(self, sign: int) -> None:
        super().__init__()
        self._sign = sign
        self._code = NULL
        self._raw = b""

    def add(self, found: Place) -> cython.int:
        if found.code in (0, NULL, UNDEFINED):
            return 0
        if self._code != NULL and self._sign != compare_at(
            found.code, found.raw, found.at, found.end, self._code, self._raw, 0, len(self._raw)
        ):
            return 0
        grown: cython.int = found.end - found.at - len(self._raw)
        self._code = found.code
        self._raw = part(found.raw, found.at, found.end)
        return grown

    def partial(self) -> Value:
        return self._code, self._raw


class EndState(State):
    """The first or the last value, a missing one as null; as {v: value}, or {} when there was no document."""

    _last: cython.bint
    _value: Value | None

    def __init__(self, last: bool) -> None:
        super().__init__()
        self._last = last
        self._value = None

    def add(self, found: Place) -> cython.int:
        if self._value is None or self._last:
            self._value = (NULL, b"") if found.code == 0 else found.value()
        return 0

    def partial(self) -> Value:
        if self._value is None:
            return OBJECT, EMPTY_DOCUMENT
        return OBJECT, document_from([("v", *self._value)])


STATES: dict[str, Callable[[], State]] = {
    "$sum": lambda: SumState(False),
    "$avg": lambda: SumState(True),
    "$min": lambda: ExtremeState(-1),
    "$max": lambda: ExtremeState(1),
    "$first": lambda: EndState(False),
    "$last": lambda: EndState(True),
}
"""The accumulators that a `Grouping` knows."""


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
    _known: list[dict[bytes, list[State]]]
    _found: Place
    _member: Place

    def __init__(self, key: Source, fields: Sequence[tuple[str, Source]], unwind: str | None = None) -> None:
        self.held = 0
        self._key = key
        self._sources = [source for _, source in fields]
        self._starts = [STATES[name] for name, _ in fields]
        self._groups = {}
        self._keys = []
        self._known = [{} for _ in range(256)]
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
        key: bytes = part(found.raw, found.at, found.end)
        known: dict[bytes, list[State]] = self._known[found.code]
        states: list[State] | None = known.get(key)
        if states is None:
            states = self._group((found.code, key))
            known[key] = states
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

    def groups(self) -> list[tuple[Value, list[State]]]:
        """(key, states) of each group, in the order of their first documents."""
        return list(zip(self._keys, self._groups.values(), strict=True))
