"""The columns of a bucket under construction, with the least and the greatest value of each.

A value becomes a field of its column, named by the number of its measurement. The creator of the columns supplies the
comparison of embedded documents and arrays, and the test that two of them may share a bucket.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import ARRAY, DATE, OBJECT, document_stop, find, name_end, part, value_end
    from docstore.kernel.match.path_predicates import is_name

Extreme = Callable[[Value, Value, int], Value]


class Extremes:
    """The least and the greatest value of a field."""

    least_code: cython.int
    least: bytes
    greatest_code: cython.int
    greatest: bytes

    def __init__(self, least_code: int, least: bytes, greatest_code: int, greatest: bytes) -> None:
        self.least_code = least_code
        self.least = least
        self.greatest_code = greatest_code
        self.greatest = greatest

    @cython.cfunc
    def copy(self) -> Extremes:
        return Extremes(self.least_code, self.least, self.greatest_code, self.greatest)


class FieldColumn:
    """The values of one field: those at [at, end) of the stored bucket, followed by the added ones. `now`: their
    extremes; `before`: those of the stored bucket, None for a new field. `last`: the number of the latest; `walk`: the
    pass that last read the column.
    """

    name: bytes
    bucket: bytes
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    out: KeyWriter
    now: Extremes
    before: Extremes | None
    position: cython.Py_ssize_t
    last: cython.Py_ssize_t
    walk: cython.Py_ssize_t

    def __init__(self, name: bytes, position: int, now: Extremes) -> None:
        self.name = name
        self.bucket = b""
        self.at = self.end = 0
        self.out = KeyWriter()
        self.now = now
        self.before = None
        self.position = position
        self.last = -1
        self.walk = 0


class Columns:
    """The columns in the order in which their fields first occurred. `left_out` is the name of a field without a
    column.

    `alike` returns whether two values of different types, documents or arrays may share a bucket. `extreme` returns the
    lesser (-1) or the greater (1) of two values of which one is a document or an array.
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
        """Load the columns of a bucket from its documents of values, least and greatest at these offsets. False if one
        lacks any of the three. Errors: InvalidBSON.
        """
        stop: cython.Py_ssize_t = document_stop(bucket, data, len(bucket))
        at: cython.Py_ssize_t = data + 4
        low: cython.Py_ssize_t = least + 4
        high: cython.Py_ssize_t = greatest + 4
        named: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        low_at: cython.Py_ssize_t
        high_at: cython.Py_ssize_t
        least_code: cython.int
        greatest_code: cython.int
        name: bytes
        before: Extremes
        column: FieldColumn
        while at < stop:
            named = name_end(bucket, at + 1, stop)
            if bucket[at] != OBJECT:
                return False
            name = part(bucket, at + 1, named)
            begin = named + 5
            at = value_end(bucket, OBJECT, named + 1, stop)
            low = _field_at(bucket, least, low, name)
            high = _field_at(bucket, greatest, high, name)
            if low < 0 or high < 0:
                return False
            least_code, greatest_code = bucket[low], bucket[high]
            low_at, high_at = low + len(name) + 2, high + len(name) + 2
            low = value_end(bucket, least_code, low_at, len(bucket))
            high = value_end(bucket, greatest_code, high_at, len(bucket))
            before = Extremes(least_code, part(bucket, low_at, low), greatest_code, part(bucket, high_at, high))
            column = self._add_column(name, before.copy())
            column.before = before
            column.bucket = bucket
            column.at = begin
            column.end = document_stop(bucket, named + 1, at)
        return True

    def fits(self, raw: bytes) -> cython.bint:
        """True if each field of a document is `alike` to the values of its column. Errors: InvalidBSON."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        expected: cython.Py_ssize_t = 0
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        now: Extremes
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
                    now = column.now
                    if (code != now.least_code or code in (OBJECT, ARRAY)) and not self._alike(
                        (now.least_code, now.least), (code, part(raw, named + 1, end))
                    ):
                        return False
            at = end
        return True

    def add(self, raw: bytes, index: cython.Py_ssize_t) -> cython.int:
        """Add the fields of a document; of equal names only the first. Errors: InvalidBSON."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        expected: cython.Py_ssize_t = 0
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        name: bytes
        value: bytes
        column: FieldColumn | None
        while at < stop:
            code = raw[at]
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, code, named + 1, stop)
            column = self._find(raw, at + 1, named, expected)
            if column is None:
                name = part(raw, at + 1, named)
                if name != self._left_out:
                    value = part(raw, named + 1, end)
                    column = self._add_column(name, Extremes(code, value, code, value))
            elif column.last != index:
                self._widen(column.now, code, raw, named + 1, end)
            if column is not None:
                expected = column.position + 1
                if column.last != index:
                    column.last = index
                    column.out.put_member(code, index)
                    column.out.put_part(raw, named + 1, end)
            at = end
        return 0

    def put_least(self, out: KeyWriter, time_field: bytes, begin: cython.longlong, before: cython.bint) -> cython.int:
        """Write a document of the least value of each field, with `begin` as that of the time. `before`: in the state
        of the stored bucket.
        """
        column: FieldColumn
        extremes: Extremes | None
        at: cython.Py_ssize_t = out.begin_document()
        for column in self._columns:
            extremes = column.before if before else column.now
            if extremes is None:
                continue
            if column.name == time_field:
                out.put(DATE)
                _put_name(out, column.name)
                out.put_little(begin, 8)
            else:
                _put_field(out, extremes.least_code, column.name, extremes.least)
        return out.end_document(at)

    def put_greatest(self, out: KeyWriter, before: cython.bint) -> cython.int:
        """Write a document of the greatest value of each field."""
        column: FieldColumn
        extremes: Extremes | None
        at: cython.Py_ssize_t = out.begin_document()
        for column in self._columns:
            extremes = column.before if before else column.now
            if extremes is not None:
                _put_field(out, extremes.greatest_code, column.name, extremes.greatest)
        return out.end_document(at)

    def put_values(self, out: KeyWriter, before: cython.bint) -> cython.int:
        """Write a document of the columns."""
        column: FieldColumn
        at: cython.Py_ssize_t = out.begin_document()
        begin: cython.Py_ssize_t
        for column in self._columns:
            if before and column.before is None:
                continue
            begin = _begin(out, b"", column.name)
            out.put_part(column.bucket, column.at, column.end)
            if not before:
                out.put_bytes(column.out.contents())
            out.end_document(begin)
        return out.end_document(at)

    def put_changes(self, out: KeyWriter, time_field: bytes) -> cython.int:
        """Write the fields of the diff between the stored and the current bucket
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
                out.put_bytes(column.out.contents())
                out.end_document(own)
        _end_unless_empty(out, begin, 3)
        for column in self._columns:
            if column.before is not None and column.out.size:
                begin = _begin(out, b"s", column.name)
                own = _begin(out, b"", b"i")
                out.put_bytes(column.out.contents())
                out.end_document(own)
                out.end_document(begin)
        return out.end_document(at)

    def _put_changed(self, out: KeyWriter, time_field: bytes, greatest: cython.bint) -> cython.int:
        """Write the changed extremes into a diff."""
        column: FieldColumn
        before: Extremes | None
        now: Extremes
        begin: cython.Py_ssize_t = _begin(out, b"", b"u")
        for column in self._columns:
            before, now = column.before, column.now
            if before is None:
                continue
            if greatest:
                if now.greatest_code != before.greatest_code or now.greatest != before.greatest:
                    _put_field(out, now.greatest_code, column.name, now.greatest)
            elif column.name != time_field and (now.least_code != before.least_code or now.least != before.least):
                _put_field(out, now.least_code, column.name, now.least)
        _end_unless_empty(out, begin, 3)
        begin = _begin(out, b"", b"i")
        for column in self._columns:
            now = column.now
            if column.before is None and greatest:
                _put_field(out, now.greatest_code, column.name, now.greatest)
            elif column.before is None:
                _put_field(out, now.least_code, column.name, now.least)
        return _end_unless_empty(out, begin, 3)

    @cython.cfunc
    def _add_column(self, name: bytes, now: Extremes) -> FieldColumn:
        column = FieldColumn(name, len(self._columns), now)
        self._columns.append(column)
        self._by_name[name] = column
        return column

    def _find(
        self, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t, expected: cython.Py_ssize_t
    ) -> FieldColumn | None:
        """Return the column of the name at [begin, end), most often the expected one."""
        column: FieldColumn
        if expected < len(self._columns):
            column = self._columns[expected]
            if is_name(raw, begin, end, column.name):
                return column
        return self._by_name.get(part(raw, begin, end))

    def _widen(
        self, now: Extremes, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        value: Value
        if code in (OBJECT, ARRAY):
            value = code, part(raw, at, end)
            now.least_code, now.least = self._extreme((now.least_code, now.least), value, -1)
            now.greatest_code, now.greatest = self._extreme((now.greatest_code, now.greatest), value, 1)
            return 0
        if compare_at(code, raw, at, end, now.least_code, now.least, 0, len(now.least), 0) < 0:
            now.least_code = code
            now.least = part(raw, at, end)
        if compare_at(code, raw, at, end, now.greatest_code, now.greatest, 0, len(now.greatest), 0) > 0:
            now.greatest_code = code
            now.greatest = part(raw, at, end)
        return 0


def _put_name(out: KeyWriter, name: bytes) -> cython.int:
    out.put_bytes(name)
    return out.put(0)


def _put_field(out: KeyWriter, code: cython.int, name: bytes, value: bytes) -> cython.int:
    out.put(code)
    _put_name(out, name)
    return out.put_bytes(value)


def _begin(out: KeyWriter, before: bytes, name: bytes) -> cython.Py_ssize_t:
    """Begin a field that is a document, whose name has two parts; return the offset of the document."""
    out.put(OBJECT)
    out.put_bytes(before)
    _put_name(out, name)
    return out.begin_document()


def _end_unless_empty(out: KeyWriter, at: cython.Py_ssize_t, named: cython.Py_ssize_t) -> cython.int:
    """End the document that begins at `at`. If it is empty, remove its field, with the `named` bytes before it."""
    empty: cython.bint = out.size == at + 4
    out.end_document(at)
    if empty:
        out.size = at - named
    return 0


@cython.exceptval(-2, check=True)
def _field_at(raw: bytes, document: cython.Py_ssize_t, expected: cython.Py_ssize_t, name: bytes) -> cython.Py_ssize_t:
    """Return the offset of the document's field of that name, most often the expected one; -1 if there is none."""
    stop: cython.Py_ssize_t = document_stop(raw, document, len(raw))
    if expected < stop and is_name(raw, expected + 1, name_end(raw, expected + 1, stop), name):
        return expected
    return find(raw, document, len(raw), name)
