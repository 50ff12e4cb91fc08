"""Geometric values in their notation: coordinates only, without interpretation (see `sphere` and `plane`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Position = tuple[float, float]
"""(longitude, latitude) in degrees, or (x, y)."""


@dataclass(frozen=True, slots=True)
class Point:
    """A position. `legacy`: a pair of numbers, which may lie outside the earth's degrees."""

    at: Position
    legacy: bool = False

    @property
    def on_sphere(self) -> bool:
        return is_on_sphere(self.at)


@dataclass(frozen=True, slots=True)
class Line:
    """At least two different positions."""

    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Polygon:
    """A ring, and rings of holes in it, each without its repeated first position at the end. `wound`: the inside is to
    the left of the ring (counter-clockwise), and may be more than half of the sphere.
    """

    rings: tuple[tuple[Position, ...], ...]
    wound: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Several shapes in one; not empty."""

    parts: tuple[Shape, ...]


Shape = Point | Line | Polygon | Group


def is_on_sphere(at: Position) -> bool:
    """True if the position is a valid longitude and latitude."""
    longitude, latitude = at
    return -180 <= longitude <= 180 and -90 <= latitude <= 90


def single_parts(shape: Shape) -> Iterator[Point | Line | Polygon]:
    """Yield the points, lines and polygons that a shape consists of."""
    if isinstance(shape, Group):
        for part in shape.parts:
            yield from single_parts(part)
    else:
        yield shape
