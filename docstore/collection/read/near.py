"""Documents by their distance from a point, read from an index of geometry ring by ring.

What lies within a radius is looked up, and what of it is no farther than the radius is given in order; then the radius
grows, by less the more was found. Invariants: each document is given once; none that is given later is nearer; those at
one distance come as the index leads to them. A small collection is one ring.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from docstore.collection.collection import Collection
from docstore.collection.read.fetch import fetched
from docstore.collection.read.index_access import entries_of
from docstore.kernel.scan.fetch import Examined
from docstore.query.geo.cell_keys import PlaneKeys
from docstore.query.geo.distances import nearest, unit_of
from docstore.query.plan.access import NearScan

if TYPE_CHECKING:
    from docstore.storage import Reader

_SMALL_COLLECTION = 200
_FIRST_STEPS = 16
_STEP = 4.0
_FEW, _MANY = 20, 400


def nearest_documents(
    coll: Collection, access: NearScan, reader: Reader, examined: Examined
) -> Iterator[tuple[bytes, bytes]]:
    """(8 bytes of the record id, document) by distance. Error: 16433 for a point outside the square of the index."""
    near = access.near
    farthest = _farthest(access)
    radius = farthest if coll.count <= _SMALL_COLLECTION else _first_radius(coll, access, reader, farthest)
    seen: set[bytes] = set()
    waiting: list[tuple[float, int, bytes, bytes]] = []
    while True:
        found = 0
        documents = fetched(coll, access.within(radius), reader, examined, seen)
        for rid, raw in cast("Iterator[tuple[bytes, bytes]]", documents):
            found += 1
            measured = nearest(near, raw)
            if measured is not None and near.least <= measured[0] <= near.greatest:
                heapq.heappush(waiting, (measured[0], len(seen), rid, raw))
        while waiting and (waiting[0][0] <= radius or radius >= farthest):
            yield heapq.heappop(waiting)[2:]
        if radius >= farthest:
            return
        radius = min(farthest, radius * (_STEP if found < _FEW else 2.0 if found < _MANY else 1.25))


def _farthest(access: NearScan) -> float:
    """The distance beyond which there is nothing more to be found."""
    near, geometry = access.near, access.index.geometry
    if isinstance(geometry, PlaneKeys):
        geometry.check_centre(near.centre)
    if near.spherical:
        return min(near.greatest, math.pi * unit_of(near))
    assert isinstance(geometry, PlaneKeys), "only an index of the plane serves distances in it"
    low, high = geometry.square.low, geometry.square.high
    across, along = (max(place - low, high - place) for place in near.centre)
    return min(near.greatest, math.hypot(across, along) * 1.001)


def _first_radius(coll: Collection, access: NearScan, reader: Reader, farthest: float) -> float:
    """A radius in which there is something, but not in a quarter of it, as far as it is worth to know."""
    shortest, longest = 0, _FIRST_STEPS
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        scan = access.within(farthest / _STEP**middle)
        if next(iter(entries_of(coll, scan, reader, Examined())), None) is None:
            longest = middle - 1
        else:
            shortest = middle
    return farthest / _STEP**shortest
