"""Logical sessions that clients use on this process, and when they were last used.

A session begins with its first command; nobody has to start it. After `TIMEOUT_MINUTES` without a command or a refresh
it ends, and what belongs to it (cursors, operations) ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docstore.errors import Code, CommandError

TIMEOUT_MINUTES = 30
MAX_SESSIONS = 1_000_000


class ClientSessions:
    """Last use of every session by lsid (48 bytes). `new_uuid()` gives the 16 bytes of a random UUID (version 4)."""

    def __init__(
        self,
        clock: Callable[[], float],
        new_uuid: Callable[[], bytes],
        *,
        timeout_seconds: float = TIMEOUT_MINUTES * 60.0,
    ) -> None:
        self._clock = clock
        self._new_uuid = new_uuid
        self.timeout_seconds = timeout_seconds
        self._last_use: dict[bytes, float] = {}

    def start(self, user_digest: bytes) -> bytes:
        """A fresh lsid for startSession."""
        lsid = self._new_uuid() + user_digest
        self.touch(lsid)
        return lsid

    def touch(self, lsid: bytes, now: float | None = None) -> None:
        """A command names the session, or it is refreshed. Errors: TooManyLogicalSessions."""
        if lsid not in self._last_use and len(self._last_use) >= MAX_SESSIONS:
            raise CommandError(Code.TooManyLogicalSessions, "cannot add session into the cache: too many sessions")
        self._last_use[lsid] = self._clock() if now is None else now

    def end(self, lsids: set[bytes]) -> None:
        """Forget sessions."""
        for lsid in lsids:
            self._last_use.pop(lsid, None)

    def expire(self) -> set[bytes]:
        """Forget and return the sessions that idled too long."""
        before = self._clock() - self.timeout_seconds
        gone = {lsid for lsid, used in self._last_use.items() if used < before}
        self.end(gone)
        return gone

    def idle_seconds(self, lsid: bytes) -> float | None:
        """How long ago the session was used; None when unknown."""
        used = self._last_use.get(lsid)
        return None if used is None else self._clock() - used

    def __iter__(self) -> Iterator[bytes]:
        return iter(list(self._last_use))

    def __len__(self) -> int:
        return len(self._last_use)
