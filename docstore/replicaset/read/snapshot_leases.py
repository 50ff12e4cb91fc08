"""Leases of states that were read with read concern "snapshot", for further reads at the same cluster time.

At most `MOST` are kept, each for `SECONDS`; those in memory take at most `MOST_BYTES` in total. A state with readers
outlives its lease until the last reader has released it. All states are majority-committed and immutable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docstore.storage.engine import Reader

SECONDS = 60.0
MOST = 32
MOST_BYTES = 32 << 20


class Lease:
    """One state. `checked`: caches, by collection, the catalog version whose entry equals the state's."""

    __slots__ = ("checked", "holders", "release", "size", "snapshot", "until")

    def __init__(self, snapshot: Reader, release: Callable[[], None], until: float, size: int) -> None:
        self.snapshot = snapshot
        self.release = release
        self.until = until
        self.size = size
        self.holders = 1
        self.checked: dict[str, int] = {}

    def hold(self) -> tuple[Reader, Callable[[], None]]:
        """Return (the state, its release function, to be called once)."""
        self.holders += 1
        return self.snapshot, once(self.let_go)

    def let_go(self) -> None:
        self.holders -= 1
        if self.holders == 0:
            self.release()


def once(action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs `action` on the first call only."""
    done = False

    def act() -> None:
        nonlocal done
        if not done:
            done = True
            action()

    return act


class SnapshotLeases:
    """Leases by packed timestamp, oldest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def has(self, at: int) -> bool:
        """Return True if the state at that timestamp is kept."""
        self.expire()
        return at in self._leases

    def keep(self, at: int, snapshot: Reader, release: Callable[[], None], size: int = 0) -> None:
        """Take ownership of a state of `size` bytes in memory.

        If a state of that timestamp exists, it is renewed and the new one released.
        """
        existing_lease = self._leases.pop(at, None)
        if existing_lease is not None:
            release()
            existing_lease.until = self._clock() + SECONDS
            self._leases[at] = existing_lease
            return
        if len(self._leases) == MOST:
            self._leases.pop(next(iter(self._leases))).let_go()
        large = [timestamp for timestamp, lease in self._leases.items() if lease.size] if size else []
        while large and size + sum(lease.size for lease in self._leases.values()) > MOST_BYTES:
            self._leases.pop(large.pop(0)).let_go()
        self._leases[at] = Lease(snapshot, release, self._clock() + SECONDS, size)

    def open(self, at: int) -> tuple[Reader, Callable[[], None]]:
        """Return (the state, its release function, to be called once)."""
        return self._leases[at].hold()

    def lease_at(self, at: int) -> Lease | None:
        """Return the lease of the state at that timestamp, valid until the next await; None if there is none."""
        return self._leases[at] if self.has(at) else None

    def expire(self) -> None:
        """Release expired leases."""
        now = self._clock()
        while self._leases:
            at, lease = next(iter(self._leases.items()))
            if lease.until > now:
                return
            del self._leases[at]
            lease.let_go()

    def close(self) -> None:
        """Release all leases."""
        for lease in self._leases.values():
            lease.let_go()
        self._leases.clear()
