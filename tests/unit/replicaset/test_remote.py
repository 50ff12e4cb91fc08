"""What a member that copies from another one leaves there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import bson
from bson.int64 import Int64

from docstore.net import NetworkError, Pool
from docstore.replicaset.sync.remote import RemoteMember


class Source:
    """A member whose replies come when `answering` is set. `killed`: the cursors that it was told to kill."""

    def __init__(self, error: Exception | None = None) -> None:
        self.answering = asyncio.Event()
        self.killed: list[int] = []
        self._error = error

    async def command(self, _address: str, database: str, body: bytes, **_options: Any) -> bytes:
        command: Mapping[str, Any] = bson.decode(body)
        if "killCursors" in command:
            assert (database, command["killCursors"]) == ("test", "things")
            self.killed += command["cursors"]
            return bson.encode({"ok": 1})
        await self.answering.wait()
        if self._error is not None:
            raise self._error
        return bson.encode({"cursor": {"id": Int64(7), "ns": "test.things", "firstBatch": []}})


def left_behind(source: Source, *, answers: bool) -> list[int]:
    """Return the cursors that are killed after a reader was cancelled that waited for its cursor."""

    async def story() -> list[int]:
        remote = RemoteMember(cast("Pool", source), "there:1", timeout=5.0)

        async def read() -> None:
            async for _ in remote.cursor("test", {"find": "things"}):
                pass

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait((reading,))
        if answers:
            source.answering.set()
        await remote.kill_unfinished()
        return source.killed

    return asyncio.run(story())


def test_a_cursor_whose_reader_was_cancelled_before_the_reply_is_killed() -> None:
    assert left_behind(Source(), answers=True) == [7]


def test_a_source_that_does_not_answer_keeps_nobody_waiting() -> None:
    assert left_behind(Source(), answers=False) == []
    assert left_behind(Source(NetworkError("there:1", "gone", sent=True)), answers=True) == []
