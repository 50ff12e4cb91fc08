"""The command validate: what it refuses, and that others go on while it runs."""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import Any

import pytest

from docstore.net.scheduling import scheduler
from docstore.storage import Batch, Family
from tests.unit.node.local import LocalNode, loop


@pytest.mark.parametrize("options", [("metadata", "full"), ("background", "full"), ("background", "repair")])
def test_options_that_exclude_each_other_are_refused(options: tuple[str, ...]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        reply = await node.reply({"validate": "c", **dict.fromkeys(options, True)})
        assert reply["codeName"] == "InvalidOptions"
        for option in options:
            if option != "repair":
                assert (await node.run({"validate": "c", option: True}))["valid"]

    loop(work())


def test_writes_during_a_validation_do_not_disturb_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        await node.insert("c", *({"_id": n, "a": [n, n + 1]} for n in range(1000)))
        monkeypatch.setattr(scheduler, "STEP_SECONDS", 0)
        monkeypatch.setattr(scheduler, "SLICE_SECONDS", 0)
        checking = asyncio.create_task(node.run({"validate": "c", "full": True}))
        await asyncio.sleep(0)
        rounds = 0
        while not checking.done():
            await node.run({"delete": "c", "deletes": [{"q": {"_id": rounds}, "limit": 1}]})
            await node.insert("c", {"a": [rounds, rounds + 1]})
            rounds += 1
            await asyncio.sleep(0)
        assert rounds > 5
        found: dict[str, Any] = await checking
        assert (found["valid"], found["nrecords"]) == (True, 1000)
        assert found["keysPerIndex"] == {"_id_": 1000, "a_1": 2000}

    loop(work())


def test_what_does_not_agree_is_told_by_index() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {key: 1}, "name": key} for key in "ab"]})
        await node.insert("c", {"_id": 1, "a": 1, "b": 1}, {"_id": 2, "a": 2, "b": 2})
        collection = node.node.store.collection("test.c")
        assert collection is not None
        index = collection.indexes["b"]
        [first, _] = node.node.engine.keys(Family.INDEXES, index.prefix, index.end)
        batch = Batch()
        batch.delete(Family.INDEXES, first)
        batch.put(Family.INDEXES, first[:-1] + b"\x09", b"")
        node.node.engine.write(batch)
        found = await node.run({"validate": "c"})
        assert found["valid"] is False
        assert {name: detail["valid"] for name, detail in found["indexDetails"].items()} == {
            "_id_": True, "a": True, "b": False,
        }  # fmt: skip
        assert sorted(error.split(":")[0] for error in found["errors"]) == [
            "index b has an entry that no document asks for", "index b lacks an entry",
        ]  # fmt: skip

    loop(work())


def test_no_pair_of_plain_options_is_odd() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        for pair in combinations(("full", "scandata", "enforceFastCount", "checkBSONConformance"), 2):
            assert (await node.run({"validate": "c", **dict.fromkeys(pair, True)}))["nrecords"] == 1

    loop(work())
