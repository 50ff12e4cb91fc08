"""States that were read with read concern "snapshot", kept a while for those who ask for the same cluster time again.

At most `MOST` are kept, each for `SECONDS`, and of those that take memory no more than have `MOST_BYTES` together; one
that is being read outlives its lease until the last reader has released it. A state is whole: the majority had it, and
nothing in it changes.
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
    """One state. `checked`: for those who read it again and again, which collections stood in it as in a version of the
    catalog.
    """

    __slots__ = ("checked", "holders", "release", "size", "snapshot", "until")

    def __init__(self, snapshot: Reader, release: Callable[[], None], until: float, size: int) -> None:
        self.snapshot = snapshot
        self.release = release
        self.until = until
        self.size = size
        self.holders = 1
        self.checked: dict[str, int] = {}

    def hold(self) -> tuple[Reader, Callable[[], None]]:
        """(the state, call to release it once)."""
        self.holders += 1
        return self.snapshot, once(self.let_go)

    def let_go(self) -> None:
        self.holders -= 1
        if self.holders == 0:
            self.release()


def once(action: Callable[[], None]) -> Callable[[], None]:
    """A call that acts the first time."""
    done = False

    def act() -> None:
        nonlocal done
        if not done:
            done = True
            action()

    return act


class SnapshotLeases:
    """Leases by packed timestamp, the oldest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def has(self, at: int) -> bool:
        """Whether the state at that timestamp is kept."""
        self.expire()
        return at in self._leases

    def keep(self, at: int, snapshot: Reader, release: Callable[[], None], size: int = 0) -> None:
        """Take over a state that takes `size` bytes of memory; when that of the timestamp is kept already, this one is
        released and that one renewed.
        """
        known = self._leases.pop(at, None)
        if known is not None:
            release()
            known.until = self._clock() + SECONDS
            self._leases[at] = known
            return
        if len(self._leases) == MOST:
            self._leases.pop(next(iter(self._leases))).let_go()
        large = [known for known, lease in self._leases.items() if lease.size] if size else []
        while large and size + sum(lease.size for lease in self._leases.values()) > MOST_BYTES:
            self._leases.pop(large.pop(0)).let_go()
        self._leases[at] = Lease(snapshot, release, self._clock() + SECONDS, size)

    def open(self, at: int) -> tuple[Reader, Callable[[], None]]:
        """(the state, call to release it once)."""
        return self._leases[at].hold()

    def kept(self, at: int) -> Lease | None:
        """The lease of the state at that timestamp, which lives at least as long as nothing is awaited."""
        return self._leases[at] if self.has(at) else None

    def expire(self) -> None:
        """Let go of what was kept long enough."""
        now = self._clock()
        while self._leases:
            at, lease = next(iter(self._leases.items()))
            if lease.until > now:
                return
            del self._leases[at]
            lease.let_go()

    def close(self) -> None:
        """Let all go."""
        for lease in self._leases.values():
            lease.let_go()
        self._leases.clear()
