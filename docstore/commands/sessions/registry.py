"""Logical sessions used on this process, and their last use.

A session begins with its first command, without an explicit start. It expires after `TIMEOUT_MINUTES` without a command
or a refresh, with its cursors and operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docstore.commands.sessions.fields import NO_USER_DIGEST
from docstore.errors import Code, CommandError

TIMEOUT_MINUTES = 30
MAX_SESSIONS = 1_000_000
MAX_USER_SESSIONS = 250_000
"""Maximum sessions of one user, so that none exhausts the total; without access control there is no such limit."""


class ClientSessions:
    """The last use of every session by lsid (48 bytes). `new_uuid()` returns the 16 bytes of a random UUID (version
    4).
    """

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
        self._counts: dict[bytes, int] = {}
        """The number of sessions by the digest of their user."""

    def start(self, user_digest: bytes) -> bytes:
        """Return a new lsid for startSession."""
        lsid = self._new_uuid() + user_digest
        self.touch(lsid)
        return lsid

    def touch(self, lsid: bytes, now: float | None = None) -> None:
        """Record a use or refresh of the session. Errors: TooManyLogicalSessions."""
        if lsid not in self._last_use:
            self._add(lsid[16:])
        self._last_use[lsid] = self._clock() if now is None else now

    def _add(self, owner: bytes) -> None:
        count = self._counts.get(owner, 0)
        if len(self._last_use) >= MAX_SESSIONS or (count >= MAX_USER_SESSIONS and owner != NO_USER_DIGEST):
            raise CommandError(Code.TooManyLogicalSessions, "cannot add session into the cache: too many sessions")
        self._counts[owner] = count + 1

    def end(self, lsids: set[bytes]) -> None:
        """Remove sessions."""
        for lsid in lsids:
            if self._last_use.pop(lsid, None) is None:
                continue
            owner = lsid[16:]
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]

    def expire(self) -> set[bytes]:
        """Remove and return the expired sessions."""
        before = self._clock() - self.timeout_seconds
        expired = {lsid for lsid, used in self._last_use.items() if used < before}
        self.end(expired)
        return expired

    def idle_seconds(self, lsid: bytes) -> float | None:
        """Return the seconds since the session's last use; None if unknown."""
        used = self._last_use.get(lsid)
        return None if used is None else self._clock() - used

    def __iter__(self) -> Iterator[bytes]:
        return iter(list(self._last_use))

    def __len__(self) -> int:
        return len(self._last_use)
