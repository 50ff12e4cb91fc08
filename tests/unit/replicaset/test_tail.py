"""What a member asks of its source's log at a time."""

from __future__ import annotations

from typing import Any, cast

import bson
from bson.int64 import Int64

from docstore.net.pool import Pool
from docstore.optime import OpTime
from docstore.replicaset.sync.remote import TAIL_BYTES, RemoteMember
from tests.harness.serving import run


class Source:
    """A log of entries of these lengths, given out as it is asked for."""

    def __init__(self, *lengths: int) -> None:
        self._left = [bson.encode({"s": "x" * length}) for length in lengths]
        self.replies: list[int] = []

    async def command(self, _address: str, _database: str, body: bytes, **_options: Any) -> bytes:
        command = bson.decode(body)
        first = "find" in command
        count = 101 if first else command["batchSize"]
        batch, self._left = self._left[:count], self._left[count:]
        rows = [bson.decode(each) for each in batch]
        cursor = {
            "id": Int64(7 if self._left else 0),
            "ns": "local.oplog.rs",
            ("firstBatch" if first else "nextBatch"): rows,
        }
        reply = bson.encode({"cursor": cursor, "ok": 1.0})
        self.replies.append(len(reply))
        return reply


def test_a_tail_asks_for_so_many_entries_as_make_a_short_reply() -> None:
    async def scenario() -> None:
        for lengths in ([100] * 40_000, [20_000] * 400, [3 << 20] * 104):
            source = Source(*lengths)
            remote = RemoteMember(cast(Pool, source), "a:1", timeout=5)
            got = [entry async for batch in remote.tail(OpTime(1, 1), 1.0) for entry in batch]
            assert [len(bson.decode(entry)["s"]) for entry in got] == lengths
            assert max(source.replies[1:]) < TAIL_BYTES + max(lengths) + TAIL_BYTES // 50
            assert len(source.replies) <= 2 + sum(lengths) // TAIL_BYTES * 2

    run(scenario())
