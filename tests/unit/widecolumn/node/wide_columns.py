"""A data node that serves the wide-column mode, in memory, and what tests ask of it."""

from __future__ import annotations

import uuid
from typing import Any

from bson.binary import Binary, UuidRepresentation

from docstore.widecolumn.node.keyspaces import attach
from docstore.widecolumn.node.storage_mode import WideColumnMode
from mongod.widecolumn.commands import COMMANDS
from tests.unit.node.local import LocalNode

TICKS_TO_1970 = 0x01B21DD213814000


def time_uuid(seconds: int, clock: int = 0x8000, node: int = 0x010203040506) -> Binary:
    """A version 1 UUID of a Unix second."""
    ticks = seconds * 10**7 + TICKS_TO_1970
    fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0x0FFF | 0x1000, clock >> 8, clock & 0xFF, node)
    return Binary.from_uuid(uuid.UUID(fields=fields), UuidRepresentation.STANDARD)


class WideNode(LocalNode):
    """With the keyspace `ks`. Names and values that are text come as text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(extra=COMMANDS, mode=WideColumnMode(), **options)
        attach(self.node)

    async def begin(self, *families: dict[str, Any]) -> None:
        await self.run({"createKeyspace": "ks"}, "admin")
        for family in families:
            await self.run(family, "ks")

    async def wide(self, command: dict[str, Any]) -> dict[str, Any]:
        """The reply of a command on the keyspace, which must succeed."""
        return await self.run(command, "ks")

    async def refused(self, command: dict[str, Any], db: str = "ks") -> tuple[int, str]:
        """(code, errmsg) of a command that must be refused."""
        reply = await self.reply(command, db)
        assert reply["ok"] == 0, reply
        return reply["code"], reply["errmsg"]

    async def names(self, family: str, key: str, **sliced: Any) -> list[Any]:
        """The names of a slice."""
        found = await self.slice(family, key, **sliced)
        return [column["name"] for column in found]

    async def slice(self, family: str, key: str, **sliced: Any) -> list[dict[str, Any]]:
        command = {"wcGetSlice": family, "key": key, "predicate": {"sliceRange": sliced}, "bytesAs": "string"}
        reply = await self.wide(command)
        columns: list[dict[str, Any]] = reply["columns"] if "columns" in reply else reply["superColumns"]
        return columns

    async def insert(self, family: str, key: str, name: Any, value: Any = "", timestamp: int = 1, **more: Any) -> None:
        command = {"wcInsert": family, "key": key, "column": name, "value": value, "timestamp": timestamp, **more}
        await self.wide(command)
