"""Which undo records of committed entries still stand, so that the states of the last minutes can be made anew.

Records go in ranges, from the oldest on: those of entries older than the window, and those before the newest
`MOST_BYTES` of undo records. All that are not committed stay.
"""

from __future__ import annotations

from collections import deque

AT_ONCE = 256
"""Records are left standing until so many entries have come: each removal is a range on disk."""

MOST_BYTES = 32 << 20
"""Of undo records of committed entries, some 300,000 inserts: they are laid over a snapshot in memory."""

WINDOW_SECONDS = 300


class UndoHistory:
    """`window`: for how many seconds of the log undo records stand, as `minSnapshotHistoryWindowInSeconds` says."""

    def __init__(self) -> None:
        self.window = WINDOW_SECONDS
        self._marks: deque[tuple[int, int]] = deque()
        self._entries = 0

    def due(self, written_entries: int) -> bool:
        """Whether enough has been written since `passed` was called."""
        return written_entries - self._entries >= AT_ONCE

    def passed(self, written_entries: int, undo_bytes: int, timestamp: int) -> int | None:
        """So much has been written since the start of the process, and all up to `timestamp` is committed.

        Returns the timestamp up to which undo records may go now, None where none may.
        """
        self._entries = written_entries
        self._marks.append((undo_bytes, timestamp))
        oldest = (timestamp >> 32) - self.window
        found = None
        while self._marks and (self._marks[0][1] >> 32 <= oldest or undo_bytes - self._marks[0][0] > MOST_BYTES):
            found = self._marks.popleft()[1]
        return found
