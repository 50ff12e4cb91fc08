"""fsync with lock: writes wait, reads go on, the lock is held as often as it was taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.node.local import LocalNode, loop

WRITES: list[dict[str, Any]] = [
    {"insert": "c", "documents": [{"_id": 2}]},
    {"insert": "new", "documents": [{"_id": 2}]},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]},
    {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
    {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"n": 2}}},
    {"create": "new"},
    {"drop": "c"},
    {"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n_1"}]},
    {"dropDatabase": 1},
]


async def locked(node: LocalNode, times: int = 1) -> None:
    for count in range(1, times + 1):
        reply = await node.run({"fsync": 1, "lock": True}, "admin")
        assert list(reply) == ["info", "lockCount", "seeAlso", "ok"]
        assert reply["lockCount"] == count


@pytest.mark.parametrize("write", WRITES, ids=lambda write: next(iter(write)))
def test_a_write_waits_for_the_unlock_and_reads_do_not(write: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "n": 1})
        await locked(node)
        before = node.node.store.sequence
        writing = asyncio.create_task(node.run(write))
        assert await node.documents("c") == [{"_id": 1, "n": 1}]
        assert not writing.done()
        assert node.node.store.sequence == before
        await node.run({"fsyncUnlock": 1}, "admin")
        await writing
        assert node.node.store.sequence > before

    loop(work())


def test_the_lock_counts_and_current_op_tells_of_it() -> None:
    async def work() -> None:
        node = LocalNode()
        assert "fsyncLock" not in await node.run({"currentOp": 1}, "admin")
        await locked(node, 2)
        assert (await node.run({"currentOp": 1}, "admin"))["fsyncLock"] is True
        assert (await node.run({"fsyncUnlock": 1}, "admin"))["lockCount"] == 1
        assert (await node.run({"currentOp": 1}, "admin"))["fsyncLock"] is True
        assert (await node.run({"fsyncUnlock": 1}, "admin"))["lockCount"] == 0
        assert "fsyncLock" not in await node.run({"currentOp": 1}, "admin")
        refused = await node.reply({"fsyncUnlock": 1}, "admin")
        assert (refused["ok"], refused["errmsg"]) == (0, "fsyncUnlock called when not locked")

    loop(work())


def test_a_long_write_stops_where_it_is_until_the_unlock() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n, "n": 0} for n in range(1000)))
        node.hurry()
        update = {"update": "c", "updates": [{"q": {}, "u": {"$set": {"n": 1}}, "multi": True}]}
        writing = asyncio.create_task(node.run(update))
        await asyncio.sleep(0)
        assert not writing.done()
        node.node.store.write_lock.take()
        sequence = node.node.store.sequence
        for _ in range(50):
            await asyncio.sleep(0)
        assert not writing.done()
        assert node.node.store.sequence == sequence
        node.node.store.write_lock.release()
        assert (await writing)["nModified"] == 1000

    loop(work())
