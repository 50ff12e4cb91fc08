"""The rest of a cursor that is all on one shard: relayed batch by batch, and closed where that ends in another way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.errors import Code
from docstore.net import NetworkError
from mongos.merge import relayed_cursor
from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import loop

LSID = {"lsid": {"id": Binary(bytes(16), 4)}}
OPENING: dict[str, dict[str, Any]] = {
    "not sharded": {"find": "plain", "sort": {"_id": 1}, "batchSize": 3},
    "of one shard": {"find": "c", "filter": {"k": {"$lt": 8}}, "sort": {"_id": 1}, "batchSize": 3},
    "nothing at first": {"find": "plain", "batchSize": 0},
    "limited": {"find": "plain", "sort": {"_id": 1}, "limit": 7, "batchSize": 3},
    "projected": {"find": "plain", "projection": {"_id": 1}, "batchSize": 3},
    "of a session": {"find": "plain", "batchSize": 3, **LSID},
    "a pipeline": {"aggregate": "plain", "pipeline": [{"$match": {"k": {"$gte": 0}}}], "cursor": {"batchSize": 3}},
}
MERGED: dict[str, dict[str, Any]] = {
    "of two shards": {"find": "c", "sort": {"_id": 1}, "batchSize": 3},
    "of a view": {"find": "v", "batchSize": 3},
}


async def filled() -> LocalCluster:
    cluster = LocalCluster()
    for name in ("plain", "c"):
        rows = [{"_id": number, "k": number} for number in range(20)]
        assert (await cluster.reply({"insert": name, "documents": rows}))["n"] == 20
    assert (await cluster.reply({"create": "v", "viewOn": "plain", "pipeline": []}))["ok"] == 1
    return cluster


async def more_of(cluster: LocalCluster, opened: dict[str, Any], name: str, **fields: Any) -> dict[str, Any]:
    return await cluster.reply({"getMore": Int64(opened["cursor"]["id"]), "collection": name, **fields})


@pytest.mark.parametrize("name", [*OPENING, *MERGED])
def test_batches_are_those_of_the_cursor(name: str) -> None:
    command = {**OPENING, **MERGED}[name]
    collection = next(iter(command.values()))
    of_session = LSID if "lsid" in command else {}

    async def story() -> None:
        cluster = await filled()
        at_once = {"batchSize": 100} if "find" in command else {"cursor": {}}
        whole = (await cluster.reply({**command, **at_once}))["cursor"]
        assert whole["id"] == 0
        reply = await cluster.reply(command)
        found, sizes = list(reply["cursor"]["firstBatch"]), []
        while identity := reply["cursor"]["id"]:
            relayed = cluster.a.relayed
            reply = await more_of(cluster, reply, collection, batchSize=2 + len(sizes), **of_session)
            assert cluster.a.relayed == relayed + (name not in MERGED)
            assert reply["cursor"]["ns"] == f"test.{collection}"
            assert reply["cursor"]["id"] in (0, identity)
            assert set(reply) <= {"cursor", "ok", "$clusterTime", "operationTime"}
            found += reply["cursor"]["nextBatch"]
            sizes.append(len(reply["cursor"]["nextBatch"]))
        assert found == whole["firstBatch"]
        assert sizes[:-1] == list(range(2, len(sizes) + 1))
        await none_left(cluster)

    loop(story())


def test_large_batches_are_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed_cursor, "_LARGE_BYTES", 100)

    async def story() -> None:
        cluster = await filled()
        reply = await cluster.reply(OPENING["not sharded"])
        found, relayed = list(reply["cursor"]["firstBatch"]), []
        while reply["cursor"]["id"]:
            before = cluster.a.relayed
            reply = await more_of(cluster, reply, "plain", batchSize=4)
            found += reply["cursor"]["nextBatch"]
            relayed.append(cluster.a.relayed - before)
        assert [row["_id"] for row in found] == list(range(20))
        assert relayed == [1, 0, 0, 0, 0]
        await none_left(cluster)

    loop(story())


REFUSED = {"ok": 0.0, "errmsg": "no", "code": int(Code.CursorNotFound), "codeName": "CursorNotFound"}


@pytest.mark.parametrize("answer", [REFUSED, NetworkError("a:1", "lost", sent=True)], ids=str)
def test_what_fails_ends_the_cursor(answer: Any) -> None:
    async def story() -> None:
        cluster = await filled()
        opened = await cluster.reply(OPENING["not sharded"])
        cluster.a.answers.append(answer)
        reply = await more_of(cluster, opened, "plain")
        assert reply["code"] == (Code.CursorNotFound if answer is REFUSED else Code.HostUnreachable)
        assert (await more_of(cluster, opened, "plain"))["code"] == Code.CursorNotFound
        assert not len(cluster.services.cursors)

    loop(story())


def test_what_a_cursor_may_not_be_asked_for_is_refused_as_always() -> None:
    async def story() -> list[int]:
        cluster = await filled()
        opened = await cluster.reply(OPENING["of a session"])
        refusals = [
            await more_of(cluster, opened, "plain"),
            await more_of(cluster, opened, "c", **LSID),
            await more_of(cluster, opened, "plain", lsid={"id": Binary(bytes([1]) * 16, 4)}),
            await more_of(cluster, opened, "plain", batchSize=-1, **LSID),
        ]
        assert len((await more_of(cluster, opened, "plain", **LSID))["cursor"]["nextBatch"]) == 17
        return [reply["code"] for reply in refusals]

    assert loop(story()) == [50737, 13, 50738, 51024]


def test_where_nothing_can_be_sent_at_once_a_task_reads_on() -> None:
    async def story() -> None:
        cluster = await filled()
        opened = await cluster.reply(OPENING["not sharded"])
        cluster.a.idle = False
        reply = await more_of(cluster, opened, "plain", batchSize=4)
        cluster.a.idle = True
        found = reply["cursor"]["nextBatch"]
        while reply["cursor"]["id"]:
            reply = await more_of(cluster, reply, "plain", batchSize=4)
            found += reply["cursor"]["nextBatch"]
        assert [row["_id"] for row in found] == list(range(3, 20))
        await none_left(cluster)

    loop(story())


def test_a_cursor_that_is_killed_meanwhile_gives_its_batch_and_ends() -> None:
    async def story() -> None:
        cluster = await filled()
        opened = await cluster.reply(OPENING["not sharded"])
        waiting = asyncio.ensure_future(more_of(cluster, opened, "plain", batchSize=4))
        await asyncio.sleep(0)
        again = await more_of(cluster, opened, "plain")
        killed = await cluster.reply({"killCursors": "plain", "cursors": [opened["cursor"]["id"]]})
        reply = (await waiting)["cursor"]
        assert again["code"] == 12051
        assert killed["cursorsKilled"] == [opened["cursor"]["id"]]
        assert (len(reply["nextBatch"]), reply["id"]) == (4, 0)
        await none_left(cluster)

    loop(story())


@pytest.mark.parametrize("turns", [1, 2])
def test_a_cursor_is_closed_when_the_client_has_gone(turns: int) -> None:
    async def story() -> None:
        cluster = await filled()
        opened = await cluster.reply(OPENING["not sharded"])
        waiting = asyncio.ensure_future(more_of(cluster, opened, "plain", batchSize=4))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await none_left(cluster)

    loop(story())


async def none_left(cluster: LocalCluster) -> None:
    async with asyncio.timeout(20):
        for cursors in (cluster.services.cursors, cluster.a.node.services.cursors, cluster.b.node.services.cursors):
            while len(cursors):
                await asyncio.sleep(0)
