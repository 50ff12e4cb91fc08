"""Requests that calculate one expression of every document of a collection: what operators cost beside a real server's.

Each asks for the greatest of the values, so that all of them are calculated and next to nothing is sent.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from scripts.shop_requests import START, Shape

_ROME = "Europe/Rome"
_EXPRESSIONS: Mapping[str, Any] = {
    "a field": "$value",
    "$toUpper": {"$toUpper": "$name"},
    "$substrCP": {"$substrCP": ["$name", 2, 3]},
    "$split": {"$split": ["$name", " "]},
    "$trim": {"$trim": {"input": "$name"}},
    "$indexOfCP": {"$indexOfCP": ["$name", "e"]},
    "$replaceAll": {"$replaceAll": {"input": "$name", "find": "a", "replacement": "b"}},
    "$regexMatch": {"$regexMatch": {"input": "$name", "regex": "9$"}},
    "$concat and $toString": {"$concat": ["$kind", "-", {"$toString": "$number"}]},
    "$convert": {"$convert": {"input": "$value", "to": "int", "onError": 0}},
    "$round": {"$round": ["$value", 1]},
    "$floor and $sqrt": {"$floor": {"$sqrt": "$value"}},
    "$pow": {"$pow": ["$value", 2]},
    "$max of two": {"$max": ["$value", "$number"]},
    "$sum of an array": {"$sum": "$place"},
    "$map": {"$map": {"input": "$place", "in": {"$multiply": ["$$this", 2]}}},
    "$filter": {"$filter": {"input": "$place", "as": "one", "cond": {"$gt": ["$$one", 0]}}},
    "$reduce": {"$reduce": {"input": "$place", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
    "$let": {"$let": {"vars": {"half": {"$divide": ["$value", 2]}}, "in": {"$multiply": ["$$half", "$$half"]}}},
    "$slice": {"$slice": ["$place", 1]},
    "$concatArrays": {"$concatArrays": ["$place", ["$value"]]},
    "$setUnion": {"$setUnion": ["$place", [1, 2]]},
    "$sortArray": {"$sortArray": {"input": "$place", "sortBy": -1}},
    "$mergeObjects": {"$mergeObjects": ["$more", {"kind": "$kind"}]},
    "$objectToArray": {"$objectToArray": "$more"},
    "$switch": {
        "$switch": {
            "branches": [
                {"case": {"$lt": ["$value", 30]}, "then": "low"},
                {"case": {"$lt": ["$value", 60]}, "then": "middle"},
            ],
            "default": "high",
        }
    },
    "$and, $or, $in": {"$and": [{"$in": ["$kind", ["a", "b"]]}, {"$or": [{"$gt": ["$value", 5]}, "$more.size"]}]},
    "$dateToString": {"$dateToString": {"date": "$at", "format": "%Y-%m-%d"}},
    "$dateToString of a zone": {"$dateToString": {"date": "$at", "format": "%Y-%m-%d", "timezone": _ROME}},
    "$dateTrunc of a zone": {"$dateTrunc": {"date": "$at", "unit": "day", "timezone": _ROME}},
    "$dateDiff": {"$dateDiff": {"startDate": START, "endDate": "$at", "unit": "day"}},
    "a duration": {"$divide": [{"$subtract": ["$at", START - datetime.timedelta(days=1)]}, 1000]},
}


def _shape(name: str, expression: Any) -> Shape:
    stage = {"$group": {"_id": None, "most": {"$max": expression}}}
    return Shape(f"expression: {name}", lambda db, rng: list(db.events.aggregate([stage])), 3)


SHAPES = tuple(_shape(name, expression) for name, expression in _EXPRESSIONS.items())
