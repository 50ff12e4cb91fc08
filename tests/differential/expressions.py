"""Expressions, by operator: calculated for each of `documents.TYPES` or `documents.SALES`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

WHEN = datetime(2020, 3, 29, 1, 30, 15, 123000)
BERLIN = {"date": WHEN, "timezone": "Europe/Berlin"}
OPERANDS: list[Any] = [
    0,
    7,
    -7,
    Int64(2**53 + 1),
    2.5,
    -0.0,
    1e300,
    float("nan"),
    float("inf"),
    Decimal128("2.50"),
    None,
    "x",
    2**31 - 1,
]
TEXTS: list[Any] = ["", "H\u00e9llo w\u00f6rld", "aXbXc", None, 5]


def _unary(name: str, operands: list[Any]) -> list[Any]:
    return [{name: [{"$literal": operand}]} for operand in operands]


def _pairs(name: str, operands: list[Any]) -> list[Any]:
    return [{name: [{"$literal": left}, {"$literal": right}]} for left in operands for right in operands]


EXPRESSIONS: dict[str, list[Any]] = {
    **{name: _unary(name, OPERANDS) for name in ("$abs", "$ceil", "$floor")},
    **{
        name: _unary(name, [number for number in OPERANDS if not isinstance(number, Decimal128)])
        for name in (
            "$acos",
            "$acosh",
            "$asin",
            "$asinh",
            "$atan",
            "$atanh",
            "$cos",
            "$cosh",
            "$degreesToRadians",
            "$exp",
            "$ln",
            "$log10",
            "$radiansToDegrees",
            "$sin",
            "$sinh",
            "$sqrt",
            "$tan",
            "$tanh",
        )
    },
    **{name: _pairs(name, OPERANDS) for name in ("$add", "$divide", "$mod", "$multiply", "$subtract")},
    "$atan2": _pairs("$atan2", [0, 1.5, -2, None, "x"]),
    "$log": _pairs("$log", [0, 1, 2, 2.5, 100, None, "x"]),
    "$pow": _pairs("$pow", [0, 2, -3, 0.5, Int64(40), None, "x"]),
    "$round": [{"$round": [{"$literal": number}, to]} for number in OPERANDS for to in (0, 1, -1, None)],
    "$trunc": [{"$trunc": [{"$literal": number}, to]} for number in OPERANDS for to in (0, 1, -1, 101)],
    **{
        name: [
            {name: ["$v", 5]},
            {name: ["$v", None]},
            {name: ["$v", "$nosuch"]},
            {name: [{"a": 1}, "$v"]},
            {name: ["$v"]},
        ]
        for name in ("$cmp", "$eq", "$gt", "$gte", "$lt", "$lte", "$ne")
    },
    "$and": [{"$and": ["$v", True]}, {"$and": []}, {"$and": "$v"}],
    "$or": [{"$or": ["$v", False]}, {"$or": []}],
    "$not": [{"$not": ["$v"]}, {"$not": [1, 2]}],
    "$cond": [{"$cond": ["$v", 1, "$$REMOVE"]}, {"$cond": {"if": "$v", "then": 1, "else": 0}}, {"$cond": {"if": 1}}],
    "$ifNull": [{"$ifNull": ["$v", "none"]}, {"$ifNull": ["$nosuch", "$v", 1]}, {"$ifNull": [1]}],
    "$switch": [
        {"$switch": {"branches": [{"case": {"$isNumber": "$v"}, "then": "n"}], "default": "d"}},
        {"$switch": {"branches": []}},
    ],
    "$let": [{"$let": {"vars": {"a": "$v"}, "in": ["$$a", "$$ROOT._id"]}}, {"$let": {"vars": {"A": 1}, "in": 1}}],
    "$literal": [{"$literal": "$v"}, {"$literal": {"$add": [1]}}],
    "$const": [{"$const": {"a": "$v"}}],
    "$meta": [{"$meta": "nosuch"}, {"$meta": 1}],
    "$rand": [{"$lt": [{"$rand": {}}, 1]}, {"$rand": {"a": 1}}],
    "$toHashedIndexKey": _unary("$toHashedIndexKey", OPERANDS + TEXTS),
    "$type": [{"$type": "$v"}, {"$type": "$nosuch"}],
    "$isNumber": [{"$isNumber": "$v"}],
    "$isArray": [{"$isArray": "$v"}],
    "$toBool": [{"$toBool": "$v"}],
    **{
        name: _unary(name, [*OPERANDS, True, WHEN, "5", "0x1F", " 5", "5.5", "1e3", [], Decimal128("0E+6000")])
        for name in ("$toDecimal", "$toDouble", "$toInt", "$toLong")
    },
    "$toString": [
        *_unary("$toString", [*OPERANDS[:6], WHEN, True, ObjectId("65f000000000000000000001"), [], Decimal128("1E+5")])
    ],
    "$toDate": _unary(
        "$toDate",
        [
            0,
            1.9,
            Int64(2**40),
            "2020-02-30",
            "2020-02-03T04:05:06+02:00",
            None,
            ObjectId("65f000000000000000000001"),
            Timestamp(5, 1),
            True,
        ],
    ),
    "$toObjectId": _unary("$toObjectId", ["65f000000000000000000001", "x", None, 5]),
    "$convert": [
        {"$convert": {"input": "$v", "to": to, "onError": "bad", "onNull": "null"}}
        for to in ("int", "long", "double", "decimal", "string", "bool", "date", "objectId", 16)
    ]
    + [{"$convert": {"input": 1, "to": "array"}}, {"$convert": {"input": 1}}],
    **{
        name: [
            {name: WHEN},
            {name: BERLIN},
            {name: {"date": WHEN, "timezone": "-0330"}},
            {name: None},
            {name: "x"},
            {name: "$when"},
        ]
        for name in (
            "$dayOfMonth",
            "$dayOfWeek",
            "$dayOfYear",
            "$hour",
            "$isoDayOfWeek",
            "$isoWeek",
            "$isoWeekYear",
            "$millisecond",
            "$minute",
            "$month",
            "$second",
            "$week",
            "$year",
        )
    },
    **{
        name: [
            {name: {"startDate": WHEN, "unit": unit, "amount": amount, "timezone": "Europe/Berlin"}}
            for unit in ("year", "quarter", "month", "week", "day", "hour", "second")
            for amount in (1, -13)
        ]
        + [{name: {"startDate": WHEN, "unit": "eon", "amount": 1}}]
        for name in ("$dateAdd", "$dateSubtract")
    },
    "$dateDiff": [
        {
            "$dateDiff": {
                "startDate": "$when",
                "endDate": WHEN,
                "unit": unit,
                "timezone": "Europe/Berlin",
                "startOfWeek": "tue",
            }
        }
        for unit in ("year", "quarter", "month", "week", "day", "hour", "millisecond", "eon")
    ],
    "$dateTrunc": [
        {"$dateTrunc": {"date": "$when", "unit": unit, "binSize": size, "timezone": "Asia/Kolkata"}}
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute")
        for size in (1, 5)
    ],
    "$dateFromParts": [
        {"$dateFromParts": {"year": 2020, "month": 14, "day": -3, "timezone": "America/New_York"}},
        {"$dateFromParts": {"isoWeekYear": 2020, "isoWeek": 53}},
        {"$dateFromParts": {"month": 1}},
    ],
    "$dateToParts": [
        {"$dateToParts": BERLIN},
        {"$dateToParts": {"date": "$when", "iso8601": True}},
        {"$dateToParts": {}},
    ],
    "$dateFromString": [
        {"$dateFromString": {"dateString": text, "onError": "bad"}}
        for text in ("2020-02-29", "29.02.2020", "2020-06-01T10:00 Europe/Berlin", "x")
    ]
    + [
        {"$dateFromString": {"dateString": "12/31/2020 11", "format": "%m/%d/%Y %H", "timezone": "Asia/Tokyo"}},
        {"$dateFromString": {"dateString": 5}},
    ],
    "$dateToString": [
        {
            "$dateToString": {
                "date": "$when",
                "format": "%Y-%m-%dT%H:%M:%S.%L %j %G-W%V-%u %U %w %z %Z %%",
                "timezone": "America/St_Johns",
            }
        },
        {"$dateToString": {"date": None, "onNull": 1}},
        {"$dateToString": {"date": WHEN, "format": "%Q"}},
    ],
    "$tsIncrement": _unary("$tsIncrement", [Timestamp(5, 7), None, 5]),
    "$tsSecond": _unary("$tsSecond", [Timestamp(5, 7), None, 5]),
    "$arrayElemAt": [{"$arrayElemAt": ["$l", at]} for at in (0, -1, 9, None, 1.5)],
    "$arrayToObject": [
        {"$arrayToObject": {"$literal": pairs}}
        for pairs in ([["a", 1], ["b", 2], ["a", 3]], [{"k": "a", "v": 1}], [["a"]], [5], None, [])
    ],
    "$concatArrays": [
        {"$concatArrays": ["$t", "$p.score"]},
        {"$concatArrays": ["$t", None]},
        {"$concatArrays": ["$n", []]},
    ],
    "$filter": [
        {"$filter": {"input": "$l", "as": "m", "cond": {"$gt": ["$$m.w", 3]}}},
        {"$filter": {"input": "$t", "cond": True, "limit": 1}},
        {"$filter": {"input": 1}},
    ],
    **{name: [{name: "$t"}, {name: [[3, 4]]}, {name: "$n"}, {name: None}] for name in ("$first", "$last")},
    **{
        name: [{name: {"n": 2, "input": "$p.score"}}, {name: {"n": 0, "input": [1]}}, {name: {"n": 1, "input": 5}}]
        for name in ("$firstN", "$lastN", "$maxN", "$minN")
    },
    "$in": [{"$in": ["red", "$t"]}, {"$in": [None, [1, None]]}, {"$in": [1, 1]}],
    "$indexOfArray": [
        {"$indexOfArray": ["$t", "blue"]},
        {"$indexOfArray": [[1, 2, 1], 1, 1]},
        {"$indexOfArray": [None, 1]},
        {"$indexOfArray": [[1], 1, -1]},
    ],
    "$map": [
        {"$map": {"input": "$l", "as": "m", "in": {"$add": ["$$m.w", "$n"]}}},
        {"$map": {"input": None, "in": 1}},
        {"$map": {"input": 1, "in": 1}},
    ],
    "$objectToArray": [{"$objectToArray": "$p"}, {"$objectToArray": None}, {"$objectToArray": 1}],
    "$range": [{"$range": [0, 9, 4]}, {"$range": [5, 0, -2]}, {"$range": [0, 5, 0]}, {"$range": [0, 1.5]}],
    "$reduce": [
        {"$reduce": {"input": "$t", "initialValue": "", "in": {"$concat": ["$$value", "$$this"]}}},
        {"$reduce": {"input": 1, "initialValue": 0, "in": 1}},
    ],
    "$reverseArray": [{"$reverseArray": "$t"}, {"$reverseArray": None}, {"$reverseArray": 1}],
    "$size": [{"$size": "$t"}, {"$size": "$n"}, {"$size": None}],
    "$slice": [
        {"$slice": ["$p.score", 1]},
        {"$slice": ["$t", -2]},
        {"$slice": ["$t", 1, 1]},
        {"$slice": ["$t", 1, 0]},
        {"$slice": [1, 1]},
    ],
    "$sortArray": [
        {"$sortArray": {"input": "$t", "sortBy": 1}},
        {"$sortArray": {"input": "$l", "sortBy": {"k": -1, "w": 1}}},
        {"$sortArray": {"input": 1, "sortBy": 1}},
    ],
    "$zip": [
        {"$zip": {"inputs": ["$t", "$l"]}},
        {"$zip": {"inputs": [[1], [2, 3]], "useLongestLength": True, "defaults": ["a", "b"]}},
        {"$zip": {"inputs": []}},
    ],
    "$getField": [
        {"$getField": "n"},
        {"$getField": {"field": "city", "input": "$p"}},
        {"$getField": {"field": 5, "input": 1}},
    ],
    "$setField": [
        {"$setField": {"field": "a.b", "input": "$p", "value": 1}},
        {"$setField": {"field": "city", "input": "$p", "value": "$$REMOVE"}},
        {"$setField": {"field": "$n"}},
    ],
    "$unsetField": [{"$unsetField": {"field": "city", "input": "$p"}}, {"$unsetField": {"field": "x", "input": 5}}],
    "$mergeObjects": [
        {"$mergeObjects": ["$p", {"x": 1}]},
        {"$mergeObjects": [None, "$nosuch"]},
        {"$mergeObjects": ["$n"]},
    ],
    **{
        name: [
            {name: [["a", "b", "a"], ["b", "c"]]},
            {name: ["$t", ["red"]]},
            {name: ["$t", 5]},
            {name: [[1, 1], [1.0]]},
        ]
        for name in ("$setDifference", "$setEquals", "$setIntersection", "$setIsSubset", "$setUnion")
    },
    **{
        name: [{name: [[True, 0]]}, {name: [[]]}, {name: ["$t"]}, {name: ["$n"]}]
        for name in ("$allElementsTrue", "$anyElementTrue")
    },
    **{
        name: [{name: [3, None, 7.5]}, {name: "$p.score"}, {name: ["$n", "$q", "$price"]}, {name: "x"}, {name: []}]
        for name in ("$avg", "$max", "$min", "$stdDevPop", "$stdDevSamp", "$sum")
    },
    "$concat": [{"$concat": ["$item", "-", "x"]}, {"$concat": ["a", None]}, {"$concat": ["a", 1]}],
    **{name: _unary(name, TEXTS) for name in ("$strLenBytes", "$strLenCP", "$toLower", "$toUpper")},
    **{
        name: [{name: [text, part, 1]} for text in TEXTS for part in ("X", "\u00f6", None)]
        for name in ("$indexOfBytes", "$indexOfCP")
    },
    **{
        name: [{name: {"input": {"$literal": text}}} for text in ("  x \t", "\u00a0x\u2003", None, 5)]
        + [{name: {"input": "xyzx", "chars": "xz"}}]
        for name in ("$trim", "$ltrim", "$rtrim")
    },
    **{
        name: [{name: {"input": {"$literal": text}, "regex": "([A-Z])(x)?", "options": "s"}} for text in TEXTS]
        + [{name: {"input": "a", "regex": "("}}]
        for name in ("$regexFind", "$regexFindAll", "$regexMatch")
    },
    **{
        name: [{name: {"input": {"$literal": text}, "find": "X", "replacement": "$1"}} for text in TEXTS]
        for name in ("$replaceAll", "$replaceOne")
    },
    "$split": [{"$split": ["aXbX", "X"]}, {"$split": ["", "X"]}, {"$split": [None, "X"]}, {"$split": ["a", ""]}],
    "$strcasecmp": _pairs("$strcasecmp", ["a", "B", "", None, 5]),
    **{
        name: [{name: [text, 1, 4]} for text in TEXTS]
        + [{name: ["h\u00e9llo", 2, 2]}, {name: ["abc", 1, -1]}, {name: ["abc", -1, 1]}]
        for name in ("$substr", "$substrBytes", "$substrCP")
    },
    "$binarySize": [{"$binarySize": "$v"}],
    "$bsonSize": [{"$bsonSize": "$$ROOT"}, {"$bsonSize": "$p"}, {"$bsonSize": 5}],
}
