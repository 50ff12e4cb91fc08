"""dataSize and the concerns that commands have by default."""

from __future__ import annotations

import asyncio

from tests.unit.node.local import LocalNode


def test_the_size_of_a_collection_is_that_of_its_documents() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]})
        reply = await node.run({"dataSize": "test.c"})
        assert (reply["size"], reply["numObjects"]) == (28, 2)
        assert (await node.run({"dataSize": "test.none"}))["size"] == 0
        assert (await node.reply({"dataSize": "c"}))["code"] == 73
        assert (await node.reply({"dbStats": "x"}))["code"] == 73

    asyncio.run(story())


def test_a_standalone_has_no_default_concerns() -> None:
    async def story() -> None:
        assert (await LocalNode().reply({"getDefaultRWConcern": 1}, "admin"))["code"] == 51300

    asyncio.run(story())
