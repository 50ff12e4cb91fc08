"""A bucket under construction, and its limits.

Invariant: `control.min` has the beginning of the bucket as its time. All other fields, like `control.max`, follow from
the columns (`docstore.kernel.series.packing`). A bucket is rewritten as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.series.packing import Columns, Extreme

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import DATE, OBJECT, OBJECT_ID, document_stop, find, int64_at, name_end, value_end

    TAKEN = 0
    COUNT = 1
    SIZE = 2
    FORWARD = 3
    BACKWARD = 4
    SCHEMA = 5
    """A bucket's answer to a measurement: it is added, or the reason why the bucket is full."""

_WRITER: KeyWriter = KeyWriter()
_DIFF = b"\x10$v\0\x02\0\0\0\x03diff\0"
_VERSION = b"\x10version\0\1\0\0\0"


class Rules:
    """The limits of a collection's buckets. `span` is the time that they cover, `rounding` the unit of their beginning,
    in milliseconds. `most_measurements` and `most_bytes` limit their contents. `meta_field` has the metadata of a
    measurement. `alike`, `extreme`: as in `Columns`.
    """

    time_field: bytes
    meta_field: bytes | None
    span: cython.longlong
    rounding: cython.longlong
    most_measurements: cython.Py_ssize_t
    most_bytes: cython.Py_ssize_t
    alike: Callable[[Value, Value], bool]
    extreme: Extreme

    def __init__(
        self,
        time_field: bytes,
        meta_field: bytes | None,
        spans: Sequence[int],
        limits: Sequence[int],
        alike: Callable[[Value, Value], bool],
        extreme: Extreme,
    ) -> None:
        self.time_field = time_field
        self.meta_field = meta_field
        self.span, self.rounding = spans
        self.most_measurements, self.most_bytes = limits
        self.alike = alike
        self.extreme = extreme


class Bucket:
    """One bucket to which measurements are added: `count` of them so far, of `size` bytes.

    `positions` are the added measurements' positions in the command; `lane` is the lane of their series. `full`: the
    reason why the previous bucket of the series was full (`TAKEN`: there was none). `rid`, `stored`: the record id and
    the stored document; None for a new one.
    """

    identity: bytes
    meta: Value | None
    lane: Any
    count: cython.Py_ssize_t
    size: cython.Py_ssize_t
    positions: list[int]
    full: cython.int
    rid: bytes
    stored: bytes | None
    _begin: cython.longlong
    _columns: Columns
    _rules: Rules

    def __init__(self, rules: Rules, identity: bytes, meta: Value | None, begin: int) -> None:
        self.identity = identity
        self.meta = meta
        self.lane = None
        self.count = self.size = 0
        self.positions = []
        self.full = TAKEN
        self.rid = b""
        self.stored = None
        self._begin = begin
        self._columns = Columns(rules.meta_field, rules.alike, rules.extreme)
        self._rules = rules

    @cython.ccall
    def take(self, raw: bytes, time: cython.longlong) -> cython.int:
        """Add a measurement of that time; return TAKEN, or the reason why it does not fit. Errors: InvalidBSON."""
        rules: Rules = self._rules
        if time < self._begin:
            return BACKWARD
        elapsed: cython.ulonglong = time - self._begin
        if elapsed >= cython.cast(cython.ulonglong, rules.span):
            return FORWARD
        if self.count >= rules.most_measurements:
            return COUNT
        if self.count:
            if self.size + len(raw) > rules.most_bytes:
                return SIZE
            if not self._columns.fits(raw):
                return SCHEMA
        self._columns.add(raw, self.count)
        self.size += len(raw)
        self.count += 1
        return TAKEN

    @cython.ccall
    def document(self) -> bytes:
        """Return the bucket as a stored document."""
        out: KeyWriter = _WRITER
        document: bytes
        out.clear()
        self._write(out, False)
        document = out.contents()
        spend(len(document))
        return document

    @cython.ccall
    def update(self) -> bytes:
        """Return the update of an oplog entry from `stored` (`docstore.collection.oplog.diff`). Empty if `stored` is
        not a bucket in the form written here.
        """
        out: KeyWriter = _WRITER
        start: cython.Py_ssize_t
        diff: cython.Py_ssize_t
        out.clear()
        self._write(out, True)
        if out.contents() != self.stored:
            return b""
        out.clear()
        start = out.begin_document()
        out.put_bytes(_DIFF)
        diff = out.begin_document()
        self._columns.put_changes(out, self._rules.time_field)
        out.end_document(diff)
        out.end_document(start)
        return out.contents()

    def _write(self, out: KeyWriter, before: cython.bint) -> cython.int:
        """Write the bucket, or its state `before`."""
        control: cython.Py_ssize_t
        start: cython.Py_ssize_t = out.begin_document()
        out.put(OBJECT_ID)
        out.put_bytes(b"_id\0")
        out.put_bytes(self.identity)
        out.put(OBJECT)
        out.put_bytes(b"control\0")
        control = out.begin_document()
        out.put_bytes(_VERSION)
        out.put(OBJECT)
        out.put_bytes(b"min\0")
        self._columns.put_least(out, self._rules.time_field, self._begin, before)
        out.put(OBJECT)
        out.put_bytes(b"max\0")
        self._columns.put_greatest(out, before)
        out.end_document(control)
        if self.meta is not None:
            code, data = self.meta
            out.put(code)
            out.put_bytes(b"meta\0")
            out.put_bytes(data)
        out.put(OBJECT)
        out.put_bytes(b"data\0")
        self._columns.put_values(out, before)
        return out.end_document(start)

    def load(self, raw: bytes) -> cython.bint:
        """Load the measurements of a stored bucket; False if it lacks a part. Errors: InvalidBSON."""
        control: cython.Py_ssize_t = _document_at(raw, 0, b"control")
        data: cython.Py_ssize_t = _document_at(raw, 0, b"data")
        least: cython.Py_ssize_t
        greatest: cython.Py_ssize_t
        times: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        if control < 0 or data < 0:
            return False
        least = _document_at(raw, control, b"min")
        greatest = _document_at(raw, control, b"max")
        times = _document_at(raw, data, self._rules.time_field)
        if least < 0 or greatest < 0 or times < 0:
            return False
        at = find(raw, least, len(raw), self._rules.time_field)
        if at < 0 or raw[at] != DATE or not self._columns.load(raw, data, least, greatest):
            return False
        self._begin = int64_at(raw, at + len(self._rules.time_field) + 2)
        stop = document_stop(raw, times, len(raw))
        at = times + 4
        while at < stop:
            at = value_end(raw, raw[at], name_end(raw, at + 1, stop) + 1, stop)
            self.count += 1
        return True


def tally(buckets: list[Bucket]) -> tuple[int, list[int]]:
    """Return (number of measurements written with these buckets, number of new buckets by `full`)."""
    bucket: Bucket
    measurements: cython.Py_ssize_t = 0
    counts = [0] * (SCHEMA + 1)
    for bucket in buckets:
        measurements += len(bucket.positions)
        if bucket.stored is None:
            counts[bucket.full] += 1
    return measurements, counts


@cython.exceptval(-2, check=True)
def _document_at(raw: bytes, document: cython.Py_ssize_t, name: bytes) -> cython.Py_ssize_t:
    """Return the offset of the document in a field of the document; -1 if there is none."""
    at: cython.Py_ssize_t = find(raw, document, len(raw), name)
    return at + len(name) + 2 if at >= 0 and raw[at] == OBJECT else -1
