"""Who follows changes: reads a change stream from one process after the other, goes on where it was by the last token
that it has, and applies what it is told to a copy (`tests.checkers.change_events.Copy`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bson.int64 import Int64

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.change_events import Copy
from tests.simulation.clients import quietly
from tests.simulation.process import Machine
from tests.simulation.world import Broken, World

CATCH_UP_SECONDS = 20.0
_REQUEST_SECONDS = 10.0
_PREFERENCE = {"$readPreference": {"mode": "secondaryPreferred"}}
Ask = Callable[[Machine, str, dict[str, Any]], Awaitable[Any]]


class Follower:
    """Of the database `test`, or of one collection in it. `ask` sends a command to any of the machines; `start` is the
    cluster time to begin at. `shard_key`: the fields by which documents are named besides `_id`. `batches`: so many at
    most are read of one cursor.
    """

    def __init__(
        self, world: World, machines: Sequence[Machine], ask: Ask, start: Any, *,
        collection: str | None = None, shard_key: tuple[str, ...] = (), batches: int = 12,
    ) -> None:  # fmt: skip
        self.copy = Copy(shard_key)
        self._world = world
        self._machines = machines
        self._ask = ask
        self._collection = collection
        self._batches = batches
        self._place: dict[str, Any] = {"startAtOperationTime": start}

    async def follow(self) -> None:
        """Read until cancelled."""
        dice = self._world.client_dice
        while True:
            machine = dice.choice(self._machines)
            try:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    await self._read(machine, dice.randint(1, self._batches))
            except (CommandError, NetworkError, TimeoutError) as error:
                self._world.tell("follower", f"{machine.name}: {error!r}"[:200])
                await asyncio.sleep(0.02)

    async def _read(self, machine: Machine, batches: int) -> None:
        dice = self._world.client_dice
        looks = {"fullDocument": "updateLookup"} if dice.random() < 0.2 else {}
        pipeline = [{"$changeStream": {**self._place, **looks}}]
        opening: dict[str, Any] = {"aggregate": self._collection or 1, "pipeline": pipeline}
        size = {"batchSize": dice.choice((0, 1, 3, 100))}
        reply = await self._ask(machine, "test", {**opening, "cursor": size, **_PREFERENCE})
        self._take(reply["cursor"], "firstBatch")
        named = reply["cursor"]["ns"].partition(".")[2]
        for _ in range(batches):
            command = {"getMore": Int64(reply["cursor"]["id"]), "collection": named, "maxTimeMS": 50}
            more = await self._ask(machine, "test", {**command, "batchSize": dice.choice((1, 2, 100))})
            self._take(more["cursor"], "nextBatch")
        await quietly(self._ask(machine, "test", {"killCursors": named, "cursors": [Int64(reply["cursor"]["id"])]}))

    def _take(self, cursor: dict[str, Any], batch: str) -> None:
        for event in cursor[batch]:
            self._world.tell("follower", f"{event['operationType']} {event.get('documentKey')}")
            self.copy.take(event)
        self._place = {"resumeAfter": cursor["postBatchResumeToken"]}


async def judge_copies(
    world: World, followers: Sequence[Follower], following: Sequence[asyncio.Future[None]],
    final: dict[str, list[dict[str, Any]]],
) -> None:  # fmt: skip
    """Give the followers some time for the rest, then end them. Errors: Broken where a copy is not as in the end."""
    end = world.now + CATCH_UP_SECONDS
    while any(each.copy.differences(final) for each in followers) and world.now < end:
        await asyncio.sleep(0.1)
        for task in following:
            if task.done():
                task.result()
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    world.counts["events"] = sum(each.copy.taken for each in followers[:1])
    for each in followers:
        if each.copy.anomalies:
            raise Broken("\n".join(str(anomaly) for anomaly in each.copy.anomalies))
        differences = each.copy.differences(final)
        if differences:
            raise Broken("what a change stream told is not what there is:\n" + "\n".join(differences))
