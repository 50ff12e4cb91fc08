"""Arrays in the order of their elements: sorted ones, and sets.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.kernel.compute.arrays import BufferedCalculation
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_SORTED_ARRAY_BYTES

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, NULL, OBJECT, document_stop, find, name_end, part, value_end
    from docstore.kernel.compute.arrays import member_spans
    from docstore.kernel.keys.elements import append_directed
    from docstore.kernel.keys.encoding import append_key


class Sorted(BufferedCalculation):
    """`$sortArray`: elements in the order of `fields`, (path, 1 or -1). Without fields their own values sort, in a
    `direction`. Arrays sort as a whole, and no path leads through one.
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
        self._falling = [order < 0 for _, order in fields] or [direction < 0]

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        array: ValueRef = self._first
        out: KeyWriter = self._out
        first: cython.Py_ssize_t
        position: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        self._locate(0, document, array)
        if array.code != ARRAY or array.end - array.at > MAX_SORTED_ARRAY_BYTES:
            return False
        keyed = [(self._key(array.raw, begin, end), begin, end) for begin, end in member_spans(array)]
        spend(array.end - array.at)
        # The sort is stable.
        keyed.sort()
        out.clear()
        first = out.begin_document()
        for position, (_, begin, end) in enumerate(keyed):
            out.put_member(array.raw[begin], position)
            out.put_part(array.raw, name_end(array.raw, begin + 1, end) + 1, end)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True

    def _key(self, raw: bytes, member: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
        """Return the sort key of an array's member."""
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
                offset = find(raw, at, stop, name) if code == OBJECT else -1
                if offset < 0:
                    code = NULL
                    break
                code = raw[offset]
                at = offset + len(name) + 2
                stop = value_end(raw, code, at, stop)
            append_directed(out, code, raw, at, stop, self._falling[position], None)
        return out.contents()


class MemberSet(BufferedCalculation):
    """`$setUnion`, or with `shared` `$setIntersection`, of arrays: one of each of equal elements, in their order."""

    _shared: cython.bint

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], shared: bool) -> None:
        super().__init__(operands, otherwise)
        self._shared = shared

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        index: cython.Py_ssize_t
        position: cython.Py_ssize_t
        first: cython.Py_ssize_t
        array: ValueRef = self._first
        out: KeyWriter = self._out
        code: cython.int
        raw: bytes
        members: dict[bytes, Value] = {}
        other: dict[bytes, Value]
        for index in range(len(self._operands)):
            self._locate(index, document, array)
            if array.code != ARRAY or array.end - array.at > MAX_SORTED_ARRAY_BYTES:
                return False
            other = self._members_of(array)
            if index == 0:
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
            if out.size + len(raw) > MAX_SORTED_ARRAY_BYTES:
                return False
            out.put_member(code, position)
            out.put_bytes(raw)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True

    @cython.cfunc
    def _members_of(self, array: ValueRef) -> dict[bytes, Value]:
        """Return the elements by their keys, the first of equal ones."""
        out: KeyWriter = self._out
        raw: bytes = array.raw
        stop: cython.Py_ssize_t = document_stop(raw, array.at, array.end)
        at: cython.Py_ssize_t = array.at + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        key: bytes
        members: dict[bytes, Value] = {}
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            out.clear()
            append_key(out, raw[at], raw, begin, end)
            key = out.contents()
            if key not in members:
                members[key] = (raw[at], part(raw, begin, end))
            at = end
        spend(array.end - array.at)
        return members
