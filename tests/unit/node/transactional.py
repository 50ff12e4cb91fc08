"""Clients that have transactions on a node in memory."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary
from bson.int64 import Int64

from tests.unit.node.local import LocalNode

TRANSIENT = "TransientTransactionError"


class Client:
    """One session of a client of the node."""

    def __init__(self, node: LocalNode, number: int = 1) -> None:
        self.node = node
        self.lsid = {"id": Binary(bytes([number]) * 16, 4)}
        self.number = 0

    def begin(self, number: int | None = None) -> dict[str, Any]:
        """The fields of a first request."""
        self.number = self.number + 1 if number is None else number
        return {**self.fields, "startTransaction": True}

    @property
    def fields(self) -> dict[str, Any]:
        """Those of any further one."""
        return {"lsid": self.lsid, "txnNumber": Int64(self.number), "autocommit": False}

    async def first(self, command: dict[str, Any]) -> dict[str, Any]:
        return await self.node.reply({**command, **self.begin()})

    async def then(self, command: dict[str, Any]) -> dict[str, Any]:
        return await self.node.reply({**command, **self.fields})

    async def commit(self, **options: Any) -> dict[str, Any]:
        return await self.node.reply({"commitTransaction": 1, **self.fields, **options}, "admin")

    async def abort(self) -> dict[str, Any]:
        return await self.node.reply({"abortTransaction": 1, **self.fields}, "admin")


def change(identity: int, **fields: Any) -> dict[str, Any]:
    return {"update": "c", "updates": [{"q": {"_id": identity}, "u": {"$inc": fields or {"n": 1}}, "upsert": True}]}


async def node_with(*documents: dict[str, Any]) -> LocalNode:
    node = LocalNode(replicated=True)
    await node.insert("c", *(documents or ({"_id": 1, "n": 0}, {"_id": 2, "n": 0})))
    return node
