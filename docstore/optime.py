"""Positions in the oplog.

An `OpTime` is (term, timestamp). Terms are compared before timestamps, so a new primary's entries are always later
than those that an old one wrote without a majority. Timestamps are the 64-bit number of a BSON timestamp: seconds
since 1970 in the upper half, a counter in the lower one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bson.int64 import Int64
from bson.timestamp import Timestamp


def pack_timestamp(value: Timestamp) -> int:
    """The 64-bit number of a BSON timestamp."""
    return (value.time << 32) | value.inc


def unpack_timestamp(packed: int) -> Timestamp:
    """The BSON timestamp of a 64-bit number."""
    return Timestamp(packed >> 32, packed & 0xFFFFFFFF)


class OpTime(NamedTuple):
    """A position in an oplog; ordered by term, then by timestamp."""

    term: int
    timestamp: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> OpTime:
        """From `{ts: Timestamp, t: int}`, as it stands in commands and in oplog entries."""
        return cls(int(document["t"]), pack_timestamp(document["ts"]))

    def to_document(self) -> dict[str, Any]:
        """`{ts: Timestamp, t: long}`."""
        return {"ts": unpack_timestamp(self.timestamp), "t": Int64(self.term)}

    @property
    def seconds(self) -> int:
        """Seconds since 1970 of the timestamp."""
        return self.timestamp >> 32


NULL_OPTIME = OpTime(-1, 0)
"""Before every entry: the optime of a node without an oplog."""
