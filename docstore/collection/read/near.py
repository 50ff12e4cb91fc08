"""Documents by their distance from a point, read from an index of geometry ring by ring.

What lies within a radius is looked up, and what of it is no farther than the radius is given in order; then the radius
grows, by less the more was found. Invariants: each document is given once; none that is given later is nearer; those at
one distance come as the index leads to them. A small collection is one ring.

On the sphere entries say by their cells how near a document can be: documents are read when they are next, a few at a
time. The first radius is one within which the entries lie that are neighbours of the point in the index.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from docstore.collection.collection import Collection, Index
from docstore.collection.read.fetch import fetched, fetching
from docstore.collection.read.index_access import entries_of
from docstore.kernel.geometry.cells import Nearby
from docstore.kernel.scan.fetch import LARGEST_CHUNK, Examined
from docstore.query.geo.cell_keys import PlaneKeys, SphereKeys, key_at
from docstore.query.geo.distances import nearest, unit_of, widened
from docstore.query.plan.access import NearScan
from docstore.query.plan.intervals import HIGHEST, LOWEST
from docstore.storage import Family
from docstore.storage.engine import keys_of_ranges

if TYPE_CHECKING:
    from docstore.storage import Reader

_SMALL_COLLECTION = 200
_FIRST_STEPS = 16
_STEP = 4.0
_FEW, _MANY = 20, 400
_RING_CELLS = 12
"""The cells that a ring is looked up in: fewer than of other regions, since what lies beside it costs little."""

_NEIGHBOURS, _FIRST_READ = 8, 8


def nearest_documents(
    coll: Collection, access: NearScan, reader: Reader, examined: Examined, wanted: int = 0
) -> Iterator[tuple[bytes, bytes]]:
    """(8 bytes of the record id, document) by distance. `wanted`: how many are likely to be asked for, if known.

    Error: 16433 for a point outside the square of the index.
    """
    if isinstance(access.index.geometry, SphereKeys):
        return _by_cells(coll, access, reader, examined, min(wanted or _FIRST_READ, LARGEST_CHUNK))
    return _by_documents(coll, access, reader, examined)


def _by_cells(
    coll: Collection, access: NearScan, reader: Reader, examined: Examined, wanted: int
) -> Iterator[tuple[bytes, bytes]]:
    """As `nearest_documents`, over an index whose entries have cells of the sphere; first so many are read."""
    near, index = access.near, cast("Index", access.index)
    masks = [0xFF if direction < 0 else 0 for _, direction in index.fields[: access.place]]
    nearby = Nearby(near.centre, unit_of(near), near.least, near.greatest, len(index.prefix), masks)
    # Of entries: (the least distance, 0, place, the entry). Of documents: (the distance, 1, place, (record id, raw)).
    waiting = nearby.waiting
    farthest = _farthest(access)
    radius = farthest if coll.count <= _SMALL_COLLECTION else _radius_of_few(coll, access, reader, nearby, farthest)
    seen: set[bytes] = set()
    while True:
        entries = _entries_within(coll, access, radius, reader, examined)
        found = nearby.gather(entries, _MANY)
        examined.keys += found
        if found == _MANY:
            nearer = _narrower(waiting, radius)
            if nearer is not None:
                radius = nearer
                continue
            further = nearby.gather(entries, -1)
            examined.keys += further
            found += further
        while waiting and (waiting[0][0] <= radius or radius >= farthest):
            if waiting[0][1]:
                yield heapq.heappop(waiting)[3]
                continue
            # An entry comes before a document at its distance, since its own may be at that too.
            places: dict[bytes, int] = {}
            while waiting and not waiting[0][1] and len(places) < wanted:
                _, _, place, entry = heapq.heappop(waiting)
                places[entry] = place
            wanted = min(2 * wanted, LARGEST_CHUNK)
            read = Examined()
            documents = fetching(coll, iter(places), reader, read, seen)
            for rid, raw in cast("Iterator[tuple[bytes, bytes]]", documents):
                measured = nearest(near, raw)
                if measured is not None and near.least <= measured[0] <= near.greatest:
                    heapq.heappush(waiting, (measured[0], 1, places[documents.entry], (rid, raw)))
            examined.documents += read.documents
        if radius >= farthest:
            return
        radius = min(farthest, radius * (_STEP if found < _FEW else 2.0 if found < _MANY else 1.25))


def _entries_within(
    coll: Collection, access: NearScan, radius: float, reader: Reader, examined: Examined
) -> Iterator[bytes]:
    """The entries of an index of the sphere that lead to all documents up to a distance, and to some others."""
    geometry = access.index.geometry
    if not isinstance(geometry, SphereKeys) or access.place or not access.alone:
        return entries_of(coll, access.within(radius, _RING_CELLS), reader, examined, counted=False)
    prefix = cast("Index", access.index).prefix
    ranges = geometry.around(access.near.centre, widened(radius) / unit_of(access.near), _RING_CELLS)
    return keys_of_ranges(reader, Family.INDEXES, [(prefix + low, prefix + high) for low, high in ranges])


def _narrower(waiting: list[Any], radius: float) -> float | None:
    """A much smaller radius in which there are some of those that wait; None where there is none."""
    few = heapq.nsmallest(_FEW, waiting)
    nearer: float = few[-1][0] if few else 0.0
    return nearer if 0 < nearer < radius / 2 else None


def _radius_of_few(coll: Collection, access: NearScan, reader: Reader, nearby: Nearby, farthest: float) -> float:
    """A radius within which a few entries lie, and not many if their neighbours in the index lie as they do."""
    index = cast("Index", access.index)
    bounds = access.bounds[: access.place]
    if not all(each.is_point for each in bounds):
        return _first_radius(coll, access, reader, farthest)
    prefix = index.prefix + b"".join(
        (each.ranges[0].descending() if each.direction < 0 else each.ranges[0]).lo for each in bounds
    )
    middle = prefix + key_at(access.near.centre)
    before = reader.keys(Family.INDEXES, prefix + LOWEST, middle, True)
    after = reader.keys(Family.INDEXES, middle, prefix + HIGHEST)
    reaches = sorted(map(nearby.reach, chain(islice(before, _NEIGHBOURS), islice(after, _NEIGHBOURS))))
    return farthest if len(reaches) < _NEIGHBOURS else min(farthest, reaches[_NEIGHBOURS - 1])


def _by_documents(
    coll: Collection, access: NearScan, reader: Reader, examined: Examined
) -> Iterator[tuple[bytes, bytes]]:
    """As `nearest_documents`, where entries do not say how near a document can be."""
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
