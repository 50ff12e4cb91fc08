"""Who follows changes: reads change streams of the database from one server after the other, goes on where it was by
the last token that it has, and applies what it is told to a copy (`tests.checkers.change_events.Copy`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64
from bson.timestamp import Timestamp

from tests.checkers.change_events import Copy
from tests.checkers.history import Anomaly, Outcome
from tests.torture.caller import Caller, World
from tests.torture.processes import Server

BATCHES = 40
"""So many are read of one cursor at most."""
CATCH_UP_SECONDS = 90.0
_AWAIT_MILLIS = 300
_PREFERENCE = {"$readPreference": {"mode": "secondaryPreferred"}}


class Follower:
    """One of them. `start`: the cluster time to begin at. `shard_keys`: the fields by which the documents of a
    collection are named besides `_id`.
    """

    def __init__(
        self, number: int, world: World, start: Timestamp, shard_keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.copy = Copy(of_collections=shard_keys or {})
        self._caller = Caller(number, world)
        self._servers = len(world.addresses)
        self._place: dict[str, Any] = {"startAtOperationTime": start}

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                if not await self._read(self._caller.random.randrange(self._servers)):
                    await asyncio.sleep(self._caller.random.uniform(0.05, 0.5))
        finally:
            self._caller.close()

    async def _read(self, where: int) -> bool:
        """Some batches of one cursor; whether all went well."""
        dice, ask = self._caller.random, self._caller.ask
        looks = {"fullDocument": "updateLookup"} if dice.random() < 0.2 else {}
        opening = {"aggregate": 1, "pipeline": [{"$changeStream": {**self._place, **looks}}]}
        size = {"batchSize": dice.choice((0, 1, 3, 100))}
        outcome, reply = await ask(where, {**opening, "cursor": size, **_PREFERENCE})
        if outcome is not Outcome.OK:
            return False
        self._take(reply["cursor"], "firstBatch")
        cursor = {"getMore": Int64(reply["cursor"]["id"]), "collection": reply["cursor"]["ns"].partition(".")[2]}
        for _ in range(dice.randint(1, BATCHES)):
            more = {**cursor, "batchSize": dice.choice((2, 20, 1000)), "maxTimeMS": _AWAIT_MILLIS}
            outcome, reply = await ask(where, more)
            if outcome is not Outcome.OK:
                return False
            self._take(reply["cursor"], "nextBatch")
        await ask(where, {"killCursors": cursor["collection"], "cursors": [cursor["getMore"]]})
        return True

    def _take(self, cursor: dict[str, Any], batch: str) -> None:
        for event in cursor[batch]:
            self.copy.take(event)
        self._place = {"resumeAfter": cursor["postBatchResumeToken"]}


async def time_of(server: Server) -> Timestamp:
    """The newest cluster time that the server knows of."""
    reply = await server.ask({"hello": 1})
    found: Timestamp = reply["$clusterTime"]["clusterTime"]
    return found


async def judge_followers(
    followers: Sequence[Follower],
    following: Sequence[asyncio.Task[None]],
    state: Mapping[str, list[dict[str, Any]]],
    notes: list[str],
) -> list[Anomaly]:
    """Give them some time for the rest, then end them. `state`: the documents of each collection in the end."""
    end = time.monotonic() + CATCH_UP_SECONDS
    while any(each.copy.differences(dict(state)) for each in followers) and time.monotonic() < end:
        await asyncio.sleep(0.5)
    for task in following:
        task.cancel()
    ended = await asyncio.gather(*following, return_exceptions=True)
    found = [Anomaly("follower ended", repr(each)) for each in ended if isinstance(each, Exception)]
    for each in followers:
        found += each.copy.anomalies
        found += [Anomaly("stream differs", text) for text in each.copy.differences(dict(state))]
    notes.append("change events: " + ", ".join(str(each.copy.taken) for each in followers))
    return found
