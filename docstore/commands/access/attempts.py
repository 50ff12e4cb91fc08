"""How long a client waits before it may try to prove who it is, after failures from its address as the same user.

Always true:

* nobody is refused because others have failed; a failure as one user delays nobody who is another, or elsewhere;
* the first `allowed` failures cost nothing; behind them each adds `1 / PER_SECOND` seconds to the wait, which is at
  most `MAX_DELAY_SECONDS`, and `PER_SECOND` failures are forgotten each second;
* at most `MAX_ENTRIES` pairs of an address and a user are remembered: the one that failed longest ago goes first.
"""

from __future__ import annotations

from collections import OrderedDict

from docstore.security.names import UserName

PER_SECOND = 10.0
DEFAULT_ALLOWED = 100
MAX_DELAY_SECONDS = 5.0
MAX_ENTRIES = 10_000


class FailedAttempts:
    """Of one process. `allowed`: failures at once, 0 for any number. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.allowed = DEFAULT_ALLOWED
        # The failures that time has not made up for, and when they were counted; who failed last comes last.
        self._counts: OrderedDict[tuple[str, UserName], tuple[float, float]] = OrderedDict()

    def delay(self, address: str, user: UserName, now: float) -> float:
        """Return the seconds that an attempt has to wait."""
        if not self.allowed:
            return 0.0
        excess = self._standing(address, user, now) - (self.allowed - 1)
        return min(max(excess, 0.0) / PER_SECOND, MAX_DELAY_SECONDS)

    def failed(self, address: str, user: UserName, now: float) -> None:
        """Count a failure."""
        key = (address, user)
        self._counts[key] = self._standing(address, user, now) + 1, now
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_ENTRIES:
            self._counts.popitem(last=False)

    def _standing(self, address: str, user: UserName, now: float) -> float:
        count, counted_at = self._counts.get((address, user), (0.0, now))
        return max(0.0, count - (now - counted_at) * PER_SECOND)
