"""Internal commands of MongoDB 6.0 that this project does not use, with their required fields and databases.

Users without the action `internal` get Unauthorized, as from MongoDB.
"""

from __future__ import annotations

from docstore.commands.declaration import INTERNAL, Type
from docstore.commands.specs.unsupported import unsupported

_PROCESSES = "the processes of a cluster do not send each other this command here"

_INTERNAL_ON_ADMIN = {
    "_addShard": "shardIdentity", "_configsvrClearJumboFlag": "epoch", "_configsvrCommitChunksMerge": "shard",
    "_configsvrCommitMovePrimary": "expectedDatabaseVersion", "_configsvrEnsureChunkVersionIsGreaterThan": "minKey",
    "_configsvrMoveRange": "toShard", "_configsvrRefineCollectionShardKey": "key",
    "_configsvrRemoveChunks": "collectionUUID", "_configsvrReshardCollection": "key",
    "_configsvrSetAllowMigrations": "allowMigrations", "_configsvrSetUserWriteBlockMode": "global",
    "_flushReshardingStateChange": "reshardingUUID", "_killOperations": "operationKeys",
    "_mergeAuthzCollections": "db", "_shardsvrAbortReshardCollection": "userCanceled",
    "_shardsvrCleanupReshardCollection": "reshardingUUID", "_shardsvrCommitReshardCollection": "reshardingUUID",
    "_shardsvrGetStatsForBalancing": "collections", "_shardsvrMoveRange": "toShard",
    "_shardsvrReshardCollection": "key", "_shardsvrSetClusterParameter": "clusterParameterTime",
    "_shardsvrSetUserWriteBlockMode": "global", "coordinateCommitTransaction": "participants",
    "internalRenameIfOptionsAndIndexesMatch": "from", "recipientVoteImportedFiles": "migrationId",
    "voteCommitIndexBuild": "hostAndPort",
}  # fmt: skip
"""Internal commands of `admin`, each with a field that it requires."""
_INTERNAL = {
    "_configsvrCollMod": "collModRequest", "_configsvrRenameCollectionMetadata": "to",
    "_shardsvrCollModParticipant": "collModRequest", "_shardsvrCompactStructuredEncryptionData": "compactionTokens",
    "_shardsvrCreateCollectionParticipant": "indexes",
    "_shardsvrDropCollectionIfUUIDNotMatching": "expectedCollectionUUID", "_shardsvrDropIndexes": "index",
    "_shardsvrRefineCollectionShardKey": "newShardKey", "_shardsvrRenameCollection": "to",
    "_shardsvrRenameCollectionParticipant": "to", "_shardsvrRenameCollectionParticipantUnblock": "to",
    "_shardsvrSetAllowMigrations": "allowMigrations", "autoSplitVector": "keyPattern",
    "clusterAggregate": "pipeline", "clusterDelete": "deletes", "clusterGetMore": "collection",
    "clusterInsert": "documents", "clusterUpdate": "updates",
}  # fmt: skip
"""Internal commands of any database, each with a field that it requires."""
_INTERNAL_PLAIN = (
    "_configsvrAddShard", "_configsvrAddShardToZone", "_configsvrBalancerStart", "_configsvrBalancerStatus",
    "_configsvrBalancerStop", "_configsvrMoveChunk", "_configsvrRemoveShard", "_configsvrRemoveShardFromZone",
    "_configsvrRunRestore", "_configsvrUpdateZoneKeyRange", "_getNextSessionMods", "_getUserCacheGeneration",
    "_migrateClone", "_recvChunkAbort", "_recvChunkCommit", "_recvChunkReleaseCritSec", "_recvChunkStatus",
    "_shardsvrCloneCatalogData", "_shardsvrJoinMigrations", "_transferMods", "clusterAbortTransaction",
    "clusterCommitTransaction", "prepareTransaction", "setShardVersion",
)  # fmt: skip
"""Internal commands of `admin` that require no field."""
_INTERNAL_STRING = (
    "_configsvrAbortReshardCollection", "_configsvrBalancerCollectionStatus", "_configsvrCleanupReshardCollection",
    "_configsvrCommitReshardCollection", "_configsvrConfigureCollectionBalancing", "_configsvrCreateDatabase",
    "_configsvrRemoveTags", "_flushDatabaseCacheUpdates", "_flushDatabaseCacheUpdatesWithWriteConcern",
    "_flushRoutingTableCacheUpdates", "_flushRoutingTableCacheUpdatesWithWriteConcern", "_shardsvrMovePrimary",
    "_shardsvrReshardingOperationTime",
)  # fmt: skip
"""Internal commands of `admin` that hold a string."""
_INTERNAL_NAMESPACE = (
    "_configsvrCommitChunkMigration", "_configsvrCommitChunkSplit",
    "_configsvrRepairShardedCollectionChunksHistory", "_recvChunkStart", "mergeChunks", "splitChunk",
)  # fmt: skip
"""Internal commands of `admin` that hold a namespace."""
_INTERNAL_COLLECTION = (
    "_shardsvrCreateCollection", "_shardsvrDropCollection", "_shardsvrDropCollectionParticipant",
    "_shardsvrParticipantBlock", "clusterFind",
)  # fmt: skip
"""Internal commands of any database that hold the name of a collection."""

INTERNAL_COMMANDS = (
    *(unsupported(name, INTERNAL, _PROCESSES, field, admin_only=True) for name, field in _INTERNAL_ON_ADMIN.items()),
    *(unsupported(name, INTERNAL, _PROCESSES, field) for name, field in _INTERNAL.items()),
    *(unsupported(name, INTERNAL, _PROCESSES, admin_only=True) for name in _INTERNAL_PLAIN),
    *(unsupported(name, INTERNAL, _PROCESSES, admin_only=True, value=Type.STRING) for name in _INTERNAL_STRING),
    *(unsupported(name, INTERNAL, _PROCESSES, admin_only=True, value=Type.NAMESPACE) for name in _INTERNAL_NAMESPACE),
    *(unsupported(name, INTERNAL, _PROCESSES, value=Type.COLLECTION) for name in _INTERNAL_COLLECTION),
    unsupported("_configsvrSetClusterParameter", INTERNAL, _PROCESSES, admin_only=True, value=Type.OBJECT),
    unsupported("_shardsvrDropDatabase", INTERNAL, _PROCESSES),
    unsupported("_shardsvrDropDatabaseParticipant", INTERNAL, _PROCESSES),
)
