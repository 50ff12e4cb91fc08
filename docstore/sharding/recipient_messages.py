"""The events and effects of the recipient's core.

A donor's request carries a `token`, the driver's name for the conversation; its answer is a `Reply` with the same
token. Exactly one event answers each effect that takes time:

- for `Work`, done one piece at a time: `Done`, `RoutingRead`, `DatabaseRead` or `Failed` with that very effect, so
  that the end of stopped work is recognised and ignored;
- for a wait for a majority: `MajorityReached` or `MajorityFailed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bson.binary import Binary
from bson.objectid import ObjectId

from docstore.bson import Value
from docstore.errors import CommandError
from docstore.sharding.migration import (
    AnyMigration,
    DatabaseMigration,
    Decision,
    Deletion,
    Migration,
    RangeDeletion,
)
from docstore.sharding.version import DatabaseVersion


@dataclass(frozen=True, slots=True)
class Definition:
    """The donor's collection, as stored documents: options, index specifications and, for a column family, the
    options of its keyspace's mark.
    """

    options: bytes
    indexes: tuple[bytes, ...] = ()
    keyspace: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionDefinition:
    """A collection of a migrated database. `options` and `indexes` (except of `_id`): documents as stored."""

    namespace: str
    uuid: Binary
    options: bytes
    indexes: tuple[bytes, ...] = ()


# Requests of a donor


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Begin to receive. `shard`: the name of this one; `conflict`: why it may not begin now. `definition`: of a
    chunk's collection; those of a database come as `TakeCollections`.
    """

    token: int
    migration: AnyMigration
    definition: Definition | None
    shard: str
    conflict: CommandError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStatus:
    """Ask for the state; the answer waits at most `seconds` for the end of the preparation."""

    token: int
    id: bytes
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeDocuments:
    """A batch.

    `clone`: none of the documents was sent before, and the answer comes once earlier batches are stored. Otherwise
    `removed_ids` lists the `_id`s of documents that have left the range, and the answer comes once this batch is
    stored. `majority`: the answer waits until a majority has everything so far. `namespace`: the collection, for a
    database.
    """

    token: int
    id: bytes
    number: int
    documents: Sequence[bytes]
    removed_ids: Sequence[Value] = ()
    clone: bool = False
    majority: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CollectionChanges:
    """Changes of a collection of a migrated database: current documents, and `_id`s of removed ones."""

    namespace: str
    documents: Sequence[bytes]
    removed_ids: Sequence[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeChanges:
    """Changes of collections of a database, at most one per collection; numbered together with `TakeDocuments`.
    `majority`: as there.
    """

    token: int
    id: bytes
    number: int
    changes: Sequence[CollectionChanges]
    majority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeStatements:
    """A batch of retryable writes that the donor has executed, numbered together with batches of documents."""

    token: int
    id: bytes
    number: int
    statements: Sequence[bytes]
    majority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCollections:
    """Definitions of collections of a database, whose documents follow; numbered like these."""

    token: int
    id: bytes
    number: int
    definitions: Sequence[CollectionDefinition]
    majority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The donor has sent all, up to batch `last`: make it survive any failover."""

    token: int
    id: bytes
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolve:
    """The donor's decision. `deletion`: the migration's document on disk, perhaps of an earlier primary."""

    token: int
    id: bytes
    namespace: str
    decision: Decision
    deletion: Deletion | None


# Completed work


@dataclass(frozen=True, slots=True)
class Done:
    """A piece of work."""

    work: Work


@dataclass(frozen=True, slots=True)
class RoutingRead:
    """`epoch`: of the collection, None if it is not sharded; `primary`: the primary shard of its database; `owned`:
    this shard owns part of the range.
    """

    work: ReadRouting
    epoch: ObjectId | None
    primary: str | None
    owned: bool


@dataclass(frozen=True, slots=True)
class DatabaseRead:
    """`version` and `primary` shard of the migrated database, None if it does not exist; `is_held`: the DDL operation
    of the migration holds it here.
    """

    work: ReadRouting
    version: DatabaseVersion | None
    primary: str | None
    is_held: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """A piece of work did not succeed."""

    work: Work
    error: CommandError


@dataclass(frozen=True, slots=True)
class MajorityReached:
    token: int


@dataclass(frozen=True, slots=True)
class MajorityFailed:
    token: int
    error: CommandError


@dataclass(frozen=True, slots=True)
class Logged:
    token: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """This member became primary anew, or stops: the migration of an earlier term is over."""

    reason: str


Batch = TakeDocuments | TakeChanges | TakeStatements | TakeCollections
Request = GetStatus | Batch | Commit
Outcome = Done | RoutingRead | DatabaseRead | Failed
Event = Start | Request | Resolve | Outcome | MajorityReached | MajorityFailed | Logged | Interrupted


# Effects


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request with `token`; a `CommandError` is a refusal."""

    token: int
    result: Any | CommandError = None


@dataclass(frozen=True, slots=True)
class StopWork:
    """End the work for the migration: it writes nothing more, and no event answers it."""


@dataclass(frozen=True, slots=True)
class AwaitDeletions:
    """Wait, within the limit, until no deletion overlaps the migration."""

    migration: AnyMigration


@dataclass(frozen=True, slots=True)
class ReadRouting:
    """Read the routing from the config servers; answered by `RoutingRead` or `DatabaseRead`. `anew`: without cache."""

    migration: AnyMigration
    anew: bool = False


@dataclass(frozen=True, slots=True)
class MakeCollection:
    """Create the collection with its uuid; replaces an empty one of the same name."""

    migration: Migration
    definition: Definition


@dataclass(frozen=True, slots=True)
class HoldColumnFamily:
    """Create or change keyspace and column family to the donor's definitions."""

    migration: Migration
    definition: Definition


@dataclass(frozen=True, slots=True)
class HoldCollections:
    """Note durably to drop the collections if the migration fails; then create them with their indexes."""

    migration: DatabaseMigration
    definitions: Sequence[CollectionDefinition]


@dataclass(frozen=True, slots=True)
class CheckCollection:
    """Check that the collection exists; this shard's own definition applies."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class BuildIndexes:
    """Build the missing indexes."""

    migration: Migration
    definition: Definition


@dataclass(frozen=True, slots=True)
class PersistDeletion:
    """Write the deletion with the present time, and wait until a majority has it."""

    deletion: RangeDeletion


@dataclass(frozen=True, slots=True)
class SweepRange:
    """Delete leftovers of earlier migrations in the range."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class InsertDocuments:
    """Store documents, none of which was stored before."""

    migration: Migration
    documents: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class ReplaceDocuments:
    """Replace documents: remove those with the `_id`s of `documents` and `removed_ids`, then store `documents`."""

    migration: Migration
    documents: Sequence[bytes]
    removed_ids: Sequence[Value]


@dataclass(frozen=True, slots=True)
class ReplaceInCollections:
    """Replace documents in several collections, one after the other."""

    replacements: Sequence[ReplaceDocuments]


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Apply entries of a column family."""

    migration: Migration
    entries: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class RememberStatements:
    """Store retryable writes, so that a retry which arrives here is not executed again."""

    migration: AnyMigration
    statements: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class AwaitMajority:
    """Wait until a majority of the shard has all that was written so far."""

    token: int


@dataclass(frozen=True, slots=True)
class PersistResolution:
    """Store the range deletion, with the present time, or remove the one with that `_id`, or neither; then wait for a
    majority. Not stopped by `StopWork`."""

    token: int
    change: Deletion | Binary | None


@dataclass(frozen=True, slots=True)
class ForgetRouting:
    """Forget the cached routing; the next operation reads it anew."""

    namespace: str


@dataclass(frozen=True, slots=True)
class WakeDeleter:
    """Tell the range deleter that its documents have changed."""


@dataclass(frozen=True, slots=True)
class LogDecision:
    """Log the decision in the changelog; answered by `Logged`, also on failure. Not stopped by `StopWork`."""

    token: int
    migration: AnyMigration
    decision: Decision


Work = (
    AwaitDeletions
    | ReadRouting
    | MakeCollection
    | HoldColumnFamily
    | HoldCollections
    | CheckCollection
    | BuildIndexes
    | PersistDeletion
    | SweepRange
    | InsertDocuments
    | ReplaceDocuments
    | ReplaceInCollections
    | MergeRows
    | RememberStatements
)
"""Work for the migration, done one piece at a time."""
Effect = Reply | StopWork | Work | AwaitMajority | PersistResolution | ForgetRouting | WakeDeleter | LogDecision
