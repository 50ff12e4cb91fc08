"""A stream of replies to one request, such as a cursor's batches with exhaust.

Replies are in order. At most `MOST_HELD` are buffered: the link is not read meanwhile, so the peer waits too.
"""

from __future__ import annotations

import asyncio
from collections import deque

from docstore.net.errors import NetworkError
from docstore.net.link import Link
from docstore.wire.message import Message

MOST_HELD = 2


class ReplyStream:
    """The replies on a link, up to the last one of a request."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._held: deque[Message | NetworkError] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, frame: bytes, request_id: int) -> None:
        """Send the request. Errors: NetworkError."""
        self._link.send(frame, request_id, self._take, exhaust=True)

    async def next(self, timeout: float) -> Message:
        """Return the next reply. Errors: NetworkError; if none comes within `timeout` seconds, the link is closed."""
        if not self._held:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._link.give_up, f"no reply within {timeout:g} s")
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        reply = self._held.popleft()
        self._link.read_on()
        if isinstance(reply, NetworkError):
            raise reply
        return reply

    def _take(self, reply: Message | NetworkError) -> None:
        self._held.append(reply)
        if len(self._held) >= MOST_HELD:
            self._link.stop_reading()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
