"""Requests about documents of many fields, and about documents of 10 KB to 10 MB."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from scripts.shop_requests import Database, Document, Shape

_WIDTHS = (50, 200, 1_000)
_WIDE = 100
"""Documents of each width."""
_SIZES = {"10 KB": 10, "50 KB": 50, "100 KB": 100, "255 KB": 255, "1 MB": 1_000, "10 MB": 10_000}
_LARGE = 10
"""Documents of each size."""
_MEMBERS = 1_000
_WORDS = [f"{number * 7919 % 5_000:x}" for number in range(5_000)]


def fill(database: Database) -> None:
    """The collections that the shapes ask."""
    rng = random.Random(13)
    for width in _WIDTHS:
        collection = database[f"wide{width}"]
        keys = ("field0", f"field{width - 1}")
        database.command("createIndexes", collection.name, indexes=[{"key": {key: 1}, "name": key} for key in keys])
        collection.insert_many([_wide(width, number, rng) for number in range(_WIDE)])
    for name, size in _SIZES.items():
        collection = database[f"large {name}"]
        collection.create_index("number")
        for number in range(_LARGE):
            collection.insert_one({"_id": number, **_large(size, number, rng)})
    database.lists.insert_many([{"_id": number, "list": list(range(_MEMBERS))} for number in range(_WIDE)])


def _wide(width: int, number: int, rng: random.Random) -> Document:
    """Numbers, texts and small documents in turn."""
    made: Document = {"_id": number}
    for place in range(width):
        value: Any = rng.randrange(1_000_000)
        if place % 5 == 2:
            value = f"text {value}"
        elif place % 5 == 1:
            value = {"first": value, "second": value / 8}
        made[f"field{place}"] = value
    return made


def _large(kilobytes: int, number: int, rng: random.Random) -> Document:
    """Parts of about 1 KB, most of it text."""
    parts = [
        {"at": place, "title": rng.choice(_WORDS), "text": " ".join(rng.choices(_WORDS, k=200))}
        for place in range(kilobytes)
    ]
    return {"number": number, "title": rng.choice(_WORDS), "parts": parts, "changes": 0}


def _of_width(width: int, name: str, send: Callable[[Any, random.Random], object], count: int = 100) -> Shape:
    return Shape(f"{width} fields: {name}", lambda db, rng: send(db[f"wide{width}"], rng), count)


def _of_size(size: str, name: str, send: Callable[[Any, random.Random], object]) -> Shape:
    count = max(3, min(100, 20_000 // _SIZES[size]))
    return Shape(f"{size}: {name}", lambda db, rng: send(db[f"large {size}"], rng), count)


def _one(rng: random.Random) -> Document:
    return {"_id": rng.randrange(_WIDE)}


def _of_large(rng: random.Random) -> Document:
    return {"_id": rng.randrange(_LARGE)}


def _inserted(width: int, count: int) -> Callable[[Any, random.Random], object]:
    template = _wide(width, 0, random.Random(1))

    def send(collection: Any, rng: random.Random) -> object:
        key = rng.getrandbits(60)
        documents = [{**template, "_id": key + place, "field0": key % 10_007 + place} for place in range(count)]
        return collection.insert_many(documents)

    return send


def _updated(name: str, change: Callable[[random.Random], Document], width: int) -> Shape:
    return _of_width(width, name, lambda c, rng: c.update_one(_one(rng), change(rng)))


def _shapes_of_width(width: int) -> list[Shape]:
    last = f"field{width - 1}"
    five = {f"field{place * width // 5}": 1 for place in range(5)}
    others = dict.fromkeys(five, 0)
    stages = [{"$limit": 100}, {"$project": five}]
    return [
        _of_width(width, "insert", _inserted(width, 1)),
        _of_width(width, "insert of 100", _inserted(width, 100), 5),
        _of_width(width, "by _id", lambda c, rng: c.find_one(_one(rng))),
        _of_width(width, "100, projected to five", lambda c, rng: list(c.find({}, five).limit(100)), 20),
        _of_width(width, "100 without five", lambda c, rng: list(c.find({}, others).limit(100)), 20),
        _of_width(width, "$project of five", lambda c, rng: list(c.aggregate(stages)), 20),
        _updated("$set of the first", lambda rng: {"$set": {"field0": rng.random()}}, width),
        _updated("$inc of the last", lambda rng: {"$inc": {last: 1}}, width),
        _updated("$set of a nested one", lambda rng: {"$set": {"field6.first": rng.random()}}, width),
    ]


def _shapes_of_size(size: str) -> list[Shape]:
    kilobytes = _SIZES[size]
    content = _large(kilobytes, 0, random.Random(1))
    place = kilobytes // 2
    return [
        _of_size(size, "insert", lambda c, rng: c.insert_one({**content, "_id": rng.getrandbits(60)})),
        _of_size(size, "by _id", lambda c, rng: c.find_one(_of_large(rng))),
        _of_size(size, "projected", lambda c, rng: c.find_one(_of_large(rng), {"title": 1, "changes": 1})),
        _of_size(size, "$inc", lambda c, rng: c.update_one(_of_large(rng), {"$inc": {"changes": 1}})),
        _of_size(
            size,
            "$set of an indexed field",
            lambda c, rng: c.update_one(_of_large(rng), {"$set": {"number": rng.random()}}),
        ),
        _of_size(
            size,
            "$set in a part",
            lambda c, rng: c.update_one(_of_large(rng), {"$set": {f"parts.{place}.at": rng.random()}}),
        ),
    ]


def _of_lists(name: str, change: Callable[[random.Random], Document]) -> Shape:
    return Shape(f"a list of 1,000: {name}", lambda db, rng: db.lists.update_one(_one(rng), change(rng)), 100)


SHAPES: tuple[Shape, ...] = (
    *(shape for width in _WIDTHS for shape in _shapes_of_width(width)),
    _of_lists("$push", lambda rng: {"$push": {"list": rng.randrange(_MEMBERS)}}),
    _of_lists("$push with $slice", lambda rng: {"$push": {"list": {"$each": [rng.random()], "$slice": -_MEMBERS}}}),
    _of_lists("$addToSet", lambda rng: {"$addToSet": {"list": rng.randrange(2 * _MEMBERS)}}),
    _of_lists("$pull", lambda rng: {"$pull": {"list": rng.randrange(_MEMBERS)}}),
    _of_lists("$set of one", lambda rng: {"$set": {f"list.{rng.randrange(_MEMBERS // 2)}": rng.random()}}),
    *(shape for size in _SIZES for shape in _shapes_of_size(size)),
)
