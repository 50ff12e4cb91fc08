"""Operators that bind variables: `$let`, and `$map`, `$filter` and `$reduce`, which do so for each element of an array.

What they calculate with a variable finds its value in a `Variable`, where it is put before. They are calculated as
`docstore.kernel.compute.expressions` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.sources import Place, Source, Variable
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, NULL, document_stop, name_end, value_end
    from docstore.kernel.compute.expressions import UNKNOWN, truth_of

    _PER_MEMBER = 64

_MOST_BYTES = 16 * 1024 * 1024
"""What makes a larger array is left to the expression."""

_KEPT_ROOM = 1 << 16


class Bindings(Calculation):
    """`variables`: those that are bound, in the order of the operands that they stand for."""

    _variables: list[Variable]
    _out: KeyWriter

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], variables: Sequence[Variable]
    ) -> None:
        super().__init__(operands, otherwise)
        self._variables = list(variables)
        self._out = KeyWriter()

    def _put(self, found: Place) -> cython.int:
        """Let it be the array that has been written."""
        found.put(ARRAY, self._out.taken())
        if self._out.size > _KEPT_ROOM:
            self._out = KeyWriter()
        return 0


class Bound(Bindings):
    """`$let`: values of variables, and what is calculated with them."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        position: cython.Py_ssize_t
        variable: Variable
        for position in range(len(self._variables)):
            variable = self._variables[position]
            self._locate(position, document, variable.place)
        self._locate(len(self._variables), document, found)
        return True


class Mapped(Bindings):
    """`$map`: an array, and what is calculated for an element of it."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        raw: bytes
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        first: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        variable: Variable = self._variables[0]
        made: Place = self._two
        out: KeyWriter = self._out
        self._locate(0, document, self._one)
        if self._one.code != ARRAY:
            return False
        raw = self._one.raw
        stop = document_stop(raw, self._one.at, self._one.end)
        at = self._one.at + 4
        out.clear()
        first = out.begin_document()
        while at < stop:
            at = _bind(variable.place, raw, at, stop)
            self._locate(1, document, made)
            if made.code == 0:
                made.put(NULL, b"")
            if out.size + made.end - made.at > _MOST_BYTES:
                return False
            out.put_member(made.code, position)
            out.put_part(made.raw, made.at, made.end)
            position += 1
        out.end_document(first)
        spend(out.size)
        self._put(found)
        return True


class Filtered(Bindings):
    """`$filter`: an array, and a condition that its elements meet."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        raw: bytes
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        first: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        truth: cython.int
        variable: Variable = self._variables[0]
        place: Place = variable.place
        out: KeyWriter = self._out
        self._locate(0, document, self._one)
        if self._one.code != ARRAY:
            return False
        raw = self._one.raw
        stop = document_stop(raw, self._one.at, self._one.end)
        at = self._one.at + 4
        out.clear()
        first = out.begin_document()
        while at < stop:
            at = _bind(place, raw, at, stop)
            self._locate(1, document, self._two)
            truth = truth_of(self._two)
            if truth == UNKNOWN:
                return False
            if truth == 1:
                out.put_member(place.code, position)
                out.put_part(place.raw, place.at, place.end)
                position += 1
        out.end_document(first)
        spend(out.size)
        self._put(found)
        return True


class Reduced(Bindings):
    """`$reduce`: an array, what to begin with, and what is calculated of an element and what there was before it."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        raw: bytes
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        variable: Variable = self._variables[0]
        element: Place = variable.place
        value: Place
        variable = self._variables[1]
        value = variable.place
        self._locate(0, document, self._one)
        if self._one.code != ARRAY:
            return False
        raw = self._one.raw
        stop = document_stop(raw, self._one.at, self._one.end)
        at = self._one.at + 4
        self._locate(1, document, self._two)
        _copy(self._two, value)
        while at < stop:
            at = _bind(element, raw, at, stop)
            self._locate(2, document, self._two)
            _copy(self._two, value)
        _copy(value, found)
        return True


def _bind(place: Place, raw: bytes, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Let it be the member of an array that begins there; where that ends."""
    place.raw = raw
    place.code = raw[at]
    place.at = name_end(raw, at + 1, stop) + 1
    place.end = value_end(raw, place.code, place.at, stop)
    spend(_PER_MEMBER)
    return place.end


def _copy(place: Place, found: Place) -> cython.int:
    found.code = place.code
    found.raw = place.raw
    found.at = place.at
    found.end = place.end
    return 0
