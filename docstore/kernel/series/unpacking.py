"""The measurements of a bucket, put together from its columns.

A column is a document that has a field for each measurement with a value, named by the measurement's place. Columns are
walked side by side: they have the places in the order in which the times have them.
"""

from __future__ import annotations

from collections.abc import Set

import cython

from docstore.errors import CommandError
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import OBJECT, document_stop, find, name_end, name_text, part, value_end

_WRITER = KeyWriter()
_NO_COLUMN = 10065
_NO_TIMES = 5346700


class Column:
    """A column being walked: what stands before each of its values in a measurement, behind the type, and where its
    next value stands in the bucket. `place`: where the field of that value begins.
    """

    name: bytes
    place: cython.Py_ssize_t
    value: cython.Py_ssize_t
    end: cython.Py_ssize_t
    ended: cython.bint
    _raw: bytes
    _stop: cython.Py_ssize_t

    def __init__(self, raw: bytes, name: bytes, at: cython.Py_ssize_t) -> None:
        """`at`: where the column, a document, begins. Errors: InvalidBSON."""
        self.name = name
        self._raw = raw
        self._stop = document_stop(raw, at, len(raw))
        self.place = self.value = 0
        self.end = at + 4
        self.ended = False
        self.advance()

    def advance(self) -> cython.int:
        """Go to the next value. Errors: InvalidBSON."""
        at: cython.Py_ssize_t = self.end
        if at >= self._stop:
            self.ended = True
            return 0
        self.place = at
        self.value = name_end(self._raw, at + 1, self._stop) + 1
        self.end = value_end(self._raw, self._raw[at], self.value, self._stop)
        return 0

    def is_at(self, place: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.bint:
        """Whether its next value is of the place that is named by the field at `place`, whose value is at `value`."""
        at: cython.Py_ssize_t = 1
        size: cython.Py_ssize_t = value - place
        if self.ended or self.value - self.place != size:
            return False
        while at < size and self._raw[self.place + at] == self._raw[place + at]:
            at += 1
        return at == size


def unpack(bucket: bytes, columns: bytes, time_field: bytes, shared: bytes, wanted: Set[bytes] | None) -> list[bytes]:
    """The documents that were put into the bucket: the time first, then `shared` (encoded fields), then the other
    fields in the order of the columns, which are in the bucket's field of that name. `wanted`: of time and other fields
    those that are given; None: all.

    Errors: 5346700 without a column of times, 10065 for a column that is no document; InvalidBSON.
    """
    times: Column | None = None
    others: list[Column] = []
    at: cython.Py_ssize_t = find(bucket, 0, len(bucket), columns)
    stop: cython.Py_ssize_t
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    name: bytes
    if at >= 0 and bucket[at] == OBJECT:
        at += len(columns) + 2
        stop = document_stop(bucket, at, len(bucket))
        at += 4
        while at < stop:
            named = name_end(bucket, at + 1, stop)
            end = value_end(bucket, bucket[at], named + 1, stop)
            name = part(bucket, at + 1, named)
            if times is None and name == time_field:
                times = _column(bucket, at, named)
            elif wanted is None or name in wanted:
                others.append(_column(bucket, at, named))
            at = end
    if times is None:
        raise CommandError(
            _NO_TIMES, "The $_internalUnpackBucket stage requires the data region to have a timeField object"
        )
    return _rows(bucket, times, others, shared, wanted is None or time_field in wanted)


def _column(bucket: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t) -> Column:
    if bucket[at] != OBJECT:
        raise CommandError(_NO_COLUMN, f"invalid parameter: expected an object ({name_text(bucket, at + 1, named)})")
    return Column(bucket, part(bucket, at + 1, named + 1), named + 1)


def _rows(bucket: bytes, times: Column, others: list[Column], shared: bytes, timed: cython.bint) -> list[bytes]:
    out: KeyWriter = _WRITER
    rows: list[bytes] = []
    column: Column
    while not times.ended:
        out.clear()
        out.put_little(0, 4)
        if timed:
            out.put(bucket[times.place])
            out.put_bytes(times.name)
            out.put_part(bucket, times.value, times.end)
        out.put_bytes(shared)
        for column in others:
            if column.is_at(times.place, times.value):
                out.put(bucket[column.place])
                out.put_bytes(column.name)
                out.put_part(bucket, column.value, column.end)
                column.advance()
        out.put(0)
        out.set_little(0, out.size, 4)
        rows.append(out.taken())
        spend(out.size)
        times.advance()
    return rows
