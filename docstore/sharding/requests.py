"""The commands that routers, shards and config servers send each other, as documents.

All are sent to the `admin` database of a primary. Each function returns the command; its docstring has the reply's
fields besides `ok`. Refusals are error replies with the codes named. A config server answers only when a majority has
the change, so an `ok` is final; after a network error the command may be repeated unchanged.

Bounds are documents with the fields of the shard key in order; chunk versions are `Timestamp(major, minor)`,
collection and shard versions `{v: Timestamp, e: epoch}`. `_configsvrGetRouting` is in `docstore.sharding.routing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.sharding.key import Bound, KeyRange
from docstore.sharding.move_request import EVERYTHING, Extent
from docstore.sharding.version import DatabaseVersion, Lastmod, ShardVersion

# To the config servers.


def add_shard(connection_string: str, name: str | None) -> dict[str, Any]:
    """Add the replica set "set/h:p,h:p" as a shard, by default with the name of the set.

    -> `{shardAdded: name}`. OperationFailed when it cannot be reached, is no shard or belongs to another cluster or
    set; IllegalOperation when the name or a host is in use differently.
    """
    command: dict[str, Any] = {"_configsvrAddShard": connection_string}
    if name is not None:
        command["name"] = name
    return command


def remove_shard(name: str) -> dict[str, Any]:
    """Begin or continue to empty a shard; sent again until it is gone.

    -> `{msg, state: "started" | "completed", shard}` or `{msg, state: "ongoing", remaining: {chunks: long, dbs: long,
    jumboChunks: long}}`; until it is completed also `{note, dbsToMove: [name, ...]}`.
    ShardNotFound; IllegalOperation for the last shard.
    """
    return {"_configsvrRemoveShard": name}


def create_database(database: str, *, keyspace: bool = False) -> dict[str, Any]:
    """Give a database a primary shard (the one with fewest databases) unless it has one. The name of a `keyspace` may
    differ from another database's only in case.

    -> `{primary: shard, partitioned: bool}`. ShardNotFound while there is no shard; DatabaseDifferCase (13297).
    """
    command: dict[str, Any] = {"_configsvrCreateDatabase": database}
    return {**command, "keyspace": True} if keyspace else command


def enable_sharding(database: str, primary_shard: str | None = None, *, keyspace: bool = False) -> dict[str, Any]:
    """Like `create_database`, and mark the database partitioned.

    -> `{primary: shard, partitioned: true}`. NamespaceExists if it has another primary than the requested one.
    """
    command: dict[str, Any] = {"_configsvrEnableSharding": database}
    if primary_shard is not None:
        command["primaryShard"] = primary_shard
    return {**command, "keyspace": True} if keyspace else command


def commit_shard_collection(
    namespace: str,
    key: Mapping[str, Any],
    unique: bool,
    uuid: Binary,
    shard: str,
    version: DatabaseVersion,
    *,
    partitioner: str | None = None,
    spread: bool = False,
) -> dict[str, Any]:
    """Sent by the database's primary shard once it has the collection and its index: one chunk 1|0 on that shard.

    `partitioner`: of a column family. `spread`: two chunks for each shard if its tokens can be divided evenly; sent
    before any shard has the column family, so that no row is on the wrong shard.

    -> `{uuid, version: {v, e}, shards: [name, ...]}`; the same again when it is sharded like this already.
    AlreadyInitialized (23) when it is sharded differently; IllegalOperation when the database is not partitioned,
    StaleDbVersion when it is another one, OperationFailed when the collection has been dropped since.
    """
    command: dict[str, Any] = {
        "_configsvrShardCollection": namespace,
        "key": dict(key),
        "unique": unique,
        "uuid": uuid,
        "shard": shard,
        "databaseVersion": version.to_document(),
    }
    if partitioner is not None:
        command |= {"partitioner": partitioner, "spread": spread}
    return command


def commit_chunk_split(
    namespace: str, epoch: ObjectId, shard: str, bounds: KeyRange, points: Sequence[Bound]
) -> dict[str, Any]:
    """Cut the chunk `[min, max)` of `shard` at the points.

    -> `{version: {v, e}}` of the collection; ok also when the chunk is cut like this already.
    StaleEpoch for another incarnation, ConflictingOperationInProgress when the chunk is not (any more) as described.
    """
    return {
        "_configsvrCommitChunkSplit": namespace,
        "epoch": epoch,
        "shard": shard,
        "min": bounds.min.document(),
        "max": bounds.max.document(),
        "splitPoints": [point.document() for point in points],
    }


def commit_chunk_migration(
    namespace: str, epoch: ObjectId, bounds: KeyRange, lastmod: Lastmod, donor: str, recipient: str
) -> dict[str, Any]:
    """Give the chunk that `donor` has at exactly `lastmod` to `recipient`: the one place where ownership changes.

    -> `{collectionVersion: {v, e}}` after it; ok also when it has happened already.
    StaleEpoch, ConflictingOperationInProgress: it has not happened and, with these arguments, never will.
    """
    return {
        "_configsvrCommitChunkMigration": namespace,
        "epoch": epoch,
        "min": bounds.min.document(),
        "max": bounds.max.document(),
        "lastmod": lastmod.to_timestamp(),
        "fromShard": donor,
        "toShard": recipient,
    }


def set_jumbo(namespace: str, epoch: ObjectId, bounds: KeyRange, *, jumbo: bool) -> dict[str, Any]:
    """Flag a chunk as too large to move, or take the flag away; the balancer leaves flagged ones alone.

    -> `{version: {v, e}}` of the collection. StaleEpoch, ConflictingOperationInProgress when there is no such chunk.
    """
    return {
        "_configsvrSetJumbo": namespace,
        "epoch": epoch,
        "min": bounds.min.document(),
        "max": bounds.max.document(),
        "jumbo": jumbo,
    }


def ensure_chunk_version_greater(namespace: str, epoch: ObjectId, bounds: KeyRange, lastmod: Lastmod) -> dict[str, Any]:
    """Raise the version of the chunk above `lastmod` unless it is: a commit still under way can then no longer succeed.

    -> `{shard, collectionVersion: {v, e}}`: who owns the key at the chunk's low end now. StaleEpoch.
    """
    return {
        "_configsvrEnsureChunkVersionIsGreaterThan": namespace,
        "epoch": epoch,
        "min": bounds.min.document(),
        "max": bounds.max.document(),
        "lastmod": lastmod.to_timestamp(),
    }


def commit_move_primary(database: str, version: DatabaseVersion, to: str) -> dict[str, Any]:
    """Give a database of exactly this version another primary shard: the one place where that is decided.

    -> `{}`, also when it is so already. StaleDbVersion, ShardNotFound for a shard that is gone or being emptied: it has
    not happened and, with these arguments, never will.
    """
    return {"_configsvrCommitMovePrimary": database, "databaseVersion": version.to_document(), "to": to}


def ensure_database_version_greater(database: str, version: DatabaseVersion) -> dict[str, Any]:
    """Draw the version of the database anew if it is this one: a commit still under way can then no longer succeed.

    -> `{shard}`: the primary shard. StaleDbVersion where it is another database.
    """
    return {"_configsvrEnsureDatabaseVersionIsGreaterThan": database, "databaseVersion": version.to_document()}


def lease(name: str, action: str, holder: str, *, fence: int = 0, ttl_ms: int = 0, why: str = "") -> dict[str, Any]:
    """Acquire, renew or release a lease (`action`), judged by the config primary's clock alone. `holder` names the
    router's process run; `fence` the number under which the lease was granted (renew, release).

    -> `{granted: bool, fence: long, holder, expires: Date}`, of the current holder. `fence` grows whenever the holder
    changes.
    """
    command: dict[str, Any] = {"_configsvrLease": name, "action": action, "holder": holder}
    if fence:
        command["fence"] = Int64(fence)
    if ttl_ms:
        command["ttlMillis"] = Int64(ttl_ms)
    if why:
        command["why"] = why
    return command


def get_balancing_settings() -> dict[str, Any]:
    """Ask for the settings of splitting and balancing, and whether chunks may be balanced now.

    -> the fields of `docstore.sharding.balancing.settings.BalancingSettings`.
    """
    return {"_configsvrGetBalancingSettings": 1}


def mongos_ping(
    host: str, *, up_seconds: int, waiting: bool, version: str, cql: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Sign of life of a router, sent every ten seconds. `waiting`: its balancer is not in a round; `cql`: where it
    serves the native protocol, if it does.
    """
    ping = {"_configsvrMongosPing": host, "up": Int64(up_seconds), "waiting": waiting, "mongoVersion": version}
    return ping if cql is None else {**ping, "cql": dict(cql)}


def log_change(event: str, namespace: str, details: Mapping[str, Any], *, server: str, shard: str) -> dict[str, Any]:
    """Add an entry to config.changelog, for people to read; not waited for by a majority."""
    return {"_configsvrLogChange": event, "ns": namespace, "details": dict(details), "server": server, "shard": shard}


def get_credentials(user: str, db: str) -> dict[str, Any]:
    """Read a user's credentials.

    -> `{known: bool, credentials: {<mechanism>: {iterationCount, salt, storedKey, serverKey}}}`. For an unknown user
    `known` is false, and made-up credentials make the reply equal in size and time.
    """
    return {"_configsvrGetCredentials": user, "db": db}


def user_changes() -> dict[str, Any]:
    """Ask whether users or roles may have changed: not while the reply is the same.

    -> `{process: ObjectId, changes: int}`.
    """
    return {"_configsvrUserChanges": 1}


# To shards, from routers.


def shard_collection(namespace: str, key: Mapping[str, Any], unique: bool) -> dict[str, Any]:
    """To the primary shard of the database: check or create the collection and the index, then commit on the config
    servers.

    -> `{collectionsharded: ns, collectionUUID}`. InvalidOptions when a collection with documents has no index that
    starts with the key, or a unique index that does not; IllegalOperation for capped collections and system
    namespaces.
    """
    return {"_shardsvrShardCollection": namespace, "key": dict(key), "unique": unique}


def hold_column_family(namespace: str, uuid: Binary, options: bytes, keyspace: bytes) -> dict[str, Any]:
    """To a future owner of rows of a column family: create it, or alter it to these definitions. `options`: of its
    collection; `keyspace`: of the keyspace's mark; both raw.

    -> `{}`. InvalidUUID if another collection of the name is not empty; ConfigurationException for comparators that
    the shard does not know.
    """
    return {
        "_shardsvrHoldColumnFamily": namespace,
        "uuid": uuid,
        "options": RawBSONDocument(options),
        "keyspace": RawBSONDocument(keyspace),
    }


def split_vector(
    namespace: str, key: Mapping[str, Any], bounds: KeyRange, *, target_bytes: int = 0, force: bool = False
) -> dict[str, Any]:
    """Ask for the split points of a chunk on this shard; see `docstore.sharding.split`. `force`: one, in the middle.

    -> `{splitKeys: [bound, ...]}`, empty below `target_bytes` or with too few distinct keys.
    """
    command: dict[str, Any] = {
        "splitVector": namespace,
        "keyPattern": dict(key),
        "min": bounds.min.document(),
        "max": bounds.max.document(),
    }
    if force:
        command["force"] = True
    else:
        command |= {"maxChunkSizeBytes": Int64(target_bytes), "openEnds": True}
    return command


def split_chunk(
    namespace: str, key: Mapping[str, Any], bounds: KeyRange, points: Sequence[Bound], *, epoch: ObjectId, shard: str
) -> dict[str, Any]:
    """To the owning shard: split its chunk at the points. Errors as of `commit_chunk_split`.

    -> `{version: {v, e}}` of the collection.
    """
    return {
        "splitChunk": namespace,
        "keyPattern": dict(key),
        "min": bounds.min.document(),
        "max": bounds.max.document(),
        "splitKeys": [point.document() for point in points],
        "from": shard,
        "epoch": epoch,
    }


def chunk_sizes(
    namespace: str, key: Mapping[str, Any], ranges: Sequence[KeyRange], *, enough: int = 0
) -> dict[str, Any]:
    """To a shard: the bytes that it owns of a collection, and the bytes in some ranges of it. With `enough` the list
    ends with the first range of at least that many bytes.

    -> `{size: long, sizes: [long, ...]}`; 0 without the collection. Documents count with their average size.
    """
    return {
        "_shardsvrChunkSizes": namespace,
        "keyPattern": dict(key),
        "ranges": [{"min": bounds.min.document(), "max": bounds.max.document()} for bounds in ranges],
        "enough": Int64(enough),
    }


def move_range(
    namespace: str, bounds: KeyRange, version: ShardVersion, to: str, extent: Extent = EVERYTHING, *,
    wait_for_delete: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """To the owning shard: move `[min, max)`, within one of its chunks, or a part of that to another shard. The reply
    comes when the migration is committed. A range smaller than its chunk is split off first. `version`: of the
    collection, as the sender knows it.

    -> `{}`; ok also when `to` owns it already. ChunkTooBig if it exceeds the extent, or no part of it is small
    enough. StaleEpoch or ConflictingOperationInProgress: not moved, refresh and decide again; OperationFailed: tried
    and undone.
    """
    return {
        "_shardsvrMoveRange": namespace,
        "min": bounds.min.document(),
        "max": bounds.max.document(),
        "version": version.to_document(),
        "toShard": to,
        "maxChunkSizeBytes": Int64(extent.most_bytes),
        "partBytes": Int64(extent.part_bytes),
        "upperPart": extent.upper,
        "waitForDelete": wait_for_delete,
    }


def merge_temporary(collection: str, temporary: str, *, bypass: bool) -> dict[str, Any]:
    """To the primary shard of the database: move the documents of a temporary collection into `collection`, replacing
    those with the same `_id`, and drop it. If `collection` does not exist, the temporary one is renamed to it.

    -> `{}`; errors: those of writing the documents.
    """
    return {"_shardsvrMergeTemporary": collection, "from": temporary, "bypass": bypass}
