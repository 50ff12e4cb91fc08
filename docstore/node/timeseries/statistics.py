"""What a node tells of the buckets of time-series collections: how many it has begun, changed and closed, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bson.int64 import Int64

from docstore.node.node import DataNode
from docstore.node.timeseries.series import Series
from docstore.timeseries.buckets import Full

_CLOSED = {
    Full.COUNT: "Count",
    Full.SCHEMA: "SchemaChange",
    Full.SIZE: "Size",
    Full.FORWARD: "TimeForward",
    Full.BACKWARD: "TimeBackward",
}


@dataclass(slots=True)
class SeriesCounters:
    """What has been done for one collection since the process began. `opened`: buckets of series that had none."""

    inserts: int = 0
    updates: int = 0
    opened: int = 0
    measurements: int = 0
    closed: dict[Full, int] = field(default_factory=lambda: dict.fromkeys(Full, 0))

    def note(self, measurements: int, *, begun: bool, full: Full | None) -> None:
        """A bucket has been written with so many more measurements: a new one, for the one before that was full."""
        self.measurements += measurements
        if not begun:
            self.updates += 1
            return
        self.inserts += 1
        if full is None:
            self.opened += 1
        else:
            self.closed[full] += 1


class AllSeriesCounters(dict[UUID, SeriesCounters]):
    """A part of a node: the counters of each collection of buckets."""


def counters_of(node: DataNode, series: Series) -> SeriesCounters:
    counters: AllSeriesCounters = node.parts.setdefault(AllSeriesCounters, AllSeriesCounters())
    return counters.setdefault(series.buckets.uuid, SeriesCounters())


def series_section(node: DataNode, series: Series, scale: int) -> dict[str, Any]:
    """The section `timeseries` of collStats."""
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
