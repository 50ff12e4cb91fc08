"""Shapes on the sphere, without a real server: `tests/differential` has the cases that are judged by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import Code, CommandError
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.geo.shapes import Line, Point, Polygon
from docstore.query.geo.sphere import Spherical, angle, turn, vector
from tests.unit.query.raw import raw

PLACES = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
SQUARE = Polygon((((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)),))


def found(condition: dict[str, Any], *values: Any) -> list[int]:
    predicate = compile_filter(parse_filter(raw({"g": condition})))
    return [number for number, value in enumerate(values) if predicate.matches(raw({"g": value}))]


@given(PLACES, PLACES, PLACES)
def test_a_turn_is_the_other_way_round_from_behind(
    a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]
) -> None:
    points = vector(a), vector(b), vector(c)
    assert turn(*points) == -turn(*points[::-1])
    assert turn(*points) == turn(points[1], points[2], points[0])
    assert (turn(*points) == 0) == (len(set(points)) < 3)


@given(PLACES)
def test_every_point_is_in_exactly_one_of_the_parts_that_a_border_divides(at: tuple[float, float]) -> None:
    """The inside of a ring and the inside of the same ring the other way round make up the sphere."""
    rings = [Polygon((corners,), wound=True) for corners in (SQUARE.rings[0], SQUARE.rings[0][::-1])]
    assert [Spherical(ring).contains(Point(at)) for ring in rings].count(True) == 1


@pytest.mark.parametrize(
    ("at", "inside"), [((5, 5), True), ((-5, 5), False), ((5, 10.02), True), ((5, 10.05), False), ((-175, -5), False)]
)
def test_edges_are_arcs_of_great_circles(at: tuple[float, float], inside: bool) -> None:
    assert Spherical(SQUARE).contains(Point(at)) is inside
    assert Spherical(Polygon((SQUARE.rings[0][::-1],))).contains(Point(at)) is inside


def test_lines_meet_or_do_not() -> None:
    line = Spherical(Line(((0, 0), (10, 10))))
    assert line.intersects(Line(((0, 10), (10, 0))))
    assert not line.intersects(Line(((0, 10), (4, 6))))
    assert line.intersects(Line(((10, 10), (20, 20))))


def test_distances_are_angles() -> None:
    assert angle(vector((0, 0)), vector((90, 0))) == pytest.approx(math.pi / 2)
    assert angle(vector((0, 90)), vector((30, -90))) == pytest.approx(math.pi)


def test_values_are_looked_at_one_by_one() -> None:
    box = {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}
    assert found(box, [1, 1], {"x": 1, "y": 3}, [[5, 5], [1, 1]], {"type": "Point", "coordinates": [2, 2]}) == [0, 2, 3]
    assert found({"$not": box}, [1, 1], 5, None) == [1, 2]
    assert found(
        {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [1, 1]}}}, [1, 1], [500, 1], "x"
    ) == [0]


@pytest.mark.parametrize("operand", [{"$box": [[0, 0]]}, {"$polygon": [[0, 0], [1, 1]]}, {"$geometry": {}}, {}, 5])
def test_malformed_regions_are_bad_values(operand: Any) -> None:
    with pytest.raises(CommandError) as refused:
        found({"$geoWithin": operand})
    assert refused.value.code == Code.BadValue
