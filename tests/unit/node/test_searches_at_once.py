"""Searches in indexes of geometry and of texts that are answered in a step, against the general way."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from docstore.collection.read import prepared
from docstore.node.commands import aggregate, find
from tests.unit.node.local import LocalNode, loop

_WORDS = ("fox", "foxes", "dog", "the", "running", "runs", "cat", "tree")


def _text(dice: random.Random) -> str:
    return " ".join(dice.choice(_WORDS) for _ in range(dice.randrange(1, 9)))


def _point(dice: random.Random) -> dict[str, Any]:
    # Many at one distance from each other, some at one place.
    return {"type": "Point", "coordinates": [dice.randrange(-8, 9), dice.randrange(-8, 9) / 2]}


def _line(dice: random.Random) -> dict[str, Any]:
    return {"type": "LineString", "coordinates": [[dice.uniform(-9, -1), 0.5], [dice.uniform(1, 9), 1]]}


def _document(dice: random.Random, lines: bool) -> dict[str, Any]:
    place: Any = dice.choice((_point(dice), _point(dice)["coordinates"], _point(dice)))
    if lines and dice.random() < 0.1:
        place = _line(dice)
    document: dict[str, Any] = {"place": place, "about": _text(dice), "n": dice.randrange(5), "k": dice.randrange(3)}
    flat = [dice.uniform(-9, 9), dice.randrange(-9, 9)]
    document["flat"] = [flat, [1, 1]] if lines and dice.random() < 0.1 else flat
    for name in ("place", "flat", "about"):
        if dice.random() < 0.05:
            document[name] = None
            del document[name]
    return document


def _ring(dice: random.Random) -> list[list[float]]:
    x, y, side = dice.uniform(-9, 5), dice.uniform(-9, 5), dice.uniform(0.1, 9)
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]


def _region(dice: random.Random) -> dict[str, Any]:
    centre = [dice.uniform(-9, 9), dice.uniform(-9, 9)]
    return dice.choice(
        (
            {"$centerSphere": [centre, dice.choice((0, 0.01, 0.1, 4))]}, {"$center": [centre, dice.uniform(0, 9)]},
            {"$box": [centre, [centre[0] + 3, centre[1] - 2]]}, {"$box": [[-1e18, centre[1]], [centre[0], 1e18]]},
            {"$box": [[-1e308, centre[1]], [centre[0], 1.7e308]]}, {"$center": [[1e17, 0], 1e17]},
            {"$polygon": _ring(dice)[:-1]},
            {"$geometry": {"type": "Polygon", "coordinates": [_ring(dice)]}}, {"$centerSphere": [centre, -1]},
        )
    )  # fmt: skip


def _near(dice: random.Random) -> dict[str, Any]:
    at = _point(dice)
    legacy = at["coordinates"]
    distances = {"$maxDistance": dice.choice((0, 3, 200_000, 1e9))} if dice.random() < 0.7 else {}
    if dice.random() < 0.3:
        distances["$minDistance"] = dice.choice((0, 1, 100_000))
    return dice.choice(
        (
            {"$near": {"$geometry": at, **distances}}, {"$nearSphere": {"$geometry": at, **distances}},
            {"$near": legacy, **distances}, {"$nearSphere": legacy, **distances}, {"$near": [500, 3], **distances},
            {"$geoNear": legacy}, {"$near": {"$geometry": at, "$minDistance": -1}},
        )
    )  # fmt: skip


def _search(dice: random.Random) -> dict[str, Any]:
    words = [dice.choice(("", "", "", "-")) + dice.choice((*_WORDS, '"fox dog"')) for _ in range(dice.randrange(1, 4))]
    more: dict[str, Any] = {"$language": dice.choice(("none", "german", "x"))} if dice.random() < 0.2 else {}
    if dice.random() < 0.2:
        more["$caseSensitive"] = True
    return {"$text": {"$search": " ".join(words), **more}}


def _filter(dice: random.Random) -> dict[str, Any]:
    path = dice.choice(("place", "place", "flat"))
    found: dict[str, Any] = dice.choice(
        (
            {path: {"$geoWithin": _region(dice)}}, {path: {"$within": _region(dice)}}, {path: _near(dice)},
            {path: {"$geoIntersects": {"$geometry": dice.choice((_line(dice), _point(dice)))}}}, _search(dice),
            {path: _near(dice)}, _search(dice),
        )
    )  # fmt: skip
    more: dict[str, Any] = dice.choice(({}, {}, {"n": dice.randrange(5)}, {"k": dice.randrange(3)}, {"n": {"$gt": 2}}))
    return {**found, **more} if dice.random() < 0.5 else {**more, **found}


def _request(dice: random.Random) -> dict[str, Any]:
    request: dict[str, Any] = {"find": "c", "filter": _filter(dice)}
    for name, given in (("limit", (1, 5, 300)), ("skip", (1, 7)), ("batchSize", (2, 50))):
        if dice.random() < 0.3:
            request[name] = dice.choice(given)
    score = {"$meta": "textScore"}
    if "$text" in request["filter"] and dice.random() < 0.5:
        request["projection"] = dice.choice(({"score": score}, {"score": score, "n": 1}, {"a": score, "b": score}))
        request["sort"] = dice.choice(({"score": score}, {"x": score, "n": 1}, {"n": -1, "y": score}, {"_id": 1}))
    elif dice.random() < 0.2:
        request["sort"] = dice.choice(({"n": 1, "_id": -1}, {"k": 1, "_id": 1}, {"_id": 1}))
    if any(name in str(request["filter"]) for name in ("$near", "$geoNear")) and dice.random() < 0.2:
        request["sort"] = {"far": {"$meta": "geoNearDistance"}, "_id": 1}
    if "k" in request["filter"] and "sort" not in request:
        # Either of two indexes may serve it, and which is best may be found out anew.
        request["sort"] = {"n": 1, "_id": 1}
    if "projection" not in request and dice.random() < 0.3:
        request["projection"] = dice.choice(({"place": 1, "_id": 0}, {"about": 0}, {"n": {"$add": ["$n", 1]}}))
    return request


def _pipeline(dice: random.Random) -> dict[str, Any]:
    near: dict[str, Any] = {"near": _point(dice), "distanceField": dice.choice(("far", "n", "d.far"))}
    near["key"] = dice.choice(("place", "place", "flat"))
    if dice.random() < 0.1:
        del near["key"]
    if dice.random() < 0.3:
        near["near"] = near["near"]["coordinates"]
    for name, given in (
        ("maxDistance", (3, 200_000, -1)), ("minDistance", (1, 100_000)), ("spherical", (True, False)),
        ("query", ({"k": 1}, {"n": {"$gt": 2}}, {"place": 1}, {"$expr": {"$eq": ["$n", "$k"]}})),
        ("distanceMultiplier", (2.5,)), ("includeLocs", ("at", "n.at")),
    ):  # fmt: skip
        if dice.random() < 0.3:
            near[name] = dice.choice(given)
    behind: tuple[list[dict[str, Any]], ...] = (
        [], [], [{"$limit": 7}], [{"$skip": 2}, {"$limit": 4}], [{"$match": {"far": {"$lt": 100}}}],
        [{"$group": {"_id": "$k", "all": {"$sum": "$n"}}}, {"$sort": {"_id": 1}}], [{"$project": {"far": 1}}],
        [{"$set": {"m": {"$meta": "geoNearDistance"}}}], [{"$sort": {"far": -1, "_id": 1}}, {"$limit": 5}],
        [{"$match": {"k": 1}}, {"$limit": 3}], [{"$nothing": 1}],
    )  # fmt: skip
    return {"aggregate": "c", "pipeline": [{"$geoNear": near}, *dice.choice(behind)], "cursor": {}}


async def _all(local: LocalNode, request: dict[str, Any]) -> Any:
    reply = await local.reply(request)
    if not reply["ok"]:
        return reply["code"], reply["errmsg"]
    found = list(reply["cursor"]["firstBatch"])
    while reply["cursor"]["id"]:
        reply = await local.run({"getMore": reply["cursor"]["id"], "collection": "c"})
        found += reply["cursor"]["nextBatch"]
    return found


async def _filled(dice: random.Random, count: int, lines: bool) -> LocalNode:
    local = LocalNode()
    await local.insert("c", *({"_id": number, **_document(dice, lines)} for number in range(count)))
    indexes = [{"place": "2dsphere"}, {"flat": "2d"}, {"about": "text"}, {"k": 1}]
    await local.run({"createIndexes": "c", "indexes": [{"key": key, "name": next(iter(key))} for key in indexes]})
    return local


class _Counting:
    """A way to answer at once, and how often it did."""

    def __init__(self, real: Callable[..., bytes | None]) -> None:
        self._real = real
        self.answered = 0

    def __call__(self, *given: Any) -> bytes | None:
        reply = self._real(*given)
        self.answered += reply is not None
        return reply


@pytest.mark.parametrize(("seed", "count", "lines"), [(1, 40, False), (2, 400, True), (3, 1500, False), (4, 700, True)])
def test_what_is_found_is_the_same(seed: int, count: int, lines: bool) -> None:
    way = _Counting(find.find_at_once)

    async def run() -> None:
        dice = random.Random(seed)
        local = await _filled(dice, count, lines)
        for _ in range(400):
            request = _request(dice)
            with patch.object(find, "find_at_once", lambda *_: None):
                expected = await _all(local, request)
            with patch.object(find, "find_at_once", way):
                assert await _all(local, request) == expected, request

    loop(run())
    assert way.answered > 20


def test_a_cursor_keeps_to_its_own_search() -> None:
    async def run() -> None:
        local = await _filled(random.Random(10), 200, False)
        for words in ('dog "the"', 'cat "fox"', 'tree -dog "runs"'):
            request = {"find": "c", "filter": {"$text": {"$search": words}}, "batchSize": 2}
            with patch.object(find, "find_at_once", lambda *_: None):
                expected = await _all(local, request)
            assert len(expected) > 5
            reply = await local.run(request)
            await local.run({**request, "filter": {"$text": {"$search": '"cat dog"'}}, "batchSize": 1})
            found = list(reply["cursor"]["firstBatch"])
            while reply["cursor"]["id"]:
                reply = await local.run({"getMore": reply["cursor"]["id"], "collection": "c", "batchSize": 3})
                found += reply["cursor"]["nextBatch"]
                await local.run({**request, "filter": {"$text": {"$search": "running"}}})
            assert found == expected

    loop(run())


def test_an_order_by_distance_is_that_of_the_request() -> None:
    async def run() -> None:
        local = await _filled(random.Random(9), 300, False)
        for at in ([1, 1], [-7, 3], [5, -2]):
            near = {"place": {"$near": {"$geometry": {"type": "Point", "coordinates": at}, "$maxDistance": 5e5}}}
            request = {"find": "c", "filter": near, "sort": {"far": {"$meta": "geoNearDistance"}, "_id": 1}}
            with patch.object(find, "find_at_once", lambda *_: None):
                expected = await _all(local, request)
            assert len(expected) > 5
            assert await _all(local, request) == expected

    loop(run())


@pytest.mark.parametrize(("seed", "count", "lines"), [(6, 40, False), (7, 400, True), (8, 1500, False)])
def test_pipelines_by_distance_give_the_same(seed: int, count: int, lines: bool) -> None:
    way = _Counting(aggregate.aggregate_at_once)

    async def run() -> None:
        dice = random.Random(seed)
        local = await _filled(dice, count, lines)
        for _ in range(300):
            request = _pipeline(dice)
            with patch.object(aggregate, "aggregate_at_once", lambda *_: None):
                expected = await _all(local, request)
            with patch.object(aggregate, "aggregate_at_once", way):
                assert await _all(local, request) == expected, request

    loop(run())
    assert way.answered > 20


def test_regions_pick_what_is_changed_and_counted() -> None:
    async def run() -> None:
        dice = random.Random(5)
        local, general = LocalNode(), LocalNode()
        for node in (local, general):
            dice = random.Random(5)
            await node.insert("c", *({"_id": number, **_document(dice, True)} for number in range(300)))
            await node.run({"createIndexes": "c", "indexes": [{"key": {"place": "2dsphere"}, "name": "p"}]})
        for number in range(60):
            asked = {"place": {"$geoWithin": {"$centerSphere": [[dice.uniform(-9, 9), dice.uniform(-4, 4)], 0.05]}}}
            change = {"q": asked, "u": {"$set": {"n": number}}, "multi": dice.random() < 0.5}
            command = dice.choice(
                (
                    {"update": "c", "updates": [change]}, {"delete": "c", "deletes": [{"q": asked, "limit": 1}]},
                    {"count": "c", "query": asked}, {"distinct": "c", "key": "n", "query": asked},
                    {"aggregate": "c", "pipeline": [{"$match": asked}, {"$count": "all"}], "cursor": {}},
                    {"findAndModify": "c", "query": asked, "update": {"$inc": {"k": 1}}},
                )
            )  # fmt: skip
            with patch.object(prepared, "form_of", lambda *_: None):
                expected = await general.reply(command)
            assert await local.reply(command) == expected
        assert await local.documents("c") == await general.documents("c")

    loop(run())
