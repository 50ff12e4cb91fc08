"""Requests that are wrong in one place, or in an unusual form: the first error, and what is taken after all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.timestamp import Timestamp

Stage = dict[str, Any]
Pipeline = list[Stage]

_OPERATORS = (
    *("$divide", "$eq", "$cond", "$ifNull", "$arrayElemAt", "$in", "$not", "$size", "$abs", "$slice", "$setEquals"),
    *("$indexOfArray", "$setIsSubset", "$type", "$isArray", "$toInt", "$toString", "$getField", "$setField", "$year"),
)
_OPERANDS: tuple[Any, ...] = (
    *(["$$zz"], ["$$zz", 1, 2, 3, 4, 5], {"$nope": 1}, {"a": 1, "$zz": 1}, {"$zz": 1, "a": 1}, {"zz": "$$zz"}),
    *([], [1, 2, 3, 4, 5, 6], ["$a", {"$nope": 1}], {"field": ["a"], "input": "$$zz"}),
)


def _windows() -> Iterator[Stage]:
    for order in ({}, None, {"n": Decimal128("1.5")}, {"n": Decimal128("0.9")}, 5):
        window = {"documents": [-1, 0]}
        yield {"sortBy": order, "output": {"r": {"$sum": "$n", "window": window}}}
        yield {"sortBy": order, "output": {"r": {"$expMovingAvg": {"input": "$n", "N": 2}}}}
    for window in (
        *({"documents": [{"$const": 1}, 5]}, {"documents": [{"$add": [1, 1]}, 5]}, {"documents": [{"a": 1}, 5]}),
        *({"range": [{"$add": [1, 1]}, 5]}, {"range": [{"$a": 1}, 5]}, {"documents": [{"$const": 6}, 5]}),
    ):
        yield {"sortBy": {"_id": 1}, "output": {"r": {"$sum": "$_id", "window": window}}}
    for output in (
        *(
            {"r": {"$rank": {}, "x": 1}},
            {"r": {"$sum": "$n", "x": 1}},
            {"$r": {"$nope": 1}},
            {"$r": 1},
            {"a.": {"$s": 1}},
        ),
        *({"": {"$sum": 1}}, None),
    ):
        yield {"sortBy": {"_id": 1}, "output": output}


def _densified() -> Iterator[Stage]:
    for bounds in ([5, "x"], ["x", 5], ["x", "y"], [None, 5], [5, None], [9, 0], [0, 9], "full", None):
        for step in (1, 1.5, None):
            for unit in ({}, {"unit": "day"}, {"unit": None}):
                yield {"field": "_id", "range": {"step": step, "bounds": bounds, **unit}}
    for fields in (["item", "item"], [None], [None, "item"], None, [""], ["$item"], [5]):
        yield {"field": "_id", "partitionByFields": fields, "range": {"step": 3, "bounds": "partition"}}
    yield {"field": "_id", "partitionByFields": ["item"], "range": {"step": 2.5, "bounds": "full"}}


def _filled() -> Iterator[Stage]:
    for fields in (["item"], ["item", "item"], [None, "item"], None, [""], [5]):
        yield {"partitionByFields": fields, "sortBy": {"_id": 1}, "output": {"n": {"method": "locf"}}}
    for given in ({"sortBy": None}, {"partitionBy": None}, {"output": None}, {"output": {"n": {"method": None}}}):
        yield {"sortBy": {"_id": 1}, "output": {"n": {"method": "locf"}}, **given}


def _grouped() -> Iterator[Stage]:
    for part in (0, True, Int64(1), Decimal128("1"), {"y": 1}, {"$literal": 1}):
        yield {"_id": {"a": None, "b": part}}
    for accumulator in ("$count", "$sum", "$nope", "$firstN", "$accumulator"):
        for argument in ([], ["$n"]):
            yield {"_id": None, "c": {accumulator: argument}}
    yield from ({"_id": None, name: spec} for name in ("a.b", "$a") for spec in ({}, {"sum": 1}, {"$nope": 1}))
    for order in ([1], [], [{"a": 1}], {"n": Decimal128("1.5")}):
        yield {"_id": None, "t": {"$top": {"sortBy": order, "output": "$_id"}}}


def _joined() -> Iterator[Stage]:
    for source in ({"a": 1}, {"db": 5}, {}, 5):
        yield {"$lookup": {"from": source, "localField": "a", "foreignField": "b", "as": "x"}}
    for given in ({"connectToField": {"a": 1}}, {"depthField": {"a": 1}}, {"from": {"a": 1}}, {"connectFromField": ""}):
        graph = {"from": "sales", "startWith": "$n", "connectFromField": "n", "connectToField": "_id", "as": "x"}
        yield {"$graphLookup": {**graph, **given}}


def pipelines() -> Iterator[Pipeline]:
    """All of them, over the collection `sales`."""
    for operator in _OPERATORS:
        for operand in _OPERANDS:
            yield [{"$limit": 1}, {"$project": {"_id": 0, "x": {operator: operand}}}]
    yield from ([{"$setWindowFields": given}, {"$sort": {"_id": 1}}] for given in _windows())
    # The order of what is generated for several partitions at the end is not promised.
    yield from ([{"$densify": given}, {"$sort": {"_id": 1, "item": 1}}] for given in _densified())
    yield from ([{"$fill": given}, {"$sort": {"_id": 1}}] for given in _filled())
    yield from ([{"$group": given}] for given in _grouped())
    yield from ([{"$limit": 1}, stage] for stage in _joined())
    yield from ([{"$sort": {"n": Decimal128(text), "_id": 1}}] for text in ("0.9", "1.5", "-1.4"))
    yield [{"$bucketAuto": {"groupBy": "$_id", "buckets": 2, "output": {}}}]
    yield from ([{name: value}] for name in ("$currentOp", "$listSessions") for value in (5, {"zz": 1}, {}))
    yield from ([{"$project": {"g": 0, "x": value}}] for value in ("$$zz", "$", {"y": "$$zz"}, ["$$zz"], "text"))
    for near in (["$s", 1], "$a", {"$literal": [1, 1]}, {"$const": 1}, {"a": "$$zz"}, 5):
        yield [{"$geoNear": {"near": near, "distanceField": "d", "key": "loc"}}]
    yield [{"$sortByCount": {"$ifNull": ["$n", 1], "c": 1}}]
    for window in ([-1, 0], [0, 0], [-1, 1], [1, 2], ["unbounded", 0]):
        yield [
            {"$set": {"n": {"$toLong": "$_id"}}},
            {
                "$setWindowFields": {
                    "sortBy": {"_id": 1},
                    "output": {"r": {"$sum": "$n", "window": {"documents": window}}},
                }
            },
        ]


def commands() -> Iterator[Stage]:
    """Commands about `sales` and about collections that are not there; none changes what others see."""
    flags = ("singleBatch", "tailable", "awaitData", "oplogReplay", "allowPartialResults", "returnKey", "showRecordId")
    yield from ({"find": "sales", flag: value} for flag in flags for value in (1, None, "x"))
    yield from ({"find": "sales", name: None} for name in ("filter", "sort", "projection", "min", "max", "hint", "let"))
    yield from ({"find": "sales", "filter": value, "zz": 1} for value in (5, {}))
    for limit in (None, "x", 1.5, Decimal128("1.5"), math.nan, True, 2):
        yield {"count": "sales", "limit": limit}
        yield {"delete": "none", "deletes": [{"q": {}, "limit": limit}]}
    yield from ({"delete": "none", "deletes": [{"q": {}, "limit": 1, "hint": hint}]} for hint in (None, 5, "x"))
    yield from ({"find": "sales", name: Decimal128("1.5")} for name in ("skip", "limit", "batchSize"))
    yield from ({"killCursors": "sales", "cursors": [number]} for number in (5, Int64(5), None, "x"))
    yield from ({"getMore": Int64(5), "collection": name} for name in (5, None, "sales"))
    for verb in ({"aggregate": "sales", "explain": True}, {"aggregate": "none", "explain": True, "cursor": {}}):
        yield {**verb, "pipeline": [], "writeConcern": {"w": 1}}
    yield {"explain": {"aggregate": "sales", "pipeline": [], "cursor": {}, "writeConcern": {"w": 1}}}
    yield {"find": "sales", "readConcern": {"afterClusterTime": Timestamp(0, 0)}}
    for strength in (math.inf, -math.inf, math.nan, Decimal128("5.5"), 6, None):
        yield {"find": "sales", "collation": {"locale": "en", "strength": strength}, "limit": 1}
    for given in (
        *({"key": 5}, {"key": {"_id": 1}}, {"key": {"_id": 1}, "name": 5}, {"key": {"_id": 1}, "name": "x", "zz": 1}),
        *({"key": {"_id": 1}, "name": "_id_", "sparse": True}, {"key": {"_id": 1}, "name": "_id_", "v": 3}),
        {"key": {"_id": 1}, "name": "_id_", "collation": {"locale": "en"}},
    ):
        yield {"create": "with_id_index", "idIndex": given}
    yield from ({"create": "flagged", "flags": value} for value in ("x", True, {}))
    for kind in (3, 0.4):
        yield {"createIndexes": "texts", "indexes": [{"key": {"t": "text", "a": kind}, "name": "a"}]}
    yield {"createIndexes": "sales", "indexes": [{"key": {"a": 1}, "name": "a", "dropDups": "x"}]}
    for region in (
        {"$box": [[0, 0, 0], [3, 3]]},
        {"$center": [[0, 0, 0], 3]},
        {"$polygon": [[0, 0, 1], [0, 3], [3, 0]]},
    ):
        yield {"find": "sales", "filter": {"p.score": {"$geoWithin": region}}}
