"""What a member asks of its source's log at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from docstore.collection.oplog.oplog import entry_optime
from docstore.net.pool import Pool
from docstore.optime import OpTime
from docstore.replicaset.sync import remote as remote_module
from docstore.replicaset.sync.remote import TAIL_BYTES, RemoteMember
from tests.harness.serving import run
from tests.unit.replicaset.in_memory_set import Node, in_memory_set


async def open_cursors(node: Node) -> int:
    opened: int = (await node.run({"serverStatus": 1}, "admin"))["metrics"]["cursor"]["open"]["total"]
    return opened


def test_a_tail_is_given_short_replies_of_all_that_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members.initiate()
            lengths = [100] * 3000 + [20_000] * 300 + [3 << 20] * 3
            for start in range(0, len(lengths), 1000):
                documents = [{"s": "x" * length} for length in lengths[start : start + 1000]]
                await members[0].run({"insert": "c", "documents": documents})
            pool, store = _Counting(members[1].process.pool), members[0].process.node.store
            remote = RemoteMember(cast(Pool, pool), members[0].address, timeout=5.0)
            oplog = store.oplog
            assert oplog is not None
            expected = list(oplog.scan(store.engine, 0))
            async with aclosing(remote.tail(OpTime(1, 1), 1.0)) as tail:
                got = await _until(tail, len(expected))
                assert got == expected
                await members[0].insert("c", 7, w=1)
                assert await _until(tail, 1) == list(oplog.scan(store.engine, entry_optime(expected[-1]).timestamp))
            assert max(pool.replies) < max(TAIL_BYTES, 3 << 20) + 1000
            assert len(pool.replies) < 20

    run(scenario(), 60)


async def _until(tail: AsyncIterator[list[bytes]], count: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        got += await anext(tail)
    return got


class _Counting:
    """A pool that notes how long the replies of its streams are."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.command = pool.command
        self.replies: list[int] = []

    async def stream(self, *arguments: Any, **options: Any) -> AsyncIterator[bytes]:
        async for reply in self._pool.stream(*arguments, **options):
            self.replies.append(len(reply))
            yield reply


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
