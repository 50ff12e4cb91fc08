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
