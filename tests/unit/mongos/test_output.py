"""Results that go to a collection: the shard is told why a router takes their target for one that is not sharded."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.js.job import Counts, MapReduceJob
from docstore.js.workers import Sink
from mongod.document.commands import merge_temporary
from tests.unit.mongos.local import ABSENT, LocalCluster
from tests.unit.node.local import LocalNode, loop


class Reducing:
    """Stands for the workers: what the shards' results are reduced to."""

    async def merge_reduce(self, _job: MapReduceJob, _runs: list[Any], sink: Sink) -> Counts:
        await sink([bson.encode({"_id": 1, "value": 2})])
        return Counts(output=1)


async def filled() -> LocalCluster:
    cluster = LocalCluster()
    cluster.a.node = LocalNode(extra=(merge_temporary.COMMAND,))
    await cluster.reply({"insert": "from", "documents": [{"_id": 1, "value": 2}]})
    await cluster.reply({"insert": "into", "documents": [{"_id": 0}]})
    cluster.router.workers = Reducing()  # type: ignore[assignment]
    return cluster


def last_step(cluster: LocalCluster, name: str) -> dict[str, Any]:
    (asked,) = (request for request in cluster.a.asked if name in request)
    return asked


OUT = {"aggregate": "from", "pipeline": [{"$out": "into"}], "cursor": {}}


def map_reduce(mode: str) -> dict[str, Any]:
    """Of a collection that is nowhere, so that the shards have nothing to map."""
    return {"mapReduce": "from", "map": "m", "reduce": "r", "out": {mode: "into", "db": "test"}}


@pytest.mark.parametrize(("command", "db"), [(OUT, "test"), (map_reduce("replace"), ABSENT)], ids=["out", "map-reduce"])
def test_a_target_is_replaced_by_a_rename_that_is_refused_when_it_is_sharded_by_then(
    command: dict[str, Any], db: str
) -> None:
    async def story() -> None:
        cluster = await filled()
        reply = await cluster.reply(command, db)
        assert reply["ok"] == 1, reply
        asked = last_step(cluster, "renameCollection")
        assert (asked["to"], asked["dropTarget"]) == ("test.into", True)
        assert asked["toShardVersion"] == (await cluster.get("test.into")).version().to_document()
        assert await cluster.a.node.documents("into") == [{"_id": 1, "value": 2}]

    loop(story())


@pytest.mark.parametrize("mode", ["merge", "reduce"])
def test_results_are_merged_by_a_request_that_is_refused_when_the_target_is_sharded_by_then(mode: str) -> None:
    async def story() -> None:
        cluster = await filled()
        reply = await cluster.reply(map_reduce(mode), ABSENT)
        assert reply["ok"] == 1, reply
        asked = last_step(cluster, "_shardsvrMergeTemporary")
        assert asked["shardVersion"] == (await cluster.get("test.into")).version().to_document()
        assert await cluster.a.node.documents("into") == [{"_id": 0}, {"_id": 1, "value": 2}]

    loop(story())


NEW = {"was": "$$new.value", "more": "$$more", "given": "$$given"}


@pytest.mark.parametrize(
    ("let", "missing", "expected"),
    [
        (None, "insert", {"was": 2}),
        ({"more": "$value"}, "insert", {"was": 2, "more": 2}),
        ({"more": {"$add": ["$$given", 1]}, "new": "$$ROOT"}, "discard", {"was": 2, "more": 8, "given": 7}),
        ({"given": "$value", "more": {"$literal": "$value"}}, "insert", {"more": "$value", "given": 2}),
        ({"more": "$none", "new": "$$ROOT"}, "insert", 17276),
        ({"more": 1}, "discard", 17276),
        ({"more": "$$unknown"}, "insert", 17276),
    ],
    ids=str,
)
def test_a_merge_by_a_pipeline_knows_its_variables_and_those_of_the_request(
    let: dict[str, Any] | None, missing: str, expected: dict[str, Any] | int
) -> None:
    """As a data node that carries it out alone."""
    fields = expected if isinstance(expected, dict) else NEW
    change = {"$set": {name: NEW[name] for name in fields}}
    stage = {"into": "into", "whenMatched": [change], "whenNotMatched": missing}
    if let is not None:
        stage["let"] = let
    command = {"aggregate": "from", "pipeline": [{"$merge": stage}], "cursor": {}, "let": {"given": 7}}

    async def story() -> None:
        cluster = await filled()
        await cluster.reply({"insert": "into", "documents": [{"_id": 1}]})
        alone = LocalNode()
        for name, rows in (("from", [{"_id": 1, "value": 2}]), ("into", [{"_id": 0}, {"_id": 1}])):
            await alone.insert(name, *rows)
        for reply in (await cluster.reply(command), await alone.reply(command)):
            assert reply["ok"] == 1 if isinstance(expected, dict) else reply["code"] == expected, reply
        merged = [{"_id": 0}, {"_id": 1, **(expected if isinstance(expected, dict) else {})}]
        for node in (cluster.a.node, alone):
            assert await node.documents("into") == merged

    loop(story())
