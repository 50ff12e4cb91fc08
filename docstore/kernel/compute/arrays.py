"""Array and document operators, and accumulators over the values of one document.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import Place, Source
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_ARRAY_BYTES

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
        int32_at,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.compute.expressions import member_of, put_boolean
    from docstore.kernel.group.sources import put_result


_KEPT_ROOM = 1 << 16


class Made(Calculation):
    """A calculation that writes its value into a buffer of its own."""

    _out: KeyWriter

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None]) -> None:
        super().__init__(operands, otherwise)
        self._out = KeyWriter()

    def _put(self, code: cython.int, found: Place) -> cython.int:
        """Make the written bytes the value of `found`."""
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
            if out.size + one.end - one.at > MAX_ARRAY_BYTES:
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
            if one.code != ARRAY or out.size + one.end - one.at > MAX_ARRAY_BYTES:
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
        if one.code != ARRAY or one.end - one.at > MAX_ARRAY_BYTES:
            return False
        self._locate(1, document, self._two)
        if self._two.code != INT32:
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
        if one.code != ARRAY or one.end - one.at > MAX_ARRAY_BYTES:
            return False
        places = places_of(one)
        out.clear()
        first = out.begin_document()
        for position, (begin, end) in enumerate(reversed(places)):
            out.put_member(one.raw[begin], position)
            out.put_part(one.raw, name_end(one.raw, begin + 1, end) + 1, end)
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class IsArray(Calculation):
    """`$isArray`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        self._locate(0, document, self._one)
        put_boolean(found, self._one.code == ARRAY)
        return True


class Accumulated(Calculation):
    """The result of an accumulator over the operands, or over the elements if the only operand is an array. `start`
    creates its state.
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
                while at < stop:
                    at = member.take_member(one.raw, at, stop)
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
    """`$mergeObjects` of documents: each name keeps its first position and takes its last value."""

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
            if one.code != OBJECT or size > MAX_ARRAY_BYTES:
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
        if one.code != OBJECT or one.end - one.at > MAX_ARRAY_BYTES:
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


def _put_members(
    out: KeyWriter, array: Place, begin: cython.longlong, count: cython.longlong, position: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Append `count` members of an array (-1: all), from the index `begin` on, numbered from `position`. Return the
    number after the last.
    """
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


def places_of(array: Place) -> list[tuple[int, int]]:
    """Return the (begin, end) of each member of an array."""
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
