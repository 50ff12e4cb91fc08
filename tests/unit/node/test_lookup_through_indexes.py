"""A `$lookup` gives the same with and without an index on the field that it asks."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.node.local import LocalNode, loop

VALUES: list[Any] = [None, 0, 1, 2.0, "a", "b", {"x": 1}, True]
LOCAL: list[Any] = [*VALUES, [], [1, "a"], [None, 2], [[1]]]
FEW = {"batchSize": 1_000_000}


def test_an_index_changes_no_partner_and_no_order() -> None:
    async def work() -> None:
        rng = random.Random(5)
        node = LocalNode()
        for case in range(12):
            arrays = LOCAL if case % 3 == 0 else VALUES
            foreign = [{"_id": place, "f": rng.choice(arrays)} for place in range(40) if rng.random() < 0.9]
            local = [{"_id": place, "a": rng.choice(LOCAL)} for place in range(300)]
            names = f"c{case}", f"k{case}"
            for name, documents in zip(names, (local, foreign), strict=True):
                await node.run({"insert": name, "documents": documents})
            stage = {"from": names[1], "localField": "a", "foreignField": "f", "as": "j"}
            command = {"aggregate": names[0], "pipeline": [{"$lookup": stage}], "cursor": FEW}
            plain = (await node.run(command))["cursor"]["firstBatch"]
            await node.run({"createIndexes": names[1], "indexes": [{"key": {"f": 1}, "name": "f"}]})
            indexed = (await node.run(command))["cursor"]["firstBatch"]

            for first, second in zip(plain, indexed, strict=True):
                if not isinstance(first["a"], list):
                    assert first == second
                # Several values are looked up in the order of the index.
                assert sorted(first["j"], key=lambda found: found["_id"]) == sorted(
                    second["j"], key=lambda found: found["_id"]
                )

    loop(work())
