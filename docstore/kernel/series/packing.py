"""The columns of a bucket that is being filled, with the least and the greatest value of each.

A value becomes a field of its column, named by the place of its measurement. What is least and greatest of embedded
documents and arrays, and whether two of them may be in one bucket, is said by whoever makes the columns.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.bson.build import enclosed
from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import ARRAY, OBJECT, document_stop, name_end, name_text, part, value_end

Field = tuple[str, int, bytes]
"""A field's name, type byte and value."""


class FieldColumn:
    """The values of one field. `last`: the place of the latest; `walk`: when it was last looked at."""

    name: bytes
    out: KeyWriter
    least_code: cython.int
    least: bytes
    greatest_code: cython.int
    greatest: bytes
    position: cython.Py_ssize_t
    last: cython.Py_ssize_t
    walk: cython.Py_ssize_t

    def __init__(self, name: bytes, position: int, least: Value, greatest: Value) -> None:
        self.name = name
        self.out = KeyWriter()
        self.least_code, self.least = least
        self.greatest_code, self.greatest = greatest
        self.position = position
        self.last = -1
        self.walk = 0

    def text(self) -> str:
        """The name. Errors: InvalidBSON for one that is not UTF-8."""
        return name_text(self.name, 0, len(self.name))


class Columns:
    """The columns in the order in which their fields came. `left_out` is the name of a field that gets none.

    `alike` tells whether two values of different types, documents or arrays may be in one bucket; `extreme` is the
    lesser (-1) or the greater (1) of two of which one is a document or an array.
    """

    _columns: list[FieldColumn]
    _by_name: dict[bytes, FieldColumn]
    _left_out: bytes | None
    _alike: Callable[[Value, Value], bool]
    _extreme: Callable[[Value, Value, int], Value]
    _walks: cython.Py_ssize_t

    def __init__(
        self,
        left_out: bytes | None,
        alike: Callable[[Value, Value], bool],
        extreme: Callable[[Value, Value, int], Value],
    ) -> None:
        self._columns = []
        self._by_name = {}
        self._left_out = left_out
        self._alike = alike
        self._extreme = extreme
        self._walks = 0

    def load(self, name: bytes, column: bytes, least: Value, greatest: Value) -> None:
        """Begin with a column that is there: a document of values."""
        made: FieldColumn = self._made(name, least, greatest)
        made.out.put_part(column, 4, len(column) - 1)

    def fits(self, raw: bytes) -> cython.bint:
        """Whether each field of a document is like the values that its column has. Errors: InvalidBSON."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        expected: cython.Py_ssize_t = 0
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        column: FieldColumn | None
        self._walks += 1
        while at < stop:
            code = raw[at]
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, code, named + 1, stop)
            column = self._find(raw, at + 1, named, expected)
            if column is not None:
                expected = column.position + 1
                if column.walk != self._walks:
                    column.walk = self._walks
                    if (code != column.least_code or code in (OBJECT, ARRAY)) and not self._alike(
                        (column.least_code, column.least), (code, part(raw, named + 1, end))
                    ):
                        return False
            at = end
        return True

    def add(self, raw: bytes, place: cython.Py_ssize_t) -> cython.int:
        """Add the fields of a document, those of one name once. Errors: InvalidBSON."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        expected: cython.Py_ssize_t = 0
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        name: bytes
        value: Value
        column: FieldColumn | None
        while at < stop:
            code = raw[at]
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, code, named + 1, stop)
            column = self._find(raw, at + 1, named, expected)
            if column is None:
                name = part(raw, at + 1, named)
                if name != self._left_out:
                    value = code, part(raw, named + 1, end)
                    column = self._made(name, value, value)
            if column is not None:
                expected = column.position + 1
                if column.last != place:
                    column.last = place
                    column.out.put(code)
                    column.out.put_digits(place)
                    column.out.put(0)
                    column.out.put_part(raw, named + 1, end)
                    self._widen(column, code, raw, named + 1, end)
            at = end
        return 0

    def extremes(self, *, greatest: cython.bint) -> list[Field]:
        """The greatest value of each field, or the least."""
        column: FieldColumn
        fields: list[Field] = []
        for column in self._columns:
            if greatest:
                fields.append((column.text(), column.greatest_code, column.greatest))
            else:
                fields.append((column.text(), column.least_code, column.least))
        return fields

    def documents(self) -> list[Field]:
        """The columns as documents."""
        column: FieldColumn
        fields: list[Field] = []
        for column in self._columns:
            fields.append((column.text(), OBJECT, enclosed(column.out.taken())))
        return fields

    def _made(self, name: bytes, least: Value, greatest: Value) -> FieldColumn:
        column = FieldColumn(name, len(self._columns), least, greatest)
        self._columns.append(column)
        self._by_name[name] = column
        return column

    def _find(
        self, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t, expected: cython.Py_ssize_t
    ) -> FieldColumn | None:
        """The column of the name at [begin, end), which most often is the one that is expected."""
        column: FieldColumn
        if expected < len(self._columns):
            column = self._columns[expected]
            if _is_name(column.name, raw, begin, end):
                return column
        return self._by_name.get(part(raw, begin, end))

    def _widen(
        self, column: FieldColumn, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        value: Value
        if code in (OBJECT, ARRAY):
            value = code, part(raw, at, end)
            column.least_code, column.least = self._extreme((column.least_code, column.least), value, -1)
            column.greatest_code, column.greatest = self._extreme((column.greatest_code, column.greatest), value, 1)
            return 0
        if compare_at(code, raw, at, end, column.least_code, column.least, 0, len(column.least), 0) < 0:
            column.least_code = code
            column.least = part(raw, at, end)
        if compare_at(code, raw, at, end, column.greatest_code, column.greatest, 0, len(column.greatest), 0) > 0:
            column.greatest_code = code
            column.greatest = part(raw, at, end)
        return 0


def _is_name(name: bytes, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = end - begin
    if len(name) != size:
        return False
    while at < size and name[at] == raw[begin + at]:
        at += 1
    return at == size
