"""Sharded collections and their chunks. Every change of ownership in the cluster is made here.

Invariants of the chunks of a collection, also after any failover (see `docstore.sharding.chunks` for the rest):

- a split writes the new upper parts first, from the top, and shortens the lower part last. A failover in between
  leaves the chunk and its parts on the same shard, and readers shorten the lower one themselves;
- a move raises the version of the donor's remaining chunk first and gives the chunk away last, so a move that a
  failover interrupts has not happened;
- a move is refused unless the chunk still has exactly the version that the donor saw, so a delayed commit is harmless
  once that version has been raised.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bson.binary import Binary
from bson.objectid import ObjectId

from configsvr.catalog.records import CHUNKS, COLLECTIONS, DATABASES, ChunkRecord, CollectionRecord, DatabaseRecord
from configsvr.catalog.tables import Tables
from docstore.bson import document_to_python, get_field, to_python
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.chunks import first_chunk, first_chunks, move_chunk, split_chunk
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.token_ring import even_places, place_document
from docstore.sharding.version import NO_CHUNKS, DatabaseVersion, Lastmod, ShardVersion
from docstore.storage import Reader

CHUNKS_PER_SHARD = 2
"""For a column family that is sharded from its creation."""
_BY_MIN = {"uuid": 1, "min": 1}
_BY_SHARD = {"uuid": 1, "shard": 1, "min": 1}
_BY_LASTMOD = {"uuid": 1, "lastmod": 1}


class Chunks:
    """The collections and chunks of the catalog."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    # Reading

    def collection(self, namespace: str, reader: Reader | None = None) -> CollectionRecord | None:
        """The record of a sharded collection."""
        raw = self._tables.document(COLLECTIONS, namespace, reader)
        return None if raw is None else CollectionRecord.from_raw(raw)

    def expect(self, namespace: str, epoch: ObjectId) -> CollectionRecord:
        """Return the record of this incarnation. StaleEpoch if there is another or none."""
        record = self.collection(namespace)
        if record is None or record.epoch != epoch:
            raise CommandError(Code.StaleEpoch, f"{namespace} is not (any more) sharded under the epoch {epoch}")
        return record

    def version(self, record: CollectionRecord) -> ShardVersion:
        """The collection's version."""
        raw = next(self._tables.by_index(CHUNKS, _BY_LASTMOD, (record.uuid,), reverse=True), None)
        return ShardVersion(record.epoch, NO_CHUNKS if raw is None else _lastmod(raw))

    def changed_since(self, record: CollectionRecord, since: ShardVersion | None, reader: Reader) -> Iterator[bytes]:
        """The raw chunks with a lastmod at or above `since` (all without it or when it is of another epoch)."""
        start: tuple[Any, ...] = ()
        if since is not None and since.epoch == record.epoch:
            start = (since.lastmod.to_timestamp(),)
        return self._tables.by_index(CHUNKS, _BY_LASTMOD, (record.uuid,), start=start, reader=reader)

    def at(self, record: CollectionRecord, bound: Bound) -> ChunkRecord | None:
        """The chunk that holds the key of a bound, cut where a half-written split has put its neighbour."""
        upwards = self._tables.by_index(CHUNKS, _BY_MIN, (record.uuid,), start=(bound.document(),))
        below = self._tables.by_index(CHUNKS, _BY_MIN, (record.uuid,), start=(bound.document(),), reverse=True)
        first = next(upwards, None)
        chunk_record = None if first is None else ChunkRecord.from_raw(first, record.key)
        if chunk_record is None or chunk_record.chunk.min.key != bound.key:
            following, raw = chunk_record, next(below, None)
            chunk_record = None if raw is None else ChunkRecord.from_raw(raw, record.key)
        else:
            raw = next(upwards, None)
            following = None if raw is None else ChunkRecord.from_raw(raw, record.key)
        if chunk_record is not None and following is not None and chunk_record.chunk.max.key > following.chunk.min.key:
            cut = replace(chunk_record.chunk, range=KeyRange(chunk_record.chunk.min, following.chunk.min))
            chunk_record = replace(chunk_record, chunk=cut)
        return chunk_record

    def count_by_shard(self, record: CollectionRecord) -> dict[str, int]:
        """Chunks per shard of one collection."""
        return Counter(map(_shard, self._tables.by_index(CHUNKS, _BY_MIN, (record.uuid,))))

    def count_on(self, shard: str) -> int:
        """Return the number of chunks that a shard has of all collections, without reading any."""
        records = map(CollectionRecord.from_raw, self._tables.all(COLLECTIONS))
        return sum(self._tables.count(CHUNKS, _BY_SHARD, (record.uuid, shard)) for record in records)

    def count_jumbo_on(self, shard: str) -> int:
        """Return the number of these chunks that are flagged jumbo; reads all of them."""
        records = map(CollectionRecord.from_raw, self._tables.all(COLLECTIONS))
        chunk_rows = (self._tables.by_index(CHUNKS, _BY_SHARD, (record.uuid, shard)) for record in records)
        return sum(
            get_field(raw, "jumbo") is not None and _field(raw, "jumbo")
            for raw in itertools.chain.from_iterable(chunk_rows)
        )

    # Changing

    def shard(
        self, namespace: str, key: ShardKey, unique: bool, uuid: Binary, shard: str, *, version: DatabaseVersion,
        partitioner: str | None = None, target_shards: Sequence[str] = (),
    ) -> ShardVersion:  # fmt: skip
        """Make a collection sharded, with one chunk 1|0 on `shard`. Idempotent.

        A column family, which has a partitioner, gets chunks evenly over its tokens and over `target_shards`.

        AlreadyInitialized when it is sharded differently; IllegalOperation unless its database is partitioned and has
        its primary on `shard`; StaleDbVersion when the database has another version than `version`; OperationFailed
        for a request that comes after the collection has been dropped.
        """
        tables = self._tables
        record = self.collection(namespace)
        if record is not None:
            if record.dropping or (record.key, record.unique, record.uuid) != (key, unique, uuid):
                raise CommandError(Code.AlreadyInitialized, f"{namespace} is already sharded, by {record.key}")
            return self.version(record)
        raw = tables.document(DATABASES, split_namespace(namespace)[0])
        database = None if raw is None else DatabaseRecord.from_raw(raw)
        if database is None or not database.partitioned:
            raise CommandError(Code.IllegalOperation, f"sharding is not enabled for the database of {namespace}")
        if database.version != version:
            raise CommandError(Code.StaleDbVersion, f"the database of {namespace} is another one by now")
        if any(bytes(dropped_uuid) == bytes(uuid) for dropped_uuid, _ in database.dropped):
            raise CommandError(Code.OperationFailed, f"{namespace} has been dropped meanwhile")
        if database.primary != shard:
            raise CommandError(Code.IllegalOperation, f"the primary shard of {namespace} is {database.primary}")
        stamp = tables.timestamp()
        record = CollectionRecord(
            namespace=namespace,
            uuid=uuid,
            epoch=ObjectId(),
            timestamp=stamp,
            changed_ms=tables.now_ms(),
            key=key,
            unique=unique,
            partitioner=partitioner,
        )
        layout = [first_chunk(key, shard)]
        if partitioner is not None and target_shards:
            points = even_places(Partitioner(partitioner), CHUNKS_PER_SHARD * len(target_shards))
            if points:
                layout = first_chunks(key, [key.bound(place_document(point)) for point in points], target_shards)
        chunks = [
            ChunkRecord(id=ObjectId(), namespace=namespace, uuid=uuid, chunk=chunk, history=((stamp, chunk.shard),))
            for chunk in layout
        ]
        leftovers = [_field(raw, "_id") for raw in tables.by_index(CHUNKS, _BY_MIN, (uuid,))]
        with tables.store.unit() as unit:
            for identity in leftovers:
                tables.delete(unit, CHUNKS, identity)
            for chunk in chunks:
                tables.upsert(unit, CHUNKS, chunk.document())
            tables.upsert(unit, COLLECTIONS, record.document())
            unit.commit()
        return ShardVersion(record.epoch, chunks[-1].chunk.lastmod)

    def split(self, record: CollectionRecord, shard: str, bounds: KeyRange, points: list[Bound]) -> ShardVersion:
        """Cut a chunk; nothing changes when it is cut at these points already.

        ConflictingOperationInProgress when `shard` has no chunk with these bounds; BadValue for unusable points.
        """
        chunk_record = self.at(record, bounds.min)
        if chunk_record is None or chunk_record.chunk.shard != shard or not chunk_record.chunk.range.same(bounds):
            if points and self._is_cut(record, shard, bounds, points):
                return self.version(record)
            raise _conflict(f"{shard} has no chunk {bounds} of {record.namespace}")
        lower, *uppers = split_chunk(chunk_record.chunk, points, self.version(record).lastmod)
        tables = self._tables
        with tables.store.unit() as unit:
            for part in reversed(uppers):
                tables.upsert(unit, CHUNKS, replace(chunk_record, id=ObjectId(), chunk=part).document())
            tables.upsert(unit, CHUNKS, replace(chunk_record, chunk=lower).document())
            unit.commit()
        return self.version(record)

    def _is_cut(self, record: CollectionRecord, shard: str, bounds: KeyRange, points: list[Bound]) -> bool:
        edges = [bounds.min, *points, bounds.max]
        for low, high in itertools.pairwise(edges):
            part = self.at(record, low)
            if part is None or part.chunk.shard != shard or not part.chunk.range.same(KeyRange(low, high)):
                return False
        return True

    def move(
        self, record: CollectionRecord, bounds: KeyRange, lastmod: Lastmod, donor: str, recipient: str
    ) -> ShardVersion:
        """Give a chunk away; return the collection's new version. Idempotent. ConflictingOperationInProgress unless
        the donor has the chunk with exactly this version.
        """
        chunk_record = self.at(record, bounds.min)
        if chunk_record is None or not chunk_record.chunk.range.same(bounds):
            raise _conflict(f"there is no chunk {bounds} of {record.namespace}")
        if chunk_record.chunk.shard == recipient:
            return self.version(record)
        if record.dropping or chunk_record.chunk.shard != donor or chunk_record.chunk.lastmod != lastmod:
            raise _conflict(f"the chunk is {chunk_record.chunk}, not on {donor} with version {lastmod}")
        remaining = self._first_remaining(record, donor, chunk_record)
        version = self.version(record).lastmod
        moved, bumped = move_chunk(
            chunk_record.chunk, recipient, None if remaining is None else remaining.chunk, version
        )
        tables = self._tables
        history = ((tables.timestamp(), recipient), *chunk_record.history[:9])
        with tables.store.unit() as unit:
            if remaining is not None and bumped is not None:
                tables.upsert(unit, CHUNKS, replace(remaining, chunk=bumped).document())
            tables.upsert(unit, CHUNKS, replace(chunk_record, chunk=moved, history=history).document())
            unit.commit()
        return ShardVersion(record.epoch, moved.lastmod if bumped is None else bumped.lastmod)

    def _first_remaining(self, record: CollectionRecord, shard: str, leaving: ChunkRecord) -> ChunkRecord | None:
        for raw in self._tables.by_index(CHUNKS, _BY_SHARD, (record.uuid, shard)):
            other = ChunkRecord.from_raw(raw, record.key)
            if other.id != leaving.id:
                return self.at(record, other.chunk.min)
        return None

    def raise_version(self, record: CollectionRecord, bounds: KeyRange, lastmod: Lastmod) -> str:
        """Make sure that the chunk at the low end of `bounds` has a version above `lastmod`; the shard that owns it."""
        chunk_record = self.at(record, bounds.min)
        assert chunk_record is not None, f"{record.namespace} has no chunk at {bounds.min}"
        if chunk_record.chunk.lastmod <= lastmod:
            higher = Lastmod(self.version(record).major + 1, 0)
            tables = self._tables
            with tables.store.unit() as unit:
                tables.upsert(
                    unit, CHUNKS, replace(chunk_record, chunk=replace(chunk_record.chunk, lastmod=higher)).document()
                )
                unit.commit()
        return chunk_record.chunk.shard

    def set_jumbo(self, record: CollectionRecord, bounds: KeyRange, jumbo: bool) -> ShardVersion:
        """Set or clear a chunk's jumbo flag; return the collection's new version. The chunk gets a new minor version,
        so that incremental refreshes include it. ConflictingOperationInProgress if there is no such chunk.
        """
        chunk_record = self.at(record, bounds.min)
        if chunk_record is None or not chunk_record.chunk.range.same(bounds):
            raise _conflict(f"there is no chunk {bounds} of {record.namespace}")
        version = self.version(record)
        if chunk_record.chunk.jumbo == jumbo:
            return version
        after = ShardVersion(record.epoch, Lastmod(version.major, version.minor + 1))
        with self._tables.store.unit() as unit:
            flagged = replace(chunk_record.chunk, jumbo=jumbo, lastmod=after.lastmod)
            self._tables.upsert(unit, CHUNKS, replace(chunk_record, chunk=flagged).document())
            unit.commit()
        return after

    def remove(self, record: CollectionRecord) -> None:
        """Remove a collection's record, then its chunks."""
        tables = self._tables
        chunks = [_field(raw, "_id") for raw in tables.by_index(CHUNKS, _BY_MIN, (record.uuid,))]
        with tables.store.unit() as unit:
            tables.delete(unit, COLLECTIONS, record.namespace)
            for identity in chunks:
                tables.delete(unit, CHUNKS, identity)
            unit.commit()

    def rename(self, source: str, target: str, source_uuid: Binary | None, target_uuid: Binary | None) -> bool:
        """Rename a sharded collection over another one, which is dropped; either may be unsharded. False if that has
        happened.

        The record gets a new epoch and timestamp. It is written before the old one is removed; an interrupted rename
        is completed.
        """
        tables = self._tables
        old, new = self.collection(source), self.collection(target)
        is_renamed = new is not None and new.uuid == source_uuid
        with tables.store.unit() as unit:
            if old is not None and old.uuid == source_uuid:
                if not is_renamed:
                    stamp = tables.timestamp()
                    named = replace(
                        old, namespace=target, epoch=ObjectId(), timestamp=stamp, changed_ms=tables.now_ms()
                    )
                    tables.upsert(unit, COLLECTIONS, named.document())
                tables.delete(unit, COLLECTIONS, source)
            elif source_uuid is None and new is not None and new.uuid == target_uuid:
                tables.delete(unit, COLLECTIONS, target)
            else:
                old = None
            for raw in [] if target_uuid is None else list(tables.by_index(CHUNKS, _BY_MIN, (target_uuid,))):
                tables.delete(unit, CHUNKS, _field(raw, "_id"))
            for raw in [] if source_uuid is None else list(tables.by_index(CHUNKS, _BY_MIN, (source_uuid,))):
                if _field(raw, "ns") != target:
                    tables.upsert(unit, CHUNKS, {**document_to_python(raw), "ns": target})
            unit.commit()
        return old is not None

    def being_dropped(self) -> list[CollectionRecord]:
        """Collections whose drop was begun by a config server of before there were coordinators."""
        listed = map(CollectionRecord.from_raw, self._tables.all(COLLECTIONS))
        return [record for record in listed if record.dropping]

    def of_database(self, database: str) -> list[CollectionRecord]:
        """The sharded collections of a database."""
        listed = map(CollectionRecord.from_raw, self._tables.all(COLLECTIONS))
        return [record for record in listed if split_namespace(record.namespace)[0] == database]


def _lastmod(raw: bytes) -> Lastmod:
    return Lastmod.from_timestamp(_field(raw, "lastmod"))


def _shard(raw: bytes) -> str:
    return str(_field(raw, "shard"))


def _field(raw: bytes, name: str) -> Any:
    value = get_field(raw, name)
    assert value is not None, f"a chunk has the field {name}"
    return to_python(value)


def _conflict(message: str) -> CommandError:
    return CommandError(Code.ConflictingOperationInProgress, message)
