"""What a store's mode keeps from documents, and stores without one."""

from __future__ import annotations

import asyncio

from docstore.collection.catalog.catalog import Catalog
from docstore.errors import Code, CommandError
from docstore.widecolumn.node.storage_mode import WideColumnMode
from tests.unit.node.local import LocalNode


class Guarded(WideColumnMode):
    """Guards one database, and notes for what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def check_documents(self, catalog: Catalog, database: str, what: str) -> None:
        self.asked.append((database, what))
        if database == "guarded":
            raise CommandError(Code.CommandNotSupported, f"{what} is not for {database}")


def test_commands_of_documents_ask_the_mode_and_others_do_not() -> None:
    async def scenario() -> None:
        mode = Guarded()
        node = LocalNode(mode=mode)
        assert (await node.reply({"find": "c"}, "guarded"))["code"] == Code.CommandNotSupported
        assert (await node.reply({"find": "c"}, "free"))["ok"] == 1
        assert (await node.reply({"dbStats": 1}, "guarded"))["ok"] == 1
        assert mode.asked == [("guarded", "find"), ("free", "find")]

    asyncio.run(scenario())


def test_a_node_without_a_mode_takes_documents_everywhere() -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": [{"_id": 1}]}, "guarded")
        status = await node.run({"serverStatus": 1}, "admin")
        assert "wideColumn" not in status

    asyncio.run(scenario())
