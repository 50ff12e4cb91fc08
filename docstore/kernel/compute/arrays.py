"""Array and document operators, and accumulators over the values of one document.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import Source, ValueRef
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


class BufferedCalculation(Calculation):
    """A calculation that writes its value into a buffer of its own."""

    _out: KeyWriter

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None]) -> None:
        super().__init__(operands, otherwise)
        self._out = KeyWriter()

    def _store_result(self, code: cython.int, result: ValueRef) -> cython.int:
        """Make the written bytes the value of `result`."""
        spend(self._out.size)
        result.put(code, self._out.contents())
        if self._out.size > _KEPT_ROOM:
            self._out = KeyWriter()
        return 0


class Members(BufferedCalculation):
    """An array of the operands, a missing one as null."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        out.clear()
        first: cython.Py_ssize_t = out.begin_document()
        for position in range(len(self._operands)):
            self._locate(position, document, operand)
            if operand.code == 0:
                operand.put(NULL, b"")
            if out.size + operand.end - operand.at > MAX_ARRAY_BYTES:
                return False
            out.put_member(operand.code, position)
            out.put_part(operand.raw, operand.at, operand.end)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True


class Joined(BufferedCalculation):
    """`$concatArrays`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        out.clear()
        first: cython.Py_ssize_t = out.begin_document()
        for index in range(len(self._operands)):
            self._locate(index, document, operand)
            if operand.code != ARRAY or out.size + operand.end - operand.at > MAX_ARRAY_BYTES:
                return False
            position = _put_members(out, operand, 0, -1, position)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True


class Slice(BufferedCalculation):
    """`$slice` with ints."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        begin: cython.longlong = 0
        count: cython.longlong
        first: cython.Py_ssize_t
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        self._locate(0, document, operand)
        if operand.code != ARRAY or operand.end - operand.at > MAX_ARRAY_BYTES:
            return False
        self._locate(1, document, self._second)
        if self._second.code != INT32:
            return False
        count = int32_at(self._second.raw, self._second.at)
        if len(self._operands) == 3:
            begin = count
            self._locate(2, document, self._second)
            if self._second.code != INT32:
                return False
            count = int32_at(self._second.raw, self._second.at)
            if count <= 0:
                return False
        elif count < 0:
            begin = count
            count = -count
        if begin < 0:
            begin = max(0, begin + member_of(operand, -1, self._second))
        out.clear()
        first = out.begin_document()
        _put_members(out, operand, begin, count, 0)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True


class Reversed(BufferedCalculation):
    """`$reverseArray`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        first: cython.Py_ssize_t
        position: cython.Py_ssize_t
        self._locate(0, document, operand)
        if operand.code != ARRAY or operand.end - operand.at > MAX_ARRAY_BYTES:
            return False
        spans = member_spans(operand)
        out.clear()
        first = out.begin_document()
        for position, (begin, end) in enumerate(reversed(spans)):
            out.put_member(operand.raw[begin], position)
            out.put_part(operand.raw, name_end(operand.raw, begin + 1, end) + 1, end)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True


class IsArray(Calculation):
    """`$isArray`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        self._locate(0, document, self._first)
        put_boolean(result, self._first.code == ARRAY)
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

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        operand: ValueRef = self._first
        member: ValueRef = self._second
        state: State = self._start()
        if len(self._operands) == 1:
            self._locate(0, document, operand)
            if operand.code == ARRAY:
                stop = document_stop(operand.raw, operand.at, operand.end)
                at = operand.at + 4
                spend(operand.end - at)
                while at < stop:
                    at = member.take_member(operand.raw, at, stop)
                    state.add(member)
            else:
                state.add(operand)
        else:
            for position in range(len(self._operands)):
                self._locate(position, document, operand)
                state.add(operand)
        if state.extras is not None:
            return False
        put_result(result, state.result())
        return True


class MergedDocuments(BufferedCalculation):
    """`$mergeObjects` of documents: each name keeps its first position and takes its last value."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        named: cython.Py_ssize_t
        first: cython.Py_ssize_t
        size: cython.Py_ssize_t = 0
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        field: bytes
        fields: dict[bytes, bytes] = {}
        for index in range(len(self._operands)):
            self._locate(index, document, operand)
            if operand.code in (0, NULL, UNDEFINED):
                continue
            size += operand.end - operand.at
            if operand.code != OBJECT or size > MAX_ARRAY_BYTES:
                return False
            stop = document_stop(operand.raw, operand.at, operand.end)
            at = operand.at + 4
            while at < stop:
                named = name_end(operand.raw, at + 1, stop)
                end = value_end(operand.raw, operand.raw[at], named + 1, stop)
                fields[part(operand.raw, at + 1, named)] = part(operand.raw, at, end)
                at = end
        out.clear()
        first = out.begin_document()
        for field in fields.values():
            out.put_bytes(field)
        out.end_document(first)
        self._store_result(OBJECT, result)
        return True


class Pairs(BufferedCalculation):
    """`$objectToArray`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        first: cython.Py_ssize_t
        pair: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        self._locate(0, document, operand)
        if operand.code != OBJECT or operand.end - operand.at > MAX_ARRAY_BYTES:
            return False
        stop = document_stop(operand.raw, operand.at, operand.end)
        at = operand.at + 4
        out.clear()
        first = out.begin_document()
        while at < stop:
            named = name_end(operand.raw, at + 1, stop)
            end = value_end(operand.raw, operand.raw[at], named + 1, stop)
            out.put_member(OBJECT, position)
            pair = out.begin_document()
            out.put(STRING)
            out.put_bytes(b"k\0")
            out.put_little(named - at, 4)
            out.put_part(operand.raw, at + 1, named + 1)
            out.put(operand.raw[at])
            out.put_bytes(b"v\0")
            out.put_part(operand.raw, named + 1, end)
            out.end_document(pair)
            position += 1
            at = end
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True


def _put_members(
    out: KeyWriter, array: ValueRef, begin: cython.longlong, count: cython.longlong, position: cython.Py_ssize_t
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


@cython.ccall
def member_spans(array: ValueRef) -> list[tuple[int, int]]:
    """Return the (begin, end) of each member of an array."""
    raw: bytes = array.raw
    stop: cython.Py_ssize_t = document_stop(raw, array.at, array.end)
    at: cython.Py_ssize_t = array.at + 4
    end: cython.Py_ssize_t
    spans: list[tuple[int, int]] = []
    while at < stop:
        end = value_end(raw, raw[at], name_end(raw, at + 1, stop) + 1, stop)
        spans.append((at, end))
        at = end
    return spans
