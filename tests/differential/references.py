"""Commands over documents with references (`$ref`, `$id`, `$db`), and the paths in them that name such fields."""

from __future__ import annotations

from typing import Any

from bson.dbref import DBRef

LINKED: list[dict[str, Any]] = [
    {"_id": n, "one": DBRef("k", n % 3, "other"), "many": [DBRef("k", 1), DBRef("k", 2)]} for n in range(5)
]
PATHS = [
    prefix + name for name in ("$id", "$ref", "$db", "$no") for prefix in ("one.", "many.", "", "one.x.", "one.0.")
]


def finds(path: str) -> list[dict[str, Any]]:
    """Finds over `LINKED` with the path in each place that a find has for one."""
    name = path.rpartition(".")[2]
    return [
        {"filter": {path: 1}},
        {"filter": {path: {"$in": [1, 2]}}, "sort": {path: -1, "_id": 1}},
        {"filter": {"$expr": {"$eq": ["$" + path, 1]}}},
        {"filter": {"many": {"$elemMatch": {name: 1}}}},
        {"filter": {path: 1}, "projection": {path + ".$": 1}},
        *({"projection": each} for each in ({path: 1}, {path: 0}, {path: "$_id"}, {"v": "$" + path})),
        *({"projection": each} for each in ({"one": {name: 1}}, {"one": {name: 0}}, {path: {"$slice": 1}})),
    ]


def pipelines(path: str) -> list[list[dict[str, Any]]]:
    """Pipelines over `LINKED` with the path in each place that a stage has for one."""
    joined = {"from": "linked", "as": "o"}
    ordered = {"$sort": {"_id": 1, "o._id": 1}}
    return [
        [{"$sort": {"_id": 1}}, *stages]
        for stages in (
            [{"$project": {path: 1}}],
            [{"$project": {"one": {path.rpartition(".")[2]: 1}}}],
            [{"$set": {path: 1}}],
            [{"$set": {"v": ["$" + path]}}],
            [{"$unset": path}],
            [{"$sort": {path: -1, "_id": 1}}],
            [{"$group": {"_id": "$" + path, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
            [{"$unwind": {"path": "$many", "includeArrayIndex": path}}],
            [{"$lookup": {**joined, "localField": path, "foreignField": "_id"}}, {"$unwind": "$o"}, ordered],
            [{"$lookup": {**joined, "localField": "_id", "foreignField": path}}, {"$set": {"o": {"$size": "$o"}}}],
            [{"$lookup": {"from": "k", "as": path, "localField": "_id", "foreignField": "_id"}}],
            [{"$match": {path: 1}}, {"$count": "n"}],
        )
    ]
