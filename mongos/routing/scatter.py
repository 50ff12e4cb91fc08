"""Concurrent requests to one or several shards over idle connections: one call, or one future, for all answers.

Invariants:

- an answer is delivered to the waiting operation, or to `unwanted` if it was given up;
- a connection that stays silent for `LATE_SECONDS` after that is closed, which makes the shard end the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from docstore.errors import CommandError
from docstore.net import NetworkError
from docstore.net.link import Link
from docstore.net.pool import raise_for_error
from docstore.wire.message import Message
from mongos.routing.requests import ShardReply
from mongos.routing.shards import Failure, Shard

LATE_SECONDS = 2.0


class Scatter:
    """The requests of one operation. `answers`, `failures`: the results by the shard's name."""

    __slots__ = ("_closing", "_done", "_ended", "_late_seconds", "_unwanted", "_waiting", "answers", "failures")

    def __init__(
        self,
        unwanted: Callable[[ShardReply], None],
        *,
        late_seconds: float = LATE_SECONDS,
        ended: Callable[[], None] | None = None,
    ) -> None:
        """`ended` is called with the last answer, unless the operation was given up."""
        self._ended = ended
        self.answers: dict[str, ShardReply] = {}
        self.failures: dict[str, Failure] = {}
        self._unwanted = unwanted
        self._late_seconds = late_seconds
        self._waiting: dict[str, tuple[str, Link]] = {}
        self._done: asyncio.Future[None] | None = None
        # The timers that close abandoned connections; None before the answers are given up.
        self._closing: dict[str, asyncio.TimerHandle] | None = None

    def send(
        self,
        shard: Shard,
        body: bytes,
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        upstream: dict[str, object] | None = None,
    ) -> bool:
        """Send a request that has its `$db` to the shard's primary; False if that is not possible at once.

        `upstream`: the connections of the client's earlier requests by shard; they are preferred, and noted.
        """
        name, take = shard.name, partial(self._take, shard)
        if upstream is None:
            sent = shard.send(body, take, sequences=sequences)
        else:
            sent = shard.send(body, take, sequences=sequences, before=upstream.get(name))
        if sent is None:
            return False
        self._waiting[name] = sent
        if upstream is not None:
            upstream[name] = sent[1]
        return True

    def has_asked(self, name: str) -> bool:
        """True if the shard was sent the request."""
        return name in self._waiting or name in self.answers or name in self.failures

    async def ended(self) -> None:
        """Wait for the last answer."""
        if self._waiting:
            self._done = asyncio.get_running_loop().create_future()
            await self._done

    def give_up(self) -> None:
        """Give the answers up: those still to come go to `unwanted`."""
        if self._closing is not None:
            return
        later = asyncio.get_running_loop().call_later
        self._closing = {name: later(self._late_seconds, link.close) for name, (_, link) in self._waiting.items()}
        for answer in self.answers.values():
            self._unwanted(answer)

    def _take(self, shard: Shard, reply: Message | NetworkError) -> None:
        name = shard.name
        address, _ = self._waiting.pop(name)
        if self._closing is not None:
            self._closing.pop(name).cancel()
            if isinstance(reply, Message):
                self._unwanted(ShardReply(name, address, reply.body))
            return
        if isinstance(reply, NetworkError):
            self.failures[name] = Failure(address, reply)
        else:
            try:
                raise_for_error(reply.body)
            except CommandError as error:
                self.failures[name] = Failure(address, error)
            else:
                shard.hear(reply.body)
                self.answers[name] = ShardReply(name, address, reply.body)
        if not self._waiting:
            if self._done is not None and not self._done.done():
                self._done.set_result(None)
            # Forgotten, so that nothing holds the operation that holds this.
            ended, self._ended = self._ended, None
            if ended is not None:
                ended()
