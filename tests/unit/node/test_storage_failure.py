"""What the node does when its disk does not do what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from docstore.node.process.start import translate_storage_error
from docstore.node.upkeep.periodic import Housekeeping
from docstore.storage import StorageError, open_engine
from tests.harness.faulty_engine import FaultyEngine
from tests.unit.node.local import LocalNode, loop

BROKEN = StorageError("Input/output error")


def on_faulty(work: Any, *, replicated: bool = False) -> None:
    """Run the test's coroutine function of (node, engine)."""

    async def run() -> None:
        engine: Any = FaultyEngine(open_engine("inMemory", ""))
        await work(LocalNode(replicated=replicated, engine=engine), engine)

    loop(run())


def test_a_write_whose_outcome_is_unknown_stops_the_process_instead_of_being_answered() -> None:
    async def work(node: LocalNode, engine: FaultyEngine) -> None:
        await node.insert("c", {"_id": 1})
        engine.write_error = BROKEN
        with pytest.raises(AssertionError, match="Input/output error"):
            await node.reply({"insert": "c", "documents": [{"_id": 2}]})

    on_faulty(work)


@pytest.mark.parametrize("replicated", [False, True])
def test_a_full_disk_refuses_writes_whole_and_reads_go_on(replicated: bool) -> None:
    async def work(node: LocalNode, engine: FaultyEngine) -> None:
        await node.insert("c", {"_id": 1, "n": 1})
        engine.fill_disk()
        refused: list[dict[str, Any]] = [
            {"insert": "c", "documents": [{"_id": 2}, {"_id": 3}]},
            {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]},
            {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]},
            {"update": "c", "updates": [{"q": {"_id": 9}, "u": {"$set": {"n": 1}}, "upsert": True}]},
            {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
        ]
        for command in refused:
            reply = await node.reply(command)
            assert (reply["ok"], reply["n"], reply["writeErrors"][0]["code"]) == (1, 0, 14031), reply
        for command in (
            {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}},
            {"findAndModify": "c", "query": {"_id": 1}, "remove": True},
            {"create": "d"},
            {"drop": "c"},
            {"renameCollection": "test.c", "to": "test.d"},
            {"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n_1"}]},
        ):
            reply = await node.reply(command, "admin" if "renameCollection" in command else "test")
            assert (reply["ok"], reply.get("codeName")) == (0, "OutOfDiskSpace"), (command, reply)
        assert await node.documents("c") == [{"_id": 1, "n": 1}]
        assert node.node.store.namespaces("test") == ["test.c"]
        engine.write_error = None
        await node.insert("c", {"_id": 2})
        await node.run({"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n_1"}]})
        checked = await node.run({"validate": "c"})
        assert (checked["valid"], checked["nrecords"], checked["nIndexes"]) == (True, 2, 2)

    on_faulty(work, replicated=replicated)


def test_the_documents_written_before_the_disk_was_full_are_counted() -> None:
    async def work(node: LocalNode, engine: FaultyEngine) -> None:
        await node.insert("c", {"_id": -1})
        engine.fill_disk(after=1)
        node.hurry()
        documents = [{"_id": n} for n in range(3000)]
        reply = await node.reply({"insert": "c", "documents": documents})
        assert 0 < reply["n"] < 3000
        assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(reply["n"], 14031)]
        assert len(await node.documents("c")) == reply["n"] + 1

    on_faulty(work)


def test_damaged_data_is_answered_by_name_and_the_rest_is_served() -> None:
    async def work(node: LocalNode, engine: FaultyEngine) -> None:
        await node.insert("c", {"_id": 1}, {"_id": 2})
        collection = node.node.store.collection("test.c")
        assert collection is not None
        engine.damaged = {collection.prefix + bytes(7) + b"\x02"}
        reply = await node.reply({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
        assert (reply["code"], reply["codeName"]) == (301, "DataCorruptionDetected")
        assert (await node.run({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}))["n"] == 1

    on_faulty(work)


def test_a_flush_that_fails_stops_the_process() -> None:
    async def work(node: LocalNode, engine: FaultyEngine) -> None:
        heard: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(context["exception"]))
        engine.flush_error = BROKEN
        with pytest.raises(AssertionError, match="storage engine failed"):
            await node.reply({"insert": "c", "documents": [{}], "writeConcern": {"w": 1, "j": True}})
        assert [type(error) for error in heard] == [AssertionError]

    on_faulty(work)


def test_other_failures_are_internal_errors() -> None:
    assert translate_storage_error(ValueError()) is None


def test_housekeeping_goes_through_its_rounds() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", *({"_id": n} for n in range(10)))
        await node.run({"drop": "c"})
        await Housekeeping(node.node).run_pass()
        assert (await node.reply({"collStats": "c"}))["count"] == 0

    run: Coroutine[Any, Any, None] = work()
    loop(run)
