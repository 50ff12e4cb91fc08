"""A collection replaced as a whole: complete or as it was."""

from __future__ import annotations

from typing import Any

import bson

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Role
from docstore.errors import Code
from docstore.node.replacement import TEMPORARY_PREFIX, replace_collection
from tests.unit.node.local import LocalNode, loop


async def replace(context: Context, _arguments: Arguments) -> dict[str, Any]:
    documents = [bson.encode(row) for row in context.body["rows"]]
    failed = await replace_collection(context, "test.out", documents)
    return {"failed": failed}


REPLACE = Command("replaceForTest", replace, privilege=PUBLIC, role=Role.ANY, tolerant=True, write_concern=True)


def run(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"replaceForTest": 1, "rows": rows}


async def temporary(node: LocalNode) -> list[str]:
    return [name for name in node.node.store.namespaces() if TEMPORARY_PREFIX in name]


def test_the_new_documents_take_the_place_of_the_old_ones_and_indexes_stay() -> None:
    async def work() -> None:
        node = LocalNode(extra=(REPLACE,))
        await node.insert("out", {"_id": 1, "old": True})
        await node.run({"createIndexes": "out", "indexes": [{"key": {"value": 1}, "name": "value_1"}]})
        await node.run(run([{"_id": n, "value": n} for n in range(1200)]))
        assert len(await node.documents("out")) == 1200
        assert len((await node.run({"listIndexes": "out"}))["cursor"]["firstBatch"]) == 2
        assert await temporary(node) == []

    loop(work())


def test_an_empty_result_leaves_an_empty_collection() -> None:
    async def work() -> None:
        node = LocalNode(extra=(REPLACE,))
        await node.insert("out", {"_id": 1})
        await node.run(run([]))
        assert await node.documents("out") == []
        assert node.node.store.collection("test.out") is not None

    loop(work())


def test_a_failure_leaves_the_old_documents_and_no_litter() -> None:
    async def work() -> None:
        node = LocalNode(extra=(REPLACE,))
        await node.insert("out", {"_id": 1, "value": 0})
        await node.run({"createIndexes": "out", "indexes": [{"key": {"value": 1}, "name": "v", "unique": True}]})
        reply = await node.reply(run([{"_id": 5, "value": 1}, {"_id": 6, "value": 1}]))
        assert reply["code"] == Code.DuplicateKey
        assert await node.documents("out") == [{"_id": 1, "value": 0}]
        assert await temporary(node) == []

    loop(work())
