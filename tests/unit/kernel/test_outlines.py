"""Areas of the sphere in the kernel: points lie in them as exact arithmetic says, and coverings hold them."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import bson

from docstore.query.geo.geojson import stored_shape
from docstore.query.geo.shapes import Group, Line, Point, Polygon, Position, is_on_sphere
from docstore.query.geo.sphere import OUTLOOK, Spherical
from docstore.query.geo.sphere_cells import LEVELS
from tests.unit.kernel.cells_of_places import cell_at
from tests.unit.kernel.kernels import Kernel
from tests.unit.query.raw import value

_NEVER = 1 << 20


def _ring(dice: random.Random, at: Position, size: float) -> tuple[Position, ...]:
    """Corners around a place, in the order of their angles."""
    turns = sorted(dice.uniform(0, 2 * math.pi) for _ in range(dice.randrange(3, 9)))
    sizes = [size * dice.uniform(0.7, 1) for _ in turns]
    return tuple(
        (at[0] + far * math.cos(turn), max(-90.0, min(90.0, at[1] + far * math.sin(turn))))
        for turn, far in zip(turns, sizes, strict=True)
    )


def _polygon(dice: random.Random) -> tuple[Polygon, Position, float]:
    at = dice.uniform(-150, 150), dice.uniform(-60, 60)
    size = dice.choice((0.001, 1.0, 20.0))
    rings = [_ring(dice, at, size)]
    if dice.random() < 0.4:
        rings.append(_ring(dice, at, size / 10))
    return Polygon(tuple(rings), wound=len(rings) == 1 and dice.random() < 0.2), at, size


def test_points_lie_in_areas_as_exact_arithmetic_says(kernel: Kernel) -> None:
    dice = random.Random(1)
    left = judged = 0
    for _ in range(150):
        polygons = [_polygon(dice) for _ in range(dice.choice((1, 1, 2)))]
        region = Spherical(Group(tuple(polygon for polygon, _, _ in polygons)))
        areas = region.areas()
        asked: list[Any] = []
        within = kernel.geometry.outlines.WithinAreas("g", OUTLOOK, areas, lambda _, asked=asked: bool(asked.append(1)))
        _, at, size = polygons[0]
        corners = [corner for polygon, _, _ in polygons for ring in polygon.rings for corner in ring]
        places = [(at[0] + dice.uniform(-size, size), at[1] + dice.uniform(-size, size)) for _ in range(20)]
        places += [*corners, (0.0, 90.0), (0.0, -90.0), (dice.uniform(-180, 180), dice.uniform(-90, 90))]
        places += [((one[0] + two[0]) / 2, one[1]) for one, two in itertools.pairwise(corners)]
        for place in places:
            if not is_on_sphere(place):
                continue
            asked.clear()
            found = within.matches(bson.encode({"g": {"type": "Point", "coordinates": list(place)}}))
            judged += 1
            if asked:
                left += 1
            else:
                assert found == region.contains(Point(place)) == region.intersects(Point(place))
    assert left < judged / 4


def test_what_is_no_plain_point_is_left(kernel: Kernel) -> None:
    region = Spherical(Polygon((((0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0)),)))
    asked: list[Any] = []

    def otherwise(stored: Any) -> bool:
        asked.append(stored)
        shape = stored_shape(stored)
        return shape is not None and region.contains(shape)

    within = kernel.geometry.outlines.WithinAreas("g", OUTLOOK, region.areas(), otherwise)
    line = {"type": "LineString", "coordinates": [[1, 1], [2, 2]]}
    assert [within.matches(bson.encode({"g": each})) for each in ([1, 1], [91, 1], line, "x", None, [[2, 2]])] == [
        True, False, True, False, False, True
    ]  # fmt: skip
    assert asked == [value(line)]


def test_a_covering_holds_its_shape(kernel: Kernel) -> None:
    dice = random.Random(2)
    for _ in range(60):
        polygon, at, size = _polygon(dice)
        line = Line((at, (at[0] + size, at[1])))
        region = Spherical(dice.choice((polygon, line, Group((polygon, Point((1.0, 2.0)))))))
        coarsest, finest = dice.choice(((0, LEVELS), (0, 9), (3, 12)))
        cells = kernel.geometry.outlines.covering_cells(region.edges(), region.surrounds, 24, coarsest, finest, _NEVER)
        assert cells
        assert all(coarsest <= level <= finest for _, _, _, level in cells)
        for _ in range(60):
            place = at[0] + dice.uniform(-size, size), at[1] + dice.uniform(-size, size)
            if is_on_sphere(place) and region.intersects(Point(place)):
                assert any(cell == cell_at(place, cell[3]) for cell in cells)


def test_a_covering_of_too_many_cells_is_given_up(kernel: Kernel) -> None:
    region = Spherical(Polygon((((0.0, 0.0), (80.0, 0.0), (80.0, 60.0)),)))
    cells = kernel.geometry.outlines.covering_cells
    assert cells(region.edges(), region.surrounds, 24, 9, LEVELS, 100) is None
    assert len(cells(region.edges(), region.surrounds, 24, 0, LEVELS, 100)) <= 24
