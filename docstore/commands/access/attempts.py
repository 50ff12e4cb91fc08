"""Delays of authentication attempts after failures, per client address and user.

* A failure delays only attempts from the same address as the same user. No attempt is refused for it.
* The first `allowed` failures are free. Each further one adds `1 / PER_SECOND` seconds to the delay, at most
  `MAX_DELAY_SECONDS`. `PER_SECOND` failures expire each second.
* At most `MAX_ENTRIES` pairs of address and user are remembered, evicting the one with the oldest failure. Names are
  remembered by their hash: strangers choose them, and how long they are.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256

from docstore.security.names import UserName

PER_SECOND = 10.0
DEFAULT_ALLOWED = 100
MAX_DELAY_SECONDS = 5.0
MAX_ENTRIES = 10_000


class FailedAttempts:
    """The failed attempts of one process. `allowed`: failures without delay; 0: any number. Times are monotonic
    seconds.
    """

    def __init__(self) -> None:
        self.allowed = DEFAULT_ALLOWED
        # Unexpired failures and the time they were counted; the most recent failure is last.
        self._counts: OrderedDict[tuple[str, bytes], tuple[float, float]] = OrderedDict()

    def delay(self, address: str, user: UserName, now: float) -> float:
        """Return the seconds that an attempt has to wait."""
        if not self.allowed:
            return 0.0
        excess = self._standing((address, _digest(user)), now) - (self.allowed - 1)
        return min(max(excess, 0.0) / PER_SECOND, MAX_DELAY_SECONDS)

    def failed(self, address: str, user: UserName, now: float) -> None:
        """Count a failure."""
        key = (address, _digest(user))
        self._counts[key] = self._standing(key, now) + 1, now
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_ENTRIES:
            self._counts.popitem(last=False)

    def _standing(self, key: tuple[str, bytes], now: float) -> float:
        count, counted_at = self._counts.get(key, (0.0, now))
        return max(0.0, count - (now - counted_at) * PER_SECOND)


def _digest(user: UserName) -> bytes:
    return sha256(f"{user.db}\0{user.user}".encode("utf-8", "surrogatepass")).digest()
