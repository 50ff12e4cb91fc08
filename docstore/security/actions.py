"""The names of actions in privileges: those of MongoDB 6.0, supported here or not."""

from __future__ import annotations

ACTIONS = frozenset(
    (
        "addShard", "advanceClusterTime", "allCollectionStats", "anyAction", "appendOplogNote", "applicationMessage",
        "applyOps", "auditConfigure", "auditLogRotate", "authCheck", "authenticate", "authSchemaUpgrade",
        "bypassDocumentValidation", "bypassWriteBlockingMode", "changeCustomData", "changeOwnCustomData",
        "changeOwnPassword", "changePassword", "changeStream", "checkFreeMonitoringStatus", "cleanupOrphaned",
        "clearJumboFlag", "closeAllDatabases", "collMod", "collStats", "compact", "compactStructuredEncryptionData",
        "connPoolStats", "connPoolSync", "convertToCapped", "cpuProfiler", "createCollection", "createDatabase",
        "createIndex", "createRole", "createUser", "dbCheck", "dbHash", "dbStats", "dropCollection",
        "dropConnections", "dropDatabase", "dropIndex", "dropRole", "dropUser", "emptycapped", "enableProfiler",
        "enableSharding", "exportCollection", "find", "flushRouterConfig", "forceUUID", "fsync",
        "getClusterParameter", "getCmdLineOpts", "getDatabaseVersion", "getDefaultRWConcern", "getLog",
        "getParameter", "getShardMap", "getShardVersion", "grantPrivilegesToRole", "grantRole", "grantRolesToRole",
        "grantRolesToUser", "hostInfo", "impersonate", "importCollection", "indexStats", "inprog", "insert",
        "internal", "invalidateUserCache", "killAnyCursor", "killAnySession", "killCursors", "killop",
        "listCachedAndActiveUsers", "listCollections", "listCursors", "listDatabases", "listIndexes", "listSessions",
        "listShards", "logRotate", "moveChunk", "netstat", "oidReset", "operationMetrics", "planCacheIndexFilter",
        "planCacheRead", "planCacheWrite", "refineCollectionShardKey", "reIndex", "remove", "removeShard",
        "renameCollection", "renameCollectionSameDB", "repairDatabase", "replSetConfigure", "replSetGetConfig",
        "replSetGetStatus", "replSetHeartbeat", "replSetReconfig", "replSetResizeOplog", "replSetStateChange",
        "reshardCollection", "resync", "revokePrivilegesFromRole", "revokeRole", "revokeRolesFromRole",
        "revokeRolesFromUser", "rotateCertificates", "runAsLessPrivilegedUser", "runTenantMigration", "serverStatus",
        "setAuthenticationRestriction", "setClusterParameter", "setDefaultRWConcern",
        "setFeatureCompatibilityVersion", "setFreeMonitoring", "setParameter", "setUserWriteBlockMode",
        "shardCollection", "shardedDataDistribution", "shardingState", "shutdown", "splitChunk", "splitVector",
        "storageDetails", "top", "touch", "trafficRecord", "unlock", "update", "updateRole", "updateUser",
        "useTenant", "useUUID", "validate", "viewRole", "viewUser",
    )
)  # fmt: skip
