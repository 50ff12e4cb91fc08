"""Migrations and their durable documents.

A migration moves one chunk from a donor shard to a recipient, or the unsharded collections of a database to another
primary shard. Two durable documents make it resumable:

- `config.migrationCoordinators` on the donor: the migration and, once known, its decision;
- `config.rangeDeletions` on both: the range to delete if the decision requires it, `pending` until then. The donor's
  is for the range it gives away, the recipient's for the range it has received. For a database,
  `config.databaseDeletions` lists the collections to drop.

The commit on the config servers alone decides whether the migration happened. The decision in a coordinator document
only records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from bson.binary import Binary
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.key import KeyRange, ShardKey, raw_field
from docstore.sharding.version import NO_CHUNKS, ZERO_EPOCH, DatabaseVersion, Lastmod

COORDINATORS = "config.migrationCoordinators"
RANGE_DELETIONS = "config.rangeDeletions"
DATABASE_DELETIONS = "config.databaseDeletions"
_NOT_WRITTEN = Timestamp(0, 1)
_WHOLE = ShardKey(("_id",))
"""A collection that is not sharded moves as one range of its identities."""


_OF_DATABASE_MIGRATION: Mapping[str, type] = {
    "_id": Binary, "operation": Binary, "nss": str, "databaseVersion": dict, "sharded": list, "donorShardId": str,
    "recipientShardId": str,
}  # fmt: skip


class Decision(Enum):
    """The outcome of a migration; the value is the form in the coordinator document."""

    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One migration. `id` is a UUID drawn by the donor; `lastmod` the chunk's version before it."""

    id: Binary
    namespace: str
    uuid: Binary
    epoch: ObjectId
    key: ShardKey
    range: KeyRange
    lastmod: Lastmod
    donor: str
    recipient: str

    def concerns(self, namespace: str) -> bool:
        """True if the migration waits for operations on the namespace, and they for it."""
        return namespace == self.namespace

    def document(self) -> dict[str, Any]:
        """Return the form stored in `config.migrationCoordinators`."""
        return {
            "_id": self.id,
            "nss": self.namespace,
            "collectionUuid": self.uuid,
            "epoch": self.epoch,
            "keyPattern": self.key.document(),
            "donorShardId": self.donor,
            "recipientShardId": self.recipient,
            "range": {"min": self.range.min.document(), "max": self.range.max.document()},
            "preMigrationChunkVersion": self.lastmod.to_timestamp(),
        }

    def __str__(self) -> str:
        return f"{self.namespace} {self.range}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseMigration:
    """The migration of a database's unsharded collections to another primary shard. `id`: as in `Migration`.

    `namespace`: the database; `version`: its version before. `sharded`: the collections that stay. `operation`: the
    DDL operation that holds the database on both shards meanwhile.
    """

    id: Binary
    operation: Binary
    namespace: str
    version: DatabaseVersion
    sharded: frozenset[str]
    donor: str
    recipient: str

    def concerns(self, namespace: str) -> bool:
        """See `Migration.concerns`."""
        return split_namespace(namespace)[0] == self.namespace and namespace not in self.sharded

    def part(self, namespace: str, uuid: Binary) -> Migration:
        """Return the part of the migration that moves one collection, whole."""
        return Migration(
            id=self.id, namespace=namespace, uuid=uuid, epoch=ZERO_EPOCH, key=_WHOLE, range=_WHOLE.everything,
            lastmod=NO_CHUNKS, donor=self.donor, recipient=self.recipient,
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Return the form stored in `config.migrationCoordinators`."""
        return {
            "_id": self.id,
            "operation": self.operation,
            "nss": self.namespace,
            "databaseVersion": self.version.to_document(),
            "sharded": sorted(self.sharded),
            "donorShardId": self.donor,
            "recipientShardId": self.recipient,
        }

    @classmethod
    def from_document(cls, body: Mapping[str, Any]) -> DatabaseMigration:
        """Parse the result of `document`. TypeMismatch for anything else."""
        for name, kind in _OF_DATABASE_MIGRATION.items():
            if not isinstance(body.get(name), kind):
                raise CommandError(Code.TypeMismatch, f"the migration of a database has no {name}")
        if not all(isinstance(name, str) for name in body["sharded"]):
            raise CommandError(Code.TypeMismatch, "the sharded collections of a database are named")
        return cls(
            id=body["_id"],
            operation=body["operation"],
            namespace=body["nss"],
            version=DatabaseVersion.from_document(body["databaseVersion"]),
            sharded=frozenset(body["sharded"]),
            donor=body["donorShardId"],
            recipient=body["recipientShardId"],
        )

    def __str__(self) -> str:
        return f"the database {self.namespace}"


AnyMigration = Migration | DatabaseMigration


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The donor's document. `blocks_reads`: no member serves versioned reads of the collection until the decision."""

    migration: AnyMigration
    decision: Decision | None = None
    blocks_reads: bool = False

    def document(self) -> dict[str, Any]:
        """Return the form stored in `config.migrationCoordinators`."""
        body = self.migration.document()
        if self.decision is not None:
            body["decision"] = self.decision.value
        if self.blocks_reads:
            body["blocksReads"] = True
        return body

    @classmethod
    def from_raw(cls, raw: bytes) -> Coordinator:
        body = document_to_python(raw)
        decision = Decision(body["decision"]) if "decision" in body else None
        return cls(_migration_of(raw, body), decision, blocks_reads=bool(body.get("blocksReads", False)))


def _migration_of(raw: bytes, body: Mapping[str, Any]) -> AnyMigration:
    if "databaseVersion" in body:
        return DatabaseMigration.from_document(body)
    key = ShardKey.parse(body["keyPattern"])
    return Migration(
        id=body["_id"],
        namespace=body["nss"],
        uuid=body["collectionUuid"],
        epoch=body["epoch"],
        key=key,
        range=_range(raw, key),
        lastmod=Lastmod.from_timestamp(body["preMigrationChunkVersion"]),
        donor=body["donorShardId"],
        recipient=body["recipientShardId"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDeletion:
    """A range of one incarnation of a collection that this shard is to delete. `id`: the migration it comes from.

    `pending`: not before the migration is decided. `delayed`: only after the time that running queries get.
    `written`: when the document got its present form, for the delay.
    """

    id: Binary
    namespace: str
    uuid: Binary
    key: ShardKey
    range: KeyRange
    donor: str
    pending: bool
    delayed: bool
    written: Timestamp

    @classmethod
    def of(cls, migration: Migration, *, pending: bool, delayed: bool, seconds: int = 0) -> RangeDeletion:
        """The document that belongs to a migration, on either side of it. `seconds`: now, since 1970; 0 until it is
        written."""
        return cls(
            id=migration.id,
            namespace=migration.namespace,
            uuid=migration.uuid,
            key=migration.key,
            range=migration.range,
            donor=migration.donor,
            pending=pending,
            delayed=delayed,
            written=Timestamp(seconds, 1),
        )

    def written_at(self, seconds: int) -> RangeDeletion:
        """Return a copy written `seconds` after 1970."""
        return replace(self, written=Timestamp(seconds, 1))

    def document(self) -> dict[str, Any]:
        """Return the form stored in `config.rangeDeletions`."""
        body: dict[str, Any] = {
            "_id": self.id,
            "nss": self.namespace,
            "collectionUuid": self.uuid,
            "donorShardId": self.donor,
            "range": {"min": self.range.min.document(), "max": self.range.max.document()},
            "keyPattern": self.key.document(),
            "whenToClean": "delayed" if self.delayed else "now",
            "timestamp": self.written,
        }
        if self.pending:
            body["pending"] = True
        return body

    @classmethod
    def from_raw(cls, raw: bytes) -> RangeDeletion:
        body = document_to_python(raw)
        key = ShardKey.parse(body["keyPattern"])
        return cls(
            id=body["_id"],
            namespace=body["nss"],
            uuid=body["collectionUuid"],
            key=key,
            range=_range(raw, key),
            donor=body["donorShardId"],
            pending=bool(body.get("pending", False)),
            delayed=body["whenToClean"] == "delayed",
            written=body["timestamp"],
        )

    def __str__(self) -> str:
        return f"{self.namespace} {self.range}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDeletion:
    """Collections of a database that this shard is to drop. Fields as of a `RangeDeletion`."""

    id: Binary
    namespace: str
    uuids: frozenset[bytes]
    donor: str
    pending: bool
    delayed: bool
    written: Timestamp = _NOT_WRITTEN

    def written_at(self, seconds: int) -> DatabaseDeletion:
        """Return a copy written `seconds` after 1970."""
        return replace(self, written=Timestamp(seconds, 1))

    def document(self) -> dict[str, Any]:
        """Return the form stored in `config.databaseDeletions`."""
        return {
            "_id": self.id,
            "nss": self.namespace,
            "collectionUuids": [Binary(uuid, 4) for uuid in sorted(self.uuids)],
            "donorShardId": self.donor,
            "whenToClean": "delayed" if self.delayed else "now",
            "timestamp": self.written,
            "pending": self.pending,
        }

    @classmethod
    def from_raw(cls, raw: bytes) -> DatabaseDeletion:
        body = document_to_python(raw)
        return cls(
            id=body["_id"],
            namespace=body["nss"],
            uuids=frozenset(map(bytes, body["collectionUuids"])),
            donor=body["donorShardId"],
            pending=body["pending"],
            delayed=body["whenToClean"] == "delayed",
            written=body["timestamp"],
        )

    def __str__(self) -> str:
        return f"{len(self.uuids)} collections of {self.namespace}"


Deletion = RangeDeletion | DatabaseDeletion


def conflict_with(migration: AnyMigration) -> CommandError:
    """Return the error for operations that cannot begin during this migration."""
    return CommandError(
        Code.ConflictingOperationInProgress,
        f"a migration of {migration} from {migration.donor} to {migration.recipient} runs",
    )


def migration_fields(migration: Migration) -> dict[str, Any]:
    """Return the fields that describe a migration to its recipient."""
    return {
        "migrationId": migration.id,
        "ns": migration.namespace,
        "uuid": migration.uuid,
        "epoch": migration.epoch,
        "keyPattern": migration.key.document(),
        "min": migration.range.min.document(),
        "max": migration.range.max.document(),
        "lastmod": migration.lastmod.to_timestamp(),
        "fromShard": migration.donor,
        "toShard": migration.recipient,
    }


def migration_from(raw: bytes) -> Migration:
    """From a document with `migration_fields`."""
    body: Mapping[str, Any] = document_to_python(raw)
    key = ShardKey.parse(body["keyPattern"])
    return Migration(
        id=body["migrationId"],
        namespace=body["ns"],
        uuid=body["uuid"],
        epoch=body["epoch"],
        key=key,
        range=key.range(raw_field(raw, "min"), raw_field(raw, "max")),
        lastmod=Lastmod.from_timestamp(body["lastmod"]),
        donor=body["fromShard"],
        recipient=body["toShard"],
    )


def _range(raw: bytes, key: ShardKey) -> KeyRange:
    bounds = raw_field(raw, "range")
    return key.range(raw_field(bounds, "min"), raw_field(bounds, "max"))
