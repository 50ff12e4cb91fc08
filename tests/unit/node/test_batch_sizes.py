"""How much a batch holds: 16 MiB, or one document."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from docstore.errors import Code
from docstore.node.read.sources import HeldBack, ListSource
from tests.unit.node.local import LocalNode, loop

MEGA = 1_000_000
KILO = 1_000
NEVER = float("inf")
READS: list[dict[str, Any]] = [
    {"find": "c", "batchSize": 1000},
    {"find": "c", "sort": {"_id": 1}, "batchSize": 1000},
    {"find": "c", "filter": {"_id": {"$gte": 0}}, "batchSize": 1000},
    {"find": "c", "filter": {"absent": None}, "batchSize": 1000},
    {"find": "c", "sort": {"absent": 1, "_id": 1}, "batchSize": 1000},
    {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 1000}},
    {"aggregate": "c", "pipeline": [{"$set": {"more": 1}}], "cursor": {"batchSize": 1000}},
    {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$gte": 0}}}], "cursor": {"batchSize": 1000}},
]


async def batches(node: LocalNode, read: dict[str, Any]) -> list[list[int]]:
    """The `_id`s that come in each batch that is not empty."""
    cursor = (await node.run(read))["cursor"]
    found = [cursor["firstBatch"]]
    while cursor["id"]:
        cursor = (await node.run({"getMore": cursor["id"], "collection": "c", "batchSize": 1000}))["cursor"]
        found.append(cursor["nextBatch"])
    return [[document["_id"] for document in batch] for batch in found if batch]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([MEGA, 16 * MEGA], [1, 1]),
        ([MEGA, MEGA, MEGA, 15 * MEGA, MEGA, 15 * MEGA], [3, 2, 1]),
        ([100 * KILO] * 128 + [10 * MEGA, MEGA, MEGA], [128, 3]),
        ([60 * KILO] * 256 + [10 * MEGA, 10 * MEGA, MEGA], [256, 1, 2]),
        ([1] * 150 + [15 * MEGA] * 3, [151, 1, 1]),
    ],
)
def test_a_batch_ends_before_the_document_that_has_no_room_in_it(sizes: list[int], expected: list[int]) -> None:
    async def work() -> None:
        node = LocalNode()
        for number, size in enumerate(sizes):
            await node.insert("c", {"_id": number, "bytes": b"\7" * size})
        for read in READS:
            found = await batches(node, read)
            assert [len(batch) for batch in found] == expected, read
            assert list(chain.from_iterable(found)) == list(range(len(sizes))), read

    loop(work())


def test_a_tailing_cursor_awaits_data_behind_what_had_no_room() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "capped": True, "size": 64 * MEGA})
        for number in range(2):
            await node.insert("c", {"_id": number, "bytes": b"\7" * (9 * MEGA)})
        opened = (await node.run({"find": "c", "tailable": True, "awaitData": True}))["cursor"]
        assert [document["_id"] for document in opened["firstBatch"]] == [0]
        more = {"getMore": opened["id"], "collection": "c", "maxTimeMS": 10}
        for expected in ([1], []):
            cursor = (await node.run(more))["cursor"]
            assert ([document["_id"] for document in cursor["nextBatch"]], cursor["id"]) == (expected, opened["id"])
        await node.insert("c", {"_id": 2})
        assert [document["_id"] for document in (await node.run(more))["cursor"]["nextBatch"]] == [2]

    loop(work())


def test_a_document_that_is_too_large_ends_a_cursor_when_it_is_met() -> None:
    async def work() -> None:
        node = LocalNode()
        for number in range(2):
            await node.insert("c", {"_id": number, "bytes": b"\7" * (number * 9 * MEGA)})
        doubled = {"$set": {"again": "$bytes"}}
        reply = await node.reply({"aggregate": "c", "pipeline": [doubled], "cursor": {}})
        if reply["ok"]:
            # The document before it took a whole turn, and was given out by itself.
            assert [each["_id"] for each in reply["cursor"]["firstBatch"]] == [0]
            reply = await node.reply({"getMore": reply["cursor"]["id"], "collection": "c"})
        assert reply["code"] == Code.BSONObjectTooLarge
        assert not list(node.services.cursors)

    loop(work())


def test_what_was_held_back_comes_first_and_counts() -> None:
    held = HeldBack(ListSource([b"b" * 4, b"c" * 4, b"d" * 4]), b"a" * 4, False)
    first = held.next_batch(3, 8, NEVER)
    assert (first.documents, first.exhausted) == ([b"aaaa", b"bbbb"], False)
    assert held.is_spent
    last = held.next_batch(3, 100, NEVER)
    assert (last.documents, last.exhausted) == ([b"cccc", b"dddd"], True)


@pytest.mark.parametrize(("most", "room"), [(1, 100), (5, 4), (5, 3)])
def test_what_was_held_back_may_be_the_whole_of_a_batch(most: int, room: int) -> None:
    held = HeldBack(ListSource([b"bbbb"]), b"aaaa", False)
    assert (held.next_batch(most, room, NEVER).documents, held.is_spent) == ([b"aaaa"], True)


def test_nothing_comes_behind_what_was_held_back_at_the_end() -> None:
    held = HeldBack(ListSource([]), b"aaaa", True)
    batch = held.next_batch(5, 100, NEVER)
    assert (batch.documents, batch.exhausted, held.is_spent) == ([b"aaaa"], True, False)
