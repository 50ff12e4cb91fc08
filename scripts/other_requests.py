"""Requests to collections and indexes of other kinds than those of `shop_requests`: time series, clustered collections,
hashed and wildcard indexes, indexes under a collation and of the plane; and what builders of queries make of filters.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

from scripts.shop_requests import START, Database, Document, Shape

_USERS = 500
_SENSORS = 20
_FEW = 100
"""What a collection has for which nobody has made an index."""
_LOOSE = {"locale": "en", "strength": 2}


def fill(database: Database, documents: int) -> None:
    """The collections that the shapes ask."""
    rng = random.Random(5)
    database.events.insert_many([_event(number, rng) for number in range(documents)])
    database.command(
        "createIndexes",
        "events",
        indexes=[
            {"key": {"user": 1}, "name": "user"},
            {"key": {"kind": 1, "at": -1}, "name": "kind_at"},
            {"key": {"name": 1}, "name": "name", "collation": _LOOSE},
            {"key": {"place": "2d"}, "name": "place"},
            {"key": {"number": "hashed"}, "name": "number"},
            {"key": {"more.$**": 1}, "name": "more"},
        ],
    )
    database.few.insert_many([_event(number, rng) for number in range(_FEW)])
    database.command("create", "by_key", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.by_key.insert_many([{"_id": number, "value": number % 100} for number in range(documents)])
    database.command("create", "measured", timeseries={"timeField": "at", "metaField": "sensor"})
    database.measured.insert_many([_measurement(number) for number in range(documents)])


def _event(number: int, rng: random.Random) -> Document:
    return {
        "_id": number,
        "user": number % _USERS,
        "at": START + datetime.timedelta(seconds=number * 17),
        "kind": rng.choice("abcde"),
        "value": rng.random() * 100,
        "number": rng.randrange(1_000),
        "name": f"Name {rng.randrange(5_000)}",
        "place": [rng.uniform(-50, 50), rng.uniform(-50, 50)],
        "more": {"color": rng.choice(("red", "blue")), "size": rng.randrange(50)},
    }


def _measurement(number: int, days: int = 0) -> Document:
    at = START + datetime.timedelta(days=days, seconds=number)
    return {"at": at, "sensor": {"id": number % _SENSORS}, "value": number / 2}


def _user(rng: random.Random) -> Document:
    return {"user": rng.randrange(_USERS)}


def _name(rng: random.Random) -> str:
    return f"name {rng.randrange(5_000)}"


def _number(rng: random.Random) -> Document:
    return {"number": rng.randrange(1_000)}


def _find(name: str, condition: Any, count: int = 100, limit: int = 0, collection: str = "events") -> Shape:
    return Shape(name, lambda db, rng: list(db[collection].find(condition(rng)).limit(limit)), count)


def _aggregate(name: str, condition: Any, *stages: Document, count: int = 50, collection: str = "events") -> Shape:
    return Shape(name, lambda db, rng: list(db[collection].aggregate([{"$match": condition(rng)}, *stages])), count)


def _box(rng: random.Random) -> Document:
    x, y = rng.uniform(-40, 40), rng.uniform(-40, 40)
    return {"place": {"$geoWithin": {"$box": [[x, y], [x + 3, y + 3]]}}}


def _hour(rng: random.Random) -> Document:
    begin = START + datetime.timedelta(seconds=rng.randrange(10_000))
    return {"sensor.id": rng.randrange(_SENSORS), "at": {"$gte": begin, "$lt": begin + datetime.timedelta(hours=1)}}


def _range(rng: random.Random) -> Document:
    least = rng.randrange(10_000)
    return {"_id": {"$gte": least, "$lt": least + 20}}


def _folded(db: Database, rng: random.Random) -> object:
    return list(db.events.find({"name": _name(rng)}, collation=_LOOSE))


def _in_order(db: Database, rng: random.Random) -> object:
    return list(db.events.find({"name": {"$gt": _name(rng)}}, collation=_LOOSE).sort("name", 1).limit(20))


def _ids(rng: random.Random) -> Document:
    return {"_id": {"$in": rng.sample(range(10_000), 200)}}


def _measured(db: Database, rng: random.Random) -> object:
    return db.measured.insert_one(_measurement(rng.randrange(100_000), 30))


def _many_measured(db: Database, rng: random.Random) -> object:
    return db.measured.insert_many([_measurement(number, 60 + rng.randrange(100)) for number in range(1_000)])


def _of_few(name: str, condition: Any, **options: Any) -> Shape:
    return Shape(f"of 100, {name}", lambda db, rng: list(db.few.find(condition(rng), **options)))


def _changed_of_few(db: Database, rng: random.Random) -> object:
    return db.few.update_one(_number(rng), {"$inc": {"changes": 1}})


SHAPES: tuple[Shape, ...] = (
    _of_few("the first", lambda rng: {}, limit=1),
    _of_few("by a number, the first", _number, limit=1),
    _of_few("by a kind", lambda rng: {"kind": rng.choice("abcde")}),
    _of_few("by a kind, sorted", lambda rng: {"kind": rng.choice("abcde")}, sort=[("value", -1)]),
    Shape("of 100, countDocuments", lambda db, rng: db.few.count_documents({"kind": rng.choice("abcde")})),
    Shape("of 100, distinct", lambda db, rng: db.few.distinct("kind")),
    Shape("of 100, $group", lambda db, rng: list(db.few.aggregate([{"$group": {"_id": "$kind", "n": {"$sum": 1}}}]))),
    Shape("of 100, update by a number", _changed_of_few),
    _find("$and of a key and an $or", lambda rng: {"$and": [_user(rng), {"$or": [{"kind": "a"}, {"value": 1}]}]}),
    _find("$nor besides a key", lambda rng: {**_user(rng), "$nor": [{"kind": "a"}, {"value": {"$lt": 10}}]}),
    _find("200 by _id", _ids, 20),
    _find("hashed index", _number),
    _find("wildcard index", lambda rng: {"more.size": rng.randrange(50)}, limit=20),
    _find("wildcard index, two paths", lambda rng: {"more.size": rng.randrange(50), "more.color": "red"}, limit=20),
    Shape("index under a collation", _folded, 100),
    Shape("index under a collation, sorted, limit 20", _in_order, 100),
    _find("2d $near, limit 10", lambda rng: {"place": {"$near": [rng.uniform(-40, 40)] * 2}}, 20, 10),
    _find("2d $box", _box),
    _find("clustered, by _id", lambda rng: {"_id": rng.randrange(10_000)}, collection="by_key"),
    _find("clustered, range of 20", _range, collection="by_key"),
    _find("time series, an hour of a sensor", _hour, 50, collection="measured"),
    _aggregate(
        "time series, $group by sensor", lambda rng: {"at": {"$lt": START + datetime.timedelta(seconds=10_000)}},
        {"$group": {"_id": "$sensor.id", "mean": {"$avg": "$value"}}}, count=20, collection="measured",
    ),
    Shape("time series, insert", _measured, 100),
    Shape("time series, insert of 1,000", _many_measured, 10),
    _aggregate(
        "a page by $skip and $limit", lambda rng: {"kind": rng.choice("abcde")},
        {"$sort": {"at": -1}}, {"$skip": 100}, {"$limit": 20}, {"$project": {"name": 1}},
    ),
    _aggregate("$group that an index covers", lambda rng: {"user": {"$lt": 20}}, {"$group": {"_id": "$user"}}),
    _aggregate(
        "$group of 2,000", lambda rng: {"user": {"$lt": 50}},
        {"$group": {"_id": "$kind", "sum": {"$sum": "$value"}, "all": {"$addToSet": "$number"}}}, count=20,
    ),
    _aggregate(
        "$group with deviations and the first three", lambda rng: {"user": {"$lt": 20}},
        {"$group": {"_id": "$kind", "deviation": {"$stdDevPop": "$value"},
                    "first": {"$topN": {"n": 3, "sortBy": {"value": -1}, "output": "$name"}}}}, count=20,
    ),
)  # fmt: skip
