"""Fast path for reads of measurements, in one step over a bounded number of buckets.

The result equals that of the general path: the same measurements in the same order, over the newest state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

from docstore.aggregation.stages.match import parts_of
from docstore.aggregation.stages.unpack_bucket import UnpackBucket
from docstore.bson.build import array_value, bytes_of, document_from
from docstore.bson.walk import OBJECT, OBJECT_ID, Value, elements, encoded_name
from docstore.collection.limits import MAX_STEP_ENTRIES
from docstore.collection.read.fetch import fetching
from docstore.collection.read.plan_cache import ScanKey
from docstore.collection.read.prepared import bound_scan
from docstore.kernel.keys.bounds import prefix_end
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.scan.documents import EXHAUSTED, scan
from docstore.kernel.scan.fetch import Examined
from docstore.kernel.series.unpacking import greatest_time
from docstore.node.limits import MAX_UNPACKED_BYTES
from docstore.node.timeseries.series import Series
from docstore.node.timeseries.series_conditions import Bound, asked_of
from docstore.query.value.values import int32_value
from docstore.storage import Family, Reader
from docstore.timeseries.definition import CONTROL
from docstore.timeseries.unpacking import Measurements, measurements

_CLOCK_EVERY = 8
_MORE = 8
"""Further buckets to read behind the wanted ones, because they may have the same time as the last."""
_MIN, _MAX = f"{CONTROL}.min.", f"{CONTROL}.max."
_UNPACKED = b"$"
"""Stands for the sort in the keys under which slow scans are remembered."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A filter on measurements. `key`: its key in the collection's plan cache."""

    series: Series
    filter: bytes
    key: ScanKey
    bound: Bound
    fields: frozenset[str] | None

    def buckets(self, reader: Reader, clock: Callable[[], float], until: float) -> list[bytes] | None:
        """Return the buckets that may contain matches, or None if they are more than a step may read until `until`."""
        coll = self.series.buckets
        if coll.plans.takes_long(self.key):
            return None
        buckets = self._by_index(reader, clock, until) if coll.secondary else self._clustered(reader, clock, until)
        if buckets is None or bytes_of(buckets) > MAX_UNPACKED_BYTES:
            coll.plans.took_long(self.key)
            return None
        return buckets

    def measurements(self, fields: frozenset[str] | None) -> Measurements:
        """Return the unpacker for the matching measurements. `fields`: the fields to read; None: any."""
        definition, bound = self.series.definition, self.bound
        if bound.predicate is not None and fields is not None:
            fields = None if self.fields is None else fields | self.fields
        return measurements(definition.time_field, definition.meta_field, fields, bound.tests, bound.predicate)

    def newest_by_index(self, reader: Reader, first: int) -> list[bytes] | None:
        """Return `of_newest` of all buckets, backwards, by an index on their greatest times; None without one."""
        definition = self.series.definition
        coll = self.series.buckets
        some: list[Value] = [(OBJECT, raw) for _, raw in self._bucket_conditions()]
        if not coll.secondary or not some or self.bound.tests or self.bound.predicate is not None:
            return None
        name = encoded_name(definition.time_field)
        order = document_from([(_MAX + definition.time_field, *int32_value(-1))])
        scan = bound_scan(coll, document_from([("$and", *array_value(some))]), reader, sort=order)
        if scan is None or scan.scan.order is not None:
            return None
        buckets = scan.documents(reader, first + _MORE, None)
        if buckets is None or len(buckets) < first:
            return buckets
        times = [greatest_time(raw, name) for raw in buckets]
        needed = buckets[:first] + [
            raw for raw, time in zip(buckets[first:], times[first:], strict=True) if time == times[first - 1]
        ]
        if len(needed) == first + _MORE:
            # Further buckets may have the same time.
            return None
        scan.used()
        return needed

    def of_newest(self, buckets: list[bytes], direction: int, first: int) -> list[bytes]:
        """Return the buckets that contain the `first` measurements by time in this direction.

        Each bucket has a measurement at its greatest time, so the `first` buckets by greatest time bound the range.
        """
        if self.bound.tests or self.bound.predicate is not None or not 0 < first < len(buckets):
            return buckets
        name = encoded_name(self.series.definition.time_field)
        times = [greatest_time(raw, name) for raw in buckets]
        bucket_times = [time for time in times if time is not None]
        if len(bucket_times) < len(times):
            return buckets
        if direction < 0:
            least = sorted(bucket_times, reverse=True)[first - 1]
            return [raw for raw, time in zip(buckets, bucket_times, strict=True) if time >= least]
        most = sorted(bucket_times)[first - 1] + self.series.definition.span_seconds * 1000
        return [raw for raw, time in zip(buckets, bucket_times, strict=True) if time <= most]

    def _clustered(self, reader: Reader, clock: Callable[[], float], until: float) -> list[bytes] | None:
        coll, ends = self.series.buckets, self.bound.ends
        low, high = coll.id_prefix, coll.id_index.end
        if ends is None and coll.count > MAX_STEP_ENTRIES:
            return None
        if ends is not None:
            low, high = (
                low + encode_key((OBJECT_ID, ends[0])), prefix_end(low + encode_key((OBJECT_ID, ends[1]))),
            )  # fmt: skip
        examined = Examined()
        entries: Iterator[bytes] = islice(reader.values(Family.INDEXES, low, high), MAX_STEP_ENTRIES + 1)
        reading = cast("Iterator[bytes]", fetching(coll, entries, reader, examined, None, bare=True))
        buckets: list[bytes] = []
        status = scan(reading, self.bound.buckets, buckets, MAX_STEP_ENTRIES + 1, MAX_UNPACKED_BYTES, clock, until)
        return buckets if status == EXHAUSTED and examined.keys <= MAX_STEP_ENTRIES else None

    def _by_index(self, reader: Reader, clock: Callable[[], float], until: float) -> list[bytes] | None:
        """Return the buckets by an index on their greatest or least times; a bound on both would need two fields."""
        coll = self.series.buckets
        conditions = self._bucket_conditions()
        if not any(name.startswith("$") for name, _ in conditions) and not any(
            index.fields[0][0] == name for index in coll.secondary for name, _ in conditions
        ):
            return self._clustered(reader, clock, until)
        for left_out in (_MIN, _MAX):
            some: list[Value] = [(OBJECT, raw) for name, raw in conditions if not name.startswith((left_out, "_id"))]
            scan = bound_scan(coll, document_from([("$and", *array_value(some))]), reader) if some else None
            # A condition without an index needs all buckets; the whole filter may still select an index.
            if scan is not None and not scan.scan.looks_through:
                break
        else:
            return None
        most = min(max(1, MAX_UNPACKED_BYTES * coll.count // max(coll.size, 1)), MAX_STEP_ENTRIES)
        buckets = scan.documents(reader, most + 1, self.bound.buckets)
        if buckets is None or len(buckets) > most:
            return None
        scan.used()
        return buckets

    def _bucket_conditions(self) -> list[tuple[str, bytes]]:
        """Return the general path's conditions on buckets, with the field that each begins with."""
        definition = self.series.definition
        stage = UnpackBucket(b"", definition.time_field, definition.meta_field, definition.span_seconds)
        moved, _, implied = stage.over_buckets(parts_of(self.filter))
        parts = [part for condition in moved + implied for part in parts_of(condition)]
        return [(elements(part)[0][0], part) for part in parts]


def asking(series: Series, filter_: bytes) -> Asking | None:
    """Parse a filter on measurements; None if it needs the general path. Errors: those of regular expressions."""
    parts = asked_of(filter_, series.definition.meta_field)
    if parts is None:
        return None
    conditions, values, form = parts
    bound = conditions.bound(values, series.definition)
    if bound is None:
        return None
    return Asking(series, filter_, (form, _UNPACKED, False, None, None, ()), bound, conditions.fields)


def unpack_buckets(
    buckets: list[bytes], take: Callable[[bytes], list[bytes]], clock: Callable[[], float], until: float
) -> list[bytes] | None:
    """Return the measurements of buckets, or None if that takes too long. Errors: those of `Measurements`."""
    documents: list[bytes] = []
    for number, raw in enumerate(buckets):
        if number % _CLOCK_EVERY == 0 and clock() >= until:
            return None
        documents += take(raw)
    return documents
