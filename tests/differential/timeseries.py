"""Commands about time-series collections, in an order that matters: each sees what those before it have done."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from bson.timestamp import Timestamp

Command = dict[str, Any]

T = datetime(2004, 5, 6, 7, 8, 9, 123000)
KEY = {"key": {"_id": 1}, "unique": True}
BY_ID = {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def at(**passed: float) -> datetime:
    return T + timedelta(**passed)


def _create(name: str, spec: dict[str, Any], **options: Any) -> Command:
    return {"create": name, "timeseries": spec, **options}


def _insert(*documents: dict[str, Any], into: str = "b", **options: Any) -> Command:
    return {"insert": into, "documents": list(documents), **options}


def _delete(query: dict[str, Any], limit: int = 0, **rest: Any) -> Command:
    return {"delete": "b", "deletes": [{"q": query, "limit": limit, **rest}]}


def _update(query: dict[str, Any], update: Any, **rest: Any) -> Command:
    return {"update": "b", "updates": [{"q": query, "u": update, "multi": True, **rest}]}


def _index(key: dict[str, Any], name: str, **options: Any) -> Command:
    return {"createIndexes": "b", "indexes": [{"key": key, "name": name, **options}]}


CREATED: list[Command] = [
    _create("a", {"timeField": "t"}),
    _create(
        "b", {"timeField": "t", "metaField": "m", "granularity": "minutes"}, expireAfterSeconds=3600 * 24 * 36500 // 2
    ),
    _create("c", {"timeField": "t", "metaField": "m"}),
    *[
        _create("x", spec)
        for spec in (
            {},
            {"timeField": 5},
            {"timeField": "a.b"},
            {"timeField": "t", "metaField": "t"},
            {"timeField": "t", "metaField": "_id"},
            {"timeField": "t", "metaField": "a.b"},
            {"timeField": "t", "granularity": "days"},
            {"timeField": "t", "foo": 1},
            {"timeField": "t", "bucketMaxSpanSeconds": 100},
            {"timeField": "t", "bucketMaxSpanSeconds": 0},
            {"timeField": "t", "bucketRoundingSeconds": 60},
        )
    ],
    *[
        _create("x", {"timeField": "t"}, **options)
        for options in (
            {"capped": True, "size": 100},
            {"viewOn": "a"},
            {"viewOn": "a", "pipeline": []},
            {"pipeline": []},
            {"validator": {"a": 1}},
            {"validationLevel": "off"},
            {"autoIndexId": True},
            {"idIndex": BY_ID},
            {"changeStreamPreAndPostImages": {"enabled": True}},
            {"clusteredIndex": KEY},
            {"expireAfterSeconds": -1},
            {"expireAfterSeconds": "x"},
        )
    ],
    _create("x1", {"timeField": "t", "bucketMaxSpanSeconds": 3600}),
    _create("x2", {"timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 2592000}),
    _create("x3", {"timeField": "t"}, collation={"locale": "fr"}),
    _create("a", {"timeField": "t"}),
    {"create": "a"},
    {"create": "plain"},
    _create("plain", {"timeField": "t"}),
    {"create": "v", "viewOn": "plain", "pipeline": []},
    _create("v", {"timeField": "t"}),
    {"listIndexes": "a"},
    {"listIndexes": "system.buckets.a"},
    {"find": "system.views", "sort": {"_id": 1}},
    *[{"listCollections": 1, "filter": {"name": name}} for name in ("a", "b", "x2")],
]
"""What is made and what is refused."""

SHAPES: list[Command] = [
    _insert({"_id": 1, "m": {"x": 1, "y": 2}, "t": T, "a": 3, "o": {"p": 1, "q": "z"}, "l": [1, 5]}),
    _insert(
        {"_id": 2, "t": at(seconds=1), "m": {"y": 2, "x": 1}, "a": 5, "o": {"p": 0, "r": 3}, "l": [2, 4, 6]},
        {"_id": 3, "t": at(hours=-1), "m": {"x": 1, "y": 2}, "a": "s"},
        {"_id": 4, "t": at(hours=25), "m": {"x": 1, "y": 2}},
        {"_id": 5, "t": T},
        {"_id": 6, "t": T, "m": None},
        {"_id": 7, "a": 1, "t": T, "b": 2, "m": "k"},
        {"_id": 8, "t": T, "m": "k", "a": 2.5, "b": None},
        {"_id": 9, "t": T, "m": [{"b": 1, "a": 2}], "a": float("nan")},
        {"_id": 10, "t": T, "m": [{"a": 2, "b": 1}], "a": 7, "d": T},
    ),
    _insert({"_id": 11, "t": T, "ts": Timestamp(0, 0), "m": "s"}, {"_id": [1], "t": T, "m": "s"}),
    _insert({"_id": None, "t": T, "$a": 1, "a.b": 1, "": 1, "m": "s"}),
]
"""Measurements that show what goes into one bucket; the buckets are compared as well."""

REFUSED: list[Command] = [
    _insert({"a": 1}, ordered=False),
    _insert({"t": 5}, ordered=False),
    _insert({"t": [T]}, {"t": Timestamp(1, 1)}, ordered=False),
]

FILTERS: list[dict[str, Any]] = [
    {},
    {"m": "k"},
    {"m.x": 1},
    {"m": None},
    {"m": {"$exists": False}},
    {"m": {"$type": "object"}},
    {"$or": [{"m": "k"}, {"m.x": 1}]},
    {"$nor": [{"m": "k"}, {"m.x": 1}]},
    {"$or": [{"m": "k"}, {"a": 5}]},
    {"t": T},
    {"t": {"$gt": T}},
    {"t": {"$gte": T, "$lt": at(seconds=1)}},
    {"t": {"$lt": T}},
    {"t": {"$gt": at(days=1), "$lt": at(days=2)}, "m.y": 2},
    {"t": {"$in": [T, at(seconds=1)]}},
    {"t": {"$ne": T}},
    {"t": {"$gt": 5}},
    *[
        {"a": {operator: value}}
        for operator in ("$eq", "$lt", "$lte", "$gt", "$gte", "$ne")
        for value in (3, 2.5, "s", None)
    ],
    {"a": float("nan")},
    {"a": {"$gt": 2, "$lt": 6}},
    {"l": {"$gt": 5}},
    {"l": {"$lt": 2}},
    {"l.0": 2},
    {"o.p": {"$lt": 1}},
    {"o.r": {"$gte": 3}},
    {"o": {"$gt": {"p": 0}}},
    {"_id": 3},
    {"_id": {"$gte": 7}, "m": "k"},
    {"d": {"$gte": T}},
    {"$expr": {"$gt": ["$a", 3]}},
]

READ: list[Command] = [
    *[{"find": "b", "filter": condition, "sort": {"_id": 1}} for condition in FILTERS],
    {
        "find": "b",
        "filter": {"m.y": 2},
        "sort": {"t": -1, "_id": 1},
        "skip": 1,
        "limit": 3,
        "projection": {"a": 1, "m": 1},
    },
    {"count": "b"},
    {"count": "b", "query": {"m": "k"}},
    {"distinct": "b", "key": "o.p"},
    *[
        {"aggregate": "b", "pipeline": pipeline, "cursor": {}}
        for pipeline in (
            [{"$match": {"m.x": 1}}, {"$group": {"_id": "$m.y", "n": {"$sum": 1}, "a": {"$max": "$a"}}}],
            [{"$sort": {"_id": 1}}, {"$limit": 2}],
            [{"$match": {"t": {"$gte": T}, "m": "k"}}, {"$project": {"_id": 1, "a": 1}}, {"$sort": {"_id": 1}}],
            [{"$count": "n"}],
        )
    ],
    {"create": "over", "viewOn": "b", "pipeline": [{"$match": {"m": "k"}}]},
    {"find": "over", "filter": {"a": {"$gt": 1}}},
    *[
        {"find": name, "sort": {"_id": 1}, "singleBatch": True, **more}
        for name in ("b", "over")
        for more in ({"limit": 1}, {"limit": 1, "batchSize": 1}, {"limit": 1, "skip": 1}, {"limit": 2}, {})
    ],
    {"aggregate": "plain", "pipeline": [{"$unionWith": "b"}, {"$count": "n"}], "cursor": {}},
]

CHANGED: list[Command] = [
    _delete({"a": 1}),
    _delete({"m": "k"}, limit=1),
    _delete({"m": "k", "a": 1}),
    _delete({"$or": [{"m": "k"}, {"a": 2}]}),
    _delete({"$expr": {"$eq": ["$m", "k"]}}),
    _delete({"m": "nope"}, hint={"m": 1}),
    _update({"m": "k"}, {"$set": {"m": "kk"}}),
    {"update": "b", "updates": [{"q": {"m": "kk"}, "u": {"$set": {"m": "k"}}}]},
    _update({"m": "kk"}, {"$set": {"a": 1}}),
    _update({"a": 1}, {"$set": {"m": 1}}),
    _update({"m": "kk"}, {"m": "k"}),
    _update({"m": "kk"}, [{"$set": {"m": "k"}}]),
    _update({"m": "none"}, {"$set": {"m": "k"}}, upsert=True),
    _update({"m.x": 1}, {"$inc": {"m.x": 1}}),
    _update({"m.x": 2}, {"$rename": {"m.x": "m.z"}}),
    _update({"m.z": 2}, {"$rename": {"m.z": "q"}}),
    _update({"m": "kk"}, {"$unset": {"m": 1}}),
    _update({"m": "zz"}, {"$set": {"m": 1}}, arrayFilters=[{"e": 1}]),
    _delete({"m": None}),
    {"find": "b", "sort": {"_id": 1}},
    {"findAndModify": "b", "query": {"m": "k"}, "remove": True},
    {"renameCollection": "test.b", "to": "test.b9"},
    {"aggregate": "plain", "pipeline": [{"$out": "b"}], "cursor": {}},
    {"convertToCapped": "b", "size": 1000},
    {"validate": "b"},
]

INDEXED: list[Command] = [
    _index({"m": 1}, "m_1"),
    _index({"t": 1}, "t_1"),
    _index({"t": -1}, "t_-1"),
    _index({"m.z": 1, "t": -1}, "mt"),
    _index({"a": 1}, "a_1"),
    _index({"m": 1}, "m_1"),
    _index({"m": 1}, "u", unique=True),
    _index({"m": 1, "q": 1}, "sp", sparse=True),
    _index({"m": "text"}, "tx"),
    _index({"t": 1}, "ttl", expireAfterSeconds=5),
    _index({"m": "hashed"}, "h"),
    _index({"a": "hashed"}, "ah"),
    _index({"$**": 1}, "w2"),
    _index({"_id": 1}, "_id_"),
    _insert({"_id": 20, "t": T, "a": [1], "m": 5}),
    _insert({"_id": 21, "t": T, "a": {"b": [1]}, "m": 5}),
    {"listIndexes": "b"},
    {"find": "b", "filter": {"m": 5}, "hint": {"m": 1}},
    {"find": "b", "filter": {"t": {"$gte": T}}, "hint": {"t": 1}, "sort": {"_id": 1}},
    {"find": "b", "filter": {"m": 5}, "hint": "nope"},
    {"collMod": "b", "index": {"keyPattern": {"t": 1}, "hidden": True}},
    {"dropIndexes": "b", "index": "mt"},
    {"dropIndexes": "b", "index": {"m": 1}},
    {"dropIndexes": "b", "index": "nope"},
    {"listIndexes": "b"},
    {"dropIndexes": "b", "index": "*"},
]

DEFINED: list[Command] = [
    {"collMod": "b", "timeseries": {"granularity": "hours"}},
    {"collMod": "b", "timeseries": {"granularity": "minutes"}},
    {"collMod": "b", "timeseries": {"granularity": "dayz"}},
    {"collMod": "b", "timeseries": {}},
    {"collMod": "b", "timeseries": {"timeField": "z"}},
    {"collMod": "plain", "timeseries": {"granularity": "hours"}},
    {"collMod": "b", "expireAfterSeconds": "off"},
    {"collMod": "b", "validator": {}},
    {"collMod": "b", "pipeline": [], "viewOn": "a"},
    {"collMod": "b", "index": {"name": "x", "hidden": True}},
    {"collMod": "b"},
    {"listCollections": 1, "filter": {"name": "b"}},
    {"find": "b", "filter": {"t": {"$gte": T}}, "sort": {"_id": 1}},
    {"drop": "system.views"},
    {"drop": "b"},
    {"find": "b"},
    {"listCollections": 1, "filter": {"name": {"$in": ["b", "system.buckets.b"]}}},
]
