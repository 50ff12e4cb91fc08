"""Filters over `documents.TYPES` or `documents.SALES`, by operator, and projections, by operator."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex

from tests.differential.documents import VALUES

Case = dict[str, Any]

_COMPARED = [value for value in VALUES if not isinstance(value, Regex)]

FILTERS: dict[str, list[Case]] = {
    **{name: [{"v": {name: value}} for value in _COMPARED] for name in ("$eq", "$gt", "$gte", "$lt", "$lte", "$ne")},
    "$in": [{"v": {"$in": [5, None, Regex("^a"), [5]]}}, {"v": {"$in": []}}, {"v": {"$in": 5}}, {"v.a": {"$in": [1]}}],
    "$nin": [{"v": {"$nin": [5, None, Regex("^a"), [5]]}}, {"v": {"$nin": []}}, {"v": {"$nin": [{"$gt": 1}]}}],
    "$and": [{"$and": [{"v": {"$gt": 1}}, {"v": {"$lt": 9}}]}, {"$and": []}, {"$and": [1]}],
    "$or": [{"$or": [{"v": 5}, {"v": "abc"}]}, {"$or": {}}, {"$or": [{"$or": [{"v": None}]}, {"_id": 3}]}],
    "$nor": [{"$nor": [{"v": {"$gte": 0}}, {"v": None}]}, {"$nor": []}],
    "$not": [{"v": {"$not": {"$gt": 1}}}, {"v": {"$not": Regex("b")}}, {"v": {"$not": 5}}, {"v": {"$not": {}}}],
    "$exists": [{"v": {"$exists": True}}, {"v": {"$exists": False}}, {"v.0": {"$exists": 1}}, {"v.a": {"$exists": 0}}],
    "$type": [{"v": {"$type": kind}} for kind in ("number", "array", 2, [1, "bool"], "nosuch", -1, 127, "missing")],
    "$expr": [
        {"$expr": {"$gt": ["$v", 5]}},
        {"$expr": "$v"},
        {"$expr": {"$nosuch": 1}},
        {"$and": [{"_id": {"$lt": 30}}, {"$expr": {"$eq": ["$v", "$_id"]}}]},
        {"v": {"$expr": True}},
    ],
    "$jsonSchema": [
        {"$jsonSchema": {"required": ["v"], "properties": {"v": {"bsonType": ["int", "string"]}}}},
        {"$jsonSchema": {"properties": {"v": {"minimum": 1, "exclusiveMinimum": True}}}},
        {"$jsonSchema": {"x": 1}},
        {"$jsonSchema": {"properties": {"v": {"items": {"type": "number"}, "uniqueItems": True, "minItems": 1}}}},
    ],
    "$mod": [{"v": {"$mod": [5, 0]}}, {"v": {"$mod": [2.9, 1]}}, {"v": {"$mod": [0, 1]}}, {"v": {"$mod": [2]}}],
    "$regex": [
        {"v": {"$regex": "^A", "$options": "i"}},
        {"v": {"$regex": Regex("b.", "s")}},
        {"v": {"$regex": "("}},
        {"v": {"$options": "i"}},
        {"v": {"$regex": "a", "$options": "q"}},
        {"v": Regex("\u00c9", "i")},
    ],
    "$all": [
        {"v": {"$all": [5, 1]}},
        {"v": {"$all": [[5]]}},
        {"v": {"$all": []}},
        {"v": {"$all": [{"$elemMatch": {"a": 1}}]}},
        *({"v": {"$all": [5, {name: 1}]}} for name in ("$x", "$gt", "$not", "$near", "$and", "$id", "$exists")),
    ],
    "$elemMatch": [
        {"v": {"$elemMatch": {"$gt": 1, "$lt": 6}}},
        {"v": {"$elemMatch": {"a": 1}}},
        {"v": {"$elemMatch": 1}},
    ],
    "$size": [{"v": {"$size": length}} for length in (1, 0, -1, 1.5, 2**31, -(2.0**40), 1e300)],
    **{
        name: [{"v": {name: mask}} for mask in (5, [0, 2], Binary(b"\x05"), Int64(-1), 1.5, [-1], "a", Decimal128("5"))]
        for name in ("$bitsAllClear", "$bitsAllSet", "$bitsAnyClear", "$bitsAnySet")
    },
    "$comment": [{"v": 5, "$comment": "why"}, {"v": {"$eq": 5, "$comment": "why"}}, {"$comment": 3}],
    "$rand": [{"$expr": {"$gte": [{"$rand": {}}, 0]}}, {"$expr": {"$lt": [{"$rand": {}}, 0]}}, {"$expr": {"$rand": 1}}],
    "$alwaysTrue": [{"$alwaysTrue": 1}, {"$alwaysTrue": 0}],
    "$alwaysFalse": [{"$alwaysFalse": 1}, {"$alwaysFalse": "x"}],
    "$sampleRate": [{"$sampleRate": 1}, {"$sampleRate": 0}, {"$sampleRate": 2}, {"$sampleRate": "x"}],
}

FINDS: dict[str, list[Case]] = {
    "projection $": [
        {"filter": {"t": "blue"}, "projection": {"t.$": 1}},
        {"filter": {"l": {"$elemMatch": {"w": {"$lt": 0}}}}, "projection": {"l.$": 1, "n": 1}},
        {"filter": {"n": 1}, "projection": {"t.$": 1}},
        {"filter": {"t": "red"}, "projection": {"t.$": 0}},
        {"filter": {"t": "red", "$expr": {"$gt": ["$n", 1]}}, "projection": {"t.$": 1, "n": 0}},
        {"filter": {"$nor": [{"$jsonSchema": {}}]}, "projection": {"t.$": 1}},
    ],
    "projection $elemMatch": [
        {"projection": {"l": {"$elemMatch": {"k": 2, "w": {"$gt": 3}}}}},
        {"projection": {"p.score": {"$elemMatch": {"$gt": 3}}}},
        {"projection": {"t": {"$elemMatch": {"$in": ["blue"]}}, "n": 1}},
    ],
    "projection $meta": [
        {"projection": {"s": {"$meta": "textScore"}}},
        {"projection": {"s": {"$meta": "nosuch"}}},
        {"projection": {"s": {"$meta": "sortKey"}}},
        *(
            {"projection": {path: {"$meta": kind}, **fields}, "sort": sort, "filter": {"_id": {"$lt": 9}}}
            for kind in ("sortKey", "recordId", "indexKey")
            for path, fields in (("s", {"t": 1}), ("s.u", {}), ("s", {"l": 0}))
            for sort in ({"n": -1, "t": 1, "_id": 1}, {"l.k": -1, "_id": 1}, {"_id": -1}, {"$natural": 1})
        ),
    ],
    "projection $slice": [
        {"projection": {"t": {"$slice": 1}}},
        {"projection": {"t": {"$slice": [-2, 1]}, "n": 1}},
        {"projection": {"p.score": {"$slice": -1}}},
        {"projection": {"t": {"$slice": [1, 0]}}},
        {"projection": {"x": {"$slice": ["$t", 1, 1]}}},
    ],
    "$natural": [{"sort": {"$natural": -1}}, {"sort": {"$natural": 1}, "limit": 3}, {"hint": {"$natural": -1}}],
}
"""Fields of `find` over `documents.SALES`."""
