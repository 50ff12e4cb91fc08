"""Chunk and shard versions: major|minor under an epoch.

A sharded collection starts at 1|0. A split leaves the major number and gives every part a new minor one; a move gives
the moved chunk major+1|0 and, when the donor keeps chunks, one of them major+1|1. The version of a shard is the highest
of its chunks (0|0 without chunks), that of the collection the highest of all. Creating a collection draws an epoch, so
versions of different incarnations are never compared.

A split moves no document, so two versions that differ only in the minor number give the same answer to every
operation: `routes_like` ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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


class ShardVersion(NamedTuple):
    """The version of a collection on one shard, or of all of it; `{v: Timestamp, e: ObjectId}` in commands."""

    epoch: ObjectId
    lastmod: Lastmod

    @property
    def major(self) -> int:
        return self.lastmod.major

    @property
    def minor(self) -> int:
        return self.lastmod.minor

    @property
    def sharded(self) -> bool:
        """Whether the collection is sharded; a shard without chunks of it has 0|0 under the collection's epoch."""
        return self.epoch != ZERO_EPOCH

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ShardVersion:
        """From `{v: Timestamp, e: ObjectId}`; TypeMismatch when it is something else."""
        stamp, epoch = document.get("v"), document.get("e")
        if not isinstance(stamp, Timestamp) or not isinstance(epoch, ObjectId):
            raise CommandError(Code.TypeMismatch, "a shard version is {v: <timestamp>, e: <objectId>}")
        return cls(epoch, Lastmod.from_timestamp(stamp))

    def to_document(self) -> dict[str, Any]:
        return {"v": self.lastmod.to_timestamp(), "e": self.epoch}

    def routes_like(self, other: ShardVersion) -> bool:
        """Whether an operation routed by one of the versions is placed right under the other."""
        return self.epoch == other.epoch and self.lastmod.major == other.lastmod.major

    def older_than(self, other: ShardVersion) -> bool:
        """Whether `other` is a later version of the same incarnation."""
        return self.epoch == other.epoch and self.lastmod < other.lastmod

    def __str__(self) -> str:
        return f"{self.lastmod}||{self.epoch}"


UNSHARDED = ShardVersion(ZERO_EPOCH, NO_CHUNKS)
"""What routers send, and shards expect, for a collection that is not sharded."""


def stale_config(namespace: str, received: ShardVersion, wanted: ShardVersion | None, shard: str) -> CommandError:
    """StaleConfig: the sender's routing differs from the shard's; `wanted` None when the shard knows none itself."""
    extra: dict[str, Any] = {"ns": namespace, "vReceived": received.to_document(), "shardId": shard}
    if wanted is not None:
        extra["vWanted"] = wanted.to_document()
    known = "unknown" if wanted is None else str(wanted)
    return CommandError(
        Code.StaleConfig, f"version mismatch detected for {namespace}: received {received}, wanted {known}", extra=extra
    )
