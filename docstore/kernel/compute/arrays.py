"""Arrays and documents that are made of others, and what accumulators make of values of one document.

They are calculated as `docstore.kernel.compute.expressions` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import Place, Source
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import (
        ARRAY,
        INT32,
        NULL,
        OBJECT,
        STRING,
        UNDEFINED,
        document_stop,
        find,
        int32_at,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.compute.expressions import member_of, put_boolean
    from docstore.kernel.group.sources import put_result
    from docstore.kernel.keys.elements import append_directed
    from docstore.kernel.keys.encoding import append_key

_MOST_BYTES = 16 * 1024 * 1024
"""What makes a larger value is left to the expression."""

_KEPT_ROOM = 1 << 16


class Made(Calculation):
    """What writes a value of its own."""

    _out: KeyWriter

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None]) -> None:
        super().__init__(operands, otherwise)
        self._out = KeyWriter()

    def _put(self, code: cython.int, found: Place) -> cython.int:
        """Let it be what has been written."""
        spend(self._out.size)
        found.put(code, self._out.taken())
        if self._out.size > _KEPT_ROOM:
            self._out = KeyWriter()
        return 0


class Members(Made):
    """An array of the operands, a missing one as null."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        position: cython.Py_ssize_t
        one: Place = self._one
        out: KeyWriter = self._out
        out.clear()
        first: cython.Py_ssize_t = out.begin_document()
        for position in range(len(self._operands)):
            self._locate(position, document, one)
            if one.code == 0:
                one.put(NULL, b"")
            if out.size + one.end - one.at > _MOST_BYTES:
                return False
            out.put_member(one.code, position)
            out.put_part(one.raw, one.at, one.end)
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class Joined(Made):
    """`$concatArrays`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        position: cython.Py_ssize_t = 0
        operand: cython.Py_ssize_t
        one: Place = self._one
        out: KeyWriter = self._out
        out.clear()
        first: cython.Py_ssize_t = out.begin_document()
        for operand in range(len(self._operands)):
            self._locate(operand, document, one)
            if one.code != ARRAY or out.size + one.end - one.at > _MOST_BYTES:
                return False
            position = _put_members(out, one, 0, -1, position)
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class Slice(Made):
    """`$slice` with ints."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        begin: cython.longlong = 0
        count: cython.longlong
        first: cython.Py_ssize_t
        one: Place = self._one
        out: KeyWriter = self._out
        self._locate(0, document, one)
        self._locate(1, document, self._two)
        if one.code != ARRAY or self._two.code != INT32 or one.end - one.at > _MOST_BYTES:
            return False
        count = int32_at(self._two.raw, self._two.at)
        if len(self._operands) == 3:
            begin = count
            self._locate(2, document, self._two)
            if self._two.code != INT32:
                return False
            count = int32_at(self._two.raw, self._two.at)
            if count <= 0:
                return False
        elif count < 0:
            begin = count
            count = -count
        if begin < 0:
            begin = max(0, begin + member_of(one, -1, self._two))
        out.clear()
        first = out.begin_document()
        _put_members(out, one, begin, count, 0)
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class Reversed(Made):
    """`$reverseArray`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        out: KeyWriter = self._out
        first: cython.Py_ssize_t
        position: cython.Py_ssize_t
        self._locate(0, document, one)
        if one.code != ARRAY or one.end - one.at > _MOST_BYTES:
            return False
        places = _places(one)
        out.clear()
        first = out.begin_document()
        for position, (begin, end) in enumerate(reversed(places)):
            out.put_member(one.raw[begin], position)
            out.put_part(one.raw, name_end(one.raw, begin + 1, end) + 1, end)
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class Sorted(Made):
    """`$sortArray`: elements in the order of `fields`, (path, 1 or -1), or in that of their own values where there are
    none, in a `direction`. Arrays count as a whole, and no path leads through one.
    """

    _paths: list[list[bytes]]
    _falling: list[bool]

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        fields: Sequence[tuple[str, int]],
        direction: int,
    ) -> None:
        super().__init__(operands, otherwise)
        self._paths = [[encoded_name(name) for name in path.split(".")] for path, _ in fields]
        self._falling = [way < 0 for _, way in fields] or [direction < 0]

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        out: KeyWriter = self._out
        first: cython.Py_ssize_t
        position: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        self._locate(0, document, one)
        if one.code != ARRAY or one.end - one.at > _MOST_BYTES:
            return False
        keyed = [(self._key(one.raw, begin, end), begin, end) for begin, end in _places(one)]
        spend(one.end - one.at)
        # Elements that are equal stay in the order in which they stand.
        keyed.sort()
        out.clear()
        first = out.begin_document()
        for position, (_, begin, end) in enumerate(keyed):
            out.put_member(one.raw[begin], position)
            out.put_part(one.raw, name_end(one.raw, begin + 1, end) + 1, end)
        out.end_document(first)
        self._put(ARRAY, found)
        return True

    def _key(self, raw: bytes, member: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
        """What a member of an array sorts by."""
        out: KeyWriter = self._out
        value: cython.Py_ssize_t = name_end(raw, member + 1, end) + 1
        position: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        code: cython.int
        name: bytes
        out.clear()
        if not self._paths:
            append_directed(out, raw[member], raw, value, end, self._falling[0], None)
        for position in range(len(self._paths)):
            code, at, stop = raw[member], value, end
            for name in self._paths[position]:
                place = find(raw, at, stop, name) if code == OBJECT else -1
                if place < 0:
                    code = NULL
                    break
                code = raw[place]
                at = place + len(name) + 2
                stop = value_end(raw, code, at, stop)
            append_directed(out, code, raw, at, stop, self._falling[position], None)
        return out.taken()


class IsArray(Calculation):
    """`$isArray`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        self._locate(0, document, self._one)
        put_boolean(found, self._one.code == ARRAY)
        return True


class Accumulated(Calculation):
    """What an accumulator, whose state `start` makes, gives for the operands; for the elements of an only operand that
    is an array.
    """

    _start: Callable[[], State]

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], start: Callable[[], State]
    ) -> None:
        super().__init__(operands, otherwise)
        self._start = start

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        position: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        one: Place = self._one
        member: Place = self._two
        state: State = self._start()
        if len(self._operands) == 1:
            self._locate(0, document, one)
            if one.code == ARRAY:
                stop = document_stop(one.raw, one.at, one.end)
                at = one.at + 4
                spend(one.end - at)
                member.raw = one.raw
                while at < stop:
                    member.code = one.raw[at]
                    member.at = name_end(one.raw, at + 1, stop) + 1
                    at = value_end(one.raw, member.code, member.at, stop)
                    member.end = at
                    state.add(member)
            else:
                state.add(one)
        else:
            for position in range(len(self._operands)):
                self._locate(position, document, one)
                state.add(one)
        if state.extras is not None:
            return False
        put_result(found, state.result())
        return True


class MergedDocuments(Made):
    """`$mergeObjects` of documents: fields stand where the first of their name does, with the last value."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        operand: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        named: cython.Py_ssize_t
        first: cython.Py_ssize_t
        size: cython.Py_ssize_t = 0
        one: Place = self._one
        out: KeyWriter = self._out
        field: bytes
        fields: dict[bytes, bytes] = {}
        for operand in range(len(self._operands)):
            self._locate(operand, document, one)
            if one.code in (0, NULL, UNDEFINED):
                continue
            size += one.end - one.at
            if one.code != OBJECT or size > _MOST_BYTES:
                return False
            stop = document_stop(one.raw, one.at, one.end)
            at = one.at + 4
            while at < stop:
                named = name_end(one.raw, at + 1, stop)
                end = value_end(one.raw, one.raw[at], named + 1, stop)
                fields[part(one.raw, at + 1, named)] = part(one.raw, at, end)
                at = end
        out.clear()
        first = out.begin_document()
        for field in fields.values():
            out.put_bytes(field)
        out.end_document(first)
        self._put(OBJECT, found)
        return True


class Pairs(Made):
    """`$objectToArray`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        first: cython.Py_ssize_t
        pair: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        one: Place = self._one
        out: KeyWriter = self._out
        self._locate(0, document, one)
        if one.code != OBJECT or one.end - one.at > _MOST_BYTES // 8:
            return False
        stop = document_stop(one.raw, one.at, one.end)
        at = one.at + 4
        out.clear()
        first = out.begin_document()
        while at < stop:
            named = name_end(one.raw, at + 1, stop)
            end = value_end(one.raw, one.raw[at], named + 1, stop)
            out.put_member(OBJECT, position)
            pair = out.begin_document()
            out.put(STRING)
            out.put_bytes(b"k\0")
            out.put_little(named - at, 4)
            out.put_part(one.raw, at + 1, named + 1)
            out.put(one.raw[at])
            out.put_bytes(b"v\0")
            out.put_part(one.raw, named + 1, end)
            out.end_document(pair)
            position += 1
            at = end
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class MemberSet(Made):
    """`$setUnion`, or with `shared` `$setIntersection`, of arrays: one of each of equal elements, in their order."""

    _shared: cython.bint

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], shared: bool) -> None:
        super().__init__(operands, otherwise)
        self._shared = shared

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        operand: cython.Py_ssize_t
        position: cython.Py_ssize_t
        first: cython.Py_ssize_t
        one: Place = self._one
        out: KeyWriter = self._out
        code: cython.int
        raw: bytes
        members: dict[bytes, Value] = {}
        other: dict[bytes, Value]
        for operand in range(len(self._operands)):
            self._locate(operand, document, one)
            if one.code != ARRAY or one.end - one.at > _MOST_BYTES:
                return False
            other = self._members_of(one)
            if operand == 0:
                members = other
            elif not self._shared:
                members = {**other, **members}
            elif len(members) > len(other):
                members = {key: value for key, value in other.items() if key in members}
            else:
                members = {key: value for key, value in members.items() if key in other}
        out.clear()
        first = out.begin_document()
        for position, key in enumerate(sorted(members)):
            code, raw = members[key]
            if out.size + len(raw) > _MOST_BYTES:
                return False
            out.put_member(code, position)
            out.put_bytes(raw)
        out.end_document(first)
        self._put(ARRAY, found)
        return True

    def _members_of(self, array: Place) -> dict[bytes, Value]:
        """The elements by their keys, the first of equal ones."""
        out: KeyWriter = self._out
        raw: bytes = array.raw
        stop: cython.Py_ssize_t = document_stop(raw, array.at, array.end)
        at: cython.Py_ssize_t = array.at + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        key: bytes
        found: dict[bytes, Value] = {}
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            out.clear()
            append_key(out, raw[at], raw, begin, end)
            key = out.taken()
            if key not in found:
                found[key] = (raw[at], part(raw, begin, end))
            at = end
        spend(array.end - array.at)
        return found


def _put_members(
    out: KeyWriter, array: Place, begin: cython.longlong, count: cython.longlong, position: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Append so many members of an array (-1: all), from one on, numbered from `position`; the number behind."""
    raw: bytes = array.raw
    stop: cython.Py_ssize_t = document_stop(raw, array.at, array.end)
    at: cython.Py_ssize_t = array.at + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    while at < stop and count != 0:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        if begin > 0:
            begin -= 1
        else:
            count -= 1
            out.put_member(raw[at], position)
            out.put_part(raw, named + 1, end)
            position += 1
        at = end
    return position


def _places(array: Place) -> list[tuple[int, int]]:
    """Where the members of an array begin and end."""
    raw: bytes = array.raw
    stop: cython.Py_ssize_t = document_stop(raw, array.at, array.end)
    at: cython.Py_ssize_t = array.at + 4
    end: cython.Py_ssize_t
    found: list[tuple[int, int]] = []
    while at < stop:
        end = value_end(raw, raw[at], name_end(raw, at + 1, stop) + 1, stop)
        found.append((at, end))
        at = end
    return found
