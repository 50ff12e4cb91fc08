"""Plain points are judged as geometry of any kind is, and cells bound what lies in them."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import bson
import pytest

from docstore.kernel.geometry import plane as installed_plane
from docstore.query.geo import sphere
from docstore.query.geo.cell_keys import PlaneKeys, SphereKeys
from docstore.query.geo.geojson import stored_shape
from docstore.query.geo.plane import Box, Circle, Outline, contains
from docstore.query.geo.plane_cells import Square
from tests.unit.kernel.cells_of_places import cell_at
from tests.unit.kernel.kernels import Kernel
from tests.unit.query.raw import value

KEYS = SphereKeys()
PLANE_FILE = installed_plane.__file__
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
        cells = kernel.geometry.cells.SphereDistances(centre, 1.0)
        nearby = kernel.geometry.nearby.Nearby(cells, 0.0, math.inf, len(PREFIX), [])
        assert nearby.gather(iter([entry, entry]), -1, math.inf) == 2
        [(bound, kind, number, found)] = nearby.waiting
        assert (kind, number, found) == (0, 1, entry)
        assert bound <= radians(centre, at) <= nearby.reach(entry)


def test_entries_out_of_reach_do_not_wait(kernel: Kernel) -> None:
    entry = PREFIX + KEYS.key_at((10.0, 0.0)) + RECORD_ID
    for least, greatest, waits in ((0.0, 0.17, 0), (0.0, 0.18, 1), (0.17, 9.0, 1), (0.18, 9.0, 0)):
        cells = kernel.geometry.cells.SphereDistances((0.0, 0.0), 1.0)
        nearby = kernel.geometry.nearby.Nearby(cells, least, greatest, len(PREFIX), [])
        nearby.gather(iter([entry]), -1, math.inf)
        assert len(nearby.waiting) == waits


def test_entries_without_a_cell_may_be_anywhere(kernel: Kernel) -> None:
    cells = kernel.geometry.cells.SphereDistances((0.0, 0.0), 2.0)
    nearby = kernel.geometry.nearby.Nearby(cells, 0.0, math.inf, len(PREFIX), [0])
    entry = PREFIX + b"\x10" + b"\x10" + RECORD_ID
    nearby.gather(iter([entry]), -1, math.inf)
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
                assert any(low <= KEYS.key_at(at) < high for low, high in ranges)


def test_a_small_cell_lies_in_its_circle(kernel: Kernel) -> None:
    """Wherever it is on its face: it is the longest in the corners of that."""
    dice = random.Random(9)
    for at in places(10, 100):
        near = (at[0] + dice.uniform(-1e-6, 1e-6), max(-90.0, min(90.0, at[1] + dice.uniform(-1e-6, 1e-6))))
        if not -180 <= near[0] <= 180:
            continue
        for finest in (23, 24, 25, 26):
            entry = PREFIX + next(iter(SphereKeys(finest=finest).cells(value(list(at))))) + RECORD_ID
            cells = kernel.geometry.cells.SphereDistances(near, 1.0)
            nearby = kernel.geometry.nearby.Nearby(cells, 0.0, math.inf, len(PREFIX), [])
            nearby.gather(iter([entry]), -1, math.inf)
            assert nearby.waiting[0][0] <= radians(near, at) <= nearby.reach(entry)


def test_cells_of_the_plane_bound_distances_too(kernel: Kernel) -> None:
    dice = random.Random(11)
    for _ in range(400):
        square = Square(-180.0, 180.0, dice.choice([1, 5, 26, 32]))
        keys = PlaneKeys(square)
        centre, at = ((dice.uniform(-180, 180), dice.uniform(-90, 90)) for _ in range(2))
        if dice.random() < 0.5:
            at = (centre[0] + dice.uniform(-1e-5, 1e-5), centre[1] + dice.uniform(-1e-5, 1e-5))
        entry = PREFIX + keys.cells(value(list(at)))[0] + RECORD_ID if square.holds(at) else b""
        for unit in (0.0, 1.0, 6_378_100.0) if entry else ():
            far = radians(centre, at) * unit if unit else math.hypot(centre[0] - at[0], centre[1] - at[1])
            cells = kernel.geometry.plane.PlaneDistances(centre, unit, -180.0, 360.0, square.spare(), square.bits)
            nearby = kernel.geometry.nearby.Nearby(cells, 0.0, math.inf, len(PREFIX), [])
            nearby.gather(iter([entry]), -1, math.inf)
            assert nearby.waiting[0][0] <= far * (1 + 1e-15)
            assert far <= nearby.reach(entry)


def test_entries_beyond_the_radius_come_again(kernel: Kernel) -> None:
    near, far = (PREFIX + KEYS.key_at((at, 0.0)) + RECORD_ID for at in (1.0, 10.0))
    nearby = kernel.geometry.nearby.Nearby(kernel.geometry.cells.SphereDistances((0.0, 0.0), 1.0), 0.0, 4.0, 4, [])
    assert nearby.gather(iter([near, far]), -1, 0.1) == 2
    assert nearby.entries(9) == [near]
    assert nearby.gather(iter([near, far]), -1, 0.2) == 2
    assert nearby.entries(9) == [far]


def test_keys_of_plain_points_are_those_of_any_geometry(kernel: Kernel) -> None:
    odd: list[Any] = [point(1, 91), point(1, 2, 3), [1], [1, 2, 3], [[1, 2]], {"x": 1, "y": 2}, "text", None, [181, 1]]
    square = Square(-180.0, 180.0, 26)
    for at in [*places(12, 200), (180.0, 90.0), (-180.0, -90.0), (180.0, 180.0), (0.0, -0.0)]:
        for stored in (point(*at), list(at), [int(at[0]), bson.Int64(at[1])], *odd):
            raw = bson.encode({"b": 1, "a": {"g": stored}})
            for finest in (5, 30):
                found = kernel.geometry.cells.PointKeys("a.g", finest).of_document(raw)
                if found is not None:
                    assert {found} == SphereKeys(finest=finest).cells(value(stored))
                else:
                    assert stored in odd or not -90 <= at[1] <= 90
            found = kernel.geometry.plane.SquareKeys("a.g", -180.0, 180.0, 26).of_document(raw)
            if found is not None:
                assert [found] == PlaneKeys(square).cells(value(stored))
    assert kernel.geometry.cells.PointKeys("a.g", 30).of_document(bson.encode({"a": [{"g": [1, 2]}]})) is None
    assert kernel.geometry.plane.SquareKeys("g", 0.0, 1.0, 26).of_document(bson.encode({"g": [1.5, 0]})) is None


def _lies_in(region: Box | Circle | Outline, stored: Any) -> bool:
    shape = stored_shape(stored)
    return shape is not None and contains(region, shape)


def test_points_in_regions_of_the_plane(kernel: Kernel) -> None:
    dice = random.Random(13)
    regions = kernel.geometry.regions

    def place() -> tuple[float, float]:
        return float(dice.randrange(-4, 5)), float(dice.randrange(-4, 5)) / dice.choice([1, 2, 3])

    for _ in range(300):
        (a, b), (c, d) = place(), place()
        centre, radius = place(), dice.choice([0.0, 1.0, 5.0, math.sqrt(2), dice.uniform(0, 6)])
        corners = tuple(place() for _ in range(dice.randrange(3, 7)))
        box, disc, outline = Box(((a, b), (c, d))), Circle(centre, radius), Outline(corners)
        pairs = (
            (box, regions.WithinBox("g", (min(a, c), min(b, d)), (max(a, c), max(b, d)), partial(_lies_in, box))),
            (disc, regions.WithinDisc("g", centre, radius, partial(_lies_in, disc))),
            (outline, regions.WithinOutline("g", corners, partial(_lies_in, outline))),
        )
        for stored in (list(place()), point(*place()), [1, 2, 3], "text", [list(place()), list(place())], point(1, 91)):
            members = stored if isinstance(stored, list) and isinstance(stored[0], list) else [stored]
            for region, within in pairs:
                expected = any(_lies_in(region, value(member)) for member in members)
                assert within.matches(bson.encode({"g": stored})) == expected


def test_the_ranges_of_cells_of_the_plane(kernel: Kernel) -> None:
    ranges = kernel.geometry.plane.cell_ranges([(0, 0, 0)])
    assert ranges == [(PlaneKeys(Square()).key_at((-180.0, -180.0)), ranges[0][1])]
    assert ranges[0][1] > PlaneKeys(Square(bits=32)).key_at((180.0, 180.0))
    quarters = [(column, row, 1) for column in (0, 1) for row in (0, 1)]
    assert kernel.geometry.plane.cell_ranges(quarters) == ranges
    ((low, high),) = kernel.geometry.plane.cell_ranges([(2, 1, 2), (3, 1, 2), (2, 0, 2), (3, 0, 2)])
    assert (low, high) == kernel.geometry.plane.cell_ranges([(1, 0, 1)])[0]


def test_the_cells_of_a_polygon_hold_it(kernel: Kernel) -> None:
    dice = random.Random(14)
    for _ in range(40):
        square = Square(-10.0, 10.0, dice.choice([3, 26, 32]))
        corners = tuple((dice.uniform(-12, 12), dice.uniform(-12, 12)) for _ in range(dice.randrange(3, 7)))
        most = dice.choice([4, 24])
        given = square.low, square.high - square.low, square.spare(), square.bits, most
        cells = kernel.geometry.plane.outline_cells(corners, *given)
        assert len(cells) <= max(most, 4)
        ranges = kernel.geometry.plane.cell_ranges(cells)
        for at in [(dice.uniform(-10, 10), dice.uniform(-10, 10)) for _ in range(60)]:
            if Outline(corners).holds(at):
                key = PlaneKeys(square).key_at(at)
                assert any(low <= key < high for low, high in ranges)


def test_entries_whose_cells_do_not_meet_a_region_are_left_out(kernel: Kernel) -> None:
    dice = random.Random(15)
    left_out = 0
    for _ in range(200):
        square = Square(-180.0, 180.0, dice.choice([4, 26, 32]))
        keys: Any = dice.choice([PlaneKeys(square), SphereKeys(finest=dice.choice([5, 30]))])
        at = (float(dice.randrange(-8, 9)), float(dice.randrange(-8, 9)))
        centre = (float(dice.randrange(-8, 9)), dice.choice([0.0, 1e17, dice.uniform(-9, 9)]))
        cap = sphere.Spherical(sphere.Cap((centre[0], 3.0), dice.choice([0.0, math.radians(5)])))
        regions = [Box((centre, (dice.uniform(-9, 9), 4.0))), Circle(centre, dice.choice([0.0, 5.0])), cap]
        for region in regions:
            reach = keys.reach(region)
            if reach is None:
                continue
            entry = PREFIX + next(iter(keys.cells(value(list(at))))) + RECORD_ID
            cells: Any = kernel.geometry.cells.SphereDistances(cap.cap.centre, 1.0) if region is cap else None
            if region is cap and isinstance(keys, PlaneKeys):
                given = 1.0, -180.0, 360.0, square.spare(), square.bits
                cells = kernel.geometry.plane.PlaneDistances(cap.cap.centre, *given)
            if cells is None and kernel.geometry.plane.__file__ == PLANE_FILE:
                cells = reach[0]
            if cells is None:
                continue
            found = list(kernel.geometry.nearby.RadiusFilter(iter([entry] * 3), cells, len(PREFIX), reach[1], 2))
            lies_in = region.contains(stored_shape(value(list(at)))) if region is cap else region.holds(at)
            assert len(found) == 3 or (len(found) == 1 and not lies_in)
            left_out += len(found) == 1
    assert left_out > 50
