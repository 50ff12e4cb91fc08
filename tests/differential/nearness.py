"""Indexes of geometry: what they are made of, what they hold, and what only they can answer.

The places are scattered so that no two are equally far from where the cases ask: which of such comes first is left to
a server.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.geometry import AREA, RING, geo, point

Case = dict[str, Any]
SPHERE = {"key": {"g": "2dsphere"}, "name": "sphere"}
PLANE = {"key": {"p": "2d"}, "name": "plane"}

SPECIFICATIONS: list[Case] = [
    *({"key": {"g": kind}, "name": "n"} for kind in ("2d", "2dsphere")),
    {"key": {"a": 1, "g": "2dsphere", "b": -1, "h": "2dsphere"}, "name": "n"},
    {"key": {"g": "2d", "a": 1, "b": -1}, "name": "n", "bits": 20, "max": 10.5, "min": -10},
    {"key": {"g": "2d"}, "name": "n", "unique": True, "sparse": True, "hidden": True, "expireAfterSeconds": 5},
    {"name": "n", "finestIndexedLevel": 20, "coarsestIndexedLevel": 3, "key": {"g": "2dsphere"}, "sparse": False},
    *({"key": {"g": "2dsphere"}, "name": "n", "2dsphereIndexVersion": number} for number in (1, 2, 3.0, 4, 1.5, "3")),
    {"key": {"g": "2dsphere"}, "name": "n", "partialFilterExpression": {"a": {"$gt": 1}}, "background": True},
    {"key": {"g": "2dsphere"}, "name": "n", "collation": {"locale": "fr"}, "finestIndexedLevel": 7},
    {"key": {"g": "2d"}, "name": "n", "collation": {"locale": "fr"}},
    {"key": {"a": 1}, "name": "n", "2dsphereIndexVersion": 3, "bits": 4, "min": 2, "default_language": "french"},
    *({"key": {"g": "2d"}, "name": "n", "bits": bits} for bits in (0, 1, 32, 33, 0.5, -3, "x")),
    {"key": {"g": "2d"}, "name": "n", "min": 5, "max": 5},
    {"key": {"g": "2d"}, "name": "n", "min": -1e300, "max": 1e300},
    {"key": {"g": "2d"}, "name": "n", "max": float("inf")},
    *({"key": key, "name": "n"} for key in ({"a": 1, "g": "2d"}, {"g": "2d", "h": "2d"}, {"g": "2d", "h": "2dsphere"})),
    *({"key": key, "name": "n"} for key in ({"$**": "2dsphere"}, {"g.$**": "2d"}, {"g": "2dsphere", "a": "hashed"})),
    *({"key": {"g": "2dsphere"}, "name": "n", "finestIndexedLevel": level} for level in (-1, 31, 0.5)),
    *({"key": {"g": "2dsphere"}, "name": "n", "coarsestIndexedLevel": level} for level in (-1, 31, 0.5)),
    {"key": {"g": "2dsphere"}, "name": "n", "wildcardProjection": {"a": 1}},
    {"key": {"g": "2dsphere"}, "name": "n", "weights": {"a": 1}},
]
"""Each is given to an empty collection, and listed."""

AGAIN: list[tuple[Case, Case]] = [
    ({**SPHERE}, {**SPHERE}),
    ({**SPHERE}, {**SPHERE, "2dsphereIndexVersion": 2}),
    ({**SPHERE}, {**SPHERE, "name": "other"}),
    ({**SPHERE}, {**SPHERE, "finestIndexedLevel": 4}),
    ({**PLANE}, {**PLANE, "bits": 26}),
    ({**PLANE, "bits": 20}, {**PLANE, "bits": 20.0}),
    ({**PLANE, "bits": 20}, {**PLANE, "name": "other", "bits": 21}),
    ({**PLANE}, {**PLANE, "key": {"p": "2d", "a": 1}}),
]
"""(index, another that is asked for when it is there)."""

STORED: list[Any] = [
    *(None, [], {}, 5, "x", True, [1], [1, 2], [1, 2, 3], ["a", "b"], [1, "b"], [1, 2, "c"], [1, None], [None, None]),
    *([[1, 2], [3, 4]], [[1, 2], 5], [[]], [[[1, 2]]], [1, [2, 3]], [[1, 2], [300, 4]], [{"x": 1, "y": 2}, [3, 4]]),
    *({"x": 1, "y": 2}, {"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": "a", "y": 2}, {"a": [1, 2]}, {"x": 200, "y": 0}),
    *([200, 10], [0, 100], [180, 90], [-180, -90], [float("nan"), 1], [float("inf"), 1]),
    *(point(1, 2), point(181, 0), point(0, 91), geo("Bogus", [1, 2]), {"type": "Point"}, {"type": "Point", "x": 3}),
    *([point(1, 2), point(3, 4)], geo("LineString", [[0, 0], [1, 1]]), geo("LineString", [[0, 0], [0, 0]])),
    *(geo("Polygon", [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]), AREA, geo("MultiPoint", [[0, 0], [1, 1]])),
    {**geo("Polygon", [RING]), "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}},
    {
        **geo("Polygon", [RING]),
        "crs": {"type": "name", "properties": {"name": "urn:x-mongodb:crs:strictwinding:EPSG:4326"}},
    },
    {"type": "GeometryCollection", "geometries": [point(1, 1)]},
]
"""Values of a field `g`, put into collections with one index of geometry each."""

HOLDING = [
    {"key": {"g": "2dsphere"}, "name": "n"},
    {"key": {"g": "2dsphere", "a": 1}, "name": "n", "2dsphereIndexVersion": 1},
    {"key": {"g": "2d"}, "name": "n"},
    {"key": {"g": "2d", "a": 1}, "name": "n", "min": -10, "max": 10, "bits": 5},
]


def places(count: int = 300) -> list[Case]:
    """Documents with a geometry `g` and a pair `p`, most of them near (1, 1)."""
    rng = Random(4)

    def position() -> list[float]:
        if rng.random() < 0.2:
            return [rng.uniform(-180, 180), rng.uniform(-90, 90)]
        return [rng.gauss(1, 3), rng.gauss(1, 3)]

    made: list[Case] = []
    for number in range(count):
        near = [[round(member, 6) for member in position()] for _ in range(3)]
        shape: Any = point(*near[0])
        if number % 7 == 0:
            shape = geo("LineString", near[:2])
        elif number % 7 == 1:
            shape = {"lng": near[0][0], "lat": near[0][1]}
        elif number % 7 == 2:
            x, y = near[0]
            shape = geo("Polygon", [[[x, y], [x + 0.013, y], [x + 0.01, y - 0.021], [x, y]]])
        elif number % 7 == 3:
            shape = geo("MultiPoint", near)
        pair: Any = near if number % 5 == 0 else near[0]
        made.append(
            {"_id": number, "g": shape, "p": pair, "a": number % 3, "l": [{"g": point(*at)} for at in near[:2]]}
        )
    return [*made, {"_id": count, "a": 1}, {"_id": count + 1, "g": None, "a": 2}]


CENTRE = [1.2345, 0.9876]
_GEOJSON = {"$geometry": point(*CENTRE)}
_OUTSIDE = {"g": {"$geoIntersects": {"$geometry": AREA}}}

NEAR: dict[str, list[Case]] = {
    "$near": [
        {"g": {"$near": _GEOJSON}},
        {"g": {"$near": point(*CENTRE)}},
        {"g": {"$near": _GEOJSON}, "a": 1},
        {"$and": [{"a": 2}, {"g": {"$near": _GEOJSON}}, _OUTSIDE]},
        {"l.g": {"$near": _GEOJSON}},
        {"p": {"$near": CENTRE}},
        {"p": {"$geoNear": CENTRE}},
        {"p": {"$near": [500, 1]}},
        {"p": {"$near": _GEOJSON}},
        {"g": {"$near": CENTRE}},
        {"h": {"$near": CENTRE}},
        {"p": {"$near": CENTRE}, "g": {"$near": _GEOJSON}},
        {"$or": [{"p": {"$near": CENTRE}}, {"a": 1}]},
        {"p": {"$not": {"$near": CENTRE}}},
    ],
    "$nearSphere": [
        {"g": {"$nearSphere": CENTRE}, "a": {"$gte": 1}},
        {"g": {"$nearSphere": [*CENTRE, 0.03]}},
        {"g": {"$nearSphere": {"x": 178.9, "y": -80.1}}},
        {"p": {"$nearSphere": CENTRE}},
        {"p": {"$nearSphere": [181, 1]}},
        {"p": {"$near": CENTRE, "$nearSphere": CENTRE}},
        {"p": {"$nearSphere": CENTRE, "$near": CENTRE}},
    ],
    "$maxDistance": [
        {"g": {"$near": point(*CENTRE), "$maxDistance": 300_000}},
        {"g": {"$nearSphere": CENTRE, "$maxDistance": 0.04}},
        {"g": {"$near": {**_GEOJSON, "$maxDistance": 0}}},
        {"p": {"$near": [*CENTRE, 5], "$maxDistance": 2.5}, "a": 0},
        {"p": {"$nearSphere": [120.5, 10], "$maxDistance": 1}},
    ],
    "$minDistance": [
        {"g": {"$nearSphere": {**_GEOJSON, "$minDistance": 100_000, "$maxDistance": 400_000.5}}},
        {"p": {"$near": CENTRE, "$maxDistance": 3.5, "$minDistance": 1}},
    ],
}

FINDS: list[Case] = [
    {"projection": {"_id": 1}},
    {"projection": {"_id": 1}, "skip": 3, "limit": 5},
    {"projection": {"_id": 1}, "sort": {"_id": -1}, "limit": 4},
    {"projection": {"_id": 1, "d": {"$meta": "geoNearDistance"}, "at": {"$meta": "geoNearPoint"}}, "limit": 20},
]
"""What each of the conditions is asked for with."""

_STAGE = {"near": point(*CENTRE), "distanceField": "d", "key": "g"}

GEO_NEAR: list[list[Case]] = [
    [{"$geoNear": options}]
    for options in (
        _STAGE,
        {**_STAGE, "spherical": True, "includeLocs": "at.it", "distanceField": "d.x", "distanceMultiplier": 0.001},
        {**_STAGE, "near": CENTRE, "spherical": True, "minDistance": 0.01, "maxDistance": 0.1},
        {**_STAGE, "near": CENTRE},
        {**_STAGE, "near": CENTRE, "key": "p", "distanceMultiplier": 3},
        {**_STAGE, "near": CENTRE, "key": "p", "spherical": True, "includeLocs": "at"},
        {**_STAGE, "key": "p"},
        {**_STAGE, "key": "h"},
        {**_STAGE, "query": {"a": 1}, "maxDistance": 1_000_000},
        {**_STAGE, "query": _OUTSIDE},
        {**_STAGE, "distanceField": "_id"},
        {**_STAGE, "distanceField": "g"},
        {**_STAGE, "uniqueDocs": True, "bogus": 1, "spherical": "x"},
        {**_STAGE, "near": {"x": 1.2, "y": 0.7}, "spherical": True},
        5,
        {},
        {"near": point(1, 1)},
        *({**_STAGE, "near": near} for near in ("x", 5, [], {}, [1], ["a", "b"], point(500, 1), AREA)),
        *({**_STAGE, "distanceField": name} for name in (5, "", "$d", "a..b")),
        *({**_STAGE, "includeLocs": name} for name in (5, "", "d", "$d")),
        *({**_STAGE, "key": key} for key in ("", 5, "$g")),
        *({**_STAGE, "query": query} for query in (5, {"$bogus": 1}, {"g": {"$near": [1, 1]}}, {"$where": "1"})),
        *(
            {**_STAGE, name: value}
            for name in ("minDistance", "maxDistance")
            for value in (-1, "x", None, float("nan"))
        ),
        *({**_STAGE, "distanceMultiplier": value} for value in (0, -1, "x")),
        *({**_STAGE, name: 5} for name in ("limit", "num", "start")),
    )
] + [
    [{"$geoNear": _STAGE}, {"$match": {"a": 1}}, {"$limit": 3}, {"$project": {"d": 1}}],
    [
        {"$geoNear": {**_STAGE, "maxDistance": 500_000}},
        {"$group": {"_id": "$a", "n": {"$sum": 1}}},
        {"$sort": {"_id": 1}},
    ],
    [{"$geoNear": _STAGE}, {"$skip": 2}, {"$limit": 2}],
    [{"$geoNear": _STAGE}, {"$geoNear": _STAGE}],
    [{"$match": {"a": 1}}, {"$geoNear": _STAGE}],
    [{"$match": {"p": {"$near": CENTRE}}}],
    [{"$facet": {"x": [{"$geoNear": _STAGE}]}}],
    [
        {"$match": {"_id": 3}},
        {"$lookup": {"from": "places", "as": "x", "pipeline": [{"$geoNear": _STAGE}, {"$limit": 2}]}},
    ],
    [{"$match": {"_id": 3}}, {"$unionWith": {"coll": "places", "pipeline": [{"$geoNear": _STAGE}, {"$limit": 2}]}}],
]
