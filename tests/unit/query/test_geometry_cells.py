"""Cells: every place is in one, and what covers a shape leaves none of its places out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.kernel.geometry.curve import interleaved
from docstore.query.geo.cell_keys import PlaneKeys, Region, SphereKeys
from docstore.query.geo.geojson import locations
from docstore.query.geo.plane import Box, Circle, Outline
from docstore.query.geo.plane_cells import Square
from docstore.query.geo.shapes import Line, Point, Polygon, Position
from docstore.query.geo.sphere import Cap, Spherical
from docstore.query.geo.sphere_cells import LEVELS, covering
from docstore.query.plan.intervals import Ranges
from tests.unit.kernel.cells_of_places import cell_at
from tests.unit.query.raw import value

PLACES = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
PAIRS = st.tuples(st.floats(-10, 10), st.floats(-10, 10))
GRIDS = st.builds(Square, st.just(-10.0), st.just(10.0), st.integers(1, 32))
REGIONS = st.one_of(
    st.builds(Box, st.tuples(PAIRS, PAIRS)),
    st.builds(Circle, PAIRS, st.floats(0, 20)),
    st.lists(PAIRS, min_size=3, max_size=6).map(lambda corners: Outline(tuple(corners))),
)


def held(key: bytes, ranges: Ranges) -> bool:
    return any(found.lo <= key < found.hi for found in ranges)


def ranges_of(keys: SphereKeys | PlaneKeys, region: Region) -> Ranges:
    ranges = keys.ranges(region)
    assert ranges is not None
    return ranges


def test_the_curve_takes_the_bits_in_turn() -> None:
    assert [interleaved(x, y) for x in (0, 1, 2, 3) for y in (0, 1)] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert interleaved(2**32 - 1, 0) == 0xAAAAAAAAAAAAAAAA


@given(PLACES, st.integers(0, LEVELS - 1))
def test_a_cell_is_a_quarter_of_the_one_above_it(at: Position, level: int) -> None:
    face, column, row, _ = cell_at(at, level + 1)
    assert cell_at(at, level) == (face, column // 2, row // 2, level)


@given(PLACES, st.floats(0, math.pi))
def test_a_cap_has_all_the_places_within_its_radius(at: Position, radius: float) -> None:
    keys = SphereKeys()
    ranges = ranges_of(keys, Spherical(Cap((10.0, 20.0), radius)))
    if Spherical(Cap((10.0, 20.0), radius)).contains(Point(at)):
        assert all(held(key, ranges) for key in keys.cells(value(list(at))))


@settings(max_examples=60)
@given(PLACES, PLACES, st.integers(0, 6), st.integers(7, LEVELS))
def test_shapes_that_meet_have_keys_that_meet(one: Position, two: Position, coarsest: int, finest: int) -> None:
    keys = SphereKeys(coarsest=coarsest, finest=finest)
    region = Spherical(Polygon((((-40.0, -30.0), (60.0, -20.0), (50.0, 70.0), (-30.0, 60.0)),)))
    ranges = ranges_of(keys, region)
    if region.intersects(Point(one)):
        assert all(held(key, ranges) for key in keys.cells(value({"type": "Point", "coordinates": list(one)})))
    if one != two and region.intersects(Line((one, two))):
        line = value({"type": "LineString", "coordinates": [list(one), list(two)]})
        assert any(held(key, ranges) for key in keys.cells(line))


@given(st.integers(1, 40), st.integers(0, 4))
def test_a_covering_is_as_fine_as_it_may_be(most: int, coarsest: int) -> None:
    found = covering(Spherical(Line(((0.0, 0.0), (1.0, 2.0)))), most, coarsest=coarsest, finest=8)
    assert all(coarsest <= level <= 8 for _, _, _, level in found)
    assert len(found) <= max(most, 6 * 4**coarsest)


@given(GRIDS, PAIRS, REGIONS)
def test_a_region_of_the_plane_has_all_its_places(square: Square, at: Position, region: Box | Circle | Outline) -> None:
    keys = PlaneKeys(square)
    if region.holds(at):
        ranges = ranges_of(keys, region)
        assert all(held(key, ranges) for key in keys.cells(value(list(at))))


@given(PLACES, st.floats(0, 4), PLACES)
def test_a_cap_in_the_plane_has_all_its_places(centre: Position, radius: float, at: Position) -> None:
    keys = PlaneKeys(Square())
    cap = Spherical(Cap(centre, radius))
    if cap.contains(Point(at)):
        assert all(held(key, ranges_of(keys, cap)) for key in keys.cells(value(list(at))))


def test_an_index_serves_what_it_measures() -> None:
    plane, sphere = PlaneKeys(Square()), SphereKeys()
    assert plane.ranges(Spherical(Point((1.0, 1.0)))) is None
    assert sphere.ranges(Box(((0, 0), (1, 1)))) is None
    asked = [(False, False), (True, False), (True, True)]
    assert [plane.serves(spherical=spherical, geojson=geojson) for spherical, geojson in asked] == [True, True, False]
    assert [sphere.serves(spherical=spherical, geojson=geojson) for spherical, geojson in asked] == [False, True, True]


@pytest.mark.parametrize(
    ("stored", "count"),
    [
        ([1, 2], 1),
        ({"x": 1, "y": 2}, 1),
        ([[1, 2], [3, 4]], 2),
        ([{"x": 1, "y": 2}], 1),
        ({"type": "Point"}, 1),
        ([], 1),
    ],
)
def test_the_geometries_in_a_value(stored: object, count: int) -> None:
    assert len(locations(value(stored))) == count


@pytest.mark.parametrize(
    ("corners", "found"),
    [
        (((0, 0), (4, 0), (4, 2)), [True, True, True, True, True, False]),
        (((4, 2), (4, 0), (0, 0)), [True, True, True, True, False, False]),
        (((4, 0), (6, 0), (6, 2), (4, 2)), [False, False, True, True, False, True]),
        (((0, 0), (4, 0), (4, -2), (0, -2)), [True, True, False, False, False, False]),
    ],
)
def test_borders_of_outlines_are_those_of_the_real_server(
    corners: tuple[tuple[float, float], ...], found: list[bool]
) -> None:
    places = [(0.0, 0.0), (1.0, 0.0), (4.0, 1.0), (4.0, 2.0), (0.3, 0.15), (4 + 1e-12, 1.0)]
    outline = Outline(tuple((float(x), float(y)) for x, y in corners))
    assert [outline.holds(at) for at in places] == found
