"""What the Stable API lacks, asked for with apiStrict and by validateDBMetadata; quorums of index builds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.node.local import LocalNode

STRICT = {"apiVersion": "1", "apiStrict": True}


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$indexStats": {}}, 323),
        ({"$collStats": {"latencyStats": {}}}, 323),
        ({"$unionWith": {"coll": "c", "pipeline": [{"$indexStats": {}}]}}, 323),
        ({"$facet": {"a": [{"$fill": {"output": {"a": {"value": 1}}}}]}}, 323),
        ({"$collStats": {"count": {}}}, None),
        ({"$match": {"a": 1}}, None),
    ],
)
def test_stages_that_the_api_lacks_are_refused_to_strict_clients(stage: dict[str, Any], code: int | None) -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        reply = await node.reply({"aggregate": "c", "pipeline": [stage], "cursor": {}, **STRICT})
        assert reply.get("code") == code

    asyncio.run(story())


def test_sparse_indexes_are_reported() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "sparse": True}]})
        asked = {"validateDBMetadata": 1, "apiParameters": {"version": "1", "strict": True}}
        (found,) = (await node.run(asked))["apiVersionErrors"]
        assert (found["ns"], found["codeName"]) == ("test.c", "APIStrictError")
        assert (await node.run({**asked, "collection": "d"}))["apiVersionErrors"] == []
        assert (await node.reply({"validateDBMetadata": 1}))["code"] == 40414

    asyncio.run(story())


@pytest.mark.parametrize(("quorum", "code"), [(-1, 9), (51, 9), ({}, 14), ("majority", 2)])
def test_quorums_that_cannot_be(quorum: object, code: int) -> None:
    async def story() -> None:
        node = LocalNode()
        build = {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}], "commitQuorum": quorum}
        assert (await node.reply(build))["code"] == code

    asyncio.run(story())


def test_a_build_tells_the_quorum_that_it_met() -> None:
    async def story() -> None:
        node = LocalNode(replicated=True)
        build = {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}], "commitQuorum": "votingMembers"}
        assert (await node.run(build))["commitQuorum"] == "votingMembers"
        changed = {"setIndexCommitQuorum": "c", "indexNames": ["a"], "commitQuorum": 1}
        assert (await node.reply(changed))["code"] == 27

    asyncio.run(story())


def test_dropping_a_database_fails_where_the_drops_cannot_be_acknowledged() -> None:
    async def story() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        drop = {"dropDatabase": 1, "writeConcern": {"w": 9}}
        assert (await node.reply(drop))["code"] == 64
        empty = await node.run(drop)
        assert empty["writeConcernError"]["code"] == 64

    asyncio.run(story())
