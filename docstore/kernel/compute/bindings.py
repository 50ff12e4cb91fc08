"""Operators that bind variables: `$let`, and `$map`, `$filter` and `$reduce`, which bind them for each array element.

The inner expression reads a variable's value from a `Variable`, which the operator sets before. The rules are those of
`docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.arrays import BufferedCalculation
from docstore.kernel.group.sources import Source, ValueRef, Variable
from docstore.kernel.limits import MAX_RESULT_BYTES

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, NULL, document_stop
    from docstore.kernel.compute.expressions import UNKNOWN, truth_of

    _PER_MEMBER = 64


class Bindings(BufferedCalculation):
    """`variables` are the bound variables, in the order of their operands."""

    _variables: list[Variable]

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], variables: Sequence[Variable]
    ) -> None:
        super().__init__(operands, otherwise)
        self._variables = list(variables)


class Bound(Bindings):
    """`$let`: the values of variables, and an expression that uses them."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        variable: Variable
        for position in range(len(self._variables)):
            variable = self._variables[position]
            self._locate(position, document, variable.reference)
        self._locate(len(self._variables), document, result)
        return True


class OfElements(Bindings):
    """An operator that makes an array, element by element, from an array and an expression over an element."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        raw: bytes
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        first: cython.Py_ssize_t
        count: cython.int
        position: cython.Py_ssize_t = 0
        variable: Variable = self._variables[0]
        self._locate(0, document, self._first)
        if self._first.code != ARRAY:
            return False
        raw = self._first.raw
        stop = document_stop(raw, self._first.at, self._first.end)
        at = self._first.at + 4
        self._out.clear()
        first = self._out.begin_document()
        while at < stop:
            at = variable.reference.take_member(raw, at, stop)
            spend(_PER_MEMBER)
            self._locate(1, document, self._second)
            count = self._take(variable.reference, self._second, position)
            if count == UNKNOWN:
                return False
            position += count
        self._out.end_document(first)
        self._store_result(ARRAY, result)
        return True

    def _take(self, element: ValueRef, value: ValueRef, position: cython.Py_ssize_t) -> cython.int:
        """Write the result for an element, given the expression's value `value`. Return 1, 0 for no result, or
        UNKNOWN.
        """
        raise NotImplementedError


class Mapped(OfElements):
    """`$map`: the expression's values."""

    def _take(self, element: ValueRef, value: ValueRef, position: cython.Py_ssize_t) -> cython.int:
        if value.code == 0:
            value.put(NULL, b"")
        if self._out.size + value.end - value.at > MAX_RESULT_BYTES:
            return UNKNOWN
        self._out.put_member(value.code, position)
        self._out.put_part(value.raw, value.at, value.end)
        return 1


class Filtered(OfElements):
    """`$filter`: the elements for which the expression is true."""

    def _take(self, element: ValueRef, value: ValueRef, position: cython.Py_ssize_t) -> cython.int:
        truth: cython.int = truth_of(value)
        if truth == 1:
            self._out.put_member(element.code, position)
            self._out.put_part(element.raw, element.at, element.end)
        return truth


class Reduced(Bindings):
    """`$reduce`: an array, the initial value, and an expression over an element and the previous value."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        raw: bytes
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        variable: Variable = self._variables[0]
        element: ValueRef = variable.reference
        value: ValueRef
        variable = self._variables[1]
        value = variable.reference
        self._locate(0, document, self._first)
        if self._first.code != ARRAY:
            return False
        raw = self._first.raw
        stop = document_stop(raw, self._first.at, self._first.end)
        at = self._first.at + 4
        self._locate(1, document, self._second)
        value.take(self._second)
        while at < stop:
            at = element.take_member(raw, at, stop)
            spend(_PER_MEMBER)
            self._locate(2, document, self._second)
            value.take(self._second)
        result.take(value)
        return True
