"""Walking a range of shard keys in a collection by an index that begins with the key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from docstore.bson import Value, get_field
from docstore.collection.collection import Collection, Index
from docstore.collection.read.fetch import fetching
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.kernel.scan.fetch import Examined
from docstore.key_layout import long_of
from docstore.node.ddl.shard_key_rules import serves
from docstore.node.node import DataNode
from docstore.node.slices import PAUSE, Steps
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.split import PartScan
from docstore.storage import Family, Reader
from mongod.migration.range_cloner import cloner_of


def key_index(collection: Collection, key: ShardKey) -> Index:
    """An index that begins with the shard key. IndexNotFound when there is none that holds every document once."""
    for index in collection.indexes.values():
        if serves(index, key):
            return index
    raise CommandError(Code.IndexNotFound, f"{collection.ns} has no index that begins with the shard key {key}")


def entries(
    reader: Reader, index: Index, low: bytes, high: bytes, *, reverse: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Yield (encoded index key, record id) of the documents with shard keys in `[low, high)`, in key order.

    If the index has further fields, its keys are longer, and begin with the shard key.
    """
    prefix = len(index.prefix)
    for entry, value in reader.items(Family.INDEXES, index.prefix + low, index.prefix + high, reverse):
        end = len(entry) if index.is_id else -8
        yield entry[prefix:end], long_of(index.record_id(entry, value))


def documents(reader: Reader, collection: Collection, index: Index, bounds: KeyRange) -> Iterator[bytes]:
    """The documents of the range, in key order."""
    read = reader.values if index.is_id else reader.keys
    index_entries = read(Family.INDEXES, index.prefix + bounds.min.key, index.prefix + bounds.max.key)
    examined = Examined()
    yield from fetching(collection, index_entries, reader, examined, None, bare=True)
    assert examined.keys == examined.documents, f"{collection.ns}: an index entry leads to no record"


def shard_keys(
    reader: Reader, collection: Collection, key: ShardKey, bounds: KeyRange, *, reverse: bool = False
) -> Iterator[bytes]:
    """The encoded shard keys of the range's documents, in their order. IndexNotFound."""
    index = key_index(collection, key)
    longer = len(index.fields) > len(key.fields)
    for encoded, record_id in entries(reader, index, bounds.min.key, bounds.max.key, reverse=reverse):
        yield key.key_of(collection.record(reader, record_id) or b"") if longer else encoded


def bound_at(node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange, point: bytes) -> Bound:
    """The bound whose encoding is `point`, read from the first document there. ConflictingOperationInProgress."""
    for _, record_id in entries(node.engine, key_index(collection, key), point, bounds.max.key):
        raw = collection.record(node.engine, record_id)
        assert raw is not None, f"{collection.ns}: an index entry leads to no record"
        return key.bound_of(raw)
    raise CommandError(Code.ConflictingOperationInProgress, "the documents at a split point have just gone")


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


def in_range(key: ShardKey, bounds: KeyRange, document: bytes) -> bool:
    """True if the document's shard key is in the range; false for a document that cannot have a shard key."""
    try:
        return bounds.holds(key.key_of(document))
    except CommandError as error:
        if error.code == Code.ShardKeyNotFound:
            return False
        raise


def id_of(document: bytes) -> Value:
    """The `_id` of a stored document."""
    value = get_field(document, "_id")
    assert value is not None, "a stored document has an _id"
    return value
