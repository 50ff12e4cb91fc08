"""Retention of undo records of committed entries, which serve point-in-time reads of the last minutes.

Records are removed in ranges, oldest first: those of entries older than the window, and those before the newest
`MOST_BYTES` of undo records. Records of uncommitted entries stay.
"""

from __future__ import annotations

from collections import deque

AT_ONCE = 256
"""Entries between two removals: each removal is a range tombstone on disk."""

MOST_BYTES = 32 << 20
"""Undo bytes kept of committed entries, some 300,000 inserts: a point-in-time read overlays them on a snapshot in
memory.
"""

WINDOW_SECONDS = 300


class UndoHistory:
    """`window`: seconds of the log whose undo records stay (`minSnapshotHistoryWindowInSeconds`)."""

    def __init__(self) -> None:
        self.window = WINDOW_SECONDS
        self._marks: deque[tuple[int, int]] = deque()
        self._entries = 0

    def due(self, written_entries: int) -> bool:
        """True if enough entries have been written since the last call of `record_progress`."""
        return written_entries - self._entries >= AT_ONCE

    def record_progress(self, written_entries: int, undo_bytes: int, timestamp: int) -> int | None:
        """Record the totals written since the process started; everything up to `timestamp` is committed.

        Return the timestamp up to which undo records may be removed now; None if none may.
        """
        self._entries = written_entries
        self._marks.append((undo_bytes, timestamp))
        oldest = (timestamp >> 32) - self.window
        horizon = None
        while self._marks and (self._marks[0][1] >> 32 <= oldest or undo_bytes - self._marks[0][0] > MOST_BYTES):
            horizon = self._marks.popleft()[1]
        return horizon
