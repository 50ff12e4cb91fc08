"""The routing of a namespace, and its refresh by the reply of `_configsvrGetRouting`.

    {
      database: {_id, primary, partitioned, version: {uuid, timestamp, lastMod}},       absent: no such database
      collection: {_id: ns, uuid, key, unique, lastmodEpoch, timestamp, [partitioner]}, absent: not sharded
      full: bool,            true: `chunks` is all of them; false: those with lastmod >= the `since` of the request
      chunks: [{min, max, shard, lastmod, since}, ...],                                 in rising order of lastmod
      more: bool,            true: there are more chunks; ask again with the last lastmod as `since`
      ok: 1
    }

Read with majority read concern: a reply is never rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bson.binary import Binary
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.bson import array_documents, document_to_python, get_field
from docstore.optime import pack_timestamp
from docstore.sharding.chunk import Chunk, chunk_from_raw
from docstore.sharding.chunks import ChunkMap, InconsistentChunks
from docstore.sharding.key import Bound, ShardKey
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.version import FIRST_PRIMARY, DatabaseVersion, ShardVersion, unsharded_in

_NEVER = Timestamp(0, 0)


@dataclass(frozen=True, slots=True)
class CollectionRouting:
    """A sharded collection: its key and its chunks. `partitioner`: of a column family's keyspace; None for documents.
    `timestamp`: when it became sharded; later incarnations have higher ones. `gained`: for each shard, the packed
    cluster time up to which chunks have come to it.
    """

    namespace: str
    uuid: Binary
    unique: bool
    chunks: ChunkMap
    partitioner: Partitioner | None = None
    timestamp: Timestamp = _NEVER
    gained: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> ShardKey:
        return self.chunks.key

    @property
    def epoch(self) -> ObjectId:
        epoch: ObjectId = self.chunks.epoch
        return epoch


@dataclass(frozen=True, slots=True)
class Routing:
    """The routing of a namespace. `primary` and `database` are None if the database is not known; `collection` is
    None if it is unsharded.
    """

    namespace: str
    primary: str | None
    collection: CollectionRouting | None
    database: DatabaseVersion | None = None

    def version(self) -> ShardVersion:
        """Return the version of the collection; if it is not sharded, of the database."""
        return unsharded_in(self.database) if self.collection is None else self.collection.chunks.version

    def arrived(self, shard: str) -> int:
        """Return the packed cluster time up to which documents of the namespace have come to the shard; 0 if it has
        always had them.
        """
        if self.collection is not None:
            return self.collection.gained.get(shard, 0)
        if self.database is None or self.primary != shard or self.database.last_mod == FIRST_PRIMARY:
            return 0
        return pack_timestamp(self.database.timestamp)

    def shard_version(self, shard: str) -> ShardVersion:
        """Return the shard version that an operation sent to `shard` must carry."""
        if self.collection is None:
            return unsharded_in(self.database)
        return self.collection.chunks.shard_version(shard)


def routing_request(namespace: str, cached: Routing | None) -> dict[str, Any]:
    """Return the command that brings `cached` up to date; it reads all of the routing if there is no base."""
    return RoutingRead(namespace, cached).request()


def apply_routing(namespace: str, cached: Routing | None, reply: bytes) -> Routing:
    """Return `cached` brought up to date by the raw reply of `routing_request(namespace, known)`. InconsistentChunks
    if the two do not fit together: ask again with `cached` None.
    """
    routing = RoutingRead(namespace, cached).take(reply)
    if routing is None:
        raise InconsistentChunks("there is more to read")
    return routing


class RoutingRead:
    """One reading of a namespace's routing, page by page: send `request`, `take` the reply, until that returns a
    routing.

    Pages come in rising order of lastmod, and a changed chunk gets a higher lastmod than any before. A change during
    the reading is therefore on a later page, and all pages together show the chunks as of the last one.
    """

    def __init__(self, namespace: str, cached: Routing | None) -> None:
        self._namespace = namespace
        self._cached = cached
        self._since = cached.version() if cached is not None and cached.collection is not None else None
        self._full = False
        self._chunks: list[Chunk] = []
        self._bounds: dict[bytes, Bound] = {}
        self._gained: dict[str, int] = {}

    def request(self) -> dict[str, Any]:
        """The command for the next page."""
        command: dict[str, Any] = {"_configsvrGetRouting": self._namespace}
        if self._since is not None:
            command["since"] = self._since.to_document()
        return command

    def take(self, reply: bytes) -> Routing | None:
        """Return the routing after the last page, None before. InconsistentChunks if the pages do not fit the cached
        routing: begin again without it.
        """
        namespace = self._namespace
        database = get_field(reply, "database")
        primary, version = (None, None) if database is None else _placed(document_to_python(database[1]))
        collection_field = get_field(reply, "collection")
        if collection_field is None:
            return Routing(namespace, primary, None, version)
        record = document_to_python(collection_field[1])
        key, epoch = ShardKey.parse(record["key"]), record["lastmodEpoch"]
        self._add(reply, key, epoch)
        if _is_true(reply, "more"):
            self._since = ShardVersion(epoch, self._chunks[-1].lastmod)
            return None
        name = record.get("partitioner")
        partitioner = None if name is None else Partitioner(name)
        unique = bool(record.get("unique", False))
        chunks = self._assemble(key, epoch)
        collection = CollectionRouting(
            namespace, record["uuid"], unique, chunks, partitioner, record["timestamp"], self._all_gained()
        )
        return Routing(namespace, primary, collection, version)

    def _add(self, reply: bytes, key: ShardKey, epoch: ObjectId) -> None:
        if _is_true(reply, "full"):
            if self._chunks:
                raise InconsistentChunks("the collection was sharded anew while its routing was read")
            self._full = True
        listed = get_field(reply, "chunks")
        if listed is None:
            return
        bounds = self._bounds

        def bound(raw: bytes) -> Bound:
            cached_bound = bounds.get(raw)
            if cached_bound is None:
                cached_bound = bounds[raw] = key.bound(raw)
            return cached_bound

        for raw in array_documents(listed[1]):
            chunk = chunk_from_raw(bound, raw)
            self._chunks.append(chunk)
            since = get_field(raw, "since")
            if since is not None:
                previous = self._gained.get(chunk.shard, 0)
                self._gained[chunk.shard] = max(previous, int.from_bytes(since[1], "little"))

    def _all_gained(self) -> dict[str, int]:
        """Return `gained` from the chunks read; a split chunk keeps its value."""
        cached_collection = None if self._cached is None else self._cached.collection
        gained = {} if self._full or cached_collection is None else dict(cached_collection.gained)
        for shard, since in self._gained.items():
            gained[shard] = max(gained.get(shard, 0), since)
        return gained

    def _assemble(self, key: ShardKey, epoch: ObjectId) -> ChunkMap:
        if self._full:
            return ChunkMap.from_catalog(key, epoch, self._chunks)
        cached_collection = None if self._cached is None else self._cached.collection
        if cached_collection is None or cached_collection.epoch != epoch:
            raise InconsistentChunks("an increment to a routing that is not known")
        return cached_collection.chunks.updated(self._chunks)


def _is_true(reply: bytes, name: str) -> bool:
    value = get_field(reply, name)
    return value is not None and value[1] == b"\1"


def _placed(record: dict[str, Any]) -> tuple[str, DatabaseVersion]:
    return str(record["primary"]), DatabaseVersion.from_document(record["version"])
