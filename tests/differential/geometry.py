"""Filters about geometry over `PLACES`, by operator; there is no index, as there is none that holds geometry."""

from __future__ import annotations

from random import Random
from typing import Any

Case = dict[str, Any]


def geo(kind: str, coordinates: Any) -> Case:
    return {"type": kind, "coordinates": coordinates}


def point(x: float, y: float) -> Case:
    return geo("Point", [x, y])


RING = [[0.5, 0.5], [6.5, 0.7], [6.2, 5.5], [0.6, 5.2], [0.5, 0.5]]
HOLE = [[2.5, 2.4], [4.5, 2.5], [4.4, 4.5], [2.6, 4.3], [2.5, 2.4]]
FAR = [[100.5, 10], [120, 11], [119, 40], [101, 39], [100.5, 10]]
AREA = geo("Polygon", [RING])
HOLED = geo("Polygon", [RING, HOLE])
EARTH = {"type": "name", "properties": {"name": "EPSG:4326"}}
WOUND = {"type": "name", "properties": {"name": "urn:x-mongodb:crs:strictwinding:EPSG:4326"}}

PLACES: list[Case] = [
    *({"_id": n, "g": point(n, n)} for n in range(8)),
    {"_id": 10, "g": [1, 1]},
    {"_id": 11, "g": {"x": 1, "y": 2}},
    {"_id": 12, "g": [[1, 1], [2, 2]]},
    {"_id": 13, "g": [point(1, 1), point(50, 50)]},
    {"_id": 14, "g": [500, 1]},
    {"_id": 15, "g": geo("LineString", [[1, 1.2], [2, 3]])},
    {"_id": 16, "g": geo("LineString", [[1, 1.2], [9, 3]])},
    {"_id": 17, "g": geo("Polygon", [[[1, 1.1], [2, 1.2], [2, 2.2], [1, 1.1]]])},
    {"_id": 18, "g": geo("Polygon", [[[1, 1.1], [12, 1.2], [2, 2.2], [1, 1.1]]])},
    {"_id": 19, "g": geo("MultiPoint", [[1, 1], [2, 2]])},
    {"_id": 20, "g": {"type": "GeometryCollection", "geometries": [point(1, 1), geo("LineString", [[3, 1], [5, 2]])]}},
    {"_id": 21, "g": geo("Polygon", [[[-5, -5], [20, -6], [21, 20], [-5, 20], [-5, -5]]])},
    {"_id": 22, "g": geo("Point", [500, 0])},
    {"_id": 23, "g": "text"},
    {"_id": 24, "g": None},
    {"_id": 25},
    {"_id": 26, "g": []},
    {"_id": 27, "g": {"a": {"b": point(2, 2)}}},
    {"_id": 28, "g": geo("MultiPolygon", [[RING], [FAR]])},
    {"_id": 29, "g": geo("MultiLineString", [[[1, 1], [2, 2.2]], [[3.1, 3], [4, 3.3]]])},
    {"_id": 30, "g": {**point(3, 1), "crs": EARTH}},
    {"_id": 31, "g": point(179, 1)},
    {"_id": 32, "g": point(-179, -1)},
    {"_id": 33, "g": point(10, 89)},
]

BAD_SHAPES: list[Any] = [
    "x",
    5,
    None,
    [],
    {},
    [1, 2],
    {"bogus": 1},
    {"$bogus": 5},
    {"$uniqueDocs": True},
    {"$geometry": 5},
    {"$geometry": {}},
    {"$geometry": geo("Polygon", [RING[:4]])},
    {"$geometry": geo("Polygon", [[[0, 0], [1, 1], [0, 0]]])},
    {"$geometry": geo("Polygon", [[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]])},
    {"$geometry": geo("Polygon", [RING, FAR])},
    {"$geometry": geo("Polygon", [[]])},
    {"$geometry": geo("Polygon", [])},
    {"$geometry": geo("Polygon", 5)},
    {"$geometry": {"type": "Polygon"}},
    {"$geometry": geo("LineString", [[1, 1]])},
    {"$geometry": geo("LineString", [[1, 1], [1, 1]])},
    {"$geometry": geo("MultiPoint", [])},
    {"$geometry": {"type": "GeometryCollection", "geometries": []}},
    {"$geometry": geo("Bogus", [])},
    {"$geometry": geo("Point", [500, 0])},
    {"$geometry": {**AREA, "crs": 5}},
    {"$geometry": {**AREA, "crs": {"type": "name", "properties": {"name": "bogus"}}}},
    {"$geometry": AREA, "$maxDistance": 1},
]


def _both(shape: Any) -> list[Case]:
    return [{"g": {name: shape}} for name in ("$geoWithin", "$geoIntersects")]


_SHAPES = [
    AREA,
    HOLED,
    geo("Polygon", [FAR]),
    {**AREA, "crs": EARTH},
    {**AREA, "crs": WOUND},
    {**geo("Polygon", [RING[::-1]]), "crs": WOUND},
    geo("Polygon", [[[170, -10], [-170, -10], [-170, 10], [170, 10], [170, -10]]]),
    geo("Polygon", [[[0, 80], [90, 80], [180, 80], [-90, 80], [0, 80]]]),
    geo("MultiPolygon", [[RING], [FAR]]),
    geo("LineString", [[1, 1], [1, 5]]),
    geo("LineString", [[0.1, 3.3], [8, 3.1], [8, 9]]),
    geo("MultiLineString", [[[1, 1], [2, 2]], [[0, 3], [9, 2.9]]]),
    point(1, 1),
    geo("MultiPoint", [[1, 1], [2.1, 2], [3.3, 3.4]]),
    {"type": "GeometryCollection", "geometries": [point(1, 1), AREA]},
]

GEOMETRY: dict[str, list[Case]] = {
    "$geometry": [found for shape in _SHAPES for found in _both({"$geometry": shape})],
    "$geoWithin": [
        *({"g": {"$geoWithin": shape}} for shape in BAD_SHAPES),
        {"g": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}, "$gt": 5}},
        {"g": {"$gt": 5, "$geoWithin": {"$box": [[0, 0], [2, 2]]}}},
        {"g": {"$not": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}}},
        {"g": {"$elemMatch": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}}},
        {"g.a.b": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}},
        {"g": {"$within": {"$box": [[0, 0], [2, 2]]}}},
        {"$or": [{"_id": 3}, {"g": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}}]},
        {"g": {"$in": [{"$geoWithin": 1}]}},
        {"g": {"$all": [{"$geoWithin": {"$box": [[0, 0], [2, 2]]}}]}},
    ],
    "$geoIntersects": [{"g": {"$geoIntersects": shape}} for shape in BAD_SHAPES],
    "$box": [
        found
        for corners in (
            [[0, 0], [2, 2]],
            [[2, 2], [0, 0]],
            [[0, 0]],
            5,
            [0, 0, 2, 2],
            [["a", 0], [2, 2]],
            [[-1, 1], [600, 1]],
        )
        for found in _both({"$box": corners})
    ],
    "$polygon": [
        found
        for corners in (
            [[0, 0], [0, 3], [3, 3], [3, 0]],
            [[0, 0], [0, 3]],
            [],
            5,
            {"a": [0, 0], "b": [0, 3], "c": [3, 0]},
            [[0, 0], [2, 2], [0, 2], [2, 0]],
            [[0, 0], [0, 3], 5],
            [[0.5, 0.5], [7, 1], [4, 3.5], [5, 8]],
        )
        for found in _both({"$polygon": corners})
    ],
    "$center": [
        found
        for circle in (
            [[1, 1], 1],
            [[1, 1], -1],
            [[1, 1]],
            [[1, 1], "x"],
            [[1, 1], 1, 2],
            5,
            [[1, 1], float("inf")],
            [5, 1],
        )
        for found in _both({"$center": circle})
    ],
    "$centerSphere": [
        {"g": {"$geoWithin": {"$centerSphere": circle}}}
        for circle in (
            [[2, 2], 0.03],
            [[2, 2], -1],
            [[500, 2], 1],
            [[2, 2], 4],
            [[2, 2]],
            [[180, 0], 0.05],
            [[2, 2], 2],
        )
    ],
    "$near": [
        *(
            {"g": {name: argument}}
            for name in ("$near", "$nearSphere", "$geoNear")
            for argument in (
                *("x", [], {}, [1], [1, 2], [1, 2, 3], ["a", 1], [1, 2, "x"], [1, 2, -1], [500, 0], {"x": 1, "y": 2}),
                *({"$geometry": point(1, 1)}, {"$geometry": point(500, 0)}, {"$geometry": geo("Polygon", [])}),
                *({"$geometry": [1, 1]}, {"$geometry": 5}, {"$geometry": {}}, {"$maxDistance": 5}, point(1, 1)),
                *(
                    {"$geometry": point(1, 1), name: value}
                    for name in ("$minDistance", "$bogus")
                    for value in (-1, "x")
                ),
                {"$maxDistance": 1, "$geometry": point(1, 1)},
            )
        ),
        {"g": {"$near": [1, 1], "$maxDistance": 5}},
        {"g": {"$near": [1, 1], "$maxDistance": -1}},
        {"g": {"$near": [1, 1], "$minDistance": "x"}},
        {"g": {"$near": [1, 1], "$exists": True}},
        {"g": {"$maxDistance": 5, "$near": [1, 1]}},
        {"g": {"$gt": 5, "$near": [1, 1]}},
        {"g": {"$near": {"$geometry": point(1, 1)}, "$maxDistance": 5}},
        {"$or": [{"g": {"$near": [1, 1]}}, {"_id": 1}]},
        {"$nor": [{"g": {"$near": [1, 1]}}]},
        {"g": {"$not": {"$near": [1, 1]}}},
        {"g": {"$elemMatch": {"$near": [1, 1]}}},
        {"$and": [{"g": {"$near": [1, 1]}}, {"g": {"$near": [1, 1]}}]},
        {"_id": 1, "g": {"$near": [1, 1]}},
    ],
    "$text": [
        *(
            {"$text": argument}
            for argument in (
                *(
                    {},
                    5,
                    [],
                    {"$search": 5},
                    {"$search": "x"},
                    {"$search": "x", "$language": 5},
                    {"$search": "x", "a": 1},
                ),
                *(
                    {"$search": "x", "$caseSensitive": 1},
                    {"$search": "x", "$diacriticSensitive": "x"},
                    {"$language": "x"},
                ),
            )
        ),
        {"v": {"$text": {"$search": "x"}}},
        {"v": {"$elemMatch": {"$text": {"$search": "x"}}}},
        {"$nor": [{"$text": {"$search": "x"}}]},
        {"$text": {"$search": "x"}, "g": {"$near": [1, 1]}},
    ],
}


def random_shape(rng: Random) -> Case:
    """A shape of some degrees somewhere on the earth's warm half."""

    def place() -> list[float]:
        return [round(rng.uniform(-12, 12), 2), round(rng.uniform(-12, 12), 2)]

    x, y = place()
    ring = [[x, y], [round(x + rng.uniform(1, 9), 2), y], [round(x + 2, 2), round(y + rng.uniform(1, 9), 2)]]
    match rng.randint(0, 3):
        case 0:
            return geo("Point", place())
        case 1:
            return geo("LineString", [place() for _ in range(rng.randint(2, 4))])
        case 2:
            return geo("MultiPoint", [place() for _ in range(2)])
        case _:
            return geo("Polygon", [[*ring, ring[0]]])


def random_filter(rng: Random) -> Case:
    shape = random_shape(rng)
    x, y = rng.randint(-9, 9), rng.randint(-9, 9)
    return rng.choice(
        [
            {"g": {"$geoIntersects": {"$geometry": shape}}},
            {"g": {"$geoWithin": {"$geometry": shape if shape["type"] == "Polygon" else AREA}}},
            {"g": {"$geoWithin": {"$box": [[x, y], [x + 6, y + 5]]}}},
            {"g": {"$geoWithin": {"$center": [[x, y], rng.uniform(1, 8)]}}},
            {"g": {"$geoWithin": {"$centerSphere": [[x, y], rng.uniform(0.01, 0.3)]}}},
            {"g": {"$geoWithin": {"$polygon": [[x, y], [x + 7, y + 1], [x + 3, y + 8], [x - 1, y + 3]]}}},
        ]
    )
