"""Plain points are judged as geometry of any kind is, and cells bound what lies in them."""

from __future__ import annotations

import math
import random
from typing import Any

import bson
import pytest

from docstore.query.geo import sphere
from docstore.query.geo.cell_keys import SphereKeys, key_at
from docstore.query.geo.sphere_cells import cell_at
from tests.unit.kernel.kernels import Kernel
from tests.unit.query.raw import value

PREFIX, RECORD_ID = b"\0\0\0\7", bytes(8)


def places(seed: int, count: int) -> list[tuple[float, float]]:
    dice = random.Random(seed)
    corners = [(0.0, 0.0), (180.0, 0.0), (-180.0, 90.0), (45.0, 35.26438968), (90.0, -45.0)]
    return corners + [(dice.uniform(-180, 180), dice.uniform(-90, 90)) for _ in range(count)]


def point(*at: Any) -> dict[str, Any]:
    return {"type": "Point", "coordinates": list(at)}


def radians(one: tuple[float, float], other: tuple[float, float]) -> float:
    a, b = sphere.vector(one), sphere.vector(other)
    normal = sphere.cross(a, b)
    return math.atan2(math.sqrt(sphere.dot(normal, normal)), sphere.dot(a, b))


def test_distances_are_those_of_plain_arithmetic(kernel: Kernel) -> None:
    for centre, at in zip(places(1, 300), places(2, 300), strict=True):
        far = kernel.geometry.points.DistanceFrom("a.g", centre, True, 6_378_100.0)
        flat = kernel.geometry.points.DistanceFrom("a.g", centre, False, 1.0)
        for stored in (point(*at), list(at)):
            raw = bson.encode({"b": 1, "a": {"x": "", "g": stored}})
            assert far.measured(raw) == (radians(centre, at) * 6_378_100.0, value(stored))
            dx, dy = centre[0] - at[0], centre[1] - at[1]
            assert flat.measured(raw) == (math.sqrt(dx * dx + dy * dy), value(stored))


def test_numbers_may_be_whole(kernel: Kernel) -> None:
    far = kernel.geometry.points.DistanceFrom("g", (1.0, 2.0), True, 1.0)
    assert far.measured(bson.encode({"g": point(3, bson.Int64(4))}))[0] == radians((1.0, 2.0), (3.0, 4.0))


@pytest.mark.parametrize(
    "stored",
    [
        point(1, 91), point(1, 2, 3), point(1), point("1", 2), point(math.nan, 1), [1, 2, 3], [1], [], [[1, 2]], 7,
        {"x": 1, "y": 2}, {**point(1, 2), "crs": {}}, {"type": "point", "coordinates": [1, 2]}, [1, math.inf], [1, 91],
        {"type": "Point", "coordinates": {"0": 1, "1": 2}}, {"type": 1, "coordinates": [1, 2]}, {"coordinates": [1, 2]},
        {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}, bson.Decimal128("1"), [bson.Decimal128("1"), 2], None,
    ],
)  # fmt: skip
def test_what_is_no_plain_point_is_left_to_others(kernel: Kernel, stored: Any) -> None:
    far = kernel.geometry.points.DistanceFrom("g", (1.0, 2.0), True, 1.0)
    assert far.measured(bson.encode({"g": stored})) is None
    assert far.measured(bson.encode({"g": [point(1, 2)]})) is None


def test_points_in_a_circle(kernel: Kernel) -> None:
    asked: list[Any] = []
    within = kernel.geometry.points.WithinCircle("g", (10.0, 0.0), math.radians(5), lambda stored: asked.append(stored))
    raws = [bson.encode({"g": stored}) for stored in (point(12, 0), [14.9, 0], point(15.1, 0), "text", 3, None)]
    assert list(map(within.matches, raws)) == [True, True, False, False, False, False]
    assert asked == []
    for stored in (point(15, 0), [1, 91], {"type": "LineString", "coordinates": [[10, 0], [11, 0]]}):
        assert not within.matches(bson.encode({"g": stored}))
        assert asked == [value(stored)]
        asked.clear()


def test_cells_bound_the_distance_of_what_lies_in_them(kernel: Kernel) -> None:
    dice = random.Random(3)
    for centre, at in zip(places(4, 200), places(5, 200), strict=True):
        entry = (
            PREFIX + next(iter(SphereKeys(finest=dice.choice([0, 3, 12, 29, 30])).cells(value(list(at))))) + RECORD_ID
        )
        nearby = kernel.geometry.cells.Nearby(centre, 1.0, 0.0, math.inf, len(PREFIX), [])
        assert nearby.gather(iter([entry, entry]), -1) == 2
        [(bound, kind, number, found)] = nearby.waiting
        assert (kind, number, found) == (0, 1, entry)
        assert bound <= radians(centre, at) <= nearby.reach(entry)


def test_entries_out_of_reach_do_not_wait(kernel: Kernel) -> None:
    entry = PREFIX + key_at((10.0, 0.0)) + RECORD_ID
    for least, greatest, waits in ((0.0, 0.17, 0), (0.0, 0.18, 1), (0.17, 9.0, 1), (0.18, 9.0, 0)):
        nearby = kernel.geometry.cells.Nearby((0.0, 0.0), 1.0, least, greatest, len(PREFIX), [])
        nearby.gather(iter([entry]), -1)
        assert len(nearby.waiting) == waits


def test_entries_without_a_cell_may_be_anywhere(kernel: Kernel) -> None:
    nearby = kernel.geometry.cells.Nearby((0.0, 0.0), 2.0, 0.0, math.inf, len(PREFIX), [0])
    entry = PREFIX + b"\x10" + b"\x10" + RECORD_ID
    nearby.gather(iter([entry]), -1)
    assert nearby.waiting == [(0.0, 0, 1, entry)]
    assert nearby.reach(entry) == 2 * math.pi


def test_the_cells_of_a_circle_hold_it(kernel: Kernel) -> None:
    dice = random.Random(6)
    for centre in places(7, 60):
        radius = math.exp(dice.uniform(-18, 1))
        cells = kernel.geometry.cells.cap_cells(centre, radius, 24)
        assert 0 < len(cells) <= 24
        ranges = kernel.geometry.cells.cap_ranges(centre, radius, 24, 0, 30)
        assert ranges == sorted(ranges)
        for at in places(8, 200):
            if radians(centre, at) <= radius:
                assert any(cell == cell_at(at, cell[3]) for cell in cells)
                assert any(low <= key_at(at) < high for low, high in ranges)
