"""The keys of large documents that are calculated ahead are those that the index would find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import bson
import pytest

from docstore.collection.index.ahead import KeysAhead
from docstore.collection.index.pieces import keys_in_pieces
from docstore.errors import CommandError
from docstore.kernel.keys.pattern import KeyPattern
from tests.unit.collection.building import make, spec, store_on
from tests.unit.node.local import LocalNode, loop

_RING = [[0, 0], [3, 0], [3, 3], [0, 3], [0, 0]]


def _outcome(keys: Callable[[], tuple[list[bytes], int, bytes]]) -> tuple[list[bytes], int, bytes] | int:
    """The keys, or the code of the error."""
    try:
        return keys()
    except CommandError as error:
        return error.code


@pytest.mark.parametrize(
    "document",
    [
        {"a": list(range(20_000))},
        {"a": [5] * 20_000, "b": 1},
        {"a": [None, [], [1, 2], {"b": 1}] * 5_000},
        {"a": [{"b": number, "c": -number} for number in range(5_000)], "d": [1]},
        {"a": [{"b": [number, 3]} for number in range(5_000)]},
        {"a": list(range(20_000)), "b": list(range(20_000))},
        {"a": list(range(20_000)), "b": [1]},
        {"b": list(range(20_000))},
        {"a": []},
        {},
    ],
)
@pytest.mark.parametrize(
    "fields", [[("a", 1)], [("a", -1)], [("a.b", 1)], [("a.b", 1), ("a.c", -1)], [("a", 1), ("b", 1)], [("a.1", 1)]]
)
def test_the_pieces_of_an_array_have_the_keys_of_the_whole(
    document: dict[str, Any], fields: list[tuple[str, int]]
) -> None:
    raw = bson.encode(document)
    assert _outcome(lambda: keys_in_pieces(KeyPattern(fields), raw)) == _outcome(
        lambda: KeyPattern(fields).marked_keys(raw)
    )


def test_what_is_ahead_is_what_each_index_finds() -> None:
    store = store_on()
    coll = make(
        store, "db.c",
        indexes=(
            spec(("a", 1)), spec(("$**", 1)), spec(("g", "2dsphere")), spec(("t", "text")), spec(("a", "hashed")),
            spec(("b", 1), partialFilterExpression={"b": {"$gt": 5}}),
        ),
    )  # fmt: skip
    ahead = KeysAhead()
    for document in (
        {"_id": 1, "t": "some words and others", "g": {"type": "Polygon", "coordinates": [_RING]}, "a": 5, "b": 6},
        {"_id": 2, "a": [1, 2], "b": 3, "g": {"type": "Polygon", "coordinates": [_RING[:3]]}},
    ):
        raw = bson.encode(document)
        assert not ahead.has(coll, raw)
        ahead.calculate(coll, raw)
        assert ahead.has(coll, raw)
        for index in coll.secondary:
            for tolerant in (False, True):
                assert _outcome(partial(ahead.of, index, raw, tolerant=tolerant)) == _outcome(
                    partial(index.marked_keys, raw, tolerant=tolerant)
                )
    ahead.clear()
    assert not ahead.has(coll, raw)


@pytest.mark.parametrize("ordered", [True, False])
def test_large_documents_among_small_ones_are_inserted_in_their_order(ordered: bool) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": True}]})
        large = list(range(100, 20_000))
        documents: list[dict[str, Any]] = [
            {"_id": 1, "a": 1}, {"a": large}, {"_id": 3, "a": 3}, {"_id": 4, "a": 4, "s": "x" * 40_000},
            {"_id": 1, "a": 5, "s": "x" * 40_000}, {"_id": 6, "a": [100, *range(30_000, 50_000)]}, {"_id": 7, "a": 7},
        ]  # fmt: skip
        reply = await node.run({"insert": "c", "documents": documents, "ordered": ordered})
        failed = [each["index"] for each in reply["writeErrors"]]
        assert (reply["n"], failed) == ((4, [4]) if ordered else (5, [4, 5]))
        found = await node.run({"find": "c", "filter": {"a": 15_000}, "projection": {"_id": 1}})
        assert len(found["cursor"]["firstBatch"]) == 1
        checked = await node.run({"validate": "c"})
        assert checked["valid"]
        assert checked["keysPerIndex"]["a_1"] == reply["n"] - 1 + len(large)

    loop(work())


def _update(change: Any, **more: Any) -> dict[str, Any]:
    return {"update": "c", "updates": [{"q": {"_id": 1}, "u": change, **more}]}


_LARGE = list(range(100_000))
_CHANGE = {"$set": {"a": _LARGE}, "$inc": {"n": 1}}


@pytest.mark.parametrize(
    ("command", "counted"),
    [
        (_update(_CHANGE), True),
        (_update(_CHANGE, upsert=True), True),
        ({"update": "c", "updates": [{"q": {"s": "x"}, "u": _CHANGE, "multi": True}]}, True),
        ({"findAndModify": "c", "query": {"_id": 1}, "update": _CHANGE, "fields": {"_id": 1}}, True),
        ({"findAndModify": "c", "query": {"s": "x"}, "update": _CHANGE, "fields": {"_id": 1}}, True),
        (_update({"a": _LARGE, "s": "x"}), False),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_others_run_while_an_update_makes_a_large_document_and_none_of_what_they_do_is_lost(
    command: dict[str, Any], counted: bool, there: bool
) -> None:
    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        if there:
            await node.run({"insert": "c", "documents": [{"_id": 1, "n": 0, "s": "x", "a": [-1, -2]}]})
        large = asyncio.create_task(node.run(command))
        turns = 0
        while not large.done():
            await node.run(_update({"$inc": {"n": 1}}, upsert=not there and turns == 0))
            turns += 1
            await asyncio.sleep(0)
        reply = await large
        document = (await node.run({"find": "c", "filter": {"_id": 1}}))["cursor"]["firstBatch"][0]
        changed = reply.get("n", 0) or reply.get("lastErrorObject", {}).get("n", 0)
        if there:
            assert changed == 1
            assert turns > 3
        if counted:
            assert document["n"] == turns + changed
        checked = await node.run({"validate": "c"})
        assert checked["valid"]
        keys = len(document.get("a", [None]))
        assert checked["keysPerIndex"]["a_1"] == keys

    loop(work())
