"""The measurements that a request asks for, found in one step; no more buckets than a step bears are looked at.

Always true: given are the measurements that the general way gives, in the same order, over the newest state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

from docstore.aggregation.stages.unpack_bucket import UnpackBucket
from docstore.bson.build import array_value, bytes_of, document_from
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT, OBJECT_ID, Value, encoded_name
from docstore.collection.read.fetch import fetching
from docstore.collection.read.plan_cache import ScanKey
from docstore.collection.read.prepared import MOST_LOOKS, BoundScan, bound_scan
from docstore.kernel.keys.bounds import behind
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.scan.documents import EXHAUSTED, scan
from docstore.kernel.scan.fetch import Examined
from docstore.kernel.series.unpacking import greatest_time
from docstore.node.timeseries.asked import Bound, asked_of
from docstore.node.timeseries.series import Series
from docstore.storage import Family, Reader
from docstore.timeseries.unpacking import Measurements, measurements

_MOST_BYTES = 1 << 20
"""What buckets that are taken apart in a step may have together."""
_CLOCK_EVERY = 8
_UNPACKED = b"$"
"""Stands for the order in the key of what took long."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A filter of a request on measurements. `key`: what it is known under."""

    series: Series
    filter: bytes
    key: ScanKey
    bound: Bound
    fields: frozenset[str] | None

    def buckets(self, reader: Reader, clock: Callable[[], float], until: float) -> list[bytes] | None:
        """Those that may hold what is asked for; None where they are more than a step looks at by `until`."""
        coll = self.series.buckets
        if coll.plans.takes_long(self.key):
            return None
        found = self._by_index(reader) if coll.secondary else self._clustered(reader, clock, until)
        if found is None or bytes_of(found) > _MOST_BYTES:
            coll.plans.took_long(self.key)
            return None
        return found

    def measurements(self, wanted: frozenset[str] | None) -> Measurements:
        """How those that are asked for are taken out of buckets. `wanted`: the fields that are looked at; None: any."""
        definition, bound = self.series.definition, self.bound
        if bound.predicate is not None and wanted is not None:
            wanted = None if self.fields is None else wanted | self.fields
        return measurements(definition.time_field, definition.meta_field, wanted, bound.tests, bound.predicate)

    def of_newest(self, buckets: list[bytes], direction: int, first: int) -> list[bytes]:
        """Those of buckets that hold the first measurements by time, so many, in this direction: as many buckets have
        one at their greatest time each, before which others must have some too.
        """
        if self.bound.tests or self.bound.predicate is not None or not 0 < first < len(buckets):
            return buckets
        name = encoded_name(self.series.definition.time_field)
        times = [greatest_time(raw, name) for raw in buckets]
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return buckets
        if direction < 0:
            least = sorted(known, reverse=True)[first - 1]
            return [raw for raw, time in zip(buckets, known, strict=True) if time >= least]
        most = sorted(known)[first - 1] + self.series.definition.span_seconds * 1000
        return [raw for raw, time in zip(buckets, known, strict=True) if time <= most]

    def _clustered(self, reader: Reader, clock: Callable[[], float], until: float) -> list[bytes] | None:
        coll, ends = self.series.buckets, self.bound.ends
        low, high = coll.id_prefix, coll.id_index.end
        if ends is None and coll.count > MOST_LOOKS:
            return None
        if ends is not None:
            low, high = (
                low + encode_key((OBJECT_ID, ends[0])), behind(low + encode_key((OBJECT_ID, ends[1]))),
            )  # fmt: skip
        examined = Examined()
        entries: Iterator[bytes] = islice(reader.values(Family.INDEXES, low, high), MOST_LOOKS + 1)
        reading = cast("Iterator[bytes]", fetching(coll, entries, reader, examined, None, bare=True))
        found: list[bytes] = []
        status = scan(reading, self.bound.buckets, found, MOST_LOOKS + 1, _MOST_BYTES, clock, until)
        return found if status == EXHAUSTED and examined.keys <= MOST_LOOKS else None

    def _by_index(self, reader: Reader) -> list[bytes] | None:
        scan = self._scan(reader)
        if scan is None:
            return None
        coll = self.series.buckets
        most = max(1, _MOST_BYTES * coll.count // max(coll.size, 1))
        found = scan.documents(reader, min(most, MOST_LOOKS) + 1, None)
        if found is None or len(found) > min(most, MOST_LOOKS):
            return None
        scan.used()
        return found

    def _scan(self, reader: Reader) -> BoundScan | None:
        """The scan that is prepared for what the general way says of buckets."""
        definition = self.series.definition
        stage = UnpackBucket(b"", definition.time_field, definition.meta_field, definition.span_seconds)
        moved, _, implied = stage.over_buckets(self.filter)
        said = moved + implied
        if not said:
            return bound_scan(self.series.buckets, EMPTY_DOCUMENT, reader)
        filter_ = said[0]
        if len(said) > 1:
            members: list[Value] = [(OBJECT, each) for each in said]
            filter_ = document_from([("$and", *array_value(members))])
        return bound_scan(self.series.buckets, filter_, reader)


def asking(series: Series, filter_: bytes) -> Asking | None:
    """What a filter on measurements asks for; None where that is left to the general way. Errors: those of regular
    expressions.
    """
    found = asked_of(filter_, series.definition.meta_field)
    if found is None:
        return None
    asked, values, form = found
    bound = asked.bound(values, series.definition)
    if bound is None:
        return None
    return Asking(series, filter_, (form, _UNPACKED, False, None, ()), bound, asked.fields)


def taken_apart(
    buckets: list[bytes], take: Callable[[bytes], list[bytes]], clock: Callable[[], float], until: float
) -> list[bytes] | None:
    """The measurements of buckets; None where that takes longer. Errors: those of `Measurements`."""
    found: list[bytes] = []
    for number, raw in enumerate(buckets):
        if number % _CLOCK_EVERY == 0 and clock() >= until:
            return None
        found += take(raw)
    return found
