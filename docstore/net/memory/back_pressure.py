"""Limits of what is buffered for a connection, and a timer that ends strangers who read no replies.

A stranger is a client that has not logged in where it must. It needs little, so it gets little: nobody else's memory
depends on how many strangers there are.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from docstore.commands.client_connection import ClientConnection
from docstore.log import component

LOG = component("NETWORK")
MAX_READ_AHEAD_BYTES = 256 * 1024
"""Reading pauses while so much waits behind a request in progress."""
MAX_WRITE_BUFFER_BYTES = 1024 * 1024
"""Requests wait while so much of their replies is not read."""
MAX_STRANGER_BYTES = 64 * 1024
"""Both bounds for strangers."""
MAX_UNREAD_SECONDS = 10.0
"""The time for which a stranger may leave its replies unread."""


class Buffering(Protocol):
    """A connection whose client may be a stranger."""

    @property
    def peer(self) -> ClientConnection: ...

    def abort(self) -> None:
        """Close at once."""


class UnreadTimer:
    """Ends a stranger's connection whose replies are not read for `MAX_UNREAD_SECONDS`."""

    __slots__ = ("_connection", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: Buffering) -> None:
        self._loop = loop
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to count: the replies are not read any more."""
        self.stop()
        self._timer = self._loop.call_later(MAX_UNREAD_SECONDS, self._end)

    def stop(self) -> None:
        """Stop counting: they are read again, or the client has logged in or gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        LOG.warning(
            "A client that has not logged in reads no replies; closing its connection",
            **self._connection.peer.describe(),
        )
        self._connection.abort()
