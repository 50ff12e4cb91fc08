"""A cursor gives its owner no further batch once the owner may no longer do what opened it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

READS = [{"resource": {"db": "test", "collection": ""}, "actions": ["find", "changeStream", "listIndexes"]}]
TRANSACTION = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "autocommit": False}


def aggregate(name: str, *stages: dict[str, Any], size: int = 1) -> dict[str, Any]:
    return {"aggregate": name, "pipeline": list(stages), "cursor": {"batchSize": size}}


OPENING: dict[str, dict[str, Any]] = {
    "a find": {"find": "c", "batchSize": 1},
    "the same find again": {"find": "c", "batchSize": 1},
    "a find of a view": {"find": "v", "batchSize": 1},
    "a tail": {"find": "capped", "batchSize": 1, "tailable": True},
    "a pipeline": aggregate("c", {"$unionWith": "d"}),
    "a change stream": aggregate("c", {"$changeStream": {}}, size=0),
    "a list of indexes": {"listIndexes": "c", "cursor": {"batchSize": 1}},
    "a find in a transaction": {"find": "c", "batchSize": 1, **TRANSACTION, "startTransaction": True},
}


async def filled() -> LocalNode:
    node = LocalNode(replicated=True)
    await node.run({"create": "capped", "capped": True, "size": 100_000})
    for name in ("c", "d", "capped"):
        await node.insert(name, *({"_id": number} for number in range(9)))
    await node.run({"create": "v", "viewOn": "c", "pipeline": []})
    indexes = [{"key": {name: 1}, "name": name} for name in "wxyz"]
    await node.run({"createIndexes": "c", "indexes": indexes})
    await node.run({"createRole": "reader", "privileges": READS, "roles": []})
    await node.run({"createUser": "ann", "pwd": "p", "roles": ["reader"]})
    node.services.access.enabled = True
    another_client(node)
    assert (await log_in(node, "ann", "p", "test"))["ok"]
    return node


async def more(node: LocalNode, opened: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    namespace = opened["cursor"]["ns"].partition(".")[2]
    request = {"getMore": Int64(opened["cursor"]["id"]), "collection": namespace, "batchSize": 1}
    return await node.reply({**request, **fields, **({"maxTimeMS": 1} if "aggregate" in fields else {})})


async def as_root(node: LocalNode, command: dict[str, Any]) -> None:
    node.services.access.enabled = False
    await node.run(command)
    node.services.access.enabled = True


@pytest.mark.parametrize("case", OPENING)
def test_who_may_not_open_it_any_more_gets_no_further_batch(case: str) -> None:
    async def story() -> None:
        node = await filled()
        opened = await node.run(OPENING[case])
        if "again" in case:
            opened = await node.run(OPENING[case])
        fields = TRANSACTION if "txnNumber" in OPENING[case] else {}
        assert opened["cursor"]["id"]
        assert (await more(node, opened, fields))["ok"]
        await as_root(node, {"revokePrivilegesFromRole": "reader", "privileges": READS})
        refused = await more(node, opened, fields)
        assert refused.get("code") == Code.Unauthorized, refused
        if not fields:
            await as_root(node, {"grantPrivilegesToRole": "reader", "privileges": READS})
            assert (await more(node, opened, fields))["ok"]

    loop(story())


def test_a_wait_for_news_that_is_under_way_ends_as_it_began() -> None:
    async def story() -> None:
        node = await filled()
        opened = await node.run(OPENING["a change stream"])
        waiting = {"getMore": Int64(opened["cursor"]["id"]), "collection": "c", "maxTimeMS": 30_000}
        wait = asyncio.create_task(node.reply(waiting))
        while not len(node.services.operations):
            await asyncio.sleep(0)
        await as_root(node, {"revokePrivilegesFromRole": "reader", "privileges": READS})
        assert not wait.done()
        await as_root(node, {"insert": "c", "documents": [{"_id": 100}]})
        told = await wait
        assert [change["fullDocument"] for change in told["cursor"]["nextBatch"]] == [{"_id": 100}]
        assert (await more(node, opened, {"maxTimeMS": 1}))["code"] == Code.Unauthorized

    loop(story())


def test_a_pipeline_needs_all_its_collections_for_each_batch() -> None:
    async def story() -> None:
        node = await filled()
        only = [{"resource": {"db": "test", "collection": name}, "actions": ["find"]} for name in ("c", "d")]
        await as_root(node, {"updateRole": "reader", "privileges": only})
        opened = await node.run(OPENING["a pipeline"])
        await as_root(node, {"updateRole": "reader", "privileges": only[:1]})
        assert (await more(node, opened, {}))["code"] == Code.Unauthorized
        await node.run({"find": "c", "batchSize": 1})

    loop(story())
