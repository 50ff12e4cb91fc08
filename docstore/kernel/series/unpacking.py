"""Unpacks the measurements of a bucket from its columns.

A column is a document with a field for each measurement that has a value, named by the measurement's number. Columns
are read in parallel: all have the numbers in the order of the times. Tests of a field read its column, so that a
rejected measurement is never built.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import cython

from docstore.errors import CommandError
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.match.predicate import PathPredicate, Predicate

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import (
        DATE,
        INT32,
        OBJECT,
        document_stop,
        find,
        int32_at,
        int64_at,
        name_end,
        name_text,
        part,
        same_bytes,
        value_end,
    )
    from docstore.kernel.match.predicate import MISSING

_WRITER = KeyWriter()
_NO_COLUMN = 10065
_NO_TIMES = 5346700


class Column:
    """A cursor over a column: the bytes before each of its values in a measurement, after the type, and the offset of
    its next value in the bucket. `offset`: where that value's field begins. `is_output`: measurements have the field.
    """

    name: bytes
    offset: cython.Py_ssize_t
    value: cython.Py_ssize_t
    end: cython.Py_ssize_t
    ended: cython.bint
    is_output: cython.bint
    _raw: bytes
    _stop: cython.Py_ssize_t

    def __init__(self, raw: bytes, name: bytes, at: cython.Py_ssize_t, is_output: cython.bint) -> None:
        """`at`: the offset of the column, a document. Errors: InvalidBSON."""
        self.name = name
        self.is_output = is_output
        self._raw = raw
        self._stop = document_stop(raw, at, len(raw))
        self.offset = self.value = 0
        self.end = at + 4
        self.ended = False
        self.advance()

    def advance(self) -> cython.int:
        """Advance to the next value. Errors: InvalidBSON."""
        at: cython.Py_ssize_t = self.end
        if at >= self._stop:
            self.ended = True
            return 0
        self.offset = at
        self.value = name_end(self._raw, at + 1, self._stop) + 1
        self.end = value_end(self._raw, self._raw[at], self.value, self._stop)
        return 0

    @cython.exceptval(check=False)
    def is_at(self, offset: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.bint:
        """True if its next value has the number that names the field at `offset`, whose value is at `value`."""
        size: cython.Py_ssize_t = value - offset
        if self.ended or self.value - self.offset != size:
            return False
        return same_bytes(self._raw, self.offset + 1, self._raw, offset + 1, size - 1)


class Unpacking:
    """Unpacks the measurements of buckets whose times are in the column `time_field`.

    A measurement has the time first, then the metadata as `meta_field` (None: omitted), then the other fields in the
    order of the columns. Time and other fields are limited to `output_fields` (None: all).

    A measurement is returned if its fields pass the `tests` and the `predicate` holds for the built document. A test
    reads the field with the first name of its path.
    """

    _time_field: bytes
    _meta_field: bytes | None
    _output_fields: Set[bytes] | None
    _tests: list[PathPredicate]
    _names: list[bytes]
    _predicate: Predicate | None
    _columns: list[Column]
    _tested: list[Column | None]

    def __init__(
        self,
        time_field: bytes,
        meta_field: bytes | None,
        output_fields: Set[bytes] | None,
        tests: Sequence[PathPredicate] = (),
        predicate: Predicate | None = None,
    ) -> None:
        self._time_field = time_field
        self._meta_field = meta_field
        self._output_fields = output_fields
        self._tests = list(tests)
        self._names = [test.path.partition(".")[0].encode() for test in self._tests]
        self._predicate = predicate
        self._columns = []
        self._tested = []

    def rows(self, bucket: bytes) -> list[bytes] | None:
        """Return the measurements of a bucket, as documents; None if it has none.

        Errors: 5346700 without a column of times, 10065 for a column that is not a document; InvalidBSON; those of
        `predicate`.
        """
        out: KeyWriter = _WRITER
        rows: list[bytes] = []
        row: bytes
        column: Column
        times: Column = self._begin(bucket, False)
        columns: list[Column] = self._columns
        tested: list[Column | None] = self._tested
        shared: bytes = self._shared(bucket)
        size: cython.Py_ssize_t
        if times.ended:
            return None
        while not times.ended:
            if tested and not self._passes(bucket, times, tested):
                for column in columns:
                    if column.is_at(times.offset, times.value):
                        column.advance()
                times.advance()
                continue
            out.clear()
            out.put_little(0, 4)
            if times.is_output:
                out.put(bucket[times.offset])
                out.put_bytes(times.name)
                out.put_part(bucket, times.value, times.end)
            out.put_bytes(shared)
            for column in columns:
                if column.is_at(times.offset, times.value):
                    if column.is_output:
                        out.put(bucket[column.offset])
                        out.put_bytes(column.name)
                        out.put_part(bucket, column.value, column.end)
                    column.advance()
            out.put(0)
            size = out.size
            out.set_little(0, size, 4)
            row = out.contents()
            times.advance()
            spend(size)
            if self._predicate is None or self._predicate.test(row, 0, size):
                rows.append(row)
        return rows

    def count(self, bucket: bytes) -> int:
        """Return the number of measurements that `rows` returns; -1 if the bucket has none. Errors: those of `rows`."""
        column: Column
        times: Column
        columns: list[Column]
        tested: list[Column | None]
        count: cython.Py_ssize_t = 0
        if self._predicate is not None:
            rows = self.rows(bucket)
            return -1 if rows is None else len(rows)
        times = self._begin(bucket, True)
        columns = self._columns
        tested = self._tested
        if times.ended:
            return -1
        while not times.ended:
            if not tested or self._passes(bucket, times, tested):
                count += 1
            for column in columns:
                if column.is_at(times.offset, times.value):
                    column.advance()
            times.advance()
        spend(len(bucket) >> 3)
        return count

    def _begin(self, bucket: bytes, counting: cython.bint) -> Column:
        """Return the column of times, after preparing the other columns to read; if `counting` only the tested ones."""
        times: Column | None = None
        columns: list[Column] = []
        tested: list[Column | None] = [None] * len(self._tests)
        column: Column
        at: cython.Py_ssize_t = find(bucket, 0, len(bucket), b"data")
        index: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        name: bytes
        is_output: cython.bint
        is_tested: cython.bint
        if at >= 0 and bucket[at] == OBJECT:
            at += 6
            stop = document_stop(bucket, at, len(bucket))
            at += 4
            while at < stop:
                named = name_end(bucket, at + 1, stop)
                end = value_end(bucket, bucket[at], named + 1, stop)
                name = part(bucket, at + 1, named)
                is_output = self._output_fields is None or name in self._output_fields
                is_tested = bool(self._names) and name in self._names
                if times is None and name == self._time_field:
                    times = column = _column(bucket, at, named, is_output)
                elif is_tested or (is_output and not counting):
                    column = _column(bucket, at, named, is_output)
                    columns.append(column)
                else:
                    if is_output:
                        _check_column(bucket, at, named)
                    at = end
                    continue
                if is_tested:
                    for index in range(len(tested)):
                        if tested[index] is None and self._names[index] == name:
                            tested[index] = column
                at = end
        if times is None:
            raise CommandError(
                _NO_TIMES, "The $_internalUnpackBucket stage requires the data region to have a timeField object"
            )
        self._columns = columns
        self._tested = tested
        return times

    def _passes(self, bucket: bytes, times: Column, tested: Sequence[Column | None]) -> cython.bint:
        index: cython.Py_ssize_t
        test: PathPredicate
        column: Column | None
        for index in range(len(tested)):
            test = self._tests[index]
            column = tested[index]
            if column is not None and column.is_at(times.offset, times.value):
                if not test._test_at(bucket[column.offset], bucket, column.value, column.end, 0):
                    return False
            elif not test.test_value(MISSING, bucket, 0, 0):
                return False
        return True

    @cython.cfunc
    def _shared(self, bucket: bytes) -> bytes:
        """Return the bytes that follow the time in every measurement: the metadata."""
        own: bytes | None = self._meta_field
        out: KeyWriter = _WRITER
        at: cython.Py_ssize_t = -1 if own is None else find(bucket, 0, len(bucket), b"meta")
        if own is None or at < 0:
            return b""
        out.clear()
        out.put(bucket[at])
        out.put_bytes(own)
        out.put(0)
        out.put_part(bucket, at + 6, value_end(bucket, bucket[at], at + 6, len(bucket)))
        return out.contents()


def is_plain(bucket: bytes) -> bool:
    """True if a document surely has the parts of an uncompressed bucket, and columns. Errors: InvalidBSON."""
    at: cython.Py_ssize_t = find(bucket, 0, len(bucket), b"control")
    if at < 0 or bucket[at] != OBJECT:
        return False
    at = find(bucket, at + 9, len(bucket), b"version")
    if at < 0 or bucket[at] != INT32 or int32_at(bucket, at + 9) != 1:
        return False
    at = find(bucket, 0, len(bucket), b"data")
    return at >= 0 and bucket[at] == OBJECT and document_stop(bucket, at + 6, len(bucket)) > at + 10


def greatest_time(bucket: bytes, time_field: bytes) -> int | None:
    """Return the greatest time of the measurements of a bucket, in milliseconds since 1970; None if it does not say.
    Errors: InvalidBSON.
    """
    at: cython.Py_ssize_t = find(bucket, 0, len(bucket), b"control")
    if at < 0 or bucket[at] != OBJECT:
        return None
    at = find(bucket, at + 9, len(bucket), b"max")
    if at < 0 or bucket[at] != OBJECT:
        return None
    at = find(bucket, at + 5, len(bucket), time_field)
    return int64_at(bucket, at + len(time_field) + 2) if at >= 0 and bucket[at] == DATE else None


def _column(bucket: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, is_output: cython.bint) -> Column:
    _check_column(bucket, at, named)
    return Column(bucket, part(bucket, at + 1, named + 1), named + 1, is_output)


def _check_column(bucket: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t) -> cython.int:
    if bucket[at] != OBJECT:
        raise CommandError(_NO_COLUMN, f"invalid parameter: expected an object ({name_text(bucket, at + 1, named)})")
    return 0
