"""The buckets that the measurements of a command are added to.

Each series has a `Lane`, which holds the bucket for its measurements. Invariants:

- `Filling.drafts` are the buckets with measurements of the command, in the order of the first one in each.
- No measurement is in two drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.validation import validate
from docstore.bson.walk import Value
from docstore.errors import CommandError
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.series.bucket import Bucket, Rules

if not cython.compiled:
    from docstore.bson.order import compare_bytes
    from docstore.bson.walk import (
        ARRAY,
        DATE,
        OBJECT,
        OBJECT_ID,
        document_stop,
        find,
        int64_at,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.series.bucket import TAKEN

_WRITER: KeyWriter = KeyWriter()
_IDENTITY_TAIL = 1 << 64
_PLAIN_DEPTH = 8


class Identities:
    """Yields the last eight bytes of new buckets' `_id`s, counting from `first`."""

    _next: cython.ulonglong

    def __init__(self, first: int) -> None:
        self._next = first

    def next_number(self) -> cython.ulonglong:
        number: cython.ulonglong = self._next
        self._next = number + 1 if cython.compiled else (number + 1) % _IDENTITY_TAIL
        return number


class Lane:
    """The lane of a series: `meta`, normalized, and the `key` that identifies the series. `bucket` takes the next
    measurement; None if there is none or, unless `opened`, if it has not been looked up.
    """

    key: bytes
    meta: Value | None
    opened: cython.bint
    bucket: Bucket | None

    def __init__(self, key: bytes, meta: Value | None) -> None:
        self.key = key
        self.meta = meta
        self.opened = False
        self.bucket = None


class Filling:
    """Adds measurements to buckets, by `rules` that may change. `gathered` of them, of `gathered_bytes`, are in
    `drafts`. `lane_of` makes the lane of metadata.
    """

    drafts: list[Bucket]
    gathered: cython.Py_ssize_t
    gathered_bytes: cython.Py_ssize_t
    rules: Rules
    _identities: Identities
    _lane_of: Callable[[Value | None], Lane]
    _lanes: dict[bytes, Lane]
    _first: cython.Py_ssize_t
    _times: list[int]
    _read: list[Lane | None]

    def __init__(self, rules: Rules, identities: Identities, lane_of: Callable[[Value | None], Lane]) -> None:
        self.drafts = []
        self.gathered = self.gathered_bytes = 0
        self.rules = rules
        self._identities = identities
        self._lane_of = lane_of
        self._lanes = {}
        self._first = 0
        self._times = []
        self._read = []

    @cython.ccall
    def open_bucket(self, time: cython.longlong, meta: Value | None) -> Bucket:
        """Return an empty bucket for a measurement of that time."""
        out: KeyWriter = _WRITER
        begin: cython.longlong = time % self.rules.rounding
        if begin < 0:
            begin += self.rules.rounding
        begin = time - begin
        out.clear()
        out.put_number(_seconds(begin), 4)
        out.put_number(self._identities.next_number(), 8)
        return Bucket(self.rules, out.contents(), meta, begin)

    def stored(self, rid: bytes, raw: bytes, size: int) -> Bucket | None:
        """Return the bucket of a stored document; None for a malformed one, written by a client. `size`: the bytes of
        its measurements. Errors: InvalidBSON.
        """
        at: cython.Py_ssize_t = find(raw, 0, len(raw), b"_id")
        meta: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        own: Value | None = None
        bucket: Bucket
        if at < 0 or raw[at] != OBJECT_ID:
            return None
        meta = find(raw, 0, len(raw), b"meta")
        if meta >= 0:
            begin = meta + 6
            own = raw[meta], part(raw, begin, value_end(raw, raw[meta], begin, len(raw)))
        bucket = Bucket(self.rules, part(raw, at + 5, at + 17), own, 0)
        if not bucket.load(raw):
            return None
        bucket.size = size
        bucket.rid = rid
        bucket.stored = raw
        return bucket

    def read(
        self,
        documents: list[bytes],
        begin: int,
        end: int,
        most_bytes: int,
        indexed: Sequence[Sequence[bytes]],
    ) -> list[Lane]:
        """Parse the documents from `begin` up to `end`, for `fill`. Return their lanes that are not opened yet, each
        once. `indexed`: paths that may not have an array.
        """
        position: cython.Py_ssize_t
        most: cython.Py_ssize_t = most_bytes
        raw: bytes
        lane: Lane | None
        closed: dict[bytes, Lane] = {}
        self._first = begin
        self._times = []
        self._read = []
        for position in range(begin, end):
            raw = documents[position]
            lane = None
            try:
                validate(raw)
                if len(raw) <= most and not _has_array(raw, indexed):
                    lane = self._lane(raw)
            except CommandError:
                lane = None
            self._read.append(lane)
            if lane is None:
                self._times.append(0)
            elif not lane.opened:
                closed[lane.key] = lane
        return list(closed.values())

    def fill(self, documents: list[bytes], position: int, most: int, most_bytes: int) -> int:
        """Add the parsed measurements from `position` on; return the position of the first one not added.

        `fill` stops at a measurement that is malformed, too large or without a time, which the caller then rejects. It
        also stops at a lane that is not opened, and at the limits. Errors: InvalidBSON.
        """
        at: cython.Py_ssize_t = position
        end: cython.Py_ssize_t = self._first + len(self._read)
        lane: Lane | None
        while at < end and self.gathered < most and self.gathered_bytes < most_bytes:
            lane = self._read[at - self._first]
            if lane is None or not lane.opened:
                break
            self.add(documents[at], at, self._times[at - self._first], lane)
            at += 1
        return at

    @cython.ccall
    def add(self, raw: bytes, position: cython.Py_ssize_t, time: cython.longlong, lane: Lane) -> cython.int:
        """Add a measurement to the bucket of its lane, or to a new one. Errors: InvalidBSON."""
        full: cython.int = TAKEN
        bucket: Bucket | None = lane.bucket
        if bucket is not None:
            full = bucket.take(raw, time)
        if bucket is None or full != TAKEN:
            bucket = self.open_bucket(time, lane.meta)
            bucket.full = full
            full = bucket.take(raw, time)
            assert full == TAKEN, "a bucket takes the measurement that it was begun for"
            lane.bucket = bucket
        if not bucket.positions:
            bucket.lane = lane
            self.drafts.append(bucket)
        bucket.positions.append(position)
        self.gathered += 1
        self.gathered_bytes += len(raw)
        return 0

    def take_back(self, bucket: Bucket, documents: list[bytes]) -> Lane:
        """Remove all measurements from a draft, so that they can be added to its lane again. The lane is closed if its
        next measurements would go into that draft.
        """
        position: cython.Py_ssize_t
        lane: Lane | None = bucket.lane
        raw: bytes
        assert lane is not None, "a draft has a lane"
        self.drafts.remove(bucket)
        self.gathered -= len(bucket.positions)
        for position in bucket.positions:
            raw = documents[position]
            self.gathered_bytes -= len(raw)
        if lane.bucket is bucket:
            lane.bucket = None
            lane.opened = False
        bucket.lane = None
        return lane

    def close_lanes(self) -> None:
        """Forget the buckets that were looked up and have no new measurements."""
        lane: Lane
        for lane in self._lanes.values():
            if lane.bucket is None or not lane.bucket.positions:
                lane.bucket = None
                lane.opened = False

    def written(self, buckets: list[Bucket]) -> list[tuple[bytes, Bucket]]:
        """Turn drafts into stored buckets; return (key of the series, bucket) of those that take its next measurements.
        The caller looks up their stored state.
        """
        bucket: Bucket
        lane: Lane | None
        open_ones: list[tuple[bytes, Bucket]] = []
        for bucket in buckets:
            lane = bucket.lane
            bucket.lane = None
            if lane is not None and lane.bucket is bucket:
                lane.bucket = None
                lane.opened = False
                open_ones.append((lane.key, bucket))
        if not self.drafts:
            self.gathered = self.gathered_bytes = 0
        return open_ones

    def give_up(self) -> None:
        """Discard the drafts."""
        bucket: Bucket
        for bucket in self.drafts:
            bucket.lane = None
        self.drafts.clear()
        self._lanes.clear()

    def lane(self, meta: Value | None) -> Lane:
        """Return the lane of metadata in a measurement."""
        key: bytes = b"" if meta is None else bytes((meta[0],)) + meta[1]
        lane: Lane | None = self._lanes.get(key)
        new_lane: Lane
        if lane is None:
            new_lane = self._lane_of(meta)
            # The fields of the metadata may have been in another order.
            lane = self._lanes[key] = self._lanes.setdefault(new_lane.key, new_lane)
        return lane

    @cython.cfunc
    def _lane(self, raw: bytes) -> Lane | None:
        """Return the lane of a document, and add its time to `_times`; None if it has no time."""
        rules: Rules = self.rules
        at: cython.Py_ssize_t = find(raw, 0, len(raw), rules.time_field)
        begin: cython.Py_ssize_t
        lane: Lane | None
        own: bytes | None = rules.meta_field
        meta: bytes = b""
        if at < 0 or raw[at] != DATE:
            return None
        time: cython.longlong = int64_at(raw, at + len(rules.time_field) + 2)
        if own is not None:
            at = find(raw, 0, len(raw), own)
            if at >= 0:
                begin = at + len(own) + 2
                _WRITER.clear()
                _WRITER.put(raw[at])
                _WRITER.put_part(raw, begin, value_end(raw, raw[at], begin, len(raw)))
                meta = _WRITER.contents()
        lane = self._lanes.get(meta)
        if lane is None:
            if not meta or _is_normal(meta, meta[0], 1, len(meta), 0):
                # Most metadata are already normalized, so their bytes are the key of the series.
                lane = Lane(meta, (meta[0], part(meta, 1, len(meta))) if meta else None)
                self._lanes[meta] = lane
            else:
                lane = self.lane((meta[0], part(meta, 1, len(meta))))
        self._times.append(time)
        return lane


@cython.exceptval(check=False)
def _seconds(begin: cython.longlong) -> cython.ulonglong:
    """Return the seconds of a time in milliseconds, rounded down."""
    if cython.compiled and begin % 1000 < 0:
        return begin // 1000 - 1
    return begin // 1000


def _is_normal(
    raw: bytes, code: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.int
) -> cython.bint:
    """True if a value is surely normalized as `lane_of` does it: the fields of each document in it are in the order of
    their names, each once. Errors: InvalidBSON.
    """
    stop: cython.Py_ssize_t
    named: cython.Py_ssize_t
    last: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 0
    if code not in (OBJECT, ARRAY):
        return True
    if depth > _PLAIN_DEPTH:
        return False
    stop = document_stop(raw, at, end)
    at += 4
    while at < stop:
        named = name_end(raw, at + 1, stop)
        if code == OBJECT and last and compare_bytes(raw, last, last + size, raw, at + 1, named) >= 0:
            return False
        last = at + 1
        size = named - last
        code_of: cython.int = raw[at]
        at = value_end(raw, code_of, named + 1, stop)
        if not _is_normal(raw, code_of, named + 1, at, depth + 1):
            return False
    return True


def _has_array(raw: bytes, paths: Sequence[Sequence[bytes]]) -> cython.bint:
    """True if there is an array on one of the paths through embedded documents."""
    at: cython.Py_ssize_t
    document: cython.Py_ssize_t
    name: bytes
    for path in paths:
        document = 0
        for name in path:
            at = find(raw, document, len(raw), name)
            if at < 0:
                break
            if raw[at] == ARRAY:
                return True
            if raw[at] != OBJECT:
                break
            document = at + len(name) + 2
    return False
