"""Pipelines over `documents.SALES`, by stage and by accumulator. A second collection, `k`, holds `documents.OTHERS`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

Stage = dict[str, Any]
Pipeline = list[Stage]

SORTED: Stage = {"$sort": {"_id": 1}}

_BUCKET: Stage = {
    "control": {"version": {"$literal": 1}},
    "meta": {"n": "$n"},
    "data": {"at": {"0": datetime(2024, 1, 1), "1": datetime(2024, 1, 2)}},
}
_UNEVEN: Stage = {
    # Values of places that the times do not have, or do not have yet, are nobody's.
    "control": {"version": {"$literal": 1}},
    "meta": "$n",
    "data": {
        "at": {"0": datetime(2024, 1, 1), "2": datetime(2024, 1, 2), "1": datetime(2024, 1, 3)},
        "a": {"1": 11, "0": 10, "2": 12},
        "b": {"0": 1, "2": 3, "9": 4},
        "m": {"0": 7},
    },
}
_UNPACKED: Stage = {"timeField": "at", "metaField": "m", "bucketMaxSpanSeconds": 3600}

STAGES: dict[str, list[Pipeline]] = {
    # What it gives over an index of geometry is in `nearness`.
    "$geoNear": [[{"$geoNear": {"near": [1, 1], "distanceField": "d"}}], [{"$geoNear": {"near": [1, 1]}}]],
    "$match": [[{"$match": {"n": {"$gt": 2}}}], [SORTED, {"$limit": 9}, {"$match": {"l.k": 1}}], [{"$match": 1}]],
    "$project": [
        [{"$project": {"n": 1, "p.city": 1}}],
        [{"$project": {"l.k": 0, "t": 0}}],
        [{"$project": {}}],
        [{"$project": {"_id": 0, "x": {"$add": ["$n", 1]}, "l": {"k": 1}}}],
        [{"$project": {"n": 1, "t": 0}}],
    ],
    "$group": [
        [{"$group": {"_id": "$n", "c": {"$sum": 1}, "all": {"$push": "$_id"}}}, SORTED],
        [{"$group": {"_id": {"a": "$item", "b": "$p.city"}, "q": {"$avg": "$q"}}}, SORTED],
        [{"$group": {"a": 1}}],
    ],
    "$sort": [
        [{"$sort": {"n": -1, "_id": 1}}],
        [{"$sort": {"t": 1, "_id": -1}}],
        [{"$sort": {"p.score": -1, "_id": 1}}],
        [{"$sort": {}}],
    ],
    "$limit": [[SORTED, {"$limit": 3}], [{"$limit": 0}], [{"$limit": 1.5}]],
    "$skip": [[SORTED, {"$skip": 13}], [{"$skip": -1}], [{"$skip": "x"}]],
    "$unwind": [
        [SORTED, {"$unwind": "$t"}],
        [SORTED, {"$unwind": {"path": "$l", "includeArrayIndex": "at"}}],
        [{"$unwind": "t"}],
        [SORTED, {"$unwind": {"path": "$t", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "p.at"}}],
    ],
    "$_internalUnpackBucket": [
        [SORTED, {"$limit": 2}, {"$replaceWith": _BUCKET}, {"$_internalUnpackBucket": _UNPACKED}],
        [
            SORTED,
            {"$limit": 2},
            {"$replaceWith": _BUCKET},
            {"$_internalUnpackBucket": _UNPACKED},
            {"$match": {"m.n": 1}},
        ],
        [SORTED, {"$limit": 2}, {"$replaceWith": _UNEVEN}, {"$_internalUnpackBucket": _UNPACKED}],
        [
            SORTED,
            {"$limit": 2},
            {"$replaceWith": {**_UNEVEN, "data": {"at": _UNEVEN["data"]["at"], "x": 5}}},
            {"$_internalUnpackBucket": _UNPACKED},
        ],
        *[
            [SORTED, {"$limit": 2}, {"$replaceWith": {"$literal": bucket}}, {"$_internalUnpackBucket": _UNPACKED}]
            for bucket in (
                {"_id": 1},
                {"_id": 1, "data": 5},
                {"_id": 1, "data": {}},
                {"_id": 1, "data": {"at": {}}},
                {"_id": 1, "control": {}, "data": {"at": {}}},
                {"_id": 1, "control": {"version": "1"}, "data": {"at": {}}},
                {"_id": 1, "control": {"version": 3}, "data": {"at": {}}},
                {"_id": 1, "control": {"version": 1.0}, "data": {"b": {}}},
                {"_id": 1, "control": {"version": 1}, "data": {"at": 5}},
                {"_id": 1, "control": {"version": 1}, "data": {"at": {}}},
            )
        ],
        *[
            [SORTED, {"$limit": 2}, {"$replaceWith": _UNEVEN}, {"$_internalUnpackBucket": _UNPACKED}, *behind]
            for behind in (
                [{"$group": {"_id": "$m", "a": {"$sum": "$a"}}}, SORTED],
                [{"$group": {"_id": None, "last": {"$max": "$at"}, "n": {"$sum": 1}}}],
                [{"$match": {"b": {"$gt": 1}}}, {"$count": "n"}],
                [{"$sort": {"at": -1}}, {"$limit": 1}, {"$project": {"b": 1}}],
                [{"$match": {"$expr": {"$gt": ["$a", "$b"]}}}, {"$project": {"m": 1}}],
                [{"$group": {"_id": "$b", "all": {"$push": "$$ROOT"}}}, SORTED],
                [
                    {"$group": {"_id": None, "top": {"$top": {"sortBy": {"a": -1}, "output": "$m"}}}},
                ],
            )
        ],
        *[
            [{"$_internalUnpackBucket": value}]
            for value in (
                5,
                {},
                _UNPACKED,
                _UNPACKED | {"timeField": 5},
                _UNPACKED | {"metaField": 5},
                _UNPACKED | {"bucketMaxSpanSeconds": "x"},
                _UNPACKED | {"foo": 1},
                {"timeField": "at"},
            )
        ],
    ],
    "$count": [[{"$count": "x"}], [{"$match": {"n": 99}}, {"$count": "x"}], [{"$count": "$x"}], [{"$count": "a.b"}]],
    "$sortByCount": [[{"$match": {"n": {"$gt": 3}}}, {"$sortByCount": "$n"}], [{"$sortByCount": "n"}]],
    "$bucket": [
        [{"$bucket": {"groupBy": "$_id", "boundaries": [0, 4, 20]}}],
        [{"$bucket": {"groupBy": "$q", "boundaries": [0, 4]}}],
        [{"$bucket": {"groupBy": "$q", "boundaries": [0, 4], "default": "z", "output": {"s": {"$sum": "$_id"}}}}],
    ],
    "$bucketAuto": [
        [{"$bucketAuto": {"groupBy": "$_id", "buckets": 3}}],
        [{"$bucketAuto": {"groupBy": "$n", "buckets": 0}}],
        [{"$bucketAuto": {"groupBy": "$_id", "buckets": 4, "granularity": "R5", "output": {"m": {"$max": "$n"}}}}],
    ],
    "$facet": [
        [{"$facet": {"a": [SORTED, {"$limit": 1}], "b": [{"$count": "n"}]}}],
        [{"$facet": {"a": [{"$out": "x"}]}}],
        [{"$facet": {}}],
    ],
    "$lookup": [
        [SORTED, {"$lookup": {"from": "k", "localField": "n", "foreignField": "_id", "as": "j"}}],
        [
            SORTED,
            {"$lookup": {"from": "k", "localField": "p.score", "foreignField": "up", "as": "p.j"}},
            {"$unwind": "$p.j"},
        ],
        [
            SORTED,
            {
                "$lookup": {
                    "from": "k",
                    "let": {"n": "$n"},
                    "as": "j",
                    "pipeline": [{"$match": {"$expr": {"$lt": ["$_id", "$$n"]}}}, SORTED],
                }
            },
        ],
        [
            {
                "$lookup": {
                    "from": "k",
                    "localField": "n",
                    "foreignField": "up",
                    "pipeline": [SORTED, {"$limit": 1}],
                    "as": "j",
                }
            },
            SORTED,
        ],
        [{"$lookup": {"from": "k", "as": "j"}}],
        [SORTED, {"$lookup": {"from": "k", "as": "j", "pipeline": []}}, {"$set": {"j": {"$size": "$j"}}}],
        [SORTED, {"$lookup": {"from": "k", "as": "j", "pipeline": [{"$match": {}}], "let": {"n": "$n"}}}],
        *[
            [
                SORTED,
                {"$lookup": {"from": source, "let": {"v": value, "n": "$n"}, "as": "j", "pipeline": [match, *rest]}},
            ]
            for source, value, match in (
                ("k", "$n", {"$match": {"$expr": {"$eq": ["$_id", "$$v"]}}}),
                ("k", "$n", {"$match": {"$expr": {"$eq": ["$$v", "$up"]}}}),
                ("sales", "$t", {"$match": {"$expr": {"$eq": ["$t", "$$v"]}}}),
                ("sales", "$q", {"$match": {"$expr": {"$eq": ["$q", "$$v"]}}}),
                ("sales", "$p.city", {"$match": {"$expr": {"$eq": ["$item", "$$v"]}}}),
            )
            for rest in (
                [SORTED],
                [SORTED, {"$set": {"seen": "$$n", "same": {"$eq": ["$_id", "$$n"]}}}],
                [{"$group": {"_id": "$$n", "c": {"$sum": 1}}}],
                [{"$project": {"x": 1, "y": "$$v"}}, SORTED, {"$limit": 2}],
            )
        ],
        *[
            [
                SORTED,
                {"$lookup": {"from": source, "localField": here, "foreignField": there, "as": "j", "pipeline": rest}},
            ]
            for source, here, there in (("k", "n", "_id"), ("sales", "t", "t"), ("sales", "l.k", "l.k"))
            for rest in (
                [SORTED, {"$project": {"n": 1}}],
                [{"$count": "c"}],
                [{"$unwind": "$t"}, {"$group": {"_id": None, "s": {"$sum": "$n"}, "c": {"$sum": 1}}}],
                [{"$set": {"z": {"$divide": [1, {"$strLenCP": "$item"}]}}}],
            )
        ],
    ],
    "$graphLookup": [
        [
            SORTED,
            {
                "$graphLookup": {
                    "from": "k",
                    "startWith": "$n",
                    "connectFromField": "up",
                    "connectToField": "_id",
                    "as": "g",
                    "depthField": "d",
                }
            },
            {"$unwind": "$g"},
            {"$sort": {"_id": 1, "g._id": 1}},
        ],
        [{"$graphLookup": {"from": "k", "startWith": "$n", "connectFromField": "up", "as": "g"}}],
    ],
    "$unionWith": [
        [{"$unionWith": "k"}, {"$sort": {"_id": 1, "n": 1}}],
        [{"$unionWith": {"coll": "k", "pipeline": [{"$match": {"_id": 2}}]}}, {"$sort": {"_id": 1, "n": 1}}],
        [{"$unionWith": 1}],
        [{"$unionWith": ""}],
        [{"$unionWith": {"coll": ".k", "pipeline": [{"$nosuch": 1}]}}],
    ],
    "$set": [
        [{"$set": {"p.x": "$n", "l.z": 1, "t": "$$REMOVE"}}, SORTED],
        [{"$set": {}}],
        [{"$set": {"a.b": 1, "a": 1}}],
    ],
    "$addFields": [[{"$addFields": {"x": {"y": "$n", "z": ["$q", "$nosuch"]}}}, SORTED], [{"$addFields": 1}]],
    "$unset": [[{"$unset": ["l.k", "p"]}, SORTED], [{"$unset": "t"}, SORTED], [{"$unset": []}], [{"$unset": ""}]],
    "$replaceRoot": [
        [SORTED, {"$replaceRoot": {"newRoot": "$p"}}],
        [{"$replaceRoot": {"newRoot": "$n"}}],
        [{"$replaceRoot": {}}],
    ],
    "$replaceWith": [[SORTED, {"$replaceWith": {"$mergeObjects": ["$p", {"n": "$n"}]}}], [{"$replaceWith": "$nosuch"}]],
    "$redact": [[SORTED, {"$redact": {"$cond": [{"$gt": ["$k", 1]}, "$$PRUNE", "$$DESCEND"]}}], [{"$redact": "$n"}]],
    "$sample": [
        [{"$sample": {"size": 99}}, SORTED],
        [{"$sample": {"size": 3}}, {"$count": "n"}],
        [{"$sample": {"size": -1}}],
    ],
    "$out": [
        [SORTED, {"$out": "out"}],
        [{"$out": {"db": "test", "coll": "out"}}],
        [{"$out": 5}],
        [{"$out": "out"}, SORTED],
    ],
    "$merge": [
        [SORTED, {"$project": {"n": 1}}, {"$merge": {"into": "out", "whenMatched": matched, "whenNotMatched": missing}}]
        for matched in ("replace", "keepExisting", "merge", "fail", [{"$set": {"was": "$$new.n"}}])
        for missing in ("insert", "discard", "fail")
    ]
    + [
        [SORTED, {"$merge": {"into": "out", "whenMatched": [{"$set": {"was": "$$new.n"}}], "let": variables}}]
        for variables in ({}, None, {"x": 1}, {"new": "$$ROOT"}, {"new": 1}, {"x": 1, "new": "$$ROOT"}, {"x": "$n"})
    ]
    + [
        [
            SORTED,
            {
                "$merge": {
                    "into": "out",
                    "whenMatched": [{"$set": {"was": "$$new.n"}}],
                    "let": variables,
                    "whenNotMatched": missing,
                }
            },
        ]
        for variables in ({}, None, {"x": 1}, {"new": "$$ROOT"})
        for missing in ("discard", "fail")
    ]
    + [
        [{"$merge": {"into": "out", "whenMatched": matched, "whenNotMatched": "discard", "let": variables, "on": on}}]
        for matched in ("keepExisting", "fail", "replace")
        for variables in ({}, {"x": "$$nope"}, 5)
        for on in ("_id", 5)
    ],
    "$setWindowFields": [
        [
            {
                "$setWindowFields": {
                    "partitionBy": "$n",
                    "sortBy": {"_id": 1},
                    "output": {"w": {"$sum": "$q", "window": {"documents": [-1, 0]}}},
                }
            },
            SORTED,
        ],
        [{"$setWindowFields": {"output": 1}}],
    ],
    "$densify": [
        [{"$densify": {"field": "_id", "range": {"step": 4, "bounds": [0, 30]}}}, SORTED],
        [
            {
                "$densify": {
                    "field": "when",
                    "partitionByFields": ["item"],
                    "range": {"step": 2, "unit": "month", "bounds": "partition"},
                }
            },
            {"$sort": {"item": 1, "when": 1}},
        ],
        [{"$densify": {"field": "n"}}],
    ],
    "$fill": [
        [{"$fill": {"sortBy": {"_id": 1}, "output": {"q": {"method": "linear"}}}}, SORTED],
        [
            {
                "$fill": {
                    "partitionBy": "$n",
                    "sortBy": {"_id": 1},
                    "output": {"q": {"method": "locf"}, "x": {"value": 5}},
                }
            },
            SORTED,
        ],
        [{"$fill": {}}],
    ],
    "$documents": [
        [{"$documents": [{"a": 1}]}],
        [{"$unionWith": {"pipeline": [{"$documents": [{"_id": 99, "x": {"$add": [1, 2]}}]}]}}, SORTED],
    ],
    "$collStats": [
        [{"$collStats": {"count": {}}}, {"$project": {"count": 1}}],
        [{"$collStats": {"nosuch": 1}}],
        [SORTED, {"$collStats": {}}],
    ],
    "$indexStats": [[{"$indexStats": {}}, {"$project": {"name": 1, "key": 1}}], [{"$indexStats": {"x": 1}}]],
    "$changeStream": [[{"$changeStream": {}}], [SORTED, {"$changeStream": {}}], [{"$changeStream": {"x": 1}}]],
    "$currentOp": [[{"$currentOp": {}}], [SORTED, {"$currentOp": {}}]],
    "$listLocalSessions": [[{"$listLocalSessions": {}}, {"$match": {"_id": 1}}]],
    "$listSessions": [[{"$listSessions": {}}]],
    "$planCacheStats": [[{"$planCacheStats": {}}, {"$count": "n"}], [{"$planCacheStats": {"x": 1}}]],
}

ACCUMULATORS: dict[str, list[Any]] = {
    **{
        name: [{name: path} for path in ("$q", "$price", "$item", "$p.score", "$nosuch")]
        for name in ("$avg", "$first", "$last", "$max", "$min", "$push", "$stdDevPop", "$stdDevSamp", "$sum")
    },
    "$addToSet": [{"$addToSet": "$price"}, {"$addToSet": "$n"}],
    "$count": [{"$count": {}}, {"$count": 1}],
    "$mergeObjects": [{"$mergeObjects": "$p"}, {"$mergeObjects": "$nosuch"}, {"$mergeObjects": "$n"}],
    **{
        name: [{name: {"n": 2, "input": path}} for path in ("$q", "$price", "$nosuch")]
        + [{name: {"n": 0, "input": 1}}, {name: 1}]
        for name in ("$firstN", "$lastN", "$maxN", "$minN")
    },
    **{
        name: [{name: {"sortBy": {"q": 1, "_id": -1}, "output": "$_id"}}, {name: {"sortBy": 1, "output": 1}}]
        for name in ("$top", "$bottom")
    },
    **{
        name: [{name: {"n": 2, "sortBy": {"q": -1, "_id": 1}, "output": ["$_id", "$nosuch"]}}, {name: {"n": 2}}]
        for name in ("$topN", "$bottomN")
    },
}
"""Each stands as a field of `$group` and as an output of `$setWindowFields` with `WINDOWS`, sorted by `_id`."""

WINDOWS: list[Any] = [
    None,
    {"documents": ["unbounded", "current"]},
    {"documents": [-2, 1]},
    {"documents": ["current", "unbounded"]},
    {"range": [-3, 0]},
]

WINDOW_FUNCTIONS: dict[str, list[Any]] = {
    **{
        name: [{name: ["$q", "$_id"], **window} for window in ({}, {"window": {"documents": [-3, 0]}})]
        for name in ("$covariancePop", "$covarianceSamp")
    },
    **{
        name: [{name: {}}, {name: {}, "window": {"documents": [0, 1]}}]
        for name in ("$denseRank", "$documentNumber", "$rank")
    },
    "$derivative": [
        {"$derivative": {"input": "$price"}, "window": {"documents": [-1, 0]}},
        {"$derivative": {"input": "$price", "unit": "day"}},
    ],
    "$integral": [
        {"$integral": {"input": "$_id"}, "window": {"documents": ["unbounded", "current"]}},
        {"$integral": {}},
    ],
    "$expMovingAvg": [
        {"$expMovingAvg": {"input": "$n", "N": 3}},
        {"$expMovingAvg": {"input": "$q", "alpha": 0.25}},
        {"$expMovingAvg": {"input": 1}},
    ],
    "$linearFill": [{"$linearFill": "$q"}],
    "$locf": [{"$locf": "$q"}],
    "$shift": [
        {"$shift": {"output": "$n", "by": -2, "default": "none"}},
        {"$shift": {"output": "$n", "by": 1}},
        {"$shift": {"by": 1}},
    ],
}
"""Outputs of `$setWindowFields`, sorted by `_id`, whole and partitioned by `n`."""

BY_DATE: list[Any] = [
    {"$derivative": {"input": "$n", "unit": "day"}, "window": {"documents": [-1, 0]}},
    {"$sum": "$n", "window": {"range": [-40, 0], "unit": "day"}},
    {"$sum": "$n", "window": {"range": [-1, 1], "unit": "month"}},
    {"$integral": {"input": "$n", "unit": "hour"}},
    {"$sum": "$n", "window": {"range": [-1, 1]}},
]
"""Outputs of `$setWindowFields`, sorted by `when`."""
