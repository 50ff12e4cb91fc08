"""TTL indexes: what goes, what stays, and who may delete."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from docstore.node.upkeep.ttl import TtlMonitor
from docstore.storage import Family
from tests.unit.node.local import LocalNode, loop

NOW = datetime.datetime(2030, 1, 1)


def ago(seconds: int) -> datetime.datetime:
    return NOW - datetime.timedelta(seconds=seconds)


def node_with(documents: list[dict[str, Any]], *, replicated: bool = False) -> LocalNode:
    node = LocalNode(replicated=replicated)
    node.node.wall_clock = lambda: NOW.replace(tzinfo=datetime.UTC).timestamp()
    return node


async def left(node: LocalNode) -> list[Any]:
    reply = await node.run({"find": "c", "sort": {"_id": 1}, "projection": {"_id": 1}, "batchSize": 1000})
    return [document["_id"] for document in reply["cursor"]["firstBatch"]]


DOCUMENTS = [
    {"_id": "over", "t": ago(61)},
    {"_id": "now", "t": ago(60)},
    {"_id": "young", "t": ago(59)},
    {"_id": "one of them", "t": [ago(10), ago(70)]},
    {"_id": "none of them", "t": [ago(10), 5]},
    {"_id": "number", "t": 5},
    {"_id": "none"},
]


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("replicated", [False, True])
def test_documents_go_when_their_lowest_date_is_old_enough(direction: int, replicated: bool) -> None:
    async def work() -> None:
        node = node_with(DOCUMENTS, replicated=replicated)
        await node.run({"insert": "c", "documents": DOCUMENTS})
        spec = {"key": {"t": direction}, "name": "t", "expireAfterSeconds": 60}
        await node.run({"createIndexes": "c", "indexes": [spec]})

        await TtlMonitor(node.node).run_pass()

        assert await left(node) == ["none", "none of them", "number", "young"]
        assert (node.node.expiry.deleted, node.node.expiry.passes) == (3, 1)

    loop(work())


def test_a_partial_index_ends_only_what_it_holds_even_when_it_is_hidden() -> None:
    async def work() -> None:
        documents = [{"_id": number, "t": ago(100), "done": number % 2 == 0} for number in range(400)]
        node = node_with(documents)
        await node.run({"insert": "c", "documents": documents})
        spec = {"key": {"t": 1}, "name": "t", "expireAfterSeconds": 60, "partialFilterExpression": {"done": True}}
        await node.run({"createIndexes": "c", "indexes": [{**spec, "hidden": True}]})

        await TtlMonitor(node.node).run_pass()

        assert await left(node) == list(range(1, 400, 2))

    loop(work())


def test_only_the_primary_deletes() -> None:
    async def work() -> None:
        node = node_with(DOCUMENTS, replicated=True)
        await node.run({"insert": "c", "documents": DOCUMENTS})
        await node.run({"createIndexes": "c", "indexes": [{"key": {"t": 1}, "name": "t", "expireAfterSeconds": 60}]})
        node.replication.primary = False  # type: ignore[attr-defined]

        await TtlMonitor(node.node).run_pass()

        assert node.node.store.collection("test.c").count == len(DOCUMENTS)  # type: ignore[union-attr]

    loop(work())


def test_the_pause_between_passes_is_a_parameter() -> None:
    async def work() -> None:
        node = LocalNode()
        node.node.parameters.add(node.node.expiry.parameters())
        assert (await node.run({"getParameter": 1, "ttlMonitorSleepSecs": 1}, "admin"))["ttlMonitorSleepSecs"] == 60
        await node.run({"setParameter": 1, "ttlMonitorSleepSecs": 2}, "admin")
        await node.run({"setParameter": 1, "ttlMonitorEnabled": False}, "admin")
        assert (node.node.expiry.sleep_seconds, node.node.expiry.enabled) == (2, False)
        assert (await node.reply({"setParameter": 1, "ttlMonitorSleepSecs": 0}, "admin"))["code"] == 2

    loop(work())


def test_a_pass_reads_each_entry_of_an_index_once() -> None:
    """Removed entries are walked over where a range is read from its beginning again."""

    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 1}]})
        past = datetime.datetime(2020, 1, 1)
        await node.insert("c", *({"_id": number, "at": past} for number in range(1000)))
        starts: list[bytes] = []
        read = node.node.engine.items

        def items(family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
            if family is Family.INDEXES:
                starts.append(start)
            return read(family, start, end, reverse)

        node.node.engine.items = items  # type: ignore[method-assign]
        await TtlMonitor(node.node).run_pass()
        assert node.node.expiry.deleted == 1000
        assert len(starts) >= 20
        assert starts == sorted(set(starts)), "no range is begun anew"

    loop(work())
