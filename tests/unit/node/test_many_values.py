"""Commands whose work after the scan is large: they pause, and answer as they do for few documents."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.collection.read import sorter
from tests.unit.node.local import LocalNode, loop


def shuffled(count: int) -> list[dict[str, Any]]:
    numbers = list(range(count))
    random.Random(5).shuffle(numbers)
    return [{"_id": number, "n": other} for number, other in enumerate(numbers)]


def test_distinct_of_many_values_has_them_in_order_and_pauses() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *shuffled(60_000))
        pauses = 0
        pause = node.node.scheduler.pause

        async def counted() -> None:
            nonlocal pauses
            pauses += 1
            await pause()

        node.node.scheduler.pause = counted
        found = (await node.run({"distinct": "c", "key": "n"}))["values"]
        assert found == list(range(60_000))
        assert pauses >= 4

    loop(work())


def test_find_and_modify_by_an_order_needs_no_memory_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *shuffled(3000))
        for wanted in (0, 1, 2):
            found = await node.run({"findAndModify": "c", "query": {}, "sort": {"n": 1}, "remove": True})
            assert found["value"]["n"] == wanted

    monkeypatch.setattr(sorter, "MAX_BYTES", 10_000)
    loop(work())
