"""What goes into the recipient's core and what comes out of it.

A donor's request carries a `token`, the driver's own name for the conversation; its answer is a `Reply` with the same
token. What takes time is answered by exactly one event. For `Work`, which is done one piece at a time, that is `Done`,
`RoutingRead`, `DatabaseRead` or `Failed` with the very effect in it, so that the end of work which was stopped is known
and ignored; for a wait for a majority it is `MajorityReached` or `MajorityFailed`.
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
    """The donor's collection, as the documents that it sends: options, index specifications, and the options of its
    keyspace's mark where it is a column family."""

    options: bytes
    indexes: tuple[bytes, ...] = ()
    keyspace: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionDefinition:
    """A collection of a database that moves. `options` and `indexes`, but for that of `_id`: documents as stored."""

    namespace: str
    uuid: Binary
    options: bytes
    indexes: tuple[bytes, ...] = ()


# Requests of a donor


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Begin to receive. `shard`: the name of this one; `conflict`: why it may not now, for what else it does.
    `definition`: of the collection of a chunk; those of a database come as `TakeCollections`.
    """

    token: int
    migration: AnyMigration
    definition: Definition | None
    shard: str
    conflict: CommandError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStatus:
    """How far it is; the answer waits at most `seconds` for the end of the preparation."""

    token: int
    id: bytes
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeDocuments:
    """A batch. `clone`: none of the documents was sent before, and the answer comes when those of earlier batches are
    stored; else `gone` are the `_id`s of those that have left the range, and it comes when they are. `majority`: the
    answer waits until a majority has everything so far. `namespace`: the collection, of a database that moves."""

    token: int
    id: bytes
    number: int
    documents: Sequence[bytes]
    gone: Sequence[Value] = ()
    clone: bool = False
    majority: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CollectionChanges:
    """Of a collection of a database that moves: documents as they are now, and `_id`s of those that are gone."""

    namespace: str
    documents: Sequence[bytes]
    gone: Sequence[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeChanges:
    """What has changed of collections of a database, of each at most once; numbered together with `TakeDocuments`.
    `majority`: as there.
    """

    token: int
    id: bytes
    number: int
    changes: Sequence[CollectionChanges]
    majority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeStatements:
    """A batch of retryable writes that the donor has executed, numbered together with those of documents."""

    token: int
    id: bytes
    number: int
    statements: Sequence[bytes]
    majority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCollections:
    """Collections of a database that moves, of which documents follow; numbered like these."""

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
    """The donor's decision. `deletion`: what is on disk of the migration, whoever received it."""

    token: int
    id: bytes
    namespace: str
    decision: Decision
    deletion: Deletion | None


# What has been done


@dataclass(frozen=True, slots=True)
class Done:
    """A piece of work."""

    work: Work


@dataclass(frozen=True, slots=True)
class RoutingRead:
    """`epoch`: of the collection, None when it is not sharded; `primary`: the primary shard of its database; `owned`:
    whether this shard owns any of the range."""

    work: ReadRouting
    epoch: ObjectId | None
    primary: str | None
    owned: bool


@dataclass(frozen=True, slots=True)
class DatabaseRead:
    """`version` and `primary` shard of the database that moves, None where there is none; `held`: whether its move has
    it to itself here."""

    work: ReadRouting
    version: DatabaseVersion | None
    primary: str | None
    held: bool


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
    """This member is primary anew, or stops: what an earlier term began here is over."""

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
    """End what is under way for the migration: nothing of it writes any more, none of it is answered."""


@dataclass(frozen=True, slots=True)
class AwaitDeletions:
    """Wait, within the limit, until nothing is to be deleted that the migration brings."""

    migration: AnyMigration


@dataclass(frozen=True, slots=True)
class ReadRouting:
    """From the config servers; done with `RoutingRead` or `DatabaseRead`. `anew`: what is known counts for nothing."""

    migration: AnyMigration
    anew: bool = False


@dataclass(frozen=True, slots=True)
class MakeCollection:
    """Have the collection under its uuid, in the place of an empty one of the same name."""

    migration: Migration
    definition: Definition


@dataclass(frozen=True, slots=True)
class HoldColumnFamily:
    """Have the donor's definitions of keyspace and column family."""

    migration: Migration
    definition: Definition


@dataclass(frozen=True, slots=True)
class HoldCollections:
    """Note durably that they are to be dropped if the migration fails; then have them with their indexes."""

    migration: DatabaseMigration
    definitions: Sequence[CollectionDefinition]


@dataclass(frozen=True, slots=True)
class CheckCollection:
    """This shard's own definition counts: see that it is there."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class BuildIndexes:
    """Those that are missing."""

    migration: Migration
    definition: Definition


@dataclass(frozen=True, slots=True)
class PersistDeletion:
    """Write it, with the present time, and wait until a majority has it."""

    deletion: RangeDeletion


@dataclass(frozen=True, slots=True)
class SweepRange:
    """Delete what an earlier time has left in the range."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class InsertDocuments:
    """None of them was stored before."""

    migration: Migration
    documents: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class ReplaceDocuments:
    """Those with the `_id`s of `documents` and `gone` go before any document comes."""

    migration: Migration
    documents: Sequence[bytes]
    gone: Sequence[Value]


@dataclass(frozen=True, slots=True)
class ReplaceInCollections:
    """The same in several collections, one after the other."""

    replacements: Sequence[ReplaceDocuments]


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Do what the entries of a column family say."""

    migration: Migration
    entries: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class RememberStatements:
    """So that a retry which arrives here is not executed again."""

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
    """What is known of it; the next operation reads it anew."""

    namespace: str


@dataclass(frozen=True, slots=True)
class WakeDeleter:
    """What is to be deleted has changed."""


@dataclass(frozen=True, slots=True)
class LogDecision:
    """Tell people in the changelog; `Logged` whether that succeeds or not. Not stopped by `StopWork`."""

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
"""What is done for the migration, one piece at a time."""
Effect = Reply | StopWork | Work | AwaitMajority | PersistResolution | ForgetRouting | WakeDeleter | LogDecision
