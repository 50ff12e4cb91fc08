"""The power goes at any moment: what was acknowledged with j:true is there, and nothing is half there."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

from docstore.bson import from_python
from docstore.collection.store import Store
from docstore.storage import open_engine
from tests.harness.power_loss import PowerLossEngine
from tests.unit.collection.building import check, plain
from tests.unit.node.local import LocalNode, loop


def test_what_was_acknowledged_with_j_survives_and_units_are_whole(tmp_path: Path) -> None:
    async def work() -> None:
        engine: Any = PowerLossEngine(tmp_path / "db")
        node = LocalNode(engine=engine)
        node.replication.flusher._interval = 3600
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        rng = random.Random(3)
        durable = written = 0
        for moment in range(12):
            for _ in range(rng.randrange(1, 8)):
                documents = [{"_id": written + n, "a": [n, "x" * rng.randrange(300)]} for n in range(5)]
                journaled = rng.random() < 0.3
                await node.run({"insert": "c", "documents": documents, "writeConcern": {"w": 1, "j": journaled}})
                written += 5
                durable = written if journaled else durable
            left = tmp_path / f"left{moment}"
            engine.lose_power(left)
            found = count_in(left)
            assert durable <= found <= written
            assert found % 5 == 0
        engine.close()

    loop(work())


def test_the_power_goes_while_the_flush_is_under_way(tmp_path: Path) -> None:
    async def work() -> None:
        engine: Any = PowerLossEngine(tmp_path / "db")
        node = LocalNode(engine=engine)
        acknowledged: list[int] = []

        async def write(first: int) -> None:
            for n in range(first, first + 40):
                command = {"insert": "c", "documents": [{"_id": n}], "writeConcern": {"w": 1, "j": True}}
                await node.run(command)
                acknowledged.append(n)

        writers = [asyncio.create_task(write(first)) for first in (0, 1000, 2000)]
        for moment in range(6):
            while len(acknowledged) < 10 * moment:
                await asyncio.sleep(0)
            promised = set(acknowledged)
            left = tmp_path / f"left{moment}"
            engine.lose_power(left)
            assert promised <= ids_in(left)
        await asyncio.gather(*writers)
        engine.close()

    loop(work())


def opened(directory: Path) -> Store:
    return Store(open_engine("rocksdb", str(directory)), clock=time.time)


def ids_in(directory: Path) -> set[int]:
    store = opened(directory)
    check(store)
    coll = store.collection("test.c")
    found = set() if coll is None else {plain(raw)["_id"] for raw in coll.documents(store.engine)}
    assert coll is None or all(coll.by_id(store.engine, from_python(n)) for n in found)
    store.engine.close()
    return found


def count_in(directory: Path) -> int:
    return len(ids_in(directory))
