"""Geometric values as they are written: coordinates only, no judgement. See `sphere` and `plane` for what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Position = tuple[float, float]
"""(longitude, latitude) in degrees, or (x, y)."""


@dataclass(frozen=True, slots=True)
class Point:
    """`legacy`: a pair of numbers, which may lie outside the earth's degrees."""

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
    """A ring, and rings of holes in it, each without its first position at the end. `wound`: the ring goes
    counter-clockwise round its inside, which may be more than half of the sphere.
    """

    rings: tuple[tuple[Position, ...], ...]
    wound: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Several shapes taken together; not empty."""

    parts: tuple[Shape, ...]


Shape = Point | Line | Polygon | Group


def is_on_sphere(at: Position) -> bool:
    """Whether the position is a longitude and a latitude."""
    longitude, latitude = at
    return -180 <= longitude <= 180 and -90 <= latitude <= 90


def single_parts(shape: Shape) -> Iterator[Point | Line | Polygon]:
    """What a shape is put together of."""
    if isinstance(shape, Group):
        for part in shape.parts:
            yield from single_parts(part)
    else:
        yield shape
