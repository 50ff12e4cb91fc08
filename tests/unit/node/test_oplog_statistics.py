"""What commands say of `local.oplog.rs`, and what the digest of a database is made of."""

from __future__ import annotations

from typing import Any

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop


def test_the_log_has_the_statistics_of_a_capped_collection() -> None:
    """`rs.printReplicationInfo()` of mongosh reads them by `$collStats`."""

    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        log = await node.run({"find": "oplog.rs"}, "local")
        count = len(log["cursor"]["firstBatch"])
        stats = await node.run({"collStats": "oplog.rs"}, "local")
        names = (
            "ns size count avgObjSize numOrphanDocs storageSize freeStorageSize capped max maxSize nindexes "
            "indexDetails indexBuilds totalIndexSize totalSize indexSizes scaleFactor ok"
        )
        assert " ".join(stats) == names
        assert (stats["count"], stats["capped"], stats["max"], stats["maxSize"]) == (count, True, 0, 1 << 20)
        stage = {"$collStats": {"storageStats": {"scale": 1024}, "count": {}}}
        found = await node.run({"aggregate": "oplog.rs", "pipeline": [stage], "cursor": {}}, "local")
        (measured,) = found["cursor"]["firstBatch"]
        assert (measured["count"], measured["storageStats"]["maxSize"]) == (count, 1024)
        assert (await node.run({"count": "oplog.rs"}, "local"))["n"] == count
        size = await node.run({"dataSize": "local.oplog.rs"}, "local")
        assert (size["numObjects"], size["size"]) == (count, stats["size"])
        assert (await node.run({"listIndexes": "oplog.rs"}, "local"))["cursor"]["firstBatch"] == []

    loop(work())


def test_pipelines_read_the_log() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", *({"_id": number} for number in range(5)))
        await node.run({"delete": "c", "deletes": [{"q": {"_id": 3}, "limit": 1}]})
        entries = (await node.run({"find": "oplog.rs"}, "local"))["cursor"]["firstBatch"]

        async def results(*stages: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
            command = {"aggregate": "oplog.rs", "pipeline": list(stages), "cursor": {}, **options}
            first: list[dict[str, Any]] = (await node.run(command, "local"))["cursor"]["firstBatch"]
            return first

        assert await results() == entries
        assert await results({"$count": "n"}) == [{"n": len(entries)}]
        grouped = {"$group": {"_id": "$op", "n": {"$sum": 1}}}
        assert await results({"$match": {"ns": "test.c", "op": {"$ne": "c"}}}, grouped, {"$sort": {"_id": 1}}) == [
            {"_id": "d", "n": 1},
            {"_id": "i", "n": 5},
        ]
        assert await results({"$sort": {"ts": -1}}, {"$limit": 1}) == entries[-1:]
        assert await results({"$limit": 1}, hint={"$natural": -1}) == entries[-1:]
        assert await results({"$match": {"ts": {"$gt": entries[1]["ts"]}}}, {"$skip": 1}) == entries[3:]
        assert await results({"$sample": {"size": 2}}, {"$count": "n"}) == [{"n": 2}]
        looked = {"$lookup": {"from": "oplog.rs", "localField": "ts", "foreignField": "ts", "as": "same"}}
        (joined,) = await results({"$limit": 1}, looked)
        assert joined["same"] == entries[:1]

    loop(work())


def test_what_the_log_does_not_answer_is_refused() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        refused: tuple[dict[str, Any], ...] = (
            {"count": "oplog.rs", "query": {"op": "i"}},
            {"distinct": "oplog.rs", "key": "op"},
        )
        for command in refused:
            assert (await node.reply(command, "local"))["code"] == Code.NotImplemented
        alone = LocalNode()
        assert (await alone.reply({"listIndexes": "oplog.rs"}, "local"))["code"] == Code.NamespaceNotFound

    loop(work())


def test_the_digest_of_a_database_leaves_out_what_is_each_members_own() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"create": "log", "capped": True, "size": 4096})
        await node.insert("c", {"_id": 1})
        before = await node.run({"dbHash": 1})
        await node.run({"profile": 2})
        await node.insert("c", {"_id": 2})
        await node.run({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
        await node.run({"profile": 0})
        assert node.node.store.collection("test.system.profile") is not None
        after = await node.run({"dbHash": 1})
        assert (after["md5"], list(after["collections"])) == (before["md5"], ["c", "log"])
        assert after["capped"] == ["log"]
        assert (await node.run({"dbHash": 1}, "local"))["collections"] == {}

    loop(work())
