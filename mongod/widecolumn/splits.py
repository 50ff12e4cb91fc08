"""Split points of column family chunks: between rows, by their sizes, never inside one.

Rows with one token stay together: a split point never divides a place. A chunk with a single place has none.
"""

from __future__ import annotations

from typing import Any

from docstore.collection.collection import Collection
from docstore.node.node import DataNode
from docstore.node.slices import PAUSE, Steps, finish_work
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.token_ring import place_document, place_of_row_key
from mongod.widecolumn.row_ranges import partitioner_of, row_sizes, rows_of


async def split_places(
    node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange, target: int | None
) -> list[Bound]:
    """The points to cut at: once in the middle with a `target` of None; else every half target, where the chunk has so
    many bytes, but in the middle at the ends of the ring, to which growing keys come.
    """
    if target is not None and collection.size < target:
        return []
    sizes = await finish_work(node, _sizes(node, collection, bounds))
    total = sum(size for _, size in sizes)
    if target is not None and total < target:
        return []
    at_an_end = bounds.min.key == key.min.key or bounds.max.key == key.max.key
    step = total / 2 if target is None or at_an_end else target / 2
    points: list[Any] = []
    since = 0
    for position, (point, size) in enumerate(sizes):
        if position and since >= step:
            points.append(point)
            since = 0
        since += size
    if len(points) > 1 and since * 2 < step:
        points.pop()
    once = target is None or at_an_end
    if once and not points and len(sizes) > 1:
        # The last point holds more than all before it.
        points = [sizes[-1][0]]
    return [key.bound(place_document(point)) for point in points[: 1 if once else None]]


def sized_places(
    node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange
) -> Steps[list[tuple[Bound, int]]]:
    """Return (bound of the place, bytes) of a chunk's data, in the order of places."""
    sizes = yield from _sizes(node, collection, bounds)
    return [(key.bound(place_document(point)), size) for point, size in sizes]


def _sizes(node: DataNode, collection: Collection, bounds: KeyRange) -> Steps[list[tuple[Any, int]]]:
    """Return (place, bytes) of a chunk's data, in the order of places."""
    partitioner = partitioner_of(node, collection)
    sizes: list[tuple[Any, int]] = []
    snapshot = node.engine.snapshot()
    try:
        for count, (row_key, size) in enumerate(
            row_sizes(snapshot, collection, partitioner, rows_of(partitioner, bounds))
        ):
            point = place_of_row_key(partitioner, row_key)
            if sizes and sizes[-1][0] == point:
                sizes[-1] = point, sizes[-1][1] + size.size
            else:
                sizes.append((point, size.size))
            if count % 256 == 255:
                yield PAUSE
    finally:
        snapshot.close()
    return sizes
