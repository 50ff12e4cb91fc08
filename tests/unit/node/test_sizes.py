"""Sizes of collections: there from the first document on, and growing with the data."""

from __future__ import annotations

from tests.unit.node.local import LocalNode, loop


def test_a_collection_takes_whole_pages_that_grow_with_its_documents() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c"})
        empty = await node.run({"collStats": "c"})
        assert (empty["storageSize"], empty["indexSizes"]) == (4096, {"_id_": 4096})
        await node.insert("c", *({"_id": n, "filler": "x" * 100} for n in range(1000)))
        full = await node.run({"collStats": "c"})
        assert full["size"] <= full["storageSize"] < 2 * full["size"]
        assert full["storageSize"] % 4096 == full["indexSizes"]["_id_"] % 4096 == 0
        assert full["totalSize"] == full["storageSize"] + full["totalIndexSize"]
        database = await node.run({"dbStats": 1})
        assert (database["storageSize"], database["indexSize"]) == (full["storageSize"], full["totalIndexSize"])

    loop(work())
