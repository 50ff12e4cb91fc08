"""The records of the `config` database, one frozen dataclass for each collection.

`from_raw` decodes a stored document, `document` encodes one. Shapes are those of MongoDB 6.0, with two additions of
older versions that clients still print: `partitioned` in databases and `ns` in chunks.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.bson import document_to_python
from docstore.sharding.chunk import Chunk
from docstore.sharding.key import ShardKey
from docstore.sharding.version import DatabaseVersion

VERSION = "config.version"
SHARDS = "config.shards"
DATABASES = "config.databases"
COLLECTIONS = "config.collections"
CHUNKS = "config.chunks"
MONGOS = "config.mongos"
SETTINGS = "config.settings"
LOCKS = "config.locks"
CHANGELOG = "config.changelog"

INDEXES: dict[str, tuple[dict[str, int], ...]] = {
    SHARDS: ({"host": 1},),
    CHUNKS: ({"uuid": 1, "min": 1}, {"uuid": 1, "shard": 1, "min": 1}, {"uuid": 1, "lastmod": 1}),
}
"""Unique indexes of the config collections."""


def milliseconds(date: Any) -> int:
    """Milliseconds since 1970 of a stored date."""
    return int(date) if isinstance(date, DatetimeMS) else int(DatetimeMS(date))


def date_of(ms: int) -> datetime.datetime:
    """A date for a document."""
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """config.shards. `host` is "set/h:p,h:p"."""

    name: str
    host: str
    topology_time: Timestamp
    draining: bool = False

    @property
    def set_name(self) -> str:
        return self.host.partition("/")[0]

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(self.host.partition("/")[2].split(","))

    @classmethod
    def from_raw(cls, raw: bytes) -> ShardRecord:
        body = document_to_python(raw)
        return cls(
            name=body["_id"],
            host=body["host"],
            topology_time=body["topologyTime"],
            draining=bool(body.get("draining", False)),
        )

    def document(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "_id": self.name,
            "host": self.host,
            "state": 1,
            "topologyTime": self.topology_time,
        }
        if self.draining:
            body["draining"] = True
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRecord:
    """config.databases. `primary`: the shard of its unsharded collections. `dropped`: the uuids of recently dropped
    sharded collections, each with the time, to refuse delayed requests to shard them.
    """

    name: str
    primary: str
    partitioned: bool
    uuid: Binary
    timestamp: Timestamp
    last_mod: int = 1
    dropped: tuple[tuple[Binary, Timestamp], ...] = ()

    @property
    def version(self) -> DatabaseVersion:
        """Return the version that identifies the database among those of its name."""
        return DatabaseVersion(self.uuid, self.timestamp, self.last_mod)

    @classmethod
    def from_raw(cls, raw: bytes) -> DatabaseRecord:
        body = document_to_python(raw)
        version = body["version"]
        return cls(
            name=body["_id"],
            primary=body["primary"],
            partitioned=bool(body["partitioned"]),
            uuid=version["uuid"],
            timestamp=version["timestamp"],
            last_mod=int(version["lastMod"]),
            dropped=tuple((row["uuid"], row["at"]) for row in body.get("dropped", ())),
        )

    def document(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "_id": self.name,
            "primary": self.primary,
            "partitioned": self.partitioned,
            "version": self.version.to_document(),
        }
        if self.dropped:
            body["dropped"] = [{"uuid": uuid, "at": at} for uuid, at in self.dropped]
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRecord:
    """config.collections. `dropping`: the drop has begun and will be completed. `partitioner`: for a column family,
    the class name of its keyspace's.
    """

    namespace: str
    uuid: Binary
    epoch: ObjectId
    timestamp: Timestamp
    changed_ms: int
    key: ShardKey
    unique: bool
    dropping: bool = False
    no_balance: bool = False
    partitioner: str | None = None

    @classmethod
    def from_raw(cls, raw: bytes) -> CollectionRecord:
        body = document_to_python(raw)
        return cls(
            namespace=body["_id"],
            uuid=body["uuid"],
            epoch=body["lastmodEpoch"],
            timestamp=body["timestamp"],
            changed_ms=milliseconds(body["lastmod"]),
            key=ShardKey.parse(body["key"]),
            unique=bool(body["unique"]),
            dropping=bool(body.get("dropping", False)),
            no_balance=bool(body.get("noBalance", False)),
            partitioner=body.get("partitioner"),
        )

    def document(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "_id": self.namespace,
            "lastmodEpoch": self.epoch,
            "lastmod": date_of(self.changed_ms),
            "timestamp": self.timestamp,
            "uuid": self.uuid,
            "key": self.key.document(),
            "unique": self.unique,
            "noBalance": self.no_balance,
        }
        if self.partitioner is not None:
            body["partitioner"] = self.partitioner
        if self.dropping:
            body |= {"allowMigrations": False, "dropping": True}
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """config.chunks. `history`: (valid after, shard), newest first."""

    id: ObjectId
    namespace: str
    uuid: Binary
    chunk: Chunk
    history: tuple[tuple[Timestamp, str], ...]

    @classmethod
    def from_raw(cls, raw: bytes, key: ShardKey) -> ChunkRecord:
        body = document_to_python(raw)
        return cls(
            id=body["_id"],
            namespace=body["ns"],
            uuid=body["uuid"],
            chunk=Chunk.from_raw(key, raw),
            history=tuple((row["validAfter"], row["shard"]) for row in body["history"]),
        )

    def document(self) -> dict[str, Any]:
        return {
            "_id": self.id,
            "ns": self.namespace,
            "uuid": self.uuid,
            **self.chunk.document(),
            "history": [{"validAfter": after, "shard": shard} for after, shard in self.history],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """config.locks. State 2 is held, 0 free, as the lock documents of older versions had it. `fence` grows with each
    new holder and is kept when the lease is released."""

    name: str
    holder: str
    fence: int
    granted_ms: int
    expires_ms: int
    why: str

    def is_held(self, now_ms: int) -> bool:
        return bool(self.holder) and now_ms < self.expires_ms

    @classmethod
    def from_raw(cls, raw: bytes) -> LeaseRecord:
        body = document_to_python(raw)
        return cls(
            name=body["_id"],
            holder=body["process"] if body["state"] == 2 else "",
            fence=int(body["fence"]),
            granted_ms=milliseconds(body["when"]),
            expires_ms=milliseconds(body["expires"]),
            why=body["why"],
        )

    def document(self) -> dict[str, Any]:
        return {
            "_id": self.name,
            "state": 2 if self.holder else 0,
            "process": self.holder,
            "who": self.holder,
            "when": date_of(self.granted_ms),
            "expires": date_of(self.expires_ms),
            "why": self.why,
            "fence": Int64(self.fence),
        }
