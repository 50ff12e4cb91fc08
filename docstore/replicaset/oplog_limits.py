"""Limits of a member's oplog: its maximum size, and the hours of entries that are kept even beyond that size.

Each member has limits of its own. Those that an operator has set stand in `local.replset.oplogLimits` and take the
place of the size that the process was started with.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from bson.int64 import Int64

from docstore.collection.oplog.oplog import Oplog
from docstore.replicaset.local_state import LocalState

_HOUR_SECONDS = 3600


class OplogLimits:
    """The limits of one oplog. `wall_clock` gives seconds since 1970."""

    def __init__(self, oplog: Oplog, local: LocalState, wall_clock: Callable[[], float]) -> None:
        self._oplog = oplog
        self._local = local
        self._wall_clock = wall_clock
        self._truncations = 0
        self._truncating_seconds = 0.0
        stored = local.oplog_limits
        oplog.max_bytes = int(stored.get("maxBytes", oplog.max_bytes))
        self.retention_hours = float(stored.get("minRetentionHours", 0.0))

    def set(self, *, max_bytes: int | None, retention_hours: float | None) -> None:
        """Set limits for good; None leaves one as it is. Returns before they are on disk."""
        if max_bytes is not None:
            self._oplog.max_bytes = max_bytes
        if retention_hours is not None:
            self.retention_hours = retention_hours
        self._local.write_oplog_limits(self._oplog.max_bytes, self.retention_hours)

    def truncate(self, deadline: float, needed: int | None) -> bool:
        """Remove the oldest entries beyond the limits until the monotonic `deadline`; return whether none are left.

        Entries from the timestamp `needed` on stay.
        """
        began = monotonic()
        removed = self._oplog.truncate_old(deadline, needed=self._kept_from(needed))
        if removed:
            self._truncations += 1
            self._truncating_seconds += monotonic() - began
        return not removed

    def _kept_from(self, needed: int | None) -> int | None:
        """The timestamp from which on entries stay; None where the size alone decides."""
        if not self.retention_hours:
            return needed
        recent = int(max(self._wall_clock() - self.retention_hours * _HOUR_SECONDS, 0.0)) << 32
        return recent if needed is None else min(needed, recent)

    def document(self) -> dict[str, Any]:
        """The section `oplogTruncation` of serverStatus."""
        retention = {"oplogMinRetentionHours": self.retention_hours} if self.retention_hours else {}
        return {
            **retention,
            "totalTimeTruncatingMicros": Int64(int(self._truncating_seconds * 1_000_000)),
            "truncateCount": Int64(self._truncations),
        }
