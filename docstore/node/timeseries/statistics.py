"""Statistics of time-series buckets: opened, updated, closed by reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add
from typing import Any
from uuid import UUID

from bson.int64 import Int64

from docstore.kernel.series.bucket import BACKWARD, COUNT, FORWARD, SCHEMA, SIZE, TAKEN, Bucket, tally
from docstore.node.node import DataNode
from docstore.node.timeseries.series import Series

_CLOSED = {COUNT: "Count", SCHEMA: "SchemaChange", SIZE: "Size", FORWARD: "TimeForward", BACKWARD: "TimeBackward"}


@dataclass(slots=True)
class SeriesCounters:
    """Counters of one collection since the process began.

    `opened`: buckets of series that had none. `closed`: full buckets, by reason.
    """

    inserts: int = 0
    updates: int = 0
    opened: int = 0
    measurements: int = 0
    closed: list[int] = field(default_factory=lambda: [0] * (SCHEMA + 1))

    def note(self, written: list[Bucket]) -> int:
        """Count written buckets; return the number of measurements added to them.

        New buckets also count the full ones they follow.
        """
        measurements, full = tally(written)
        self.measurements += measurements
        self.opened += full[TAKEN]
        self.closed = list(map(add, self.closed, full))
        new_buckets = sum(full)
        self.inserts += new_buckets
        self.updates += len(written) - new_buckets
        return measurements


class AllSeriesCounters(dict[UUID, SeriesCounters]):
    """The counters of each bucket collection, a part of a node."""


def counters_of(node: DataNode, series: Series) -> SeriesCounters:
    counters: AllSeriesCounters = node.parts.setdefault(AllSeriesCounters, AllSeriesCounters())
    series_counters = counters.get(series.buckets.uuid)
    return counters.setdefault(series.buckets.uuid, SeriesCounters()) if series_counters is None else series_counters


def series_section(node: DataNode, series: Series, scale: int) -> dict[str, Any]:
    """Return the section `timeseries` of collStats."""
    buckets, counters = series.buckets, counters_of(node, series)
    commits = counters.inserts + counters.updates
    section: dict[str, Any] = {"bucketsNs": buckets.ns, "bucketCount": buckets.count}
    if buckets.count:
        section["avgBucketSize"] = buckets.size // buckets.count // scale
    section |= {
        "numBucketInserts": Int64(counters.inserts),
        "numBucketUpdates": Int64(counters.updates),
        "numBucketsOpenedDueToMetadata": Int64(counters.opened),
    }
    section |= {f"numBucketsClosedDueTo{name}": Int64(counters.closed[why]) for why, name in _CLOSED.items()}
    section |= {
        "numBucketsClosedDueToMemoryThreshold": Int64(0),
        "numCommits": Int64(commits),
        "numWaits": Int64(0),
        "numMeasurementsCommitted": Int64(counters.measurements),
    }
    if commits:
        section["avgNumMeasurementsPerCommit"] = Int64(counters.measurements // commits)
    return section
