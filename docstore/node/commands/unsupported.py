"""MongoDB commands that a data node does not support, each with the reason and the privilege to see it.

Names, privileges and required fields are those of MongoDB 6.0, so unauthorized users and malformed requests get the
same errors from both servers.
"""

from __future__ import annotations

from docstore.aggregation.unsupported import SEARCH_REASON
from docstore.commands.declaration import AUTHENTICATED, PUBLIC, Command, Privilege, Resource, Type
from docstore.commands.specs.internal import INTERNAL_COMMANDS
from docstore.commands.specs.unsupported import unsupported

_OPLOG = "the oplog is written by this server alone"
_POOLS = "connections to other members are not pooled by names that could be given here"
_MONITORING = "nothing is reported to anyone outside"
_PROCESSES = "the processes of a cluster do not send each other this command here"
_SHARDING = "routers and config servers answer this"
_TENANTS = "a set serves one tenant, and is not split"
_TRAFFIC = "traffic is not recorded"
_LEGACY = "no driver asks for this any more"
_COMPACTION = "compactStructuredEncryptionData"


def _cluster(
    action: str, reason: str, name: str, *required: str, admin_only: bool = True, user_first: bool = False
) -> Command:
    privilege = Privilege(action, Resource.CLUSTER)
    return unsupported(name, privilege, reason, *required, admin_only=admin_only, user_first=user_first)


def _collection(action: str, reason: str, name: str, *required: str) -> Command:
    return unsupported(name, Privilege(action, Resource.COLLECTION), reason, *required)


UNSUPPORTED = (
    *INTERNAL_COMMANDS,
    unsupported("applyOps", AUTHENTICATED, _OPLOG),
    unsupported("availableQueryOptions", AUTHENTICATED, _LEGACY),
    unsupported("driverOIDTest", AUTHENTICATED, _LEGACY),
    _collection("collMod", _PROCESSES, "_shardsvrCollMod"),
    _collection(_COMPACTION, "queryable encryption is not supported", _COMPACTION, "compactionTokens"),
    _collection("createSearchIndexes", SEARCH_REASON, "createSearchIndexes"),
    _collection("dropSearchIndex", SEARCH_REASON, "dropSearchIndex"),
    _collection("updateSearchIndex", SEARCH_REASON, "updateSearchIndex"),
    _cluster("appendOplogNote", _OPLOG, "appendOplogNote"),
    _cluster("checkFreeMonitoringStatus", _MONITORING, "getFreeMonitoringStatus"),
    _cluster("cleanupOrphaned", _SHARDING, "cleanupOrphaned"),
    _cluster("connPoolSync", _POOLS, "connPoolSync", admin_only=False),
    _cluster("dbCheck", "members are compared with dbHash", "dbCheck", admin_only=False),
    _cluster("dropConnections", _POOLS, "dropConnections", "hostAndPort"),
    _cluster("enableProfiler", "the profiler has no filter for all", "setProfilingFilterGlobally", admin_only=False),
    _cluster("flushRouterConfig", _SHARDING, "flushRouterConfig"),
    _cluster("getShardMap", _SHARDING, "getShardMap"),
    unsupported(
        "getDatabaseVersion", Privilege("getDatabaseVersion", Resource.DATABASE), _SHARDING,
        admin_only=True, value=Type.STRING,
    ),
    unsupported(
        "checkShardingIndex", Privilege("find", Resource.COLLECTION), _SHARDING, "keyPattern", value=Type.NAMESPACE
    ),
    unsupported(
        "getShardVersion", Privilege("getShardVersion", Resource.COLLECTION), _SHARDING,
        admin_only=True, value=Type.NAMESPACE,
    ),
    unsupported("splitVector", Privilege("splitVector", Resource.COLLECTION), _SHARDING, "keyPattern"),
    unsupported("waitForFailPoint", PUBLIC, "fail points are waited for by nobody", admin_only=True),
    _cluster("serverStatus", "diagnostic data are not collected", "getDiagnosticData"),
    _cluster("setFreeMonitoring", _MONITORING, "setFreeMonitoring", "action", user_first=True),
    _cluster(
        "setUserWriteBlockMode", "writes of users cannot be blocked", "setUserWriteBlockMode", "global",
        admin_only=False,
    ),
    _cluster("shardingState", _SHARDING, "shardingState"),
    _cluster("trafficRecord", _TRAFFIC, "startRecordingTraffic", "filename", admin_only=False),
    _cluster("trafficRecord", _TRAFFIC, "stopRecordingTraffic", admin_only=False),
    *(
        _cluster("runTenantMigration", _TENANTS, name, "migrationId")
        for name in (
            "abortShardSplit", "commitShardSplit", "donorAbortMigration", "donorForgetMigration",
            "donorStartMigration", "forgetShardSplit", "recipientForgetMigration", "recipientSyncData",
        )
    ),
)  # fmt: skip
