"""Operators that bind variables: `$let`, and `$map`, `$filter` and `$reduce`, which bind them for each array element.

The inner expression reads a variable's value from a `Variable`, which the operator sets before. The rules are those of
`docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.arrays import Made
from docstore.kernel.group.sources import Place, Source, Variable
from docstore.kernel.limits import MAX_RESULT_BYTES

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, NULL, document_stop
    from docstore.kernel.compute.expressions import UNKNOWN, truth_of

    _PER_MEMBER = 64


class Bindings(Made):
    """`variables` are the bound variables, in the order of their operands."""

    _variables: list[Variable]

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], variables: Sequence[Variable]
    ) -> None:
        super().__init__(operands, otherwise)
        self._variables = list(variables)


class Bound(Bindings):
    """`$let`: the values of variables, and an expression that uses them."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        position: cython.Py_ssize_t
        variable: Variable
        for position in range(len(self._variables)):
            variable = self._variables[position]
            self._locate(position, document, variable.place)
        self._locate(len(self._variables), document, found)
        return True


class OfElements(Bindings):
    """An operator that makes an array, element by element, from an array and an expression over an element."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        raw: bytes
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        first: cython.Py_ssize_t
        taken: cython.int
        position: cython.Py_ssize_t = 0
        variable: Variable = self._variables[0]
        self._locate(0, document, self._one)
        if self._one.code != ARRAY:
            return False
        raw = self._one.raw
        stop = document_stop(raw, self._one.at, self._one.end)
        at = self._one.at + 4
        self._out.clear()
        first = self._out.begin_document()
        while at < stop:
            at = variable.place.take_member(raw, at, stop)
            spend(_PER_MEMBER)
            self._locate(1, document, self._two)
            taken = self._take(variable.place, self._two, position)
            if taken == UNKNOWN:
                return False
            position += taken
        self._out.end_document(first)
        self._put(ARRAY, found)
        return True

    def _take(self, element: Place, made: Place, position: cython.Py_ssize_t) -> cython.int:
        """Write the result for an element, given the expression's value `made`. Return 1, 0 for no result, or
        UNKNOWN.
        """
        raise NotImplementedError


class Mapped(OfElements):
    """`$map`: the expression's values."""

    def _take(self, element: Place, made: Place, position: cython.Py_ssize_t) -> cython.int:
        if made.code == 0:
            made.put(NULL, b"")
        if self._out.size + made.end - made.at > MAX_RESULT_BYTES:
            return UNKNOWN
        self._out.put_member(made.code, position)
        self._out.put_part(made.raw, made.at, made.end)
        return 1


class Filtered(OfElements):
    """`$filter`: the elements for which the expression is true."""

    def _take(self, element: Place, made: Place, position: cython.Py_ssize_t) -> cython.int:
        truth: cython.int = truth_of(made)
        if truth == 1:
            self._out.put_member(element.code, position)
            self._out.put_part(element.raw, element.at, element.end)
        return truth


class Reduced(Bindings):
    """`$reduce`: an array, the initial value, and an expression over an element and the previous value."""

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
        value.take(self._two)
        while at < stop:
            at = element.take_member(raw, at, stop)
            spend(_PER_MEMBER)
            self._locate(2, document, self._two)
            value.take(self._two)
        found.take(value)
        return True
