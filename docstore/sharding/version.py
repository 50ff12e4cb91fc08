"""Chunk and shard versions: major|minor under an epoch.

A sharded collection starts at 1|0. A split leaves the major number and gives every part a new minor one. A move gives
the moved chunk major+1|0 and, when the donor keeps chunks, one of them major+1|1. The version of a shard is the
highest of its chunks (0|0 without chunks), the collection's the highest of all. Creating a collection draws an epoch,
so versions of different incarnations are never compared.

Unsharded collections use the version of their database, which every creation of a database draws anew. A router that
knows an older database of the name is stale, like one that knows older chunks.

A split moves no document, so two versions that differ only in the minor number route every operation alike
(`routes_like`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from bson.binary import Binary
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError

ZERO_EPOCH = ObjectId(bytes(12))


class Lastmod(NamedTuple):
    """major|minor of one chunk, ordered; on disk and in commands `Timestamp(major, minor)`."""

    major: int
    minor: int

    @classmethod
    def from_timestamp(cls, value: Timestamp) -> Lastmod:
        return cls(value.time, value.inc)

    def to_timestamp(self) -> Timestamp:
        return Timestamp(self.major, self.minor)

    def __str__(self) -> str:
        return f"{self.major}|{self.minor}"


NO_CHUNKS = Lastmod(0, 0)
FIRST = Lastmod(1, 0)


FIRST_PRIMARY = 1
"""The count of a database that has the primary shard with which it was made."""


class DatabaseVersion(NamedTuple):
    """Identifies one of the databases of a name: `uuid` is drawn at its creation, `last_mod` counts its primaries,
    `timestamp` is the cluster time at which it was created or came to its primary shard.

    `{uuid, timestamp, lastMod}` in commands and in config.databases.
    """

    uuid: Binary
    timestamp: Timestamp
    last_mod: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> DatabaseVersion:
        """TypeMismatch when it is something else."""
        uuid, stamp, count = (document.get(name) for name in ("uuid", "timestamp", "lastMod"))
        if not isinstance(uuid, Binary | UUID) or not isinstance(stamp, Timestamp) or not isinstance(count, int):
            raise CommandError(Code.TypeMismatch, "a database version is {uuid, timestamp, lastMod}")
        return cls(uuid if isinstance(uuid, Binary) else Binary.from_uuid(uuid), stamp, count)

    def to_document(self) -> dict[str, Any]:
        return {"uuid": self.uuid, "timestamp": self.timestamp, "lastMod": self.last_mod}

    def __str__(self) -> str:
        return f"{self.uuid.as_uuid()}|{self.timestamp.time}.{self.timestamp.inc}|{self.last_mod}"


class ShardVersion(NamedTuple):
    """The version of a collection on one shard, or of all of it; `{v: Timestamp, e: ObjectId, [d]}` in commands.
    `database`: only for unsharded collections.
    """

    epoch: ObjectId
    lastmod: Lastmod
    database: DatabaseVersion | None = None

    @property
    def major(self) -> int:
        return self.lastmod.major

    @property
    def minor(self) -> int:
        return self.lastmod.minor

    @property
    def sharded(self) -> bool:
        """True if the collection is sharded; a shard without chunks of it has 0|0 under the collection's epoch."""
        return self.epoch != ZERO_EPOCH

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ShardVersion:
        """From `{v: Timestamp, e: ObjectId, [d]}`; TypeMismatch when it is something else."""
        stamp, epoch, database = document.get("v"), document.get("e"), document.get("d")
        if not isinstance(stamp, Timestamp) or not isinstance(epoch, ObjectId):
            raise CommandError(Code.TypeMismatch, "a shard version is {v: <timestamp>, e: <objectId>}")
        database_version = None if database is None else DatabaseVersion.from_document(database)
        return cls(epoch, Lastmod.from_timestamp(stamp), database_version)

    def to_document(self) -> dict[str, Any]:
        body = {"v": self.lastmod.to_timestamp(), "e": self.epoch}
        return body if self.database is None else {**body, "d": self.database.to_document()}

    def routes_like(self, other: ShardVersion) -> bool:
        """True if an operation routed by one of the versions is routed correctly under the other."""
        same = self.epoch == other.epoch and self.lastmod.major == other.lastmod.major
        return same and self.database == other.database

    def older_than(self, other: ShardVersion) -> bool:
        """True if `other` is a later version of the same incarnation."""
        return self.epoch == other.epoch and self.lastmod < other.lastmod

    def __str__(self) -> str:
        return f"{self.lastmod}||{self.epoch}" if self.database is None else f"database {self.database}"


UNSHARDED = ShardVersion(ZERO_EPOCH, NO_CHUNKS)
"""The version of an unsharded collection in an unknown database."""
STALE_CODES = frozenset((Code.StaleConfig, Code.StaleDbVersion, Code.StaleEpoch, Code.StaleShardVersion))
"""With these a shard says that the sender's routing is not its own."""


def unsharded_in(database: DatabaseVersion | None) -> ShardVersion:
    """Return the version that routers send, and shards expect, for an unsharded collection of that database."""
    return UNSHARDED if database is None else ShardVersion(ZERO_EPOCH, NO_CHUNKS, database)


def stale_config(namespace: str, received: ShardVersion, own_version: ShardVersion | None, shard: str) -> CommandError:
    """Return the error for routing that differs from the shard's. `own_version`: None if the shard has no routing.

    StaleDbVersion if they differ in the database only, else StaleConfig.
    """
    if not received.sharded and (own_version is None or not own_version.sharded):
        return _stale_database(namespace, received, own_version)
    extra: dict[str, Any] = {"ns": namespace, "vReceived": received.to_document(), "shardId": shard}
    if own_version is not None:
        extra["vWanted"] = own_version.to_document()
    expected_version = "unknown" if own_version is None else str(own_version)
    return CommandError(
        Code.StaleConfig,
        f"version mismatch detected for {namespace}: received {received}, wanted {expected_version}",
        extra=extra,
    )


def _stale_database(namespace: str, received: ShardVersion, own_version: ShardVersion | None) -> CommandError:
    database = namespace.partition(".")[0]
    extra: dict[str, Any] = {"db": database}
    if received.database is not None:
        extra["vReceived"] = received.database.to_document()
    if own_version is not None and own_version.database is not None:
        extra["vWanted"] = own_version.database.to_document()
    return CommandError(
        Code.StaleDbVersion,
        f"version mismatch detected for database {database}: received {received}, wanted {own_version or 'unknown'}",
        extra=extra,
    )
