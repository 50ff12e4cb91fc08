"""The columns of a bucket that is being filled, with the least and the greatest value of each.

A value becomes a field of its column, named by the place of its measurement. What is least and greatest of embedded
documents and arrays, and whether two of them may be in one bucket, is said by whoever makes the columns.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import ARRAY, DATE, OBJECT, document_stop, find, name_end, part, value_end

Extreme = Callable[[Value, Value, int], Value]


class Extremes:
    """The least and the greatest value that a field had."""

    least_code: cython.int
    least: bytes
    greatest_code: cython.int
    greatest: bytes

    def __init__(self, least_code: int, least: bytes, greatest_code: int, greatest: bytes) -> None:
        self.least_code = least_code
        self.least = least
        self.greatest_code = greatest_code
        self.greatest = greatest


class FieldColumn:
    """The values of one field: those at [at, end) of the bucket that was there, and behind them those that have been
    added; `before`: the field as it was, None for a new one. `last`: the place of the latest; `walk`: when it was last
    looked at.
    """

    name: bytes
    bucket: bytes
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    out: KeyWriter
    least_code: cython.int
    least: bytes
    greatest_code: cython.int
    greatest: bytes
    before: Extremes | None
    position: cython.Py_ssize_t
    last: cython.Py_ssize_t
    walk: cython.Py_ssize_t

    def __init__(self, name: bytes, position: int) -> None:
        self.name = name
        self.bucket = b""
        self.at = self.end = 0
        self.out = KeyWriter()
        self.least_code = self.greatest_code = 0
        self.least = self.greatest = b""
        self.before = None
        self.position = position
        self.last = -1
        self.walk = 0


class Columns:
    """The columns in the order in which their fields came. `left_out` is the name of a field that gets none.

    `alike` tells whether two values of different types, documents or arrays may be in one bucket; `extreme` is the
    lesser (-1) or the greater (1) of two of which one is a document or an array.
    """

    _columns: list[FieldColumn]
    _by_name: dict[bytes, FieldColumn]
    _left_out: bytes | None
    _alike: Callable[[Value, Value], bool]
    _extreme: Extreme
    _walks: cython.Py_ssize_t

    def __init__(self, left_out: bytes | None, alike: Callable[[Value, Value], bool], extreme: Extreme) -> None:
        self._columns = []
        self._by_name = {}
        self._left_out = left_out
        self._alike = alike
        self._extreme = extreme
        self._walks = 0

    def load(
        self, bucket: bytes, data: cython.Py_ssize_t, least: cython.Py_ssize_t, greatest: cython.Py_ssize_t
    ) -> cython.bint:
        """Begin with the columns that are there, of which a bucket has documents at these places: the values, the
        least, the greatest. Whether each has all three. Errors: InvalidBSON.
        """
        stop: cython.Py_ssize_t = document_stop(bucket, data, len(bucket))
        at: cython.Py_ssize_t = data + 4
        low: cython.Py_ssize_t = least + 4
        high: cython.Py_ssize_t = greatest + 4
        named: cython.Py_ssize_t
        column: FieldColumn
        while at < stop:
            named = name_end(bucket, at + 1, stop)
            if bucket[at] != OBJECT:
                return False
            column = self._made(part(bucket, at + 1, named))
            column.bucket = bucket
            column.at = named + 5
            at = value_end(bucket, OBJECT, named + 1, stop)
            column.end = document_stop(bucket, named + 1, at)
            low = _field_at(bucket, least, low, column.name)
            high = _field_at(bucket, greatest, high, column.name)
            if low < 0 or high < 0:
                return False
            named = low + len(column.name) + 2
            column.least_code = bucket[low]
            low = value_end(bucket, column.least_code, named, len(bucket))
            column.least = part(bucket, named, low)
            named = high + len(column.name) + 2
            column.greatest_code = bucket[high]
            high = value_end(bucket, column.greatest_code, named, len(bucket))
            column.greatest = part(bucket, named, high)
            column.before = Extremes(column.least_code, column.least, column.greatest_code, column.greatest)
        return True

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
        column: FieldColumn | None
        while at < stop:
            code = raw[at]
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, code, named + 1, stop)
            column = self._find(raw, at + 1, named, expected)
            if column is None:
                name = part(raw, at + 1, named)
                if name != self._left_out:
                    column = self._made(name)
                    column.least_code = column.greatest_code = code
                    column.least = column.greatest = part(raw, named + 1, end)
            elif column.last != place:
                self._widen(column, code, raw, named + 1, end)
            if column is not None:
                expected = column.position + 1
                if column.last != place:
                    column.last = place
                    column.out.put(code)
                    column.out.put_digits(place)
                    column.out.put(0)
                    column.out.put_part(raw, named + 1, end)
            at = end
        return 0

    def put_least(self, out: KeyWriter, time_field: bytes, begin: cython.longlong, before: cython.bint) -> cython.int:
        """Write a document of the least value of each field, of the time one that is given instead. `before`: as the
        bucket was."""
        column: FieldColumn
        at: cython.Py_ssize_t = out.size
        out.put_little(0, 4)
        for column in self._columns:
            if before and column.before is None:
                continue
            if column.name == time_field:
                out.put(DATE)
                _put_name(out, column.name)
                out.put_little(begin, 8)
            elif before and column.before is not None:
                _put_field(out, column.before.least_code, column.name, column.before.least)
            else:
                _put_field(out, column.least_code, column.name, column.least)
        return _end(out, at)

    def put_greatest(self, out: KeyWriter, before: cython.bint) -> cython.int:
        """Write a document of the greatest value of each field."""
        column: FieldColumn
        at: cython.Py_ssize_t = out.size
        out.put_little(0, 4)
        for column in self._columns:
            if not before:
                _put_field(out, column.greatest_code, column.name, column.greatest)
            elif column.before is not None:
                _put_field(out, column.before.greatest_code, column.name, column.before.greatest)
        return _end(out, at)

    def put_values(self, out: KeyWriter, before: cython.bint) -> cython.int:
        """Write a document of the columns."""
        column: FieldColumn
        at: cython.Py_ssize_t = out.size
        begin: cython.Py_ssize_t
        out.put_little(0, 4)
        for column in self._columns:
            if before and column.before is None:
                continue
            begin = _begin(out, b"", column.name)
            out.put_part(column.bucket, column.at, column.end)
            if not before:
                out.put_bytes(column.out.taken())
            _end(out, begin)
        return _end(out, at)

    def put_changes(self, out: KeyWriter, time_field: bytes) -> cython.int:
        """Write the fields of the difference between the bucket as it was and as it is
        (`docstore.kernel.compute.differences`).
        """
        column: FieldColumn
        begin: cython.Py_ssize_t
        own: cython.Py_ssize_t
        at: cython.Py_ssize_t = _begin(out, b"s", b"control")
        begin = _begin(out, b"s", b"min")
        self._put_changed(out, time_field, False)
        _end_unless_empty(out, begin, 6)
        begin = _begin(out, b"s", b"max")
        self._put_changed(out, time_field, True)
        _end_unless_empty(out, begin, 6)
        _end_unless_empty(out, at, 10)
        at = _begin(out, b"s", b"data")
        begin = _begin(out, b"", b"i")
        for column in self._columns:
            if column.before is None:
                own = _begin(out, b"", column.name)
                out.put_bytes(column.out.taken())
                _end(out, own)
        _end_unless_empty(out, begin, 3)
        for column in self._columns:
            if column.before is not None and column.out.size:
                begin = _begin(out, b"s", column.name)
                own = _begin(out, b"", b"i")
                out.put_bytes(column.out.taken())
                _end(out, own)
                _end(out, begin)
        return _end(out, at)

    def _put_changed(self, out: KeyWriter, time_field: bytes, greatest: cython.bint) -> cython.int:
        """Write which of the extremes have changed, and the new ones."""
        column: FieldColumn
        before: Extremes | None
        code: cython.int
        value: bytes
        begin: cython.Py_ssize_t = _begin(out, b"", b"u")
        for column in self._columns:
            before = column.before
            if before is None:
                continue
            if greatest:
                if column.greatest_code != before.greatest_code or column.greatest != before.greatest:
                    _put_field(out, column.greatest_code, column.name, column.greatest)
            elif column.name != time_field and (column.least_code != before.least_code or column.least != before.least):
                _put_field(out, column.least_code, column.name, column.least)
        _end_unless_empty(out, begin, 3)
        begin = _begin(out, b"", b"i")
        for column in self._columns:
            if column.before is None:
                code = column.greatest_code if greatest else column.least_code
                value = column.greatest if greatest else column.least
                _put_field(out, code, column.name, value)
        return _end_unless_empty(out, begin, 3)

    def _made(self, name: bytes) -> FieldColumn:
        column = FieldColumn(name, len(self._columns))
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


def _put_name(out: KeyWriter, name: bytes) -> cython.int:
    out.put_bytes(name)
    return out.put(0)


def _put_field(out: KeyWriter, code: cython.int, name: bytes, value: bytes) -> cython.int:
    out.put(code)
    _put_name(out, name)
    return out.put_bytes(value)


def _begin(out: KeyWriter, before: bytes, name: bytes) -> cython.Py_ssize_t:
    """Begin a field that is a document, whose name is put together from two; where the document begins."""
    out.put(OBJECT)
    out.put_bytes(before)
    _put_name(out, name)
    out.put_little(0, 4)
    return out.size - 4


def _end_unless_empty(out: KeyWriter, at: cython.Py_ssize_t, named: cython.Py_ssize_t) -> cython.int:
    """End the document that begins at `at`; take its field away, the beginning of so many bytes too, where there is
    nothing in it.
    """
    if out.size == at + 4:
        out.size = at - named
        return 0
    return _end(out, at)


def _end(out: KeyWriter, at: cython.Py_ssize_t) -> cython.int:
    """End the document that begins at `at`."""
    out.put(0)
    out.set_little(at, out.size - at, 4)
    return 0


def _field_at(raw: bytes, document: cython.Py_ssize_t, expected: cython.Py_ssize_t, name: bytes) -> cython.Py_ssize_t:
    """Where the field of that name of the document begins, most often at the place that is expected; -1: nowhere."""
    stop: cython.Py_ssize_t = document_stop(raw, document, len(raw))
    if expected < stop and _is_name(name, raw, expected + 1, name_end(raw, expected + 1, stop)):
        return expected
    return find(raw, document, len(raw), name)


def _is_name(name: bytes, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = end - begin
    if len(name) != size:
        return False
    while at < size and name[at] == raw[begin + at]:
        at += 1
    return at == size
