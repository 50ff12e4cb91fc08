"""Background closing of the cursors that requests leave open on shards.

Invariant: a shard's answer is either delivered, or the cursor that it opened is closed. That covers requests that
ended early because another shard failed or was stale, the client disconnected, or the time was up. An answer that
does not come within `LATE_SECONDS` after its request was given up is not awaited. Its connection is closed, which
makes the shard end the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from docstore.bson import get_field
from docstore.errors import CommandError
from docstore.sharding.version import STALE_CODES
from mongos.merge.remote import RemoteCursor
from mongos.routing.requests import ShardReply
from mongos.routing.scatter import LATE_SECONDS, Scatter
from mongos.routing.shards import Failure, Shards


class Leftovers:
    """The leftovers of one router."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._ending: set[asyncio.Task[None]] = set()

    async def answers(
        self,
        shards: Sequence[str],
        scatter: Scatter,
        work: Callable[[str, Failure | None], Coroutine[Any, Any, ShardReply]],
    ) -> list[ShardReply]:
        """Return the answers of the shards to the requests of `scatter`. `work` handles the shards that it has not
        asked, and those that failed.

        Errors: when all have ended, the first error in the order of shards; errors that end the request come before
        those after which it is repeated.
        """
        tasks: dict[str, asyncio.Task[ShardReply]] = {}
        try:
            for name in shards:
                if not scatter.has_asked(name):
                    tasks[name] = asyncio.ensure_future(work(name, None))
            await scatter.ended()
            for name, failure in scatter.failures.items():
                tasks[name] = asyncio.ensure_future(work(name, failure))
            if tasks:
                await asyncio.wait(tasks.values())
                errors = [task.exception() for task in (tasks[name] for name in shards if name in tasks)]
                _raise_first([error for error in errors if error is not None])
            return [tasks[name].result() if name in tasks else scatter.answers[name] for name in shards]
        except BaseException:
            scatter.give_up()
            if tasks:
                self._end(self._unwanted(tuple(tasks.values())))
            raise

    def discard(self, remotes: Sequence[RemoteCursor]) -> None:
        """End shards' cursors."""
        for remote in remotes:
            self._end(remote.kill())

    def discard_answers(self, answers: Sequence[ShardReply]) -> None:
        """End the cursors that these answers opened."""
        for answer in answers:
            self.discard_answer(answer)

    def discard_answer(self, answer: ShardReply) -> None:
        """End the cursor that the answer opened."""
        self._end(self._kill(answer))

    def stop(self) -> None:
        for task in list(self._ending):
            task.cancel()

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _unwanted(self, tasks: Sequence[asyncio.Task[ShardReply]]) -> None:
        _, late = await asyncio.wait(tasks, timeout=LATE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*(self._kill(task.result()) for task in tasks if _answered(task)))

    async def _kill(self, answer: ShardReply) -> None:
        if get_field(answer.body, "cursor") is None:
            return
        try:
            shard = await self._shards.get(answer.shard)
        except CommandError:
            return
        await RemoteCursor(shard, answer, batch_size=None).kill()


def _raise_first(errors: Sequence[BaseException]) -> None:
    """Raise the first error of another kind than stale routing; else the first."""
    for error in errors:
        if not isinstance(error, CommandError) or error.code not in STALE_CODES:
            raise error
    if errors:
        raise errors[0]


def _answered(task: asyncio.Task[ShardReply]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
