"""Change streams of a node in memory, read as clients read them."""

from __future__ import annotations

from typing import Any

import bson

from docstore.collection.oplog.oplog import INITIATION
from tests.unit.node.local import LocalNode


def member() -> LocalNode:
    """A node whose log begins as that of any set."""
    node = LocalNode(replicated=True)
    with node.node.store.unit() as unit:
        unit.noop(bson.encode({"msg": INITIATION}))
        unit.commit()
    return node


class Stream:
    """A stream as a client reads it."""

    def __init__(self, node: LocalNode, collection: str | int = "c", db: str = "test") -> None:
        self.node = node
        self.collection = collection
        self.db = db
        self.cursor: dict[str, Any] = {}

    async def open(self, *stages: dict[str, Any], batch_size: int | None = None, **options: Any) -> Stream:
        reply = await self.reply(*stages, batch_size=batch_size, **options)
        self.cursor = reply["cursor"]
        return self

    async def reply(self, *stages: dict[str, Any], batch_size: int | None = None, **options: Any) -> dict[str, Any]:
        cursor = {} if batch_size is None else {"batchSize": batch_size}
        pipeline = [{"$changeStream": options}, *stages]
        return await self.node.reply({"aggregate": self.collection, "pipeline": pipeline, "cursor": cursor}, self.db)

    async def more(self, **options: Any) -> dict[str, Any]:
        name = self.cursor["ns"].partition(".")[2]
        command = {"getMore": bson.Int64(self.cursor["id"]), "collection": name, "maxTimeMS": 20, **options}
        return await self.node.reply(command, self.db)

    async def events(self, **options: Any) -> list[dict[str, Any]]:
        reply = await self.more(**options)
        assert reply["ok"] == 1, reply
        self.cursor = reply["cursor"]
        found: list[dict[str, Any]] = self.cursor["nextBatch"]
        return found

    @property
    def token(self) -> dict[str, Any]:
        token: dict[str, Any] = self.cursor["postBatchResumeToken"]
        return token


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["operationType"] for event in events]


async def change(node: LocalNode) -> None:
    await node.insert("c", {"_id": 1, "a": {"b": 1, "c": 1}, "l": [1]})
    await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a.b": 2}, "$push": {"l": 2}}}]})
    await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"x": 1}}]})
    await node.run({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
