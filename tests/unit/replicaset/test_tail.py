"""What a member asks of its source's log at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson.int64 import Int64

from docstore.collection.oplog.oplog import entry_optime
from docstore.net.pool import Pool
from docstore.optime import OpTime
from docstore.replicaset.sync import remote as remote_module
from docstore.replicaset.sync.remote import TAIL_BYTES, RemoteMember
from tests.harness.serving import run
from tests.unit.replicaset.in_memory_set import Node, in_memory_set


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


async def open_cursors(node: Node) -> int:
    opened: int = (await node.run({"serverStatus": 1}, "admin"))["metrics"]["cursor"]["open"]["total"]
    return opened


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


def test_who_gives_up_looking_back_leaves_nothing_on_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor would keep the source's state of then until it timed out."""
    monkeypatch.setattr(remote_module, "POSITIONS_AT_ONCE", 4)

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members.initiate()
            await members[0].insert("c", *range(10), w=2)
            before = await open_cursors(members[0])
            remote = RemoteMember(members[1].process.pool, members[0].address, timeout=5.0)
            store = members[0].process.node.store
            oplog = store.oplog
            assert oplog is not None
            expected = [entry_optime(entry) for entry in oplog.scan_back(store.engine, oplog.last.timestamp + 1)]
            looking = remote.log_backwards(oplog.last)
            found = await anext(looking)
            assert found == expected[:4]
            assert await open_cursors(members[0]) == before
            found += [position async for positions in looking for position in positions]
            assert found == expected

    run(scenario(), 60)
