"""What a node knows of where a namespace lives, and how it catches up: the reply of `_configsvrGetRouting`.

    {
      database: {_id, primary, partitioned, version: {uuid, timestamp, lastMod}},       absent: no such database
      collection: {_id: ns, uuid, key, unique, lastmodEpoch, timestamp, [partitioner]}, absent: not sharded
      full: bool,            true: `chunks` is all of them; false: those with lastmod >= the `since` of the request
      chunks: [{min, max, shard, lastmod}, ...],                                        in rising order of lastmod
      ok: 1
    }

Read at majority: what a reply shows is never rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bson.binary import Binary
from bson.objectid import ObjectId

from docstore.bson import array_documents, document_to_python, get_field
from docstore.sharding.chunks import Chunk, ChunkMap, InconsistentChunks
from docstore.sharding.key import ShardKey
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.version import UNSHARDED, ShardVersion


@dataclass(frozen=True, slots=True)
class CollectionRouting:
    """A sharded collection: what it is and where its chunks are. `partitioner`: of a column family's keyspace; None for
    documents.
    """

    namespace: str
    uuid: Binary
    unique: bool
    chunks: ChunkMap
    partitioner: Partitioner | None = None

    @property
    def key(self) -> ShardKey:
        return self.chunks.key

    @property
    def epoch(self) -> ObjectId:
        epoch: ObjectId = self.chunks.epoch
        return epoch


@dataclass(frozen=True, slots=True)
class Routing:
    """Where a namespace lives. `primary` is None when the database is not known; `collection` None when unsharded."""

    namespace: str
    primary: str | None
    collection: CollectionRouting | None

    def version(self) -> ShardVersion:
        """Of the collection; UNSHARDED when it is not sharded."""
        return UNSHARDED if self.collection is None else self.collection.chunks.version

    def shard_version(self, shard: str) -> ShardVersion:
        """What an operation sent to `shard` must carry."""
        return UNSHARDED if self.collection is None else self.collection.chunks.shard_version(shard)


def routing_request(namespace: str, known: Routing | None) -> dict[str, Any]:
    """The command that brings `known` up to date; all of the routing when there is nothing to build on."""
    command: dict[str, Any] = {"_configsvrGetRouting": namespace}
    if known is not None and known.collection is not None:
        command["since"] = known.version().to_document()
    return command


def apply_routing(namespace: str, known: Routing | None, reply: bytes) -> Routing:
    """`known` brought up to date by the raw reply of `routing_request(namespace, known)`.

    InconsistentChunks when the two do not fit together: ask again with `known` None.
    """
    database = get_field(reply, "database")
    primary = None if database is None else str(document_to_python(database[1])["primary"])
    found = get_field(reply, "collection")
    if found is None:
        return Routing(namespace, primary, None)
    record = document_to_python(found[1])
    key = ShardKey.parse(record["key"])
    raw_chunks = get_field(reply, "chunks")
    listed = [Chunk.from_raw(key, raw) for raw in array_documents(raw_chunks[1])] if raw_chunks is not None else []
    epoch = record["lastmodEpoch"]
    full = get_field(reply, "full")
    if full is not None and full[1] == b"\1":
        chunks = ChunkMap.from_catalog(key, epoch, listed)
    elif known is None or known.collection is None or known.collection.epoch != epoch:
        raise InconsistentChunks("an increment to a routing that is not known")
    else:
        chunks = known.collection.chunks.updated(listed)
    name = record.get("partitioner")
    partitioner = None if name is None else Partitioner(name)
    unique = bool(record.get("unique", False))
    return Routing(namespace, primary, CollectionRouting(namespace, record["uuid"], unique, chunks, partitioner))
