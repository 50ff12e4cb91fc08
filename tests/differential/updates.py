"""Updates by operator: statements of `update` for a collection that holds `DOCUMENTS`."""

from __future__ import annotations

from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64

Case = dict[str, Any]

DOCUMENTS: list[Case] = [
    {"_id": 1, "a": 5, "b": {"c": 1, "d": [1, 2, 3]}, "l": [{"k": 1, "n": 5}, {"k": 2, "n": 7}], "t": [3, 1, 2, 3]},
    {"_id": 2, "a": Int64(2**31 - 1), "t": [], "l": []},
    {"_id": 3, "a": "text", "b": None, "t": 4, "l": [{"k": 1}]},
    {"_id": 4, "a": 2**31 - 1, "b": {"c": Decimal128("1.10")}, "t": [[1, 2], [3]]},
    {"_id": 5},
    {
        "_id": 6,
        "a": [0, 0.0, -0.0, Decimal128("1.0"), float("nan"), Decimal128("NaN")],
        "d": Decimal128("1E+3"),
        "nan": float("nan"),
        "zero": -0.0,
        "t": [None, 1],
    },
]

ZEROES = [-0.0, Decimal128("0.00"), Decimal128("-0"), float("nan")]


def _all(update: Any, **fields: Any) -> Case:
    return {"q": {}, "u": update, "multi": True, **fields}


def _one(number: int, update: Any, **fields: Any) -> Case:
    return {"q": {"_id": number}, "u": update, **fields}


def _new(condition: Case, update: Any) -> Case:
    return {"q": condition, "u": update, "upsert": True}


UPDATES: dict[str, list[Case]] = {
    "$currentDate": [_one(1, {"$currentDate": {"_id": True}}), _one(1, {"$currentDate": {"x": {"$type": "nosuch"}}})],
    "$inc": [
        _one(n, {"$inc": {"a": by}}) for n in range(1, 6) for by in (1, 1.5, Int64(2**62), Decimal128("0.1"), "x")
    ],
    "$mul": [_one(n, {"$mul": {"a": by}}) for n in range(1, 6) for by in (3, 0.5, Int64(2**40), Decimal128("2.0"))],
    "$min": [_all({"$min": {"a": value}}) for value in (4, "a", None, Decimal128("4.5"))],
    "$max": [_all({"$max": {"a": value}}) for value in (6, "z", Int64(5), {"x": 1})],
    "$rename": [_all({"$rename": {"a": "z"}}), _all({"$rename": {"b.c": "y.x"}}), _one(1, {"$rename": {"l.0.k": "x"}})],
    "$set": [
        _all({"$set": {"n": 1, "m.o": 2}}),
        _one(3, {"$set": {"a.x": 1}}),
        _one(1, {"$set": {"t.6": 9}}),
        _one(1, {"$set": {"_id": 9}}),
        _one(1, {"$set": {"b": 1, "b.c": 2}}),
        _one(1, {"$set": {}}),
    ],
    "$setOnInsert": [
        _one(9, {"$setOnInsert": {"x": 1}, "$set": {"y": 2}}, upsert=True),
        *[_one(n, {"$setOnInsert": {"$x": 1}}, upsert=True) for n in (1, 9)],
        *[_one(n, {operator: {"$x": 1}}, upsert=True) for n in (1, 9) for operator in ("$set", "$inc", "$push")],
        *[
            {"q": {"a": 77}, "u": {"$setOnInsert": {"_id": identity}}, "upsert": True}
            for identity in (
                *(
                    {"$ref": "a", "$id": 1},
                    {"$ref": "a", "$id": 1, "$db": "d"},
                    {"$ref": "a", "$id": 1, "x": {"$y": 1}},
                ),
                *({"$id": 1, "$ref": "a"}, {"$ref": "a"}, {"$ref": "a", "$db": "d", "$id": 1}, {"x": 1, "$ref": 1}),
                *(
                    {"x": {"$ref": "a", "$id": 1}},
                    {"$ref": 1, "$id": 1},
                    {"$ref": "a", "$id": {"$x": 1}},
                    {"$ref": "a", "$id": 1, "x": 1, "$db": "d"},
                ),
            )
        ],
        _one(1, {"$setOnInsert": {"x": 1}}),
    ],
    "$unset": [
        _all({"$unset": {"b.c": "", "t.0": ""}}),
        _one(1, {"$unset": {"nosuch.x": 1}}),
        _one(1, {"$unset": {"_id": 1}}),
    ],
    "$": [
        {"q": {"l.k": 2}, "u": {"$set": {"l.$.n": 0}}},
        {"q": {"t": 1}, "u": {"$inc": {"t.$": 10}}, "multi": True},
        _one(1, {"$set": {"l.$.n": 0}}),
        {"q": {"l": {"$elemMatch": {"n": {"$gt": 5}}}}, "u": {"$unset": {"l.$": 1}}},
    ],
    "$[]": [_one(1, {"$inc": {"l.$[].n": 1}}), _one(4, {"$inc": {"t.$[].$[]": 1}}), _one(3, {"$set": {"t.$[]": 1}})],
    "$[id]": [
        _one(1, {"$set": {"l.$[e].n": 0}}, arrayFilters=[{"e.k": {"$gt": 1}}]),
        _one(1, {"$inc": {"t.$[e]": 5}}, arrayFilters=[{"e": {"$lt": 3}}]),
        _one(1, {"$set": {"t.$[e]": 5}}),
        _one(1, {"$set": {"a": 5}}, arrayFilters=[{"e": 1}]),
        _one(1, {"$set": {"t.$[E]": 5}}, arrayFilters=[{"E": 1}]),
    ],
    "$addToSet": [
        _all({"$addToSet": {"t": 3.0}}),
        _one(1, {"$addToSet": {"t": {"$each": [3, 4, 4]}}}),
        _one(1, {"$addToSet": {"new": 1}}),
    ],
    "$pop": [
        _one(1, {"$pop": {"t": 1}}),
        _one(1, {"$pop": {"t": -1}}),
        _one(3, {"$pop": {"t": 1}}),
        _one(1, {"$pop": {"t": 2}}),
    ],
    "$pull": [
        _one(1, {"$pull": {"t": 3}}),
        _one(1, {"$pull": {"t": {"$gte": 2}}}),
        _one(1, {"$pull": {"l": {"k": 1}}}),
        _one(4, {"$pull": {"t": [1, 2]}}),
        _all({"$pull": {"t": 3}}),
        _one(1, {"$pull": {"l": {"n": {"$in": [5]}}}}),
    ],
    "$pullAll": [
        _one(1, {"$pullAll": {"t": [3, 1]}}),
        _one(4, {"$pullAll": {"t": [[3]]}}),
        _one(1, {"$pullAll": {"t": 3}}),
    ],
    "$push": [
        _one(1, {"$push": {"t": 7}}),
        _one(1, {"$push": {"t": [7, 8]}}),
        _all({"$push": {"t": 1}}),
        _one(5, {"$push": {"x.y": 1}}),
    ],
    "$each": [
        _one(1, {"$push": {"t": {"$each": [8, 9]}}}),
        _one(1, {"$push": {"t": {"$each": 8}}}),
        _one(1, {"$push": {"t": {"$each": []}}}),
    ],
    "$position": [
        _one(1, {"$push": {"t": {"$each": [8, 9], "$position": at}}}) for at in (0, 1, -1, 99, -99, 1.5, "x")
    ],
    "$slice": [_one(1, {"$push": {"t": {"$each": [8, 9], "$slice": to}}}) for to in (0, 2, -2, 99, None)],
    "$sort": [
        _one(1, {"$push": {"t": {"$each": [2.5], "$sort": 1}}}),
        _one(1, {"$push": {"t": {"$each": [], "$sort": -1, "$slice": 2}}}),
        _one(1, {"$push": {"l": {"$each": [{"k": 0}], "$sort": {"n": -1, "k": 1}}}}),
        _one(1, {"$push": {"t": {"$each": [], "$sort": 2}}}),
    ],
    "$bit": [
        _one(1, {"$bit": {"a": {"and": 4}}}),
        _one(1, {"$bit": {"a": {"or": Int64(8), "xor": 1}}}),
        _one(3, {"$bit": {"a": {"or": 1}}}),
        _one(5, {"$bit": {"a": {"or": 6}}}),
        _one(1, {"$bit": {"a": {"not": 6}}}),
    ],
    "pipeline": [
        _all([{"$set": {"s": {"$add": [{"$cond": [{"$isNumber": "$a"}, "$a", 0]}, 1]}}}, {"$unset": ["t", "b.d"]}]),
        _one(1, [{"$replaceWith": {"n": "$$x", "l": {"$size": "$l"}}}], c={"x": 4}),
        _one(1, [{"$group": {"_id": 1}}]),
        _one(1, [{"$addFields": {"l.k": "$a"}}, {"$project": {"l": 1}}]),
        _one(1, [{"$replaceRoot": {"newRoot": "$b"}}]),
    ],
    "unchanged": [
        *(_one(5, {operator: {"z": by}}) for operator in ("$inc", "$mul") for by in ZEROES),
        *(_one(6, {operator: {"a.$[]": by}}) for operator in ("$inc", "$mul") for by in (0, 1.0, 3.5, *ZEROES)),
        *(_one(6, {operator: {"d": by}}) for operator in ("$inc", "$mul") for by in (0, 1.0, Decimal128("0.00"))),
        *(_one(6, {"$inc": {name: 0.0}}) for name in ("nan", "zero")),
        _one(6, {"$unset": {"t.0": 1}}),
        _one(6, {"$unset": {"t.$[]": 1}}),
        *(_one(6, {"$push": {"t": {"$each": [], **how}}}) for how in ({}, {"$sort": 1}, {"$slice": 5})),
        *(_one(2, {"$push": {"t": {"$each": some, "$slice": 0}}}) for some in ([], [1])),
        _one(1, {"$push": {"t": {"$each": [3], "$slice": 4}}}),
        _one(6, {"$rename": {"nan": "t.x"}}),
    ],
    "upsert": [
        _new({"b": 1, "c": {"$all": []}}, {"$set": {"x": 1}}),
        _new({"b": 1, "$or": [{"$alwaysFalse": 1}, {"c": 2}]}, {"$set": {"x": 1}}),
        _new({"b": 1, "$or": [{"c": 1}, {"c": 2}]}, {"$set": {"x": 1}}),
        _new({"$expr": {"$eq": [1, 1]}}, {"$set": {"x": 1, "x.y": 1}}),
        _new({"$expr": {"$eq": [1, 1]}}, {"$set": {"x": 1}}),
        _new({"x": {"$nosuch": 1}}, {"$nosuch": {"x": 1}}),
        *(_new({"b": 1}, {operator: {"_id": [1]}}) for operator in ("$set", "$push", "$addToSet", "$max")),
        *(_new({"_id": [1]}, update) for update in ({"$set": {"x": 1}}, {"x": 1})),
        *(_new({"b": 1}, update) for update in ({"_id": {"$a": 1}}, {"$set": {"_id": {"x": [{"$a": 1}]}}})),
    ],
    "a document that its _id is put first in counts as modified": [
        _one(5, update)
        for update in (
            {},
            {"_id": 5},
            {"a": 1, "_id": 5},
            {"_id": 5, "a": 1},
            {"a": 1, "_id": 5},
            {"a": 1},
            [{"$replaceWith": {"a": "$a", "_id": "$_id"}}],
            [{"$replaceWith": {"_id": "$_id", "a": "$a"}}],
            {"a": 1, "_id": 5.0},
            {"_id": 5.0, "a": 1},
        )
    ],
    "replacement": [_one(1, {"x": 1}), _one(1, {"_id": 2, "x": 1}), _one(9, {"x": 1}, upsert=True), _all({"x": 1})],
}
