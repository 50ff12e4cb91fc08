"""Operations on a range of shard keys in a collection of either kind: its bytes, a part of it, its removal.

A collection of documents is walked by an index (`mongod.migration.ranges`); any other has a `RangeCloner`.
"""

from __future__ import annotations

from itertools import islice

from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.node.node import DataNode
from docstore.node.slices import PAUSE, Steps
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.split import PartScan
from mongod.migration.range_cloner import cloner_of
from mongod.migration.ranges import bound_at, entries, key_index, shard_keys


def range_bytes(
    node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange, most: int = 1 << 62
) -> Steps[int]:
    """Return the bytes of data in a range; stop counting at `most`. Documents are estimated by their average size."""
    if not collection.count:
        return 0
    cloner = cloner_of(node, collection)
    if cloner is not None:
        return sum(size for _, size in (yield from cloner.sized(collection, key, bounds)))
    average = max(collection.size // collection.count, 1)
    snapshot = node.engine.snapshot()
    count = 0
    try:
        for count, _ in enumerate(entries(snapshot, key_index(collection, key), bounds.min.key, bounds.max.key), 1):
            if count % 512 == 0:
                if count * average > most:
                    break
                yield PAUSE
    finally:
        snapshot.close()
    return count * average


def part_of(
    node: DataNode,
    collection: Collection,
    key: ShardKey,
    bounds: KeyRange,
    target_bytes: int,
    max_bytes: int,
    *,
    upper: bool,
) -> Steps[KeyRange | None]:
    """Return the lower or the `upper` end of a range with about `target_bytes` bytes, at most `max_bytes`.

    All of the range if it is small enough. None if keys with too much data leave no such part.
    """
    scan = PartScan(target_bytes, max_bytes, upper=upper)
    cloner = cloner_of(node, collection)
    if cloner is not None:
        sized = yield from cloner.sized(collection, key, bounds)
        bounds_by_key = {bound.key: bound for bound, _ in sized}
        for bound, size in reversed(sized) if upper else sized:
            if not scan.add(bound.key, size):
                break
    else:
        average = max(collection.size // collection.count, 1) if collection.count else 1
        snapshot = node.engine.snapshot()
        try:
            for count, encoded in enumerate(shard_keys(snapshot, collection, key, bounds, reverse=upper), 1):
                if not scan.add(encoded, average):
                    break
                if count % 512 == 0:
                    yield PAUSE
        finally:
            snapshot.close()
    point = scan.cut(bounds.min.key)
    if point is None or point == bounds.min.key:
        return None if point is None else bounds
    bound = bounds_by_key[point] if cloner is not None else bound_at(node, collection, key, bounds, point)
    return KeyRange(bound, bounds.max) if upper else KeyRange(bounds.min, bound)


class RangeRemoval:
    """Deletes a range unit by unit. Each unit resumes where the previous one ended and so skips the deleted keys. At
    the end it scans the whole range once more.
    """

    def __init__(self, node: DataNode, key: ShardKey, bounds: KeyRange) -> None:
        self._node = node
        self._key = key
        self._bounds = bounds
        self._start = bounds.min.key

    def step(self, collection: Collection, limit: int) -> int:
        """Delete at most `limit` documents, or eight times as many records of rows, in one unit. Return how many; 0
        when the range is empty.
        """
        with self._node.store.unit(from_migrate=True) as unit:
            cloner = cloner_of(self._node, collection)
            if cloner is not None:
                count = cloner.delete_some(unit, collection, self._bounds, limit * 8)
            else:
                count = self._delete(unit, collection, limit)
                if not count and self._start != self._bounds.min.key:
                    self._start = self._bounds.min.key
                    count = self._delete(unit, collection, limit)
            unit.commit()
        return count

    def _delete(self, unit: WriteUnitOfWork, collection: Collection, limit: int) -> int:
        index, reader = key_index(collection, self._key), self._node.engine
        batch = list(islice(entries(reader, index, self._start, self._bounds.max.key), limit))
        for encoded, record_id in batch:
            raw = collection.record(reader, record_id)
            assert raw is not None, f"{collection.ns}: an index entry leads to no record"
            unit.remove(collection, record_id, raw)
            self._start = encoded
        return len(batch)
