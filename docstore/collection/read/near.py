"""Documents by distance from a point, read from a geo index in growing rings.

- Each ring looks up the cells within a radius and returns the documents up to that radius in order; then the radius
  grows. A small collection, or few documents within the maximum distance, makes one ring.
- A document is returned by the first of its entries that is read. Its distance is that of its nearest geometry, so the
  order is correct for any radii.
- The cell of an entry is a lower bound of the distance: documents are fetched lazily, a few at a time.
- The first radius should contain the requested number of documents. It assumes the density of the index entries that
  follow the point.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import sub
from typing import TYPE_CHECKING, Any, cast

from docstore.collection.collection import Collection, Index
from docstore.collection.limits import MAX_NEAR_SCAN_DOCUMENTS
from docstore.collection.read.fetch import ReadAhead, fetching
from docstore.collection.read.index_access import entries_of
from docstore.kernel.geometry.nearby import Nearby
from docstore.kernel.scan.fetch import LARGEST_CHUNK, Examined
from docstore.query.geo.cell_keys import PlaneKeys
from docstore.query.geo.distances import distance_from, nearest, region_around, unit_of
from docstore.query.plan.access import NearScan
from docstore.query.plan.intervals import HIGHEST, LOWEST
from docstore.storage import Family
from docstore.storage.engine import keys_of_ranges

if TYPE_CHECKING:
    from docstore.storage import Reader

_FIRST_STEPS = 16
_STEP = 4.0
_FEW, _MANY = 20, 400
_RING_CELLS = 12
"""Maximum cells per ring: fewer than for other regions, since false positives are cheap."""

_NEIGHBOURS, _FIRST_READ = 16, 8
_MORE = 1.5
"""The first radius is chosen to contain this multiple of the requested documents, and a few more."""


def nearest_documents(
    coll: Collection, access: NearScan, reader: Reader, examined: Examined, expected: int = 0, max_entries: int = -1
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (8 bytes of the record id, document) by distance. `expected`: documents likely to be requested, if known.

    It ends after `max_entries`, if that is not -1. Errors: 16433 for a point outside the index's square.
    """
    near, index = access.near, cast("Index", access.index)
    masks = [0xFF if direction < 0 else 0 for _, direction in index.fields[: access.position]]
    assert index.geometry is not None, "the index serves the point"
    cells = index.geometry.distances(near.centre, unit_of(near) if near.spherical else 0.0)
    nearby = Nearby(cells, near.least, near.greatest, len(index.prefix), masks)
    waiting = nearby.waiting
    farthest = _farthest(access)
    radius = farthest
    if coll.count > MAX_NEAR_SCAN_DOCUMENTS:
        radius = _radius_of_few(coll, access, reader, nearby, farthest, expected or _FEW)
    read_size = min(expected or _FIRST_READ, LARGEST_CHUNK)
    record_ids: set[bytes] = set()
    distances, otherwise = distance_from(near), partial(nearest, near)
    while True:
        entries = _entries_within(coll, access, radius, reader, examined)
        entry_count = nearby.gather(entries, _MANY, radius)
        examined.keys += entry_count
        if entry_count == _MANY:
            nearer = _narrower(waiting, radius)
            if nearer is not None:
                radius = nearer
                continue
            further = nearby.gather(entries, max(max_entries + 1, _MANY) if max_entries >= 0 else -1, radius)
            examined.keys += further
            entry_count += further
        if 0 <= max_entries < examined.keys:
            return
        while waiting and (waiting[0][0] <= radius or radius >= farthest):
            if waiting[0][1]:
                yield heapq.heappop(waiting)[3]
                continue
            read = Examined()
            next_entries = nearby.entries(read_size)
            read_size = min(2 * read_size, LARGEST_CHUNK)
            documents = fetching(
                coll, iter(next_entries), reader, read, record_ids, read_ahead=ReadAhead(documents=len(next_entries))
            )
            nearby.add(documents, distances, otherwise)
            examined.documents += read.documents
        if radius >= farthest:
            return
        radius = min(farthest, radius * (_STEP if entry_count < _FEW else 2.0 if entry_count < _MANY else 1.25))


def _entries_within(
    coll: Collection, access: NearScan, radius: float, reader: Reader, examined: Examined
) -> Iterator[bytes]:
    """Yield the entries of all documents up to a distance, and of some farther ones."""
    index = cast("Index", access.index)
    if access.position or not access.alone or index.geometry is None:
        return entries_of(coll, access.scan_within(radius, _RING_CELLS), reader, examined, counted=False)
    ranges = index.geometry.pairs(region_around(access.near, radius), _RING_CELLS, single=not index.multikey)
    assert ranges is not None, "the index serves the point"
    prefix = index.prefix
    return keys_of_ranges(reader, Family.INDEXES, [(prefix + low, prefix + high) for low, high in ranges])


def _narrower(waiting: list[Any], radius: float) -> float | None:
    """Return a much smaller radius that still contains some of the waiting documents; None if there is none."""
    neighbours = heapq.nsmallest(_FEW, waiting)
    nearer: float = neighbours[-1][0] if neighbours else 0.0
    return nearer if 0 < nearer < radius / 2 else None


def _radius_of_few(
    coll: Collection, access: NearScan, reader: Reader, nearby: Nearby, farthest: float, documents: int
) -> float:
    """Return a radius expected to contain that number of documents, at the density of the entries that follow the
    point.
    """
    index, near = cast("Index", access.index), access.near
    bounds = access.bounds[: access.position]
    if not all(field.is_point for field in bounds):
        return _first_radius(coll, access, reader, farthest)
    prefix = index.prefix + b"".join(
        (field.ranges[0].descending() if field.direction < 0 else field.ranges[0]).lo for field in bounds
    )
    assert index.geometry is not None, "the index serves the point"
    middle = prefix + index.geometry.key_at(near.centre)
    entries = list(islice(reader.keys(Family.INDEXES, middle, prefix + HIGHEST), _NEIGHBOURS))
    if len(entries) < _NEIGHBOURS:
        before = reader.keys(Family.INDEXES, prefix + LOWEST, middle, True)
        entries = [*reversed(list(islice(before, _NEIGHBOURS))), *entries]
    if len(entries) < _NEIGHBOURS:
        return farthest
    areas = list(map(nearby.area_before, entries))
    # Take the median of the areas between neighbours: where the curve leaves the documents, one may be huge.
    area = sorted(map(sub, areas[1:], areas))[len(areas) // 2]
    if not 0 < area < math.inf:
        return min(farthest, nearby.reach(entries[0]))
    density = math.log(2) / area
    unit = 1.0
    if near.spherical:
        unit = unit_of(near)
        if isinstance(index.geometry, PlaneKeys):
            unit *= math.pi / 180
            density /= max(math.cos(math.radians(near.centre[1])), 0.01)
    expected = _MORE * documents + _NEIGHBOURS / 2
    if near.least:
        expected += density * math.pi * (near.least / unit) ** 2
    radius = math.sqrt(expected / (density * math.pi)) * unit
    # If little more remains, look it up at once.
    return farthest if radius * _MORE >= farthest else radius


def _farthest(access: NearScan) -> float:
    """Return the distance beyond which no document can match."""
    near, geometry = access.near, access.index.geometry
    if isinstance(geometry, PlaneKeys):
        geometry.check_centre(near.centre)
    if near.spherical:
        return min(near.greatest, math.pi * unit_of(near))
    assert isinstance(geometry, PlaneKeys), "only an index of the plane serves distances in it"
    low, high = geometry.square.low, geometry.square.high
    across, along = (max(coordinate - low, high - coordinate) for coordinate in near.centre)
    return min(near.greatest, math.hypot(across, along) * 1.001)


def _first_radius(coll: Collection, access: NearScan, reader: Reader, farthest: float) -> float:
    """Return a radius that contains an entry but whose quarter does not, as precisely as is worthwhile."""
    shortest, longest = 0, _FIRST_STEPS
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        scan = access.scan_within(farthest / _STEP**middle)
        if next(iter(entries_of(coll, scan, reader, Examined())), None) is None:
            longest = middle - 1
        else:
            shortest = middle
    return farthest / _STEP**shortest
