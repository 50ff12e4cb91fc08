"""Commands about clustered collections, in an order that matters: each sees what those before it have done."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

Command = dict[str, Any]

KEY: dict[str, Any] = {"key": {"_id": 1}, "unique": True}
BY_ID = {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def _create(name: str, spec: Any, **options: Any) -> Command:
    return {"create": name, "clusteredIndex": spec, **options}


def _index(name: str, spec: Any) -> Command:
    return {"createIndexes": name, "indexes": [spec]}


CREATED: list[Command] = [
    _create("a", KEY),
    _create("b", {**KEY, "name": "mine"}),
    _create("n0", True),
    _create("n1", 1),
    _create("n2", "x"),
    _create("n3", {"key": {"_id": 1}, "unique": False}),
    _create("n4", {"key": {"_id": 1}}),
    _create("n5", {"unique": True}),
    *[
        _create("n6", {"key": key, "unique": True})
        for key in ({"_id": -1}, {"_id": True}, {"t": 1}, {}, {"_id": 1, "a": 1})
    ],
    *[_create("n7", {**KEY, "v": version}) for version in (1, 3)],
    _create("n8", {**KEY, "foo": 3}),
    _create("n9", {**KEY, "name": 5}),
    _create("n10", KEY, capped=True, size=1000),
    *[_create("n11", KEY, expireAfterSeconds=seconds) for seconds in (-1, Int64(2**40), "a")],
    _create("n12", KEY, viewOn="a", pipeline=[]),
    _create("n13", KEY, autoIndexId=False),
    _create("n14", KEY, idIndex=BY_ID),
    {"create": "n15", "expireAfterSeconds": 10},
    _create("c0", False),
    _create("c1", {"key": {"_id": 1.0}, "unique": 1, "v": 2}),
    _create("c2", KEY, expireAfterSeconds=10.7),
    _create("c3", KEY, collation={"locale": "fr"}),
    _create("c4", KEY, validator={"a": 1}, validationLevel="moderate", changeStreamPreAndPostImages={"enabled": True}),
    _create("a", KEY),
    {"create": "plain"},
]
"""What is made and what is refused."""

DEFINED: list[Command] = [
    *[
        _index("a", spec)
        for spec in (
            {"key": {"_id": 1}, "name": "_id_"},
            {"key": {"_id": 1}, "name": "x"},
            {"key": {"_id": 1}, "name": "foo", "clustered": True, "unique": True},
            {"key": {"_id": 1}, "name": "foo", "clustered": True},
            {"key": {"_id": 1}, "name": "foo", "clustered": False},
            {"key": {"_id": 1}, "name": "foo", "clustered": "x", "unique": True},
            {"key": {"_id": 1}, "name": "foo", "unique": True},
            {"key": {"_id": 1}, "name": "foo", "clustered": True, "unique": True, "sparse": True},
            {"key": {"a": 1}, "name": "k", "clustered": True, "unique": True},
            {"key": {"a": 1}, "name": "_id_"},
            {"key": {"a": 1}, "name": "a_1"},
        )
    ],
    _index("b", {"key": {"a": 1}, "name": "mine"}),
    _index("new", {"key": {"_id": 1}, "name": "z", "clustered": True, "unique": True}),
    _index("plain", {"key": {"_id": 1}, "name": "z", "clustered": True, "unique": True}),
    *[{"dropIndexes": "b", "index": name} for name in ("_id_", "mine", ["mine"], {"_id": 1}, "*")],
    {"collMod": "a", "index": {"name": "_id_", "hidden": True}},
    {"collMod": "a", "index": {"name": "_id_", "expireAfterSeconds": 5}},
    *[{"collMod": "a", "expireAfterSeconds": seconds} for seconds in (5, "of", -2, True, Int64(2**40), "off", 2.5)],
    {"collMod": "plain", "expireAfterSeconds": 5},
]

SHOWN: list[Command] = [
    {"listCollections": 1, "filter": {"name": name}} for name in ("a", "b", "c0", "c1", "c2", "c3", "c4")
] + [{"listIndexes": name} for name in ("a", "b", "c1")]

IDENTITIES: list[Any] = [
    3,
    1,
    2.5,
    "x",
    "a",
    None,
    True,
    datetime(2024, 1, 1),
    ObjectId("6" * 24),
    {"a": 1},
    Timestamp(4, 1),
    b"ab",
]

WRITTEN: list[Command] = [
    {"insert": "a", "documents": [{"_id": identity, "n": n, "a": n % 3} for n, identity in enumerate(IDENTITIES)]},
    {"insert": "a", "documents": [{"_id": 3}]},
    {"update": "a", "updates": [{"q": {"_id": 3}, "u": {"$set": {"x": 1}}}, {"q": {"_id": 3}, "u": {"_id": 4}}]},
    {"update": "a", "updates": [{"q": {"_id": {"$gt": 1}}, "u": {"$inc": {"n": 1}}, "multi": True}]},
    {"delete": "a", "deletes": [{"q": {}, "limit": 1}]},
    {
        "findAndModify": "a",
        "query": {"_id": {"$lt": 3}},
        "sort": {"_id": -1},
        "update": {"$set": {"y": 1}},
        "new": True,
    },
]

READ: list[Command] = [
    {"find": "a"},
    *[{"find": "a", "filter": {"_id": {op: value}}} for op in ("$gt", "$lte", "$eq") for value in IDENTITIES],
    *[{"find": "a", "sort": sort} for sort in ({"$natural": -1}, {"_id": -1}, {"_id": 1, "n": 1}, {"a": 1, "_id": 1})],
    {"find": "a", "filter": {"_id": {"$in": [3, "x", 1]}}},
    {"find": "a", "filter": {"_id": {"$in": [3, "x", 1]}}, "sort": {"_id": -1}},
    {"find": "a", "filter": {"_id": {"$in": []}}},
    {"find": "a", "filter": {"_id": {"$elemMatch": {"$gt": 3, "$lt": 1}}}},
    {"find": "a", "filter": {"$or": [{"_id": 1}, {"a": 1}]}},
    {"find": "a", "filter": {"a": 1, "_id": {"$gt": 0}}},
    {"find": "a", "hint": "_id_", "skip": 1, "limit": 3},
    {"find": "a", "hint": {"_id": 1}, "min": {"_id": 1}, "max": {"_id": 3}},
    {"find": "a", "hint": {"_id": 1}, "min": {"_id": 3}, "max": {"_id": 1}},
    {"find": "a", "hint": {"_id": 1}, "min": {"_id": 3, "a": 1}},
    {"find": "a", "hint": {"_id": 1}, "min": {"_id": 3}, "sort": {"_id": -1}},
    {"find": "a", "min": {"_id": 3}},
    {"find": "a", "hint": "nope"},
    {"find": "a", "returnKey": True, "hint": "_id_"},
    {"find": "a", "tailable": True},
    {"count": "a", "query": {"_id": {"$gte": 2}}},
    {"distinct": "a", "key": "_id"},
    {"aggregate": "a", "pipeline": [{"$sort": {"_id": -1}}, {"$limit": 2}], "cursor": {}},
    {
        "aggregate": "a",
        "pipeline": [{"$lookup": {"from": "a", "localField": "n", "foreignField": "_id", "as": "x"}}],
        "cursor": {},
    },
    {"aggregate": "a", "pipeline": [{"$out": "b"}], "cursor": {}},
    {"find": "b"},
    {"listIndexes": "b"},
    {"drop": "c4"},
]

EXPLAINED: list[Command] = [
    {"find": "a", **rest}
    for rest in (
        {"filter": {}},
        {"filter": {"_id": 5}},
        {"filter": {"_id": {"$gt": 5}}},
        {"filter": {"_id": {"$gt": 5, "$lt": 9}}},
        {"filter": {"_id": 3, "n": {"$gt": 1}}},
        {"filter": {"_id": {"$in": []}}},
        {"filter": {"a": 2}},
        {"filter": {"a": 2, "_id": {"$gt": 5}}},
        {"filter": {"_id": {"$lt": "x"}}, "sort": {"_id": -1}},
        {"filter": {"_id": {"$gt": ObjectId("6" * 24)}}},
        {"filter": {"_id": {"$gt": {}}}},
        {"filter": {"_id": {"$lt": 5}}, "sort": {"n": 1}},
        {"filter": {"$or": [{"_id": 1}, {"a": 4}]}},
        {"filter": {"_id": {"$gt": 3}}, "hint": {"$natural": -1}},
        {"filter": {"_id": {"$gt": 3}}, "hint": "_id_"},
        {"filter": {"_id": {"$gt": 1}}, "hint": "_id_", "min": {"_id": 0}, "max": {"_id": 6}},
        {"filter": {"_id": {"$gt": 1}}, "projection": {"_id": 1}},
    )
]
"""Reads whose plans are compared."""
