"""How often who is at an address may fail to prove who they are.

Always true: an address has failed at most `allowed` times more than `PER_SECOND` times the seconds since its first
failure; who has used that up is refused before anything is looked at, with the right password too, until some of it has
come back. What is remembered is bounded: of more addresses than `_MOST_SOURCES` the one that failed longest ago is
forgotten.
"""

from __future__ import annotations

from collections import OrderedDict

PER_SECOND = 10.0
DEFAULT_ALLOWED = 1000
_MOST_SOURCES = 10_000


class FailedAttempts:
    """Of one process. `allowed`: failures at once, 0 for any number. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.allowed = DEFAULT_ALLOWED
        # The failures that have not been made up for by time, and when they were counted; who failed last comes last.
        self._sources: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def exhausted(self, source: str, now: float) -> bool:
        """Whether an address may not even try."""
        return bool(self.allowed) and self._owed(source, now) > self.allowed - 1

    def failed(self, source: str, now: float) -> None:
        """Somebody at that address has failed."""
        self._sources[source] = self._owed(source, now) + 1, now
        self._sources.move_to_end(source)
        if len(self._sources) > _MOST_SOURCES:
            self._sources.popitem(last=False)

    def _owed(self, source: str, now: float) -> float:
        count, counted_at = self._sources.get(source, (0.0, now))
        return max(0.0, count - (now - counted_at) * PER_SECOND)
