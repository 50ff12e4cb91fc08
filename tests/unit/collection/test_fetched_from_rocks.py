"""Documents behind the entries of an index, where the engine's iterators are moved over their records."""

from __future__ import annotations

from pathlib import Path
from random import Random

import bson
import pytest

from docstore.storage import open_engine
from tests.unit.node.local import LocalNode, loop

COUNT = 600


@pytest.mark.parametrize("key", [{"n": 1}, {"tags": 1}, {"n": -1, "_id": 1}], ids=str)
def test_documents_are_those_of_a_scan_in_the_order_of_the_index(tmp_path: Path, key: dict[str, int]) -> None:
    async def work() -> None:
        rng = Random(str(key))
        node = LocalNode(engine=open_engine("rocksdb", str(tmp_path)))
        order = [rng.randrange(COUNT) if place % 9 == 0 else place * 7 % COUNT for place in range(COUNT)]
        documents = [
            {"_id": place, "n": number, "tags": [number % 40, number // 40], "t": "x" * rng.choice((5, 5, 5, 4000))}
            for place, number in enumerate(order)
        ]
        await node.run({"insert": "c", "documents": documents})
        await node.run({"createIndexes": "c", "indexes": [{"key": key, "name": "i"}]})
        await node.run({"delete": "c", "deletes": [{"q": {"_id": {"$mod": [11, 3]}}, "limit": 0}]})
        path = next(iter(key))
        for low, high in ((0, COUNT), (17, 90), (3, 5), (580, 600)):
            filter_ = {path: {"$gte": low, "$lt": high}}
            scanned = await node.run({"find": "c", "filter": filter_, "hint": {"$natural": 1}, "batchSize": 1_000})
            found = await node.run({"find": "c", "filter": filter_, "hint": "i", "batchSize": 70})
            batch, cursor = found["cursor"]["firstBatch"], found["cursor"]["id"]
            # What is written meanwhile does not show: the rest is read from a snapshot.
            await node.run({"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$set": {"t": f"{low}"}}}]})
            while cursor:
                more = await node.run({"getMore": cursor, "collection": "c", "batchSize": 300})
                batch, cursor = batch + more["cursor"]["nextBatch"], more["cursor"]["id"]
            ids = [each["_id"] for each in batch]
            assert len(ids) == len(set(ids))
            assert sorted(map(bson.encode, batch)) == sorted(map(bson.encode, scanned["cursor"]["firstBatch"]))
            if path == "n":
                numbers = [each["n"] * key["n"] for each in batch]
                assert numbers == sorted(numbers)
        node.node.engine.close()

    loop(work())
