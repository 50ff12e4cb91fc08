"""Where a map-reduce's results go: complete or as it was, also after a crash in the middle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import bson
import pytest
from bson.objectid import ObjectId

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Role
from docstore.commands.requests.map_reduce import Mode, Output
from docstore.errors import Code
from docstore.node.pipeline.map_reduce import (
    TEMPORARY,
    UNFINISHED,
    MapReduceOutput,
    finish_left_outputs,
    merge_noted_outputs,
)
from docstore.node.process.settings import ClusterRole
from tests.unit.node.local import LocalNode, LonePrimary, loop


async def put_out(context: Context, _arguments: Arguments) -> dict[str, Any]:
    fields = context.body
    output = MapReduceOutput(context, Output(Mode(fields["mode"]), "test", "out"), bypass=False)
    output.check_target()
    await output.begin()
    try:
        await output.sink([bson.encode(row) for row in fields["rows"]])
        if fields.get("stop"):
            raise RuntimeError
        failed = await output.finish()
    except BaseException:
        output.give_up()
        raise
    return {"failed": failed}


COMMAND = Command("putOutForTest", put_out, privilege=PUBLIC, role=Role.ANY, tolerant=True, write_concern=True)


def put(rows: list[dict[str, Any]], mode: str = "replace") -> dict[str, Any]:
    return {"putOutForTest": 1, "rows": rows, "mode": mode}


def left(node: LocalNode) -> list[str]:
    return [name for name in node.node.store.namespaces() if TEMPORARY in name or name == UNFINISHED]


def test_the_new_documents_take_the_place_of_the_old_ones_and_indexes_stay() -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        await node.insert("out", {"_id": 1, "old": True})
        await node.run({"createIndexes": "out", "indexes": [{"key": {"value": 1}, "name": "value_1"}]})
        await node.run(put([{"_id": n, "value": n} for n in range(1200)]))
        assert len(await node.documents("out")) == 1200
        assert len((await node.run({"listIndexes": "out"}))["cursor"]["firstBatch"]) == 2
        assert left(node) == []

    loop(work())


def test_an_empty_result_leaves_an_empty_collection() -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        await node.insert("out", {"_id": 1})
        await node.run(put([]))
        assert await node.documents("out") == []
        assert node.node.store.collection("test.out") is not None

    loop(work())


def test_a_failure_leaves_the_old_documents_and_no_litter() -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        await node.insert("out", {"_id": 1, "value": 0})
        await node.run({"createIndexes": "out", "indexes": [{"key": {"value": 1}, "name": "v", "unique": True}]})
        reply = await node.reply(put([{"_id": 5, "value": 1}, {"_id": 6, "value": 1}]))
        assert reply["code"] == Code.DuplicateKey
        assert await node.documents("out") == [{"_id": 1, "value": 0}]
        assert left(node) == []

    loop(work())


@pytest.mark.parametrize("mode", ["merge", "reduce"])
def test_merged_results_take_the_place_of_documents_with_their_keys(mode: str) -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        await node.run(put([{"_id": n, "value": n} for n in range(3)], mode))
        assert len(await node.documents("out")) == 3
        await node.run(put([{"_id": n, "value": -n} for n in range(2, 1200)], mode))
        found = await node.documents("out")
        assert {row["_id"]: row["value"] for row in found} == {0: 0, 1: 1, **{n: -n for n in range(2, 1200)}}
        assert left(node) == []

    loop(work())


def test_notes_that_no_map_reduce_has_made_are_not_obeyed() -> None:
    """As somebody could restore them."""
    foreign = [{"_id": 5}, {"_id": "test.tmp.mr.4f4221149a6777895a000001"}]
    foreign.append({"_id": "test.out", "into": "test.other", "bypass": True})

    async def work() -> None:
        node = LocalNode()
        await node.insert("out", {"_id": 1})
        store = node.node.store
        with store.unit() as unit:
            made = store.create_collection(unit, UNFINISHED)
            for note in foreign:
                unit.insert(made, bson.encode(note))
            unit.commit()
        await finish_left_outputs(node.node)
        assert await node.documents("out") == [{"_id": 1}]
        assert store.collection("test.other") is None

    loop(work())


def test_what_is_complete_when_the_process_dies_is_merged_at_the_next_start() -> None:
    async def work() -> None:
        node = LocalNode()
        for n in range(3):
            await node.insert("out", {"_id": n, "value": n})
        await node.insert("tmp.mr.4f4221149a6777895a000000", *({"_id": n, "value": 9} for n in range(2, 1000)))
        store = node.node.store
        note = {"_id": "test.tmp.mr.4f4221149a6777895a000000", "into": "test.out", "bypass": False}
        with store.unit() as unit:
            made = store.create_collection(unit, UNFINISHED)
            unit.insert(made, bson.encode(note))
            unit.commit()
        await finish_left_outputs(node.node)
        found = {row["_id"]: row["value"] for row in await node.documents("out")}
        assert found == {0: 0, 1: 1, **dict.fromkeys(range(2, 1000), 9)}
        assert left(node) == []

    loop(work())


def test_what_is_not_complete_when_the_process_dies_is_gone_at_the_next_start() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("out", {"_id": 1})
        await node.insert("tmp.mr.4f4221149a6777895a000000", {"_id": 1, "value": 9})
        await finish_left_outputs(node.node)
        assert await node.documents("out") == [{"_id": 1}]
        assert left(node) == []

    loop(work())


@pytest.mark.parametrize("role", ClusterRole)
def test_what_an_out_stage_had_not_finished_is_gone_too(role: ClusterRole) -> None:
    async def work() -> None:
        node = LocalNode()
        node.node.settings = replace(node.node.settings, role=role)
        left, busy, other = f"tmp.agg_out.{uuid4()}", f"tmp.agg_out.{uuid4()}", "tmp.agg_out.of a user"
        routed = (f"tmp.agg_out.{uuid4()}", f"tmp.mr.{ObjectId()}")
        for name in (left, busy, other):
            await node.insert(name, {"_id": 1})
        for name in routed:
            await node.run({"create": name, "forOutput": True})
        node.node.outputs.add(f"test.{busy}")
        await finish_left_outputs(node.node)
        kept = {f"test.{name}" for name in (busy, other, *routed)}
        assert {name for name in node.node.store.namespaces() if "tmp" in name} == kept

    loop(work())


@pytest.mark.parametrize("role", ClusterRole)
def test_what_a_conversion_to_a_capped_collection_had_not_finished_is_gone_too(role: ClusterRole) -> None:
    async def work() -> None:
        node = LocalNode()
        node.node.settings = replace(node.node.settings, role=role)
        left, busy = (f"tmp.{ObjectId()}.convertToCapped.c.d" for _ in range(2))
        others = ("tmp.x.convertToCapped.c", f"tmp.{ObjectId()}.convertToCapped", f"tmp.{ObjectId()}.other.c")
        for name in (left, busy, *others):
            await node.insert(name, {"_id": 1})
        node.node.outputs.add(f"test.{busy}")
        await finish_left_outputs(node.node)
        found = {name for name in node.node.store.namespaces() if "tmp" in name}
        assert found == {f"test.{name}" for name in (busy, *others)}

    loop(work())


@pytest.mark.parametrize("mode", ["merge", "reduce"])
def test_complete_results_are_merged_by_the_next_primary_and_not_asked_for_again(mode: str) -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,), replicated=True)
        await node.insert("out", {"_id": 1, "value": 0})
        assert isinstance(node.replication, LonePrimary)
        primary = node.replication
        node.hurry()

        async def lose() -> None:
            if UNFINISHED in left(node):
                primary.primary = False

        node.node.scheduler.pause = lose
        reply = await node.reply(put([{"_id": n, "value": 1} for n in range(1200)], mode))
        assert reply["code"] == Code.InterruptedDueToReplStateChange
        assert left(node)
        primary.primary = True
        node.node.scheduler.pause = LocalNode().node.scheduler.pause
        await merge_noted_outputs(node.node)
        assert len(await node.documents("out")) == 1200
        assert left(node) == []

    loop(work())


def test_out_is_known_to_be_under_way_until_it_has_ended() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        seen: list[set[str]] = []
        node.node.store.subscribe(lambda commit: seen.append(set(node.node.outputs)))
        await node.run({"aggregate": "c", "pipeline": [{"$out": "made"}], "cursor": {}})
        assert [len(outputs) for outputs in seen] == [1] * len(seen)
        assert not node.node.outputs

    loop(work())


def test_a_document_that_the_target_refuses_is_told_and_nothing_is_left_behind() -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        await node.insert("out", {"_id": 1, "value": 5})
        await node.run({"createIndexes": "out", "indexes": [{"key": {"value": 1}, "name": "v", "unique": True}]})
        reply = await node.reply(put([{"_id": 2, "value": 5}], "merge"))
        assert reply["code"] == Code.DuplicateKey
        assert left(node) == []

    loop(work())
