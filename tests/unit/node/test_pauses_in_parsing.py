"""What happens while a long filter is parsed, in which others may run, does not part a read's state from its plan."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from docstore.commands.dispatch import Dispatcher
from tests.unit.collection.building import spec
from tests.unit.node.local import LocalNode, loop

LONG = [{"x": 1}, {"y": {"$in": [str(number) for number in range(20_000)]}}]
"""Conditions that take long to parse; the document of the test satisfies all of them."""


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": {"$and": LONG}},
        {"count": "c", "query": {"$and": LONG}},
        {"distinct": "c", "key": "_id", "query": {"$and": LONG}},
        {"aggregate": "c", "pipeline": [{"$match": {"$and": LONG}}], "cursor": {}},
    ],
    ids=lambda command: next(iter(command)),
)
def test_an_index_made_in_a_pause_of_parsing_hides_nothing(command: dict[str, object]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "x": 1, "y": "5"})
        store = node.node.store
        made: list[str] = []

        def others_run() -> bool:
            collection = store.collection("test.c")
            assert collection is not None
            if not made:
                made.append("x_1")
                build = store.build_index(collection, [spec(("x", 1))])
                assert build.step(float("inf"))
                with store.unit() as unit:
                    build.finish(unit)
                    unit.commit()
            return True

        ticks = itertools.count()
        services = replace(node.services, supervised_pause=others_run, clock=lambda: float(next(ticks)))
        node.dispatcher = Dispatcher(services)
        found = await node.run(command)
        assert made, "nobody ran while the filter was parsed"
        documents = found["cursor"]["firstBatch"] if "cursor" in found else found.get("values", found.get("n"))
        assert documents in ([{"_id": 1, "x": 1, "y": "5"}], [1], 1)

    loop(work())
