"""The built-in roles, with MongoDB's privileges.

Database roles exist in every database; cluster roles, and those named "AnyDatabase", in `admin` alone. Each has its
own privileges and those of other roles that it contains; listings do not show the contained ones as inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from docstore.security.names import RoleName
from docstore.security.privileges import (
    ALL_DATABASES,
    ANY_ACTION,
    CLUSTER,
    EVERYTHING,
    Kind,
    Privileges,
    Resource,
    collection,
    database,
)

_READ = (
    "changeStream", "collStats", "dbHash", "dbStats", "find", "killCursors", "listCollections", "listIndexes",
    "planCacheRead",
)  # fmt: skip
_WRITE = (
    "compactStructuredEncryptionData", "convertToCapped", "createCollection", "createIndex", "dropCollection",
    "dropIndex", "insert", "remove", "renameCollectionSameDB", "update",
)  # fmt: skip
_ADMINISTER = (
    "bypassDocumentValidation", "collMod", "collStats", "compact", "convertToCapped", "createCollection",
    "createIndex", "dbStats", "dropCollection", "dropDatabase", "dropIndex", "enableProfiler", "listCollections",
    "listIndexes", "planCacheIndexFilter", "planCacheRead", "planCacheWrite", "reIndex", "renameCollectionSameDB",
    "storageDetails", "validate",
)  # fmt: skip
_ADMINISTER_USERS = (
    "changeCustomData", "changePassword", "createRole", "createUser", "dropRole", "dropUser", "grantRole",
    "revokeRole", "setAuthenticationRestriction", "viewRole", "viewUser",
)  # fmt: skip
_PROFILE = (*_READ, "convertToCapped", "createCollection", "dropCollection")
_ENABLE_SHARDING = ("enableSharding", "refineCollectionShardKey", "reshardCollection")
_SHARD = ("clearJumboFlag", *_ENABLE_SHARDING, "moveChunk", "splitChunk", "splitVector")
_RESTORE = (
    "bypassDocumentValidation", "collMod", "convertToCapped", "createCollection", "createIndex", "dropCollection",
    "insert",
)  # fmt: skip
_SYNC_STATE = ("replset.election", "replset.minvalid")
_WATCHED = ("collStats", "dbStats", "getDatabaseVersion", "getShardVersion", "indexStats")
_ALL_BUCKETS = Resource(Kind.BUCKETS)


def _read(db: str) -> Privileges:
    return Privileges({database(db): _READ, collection(db, "system.js"): _READ})


def _read_write(db: str) -> Privileges:
    actions = _READ + _WRITE
    return Privileges({database(db): actions, collection(db, "system.js"): actions})


def _db_admin(db: str) -> Privileges:
    return Privileges({database(db): _ADMINISTER, collection(db, "system.profile"): _PROFILE})


def _user_admin(db: str) -> Privileges:
    return Privileges({database(db): _ADMINISTER_USERS})


def _db_owner(db: str) -> Privileges:
    return _joined(_read_write(db), _db_admin(db), _user_admin(db))


def _enable_sharding(_db: str) -> Privileges:
    return Privileges({ALL_DATABASES: _ENABLE_SHARDING})


def _joined(*parts: Privileges) -> Privileges:
    privileges = Privileges()
    for part in parts:
        privileges.join(part)
    return privileges


def _anywhere(role: Callable[[str], Privileges], actions: Iterable[str]) -> Privileges:
    """Return a role of one database extended to all, with the actions on time series."""
    return _joined(role(""), Privileges({CLUSTER: ("listDatabases",), _ALL_BUCKETS: actions}))


def _read_any() -> Privileges:
    return _anywhere(_read, _READ)


def _read_write_any() -> Privileges:
    return _anywhere(_read_write, _READ + _WRITE)


def _db_admin_any() -> Privileges:
    return _joined(_anywhere(_db_admin, _ADMINISTER), Privileges({CLUSTER: ("applyOps",)}))


def _user_admin_any() -> Privileges:
    indexed = [*_READ, "createIndex", "dropIndex"]
    return Privileges({
        ALL_DATABASES: [*_ADMINISTER_USERS, "listCachedAndActiveUsers"],
        database("local"): _ADMINISTER_USERS,
        database("config"): _ADMINISTER_USERS,
        CLUSTER: ("authSchemaUpgrade", "invalidateUserCache", "listDatabases", "viewUser"),
        collection("", "system.users"): _READ,
        collection("admin", "system.users"): indexed,
        collection("admin", "system.roles"): indexed,
        collection("admin", "system.version"): _READ,
        collection("admin", "system.backup_users"): _READ,
    })  # fmt: skip


def _cluster_monitor() -> Privileges:
    of_the_cluster = (
        "allCollectionStats", "checkFreeMonitoringStatus", "connPoolStats", "getDefaultRWConcern", "getCmdLineOpts",
        "getLog", "getParameter", "getShardMap", "hostInfo", "inprog", "listDatabases", "listSessions", "listShards",
        "netstat", "operationMetrics", "replSetGetConfig", "replSetGetStatus", "serverStatus",
        "shardedDataDistribution", "shardingState", "top", "useUUID",
    )  # fmt: skip
    return Privileges({
        CLUSTER: of_the_cluster,
        ALL_DATABASES: _WATCHED,
        **{database(db): _READ + _WATCHED for db in ("config", "local")},
        **{collection(db, "system.js"): _READ for db in ("config", "local")},
        collection("config", "system.sessions"): _WATCHED,
        collection("local", "system.replset"): ("find",),
        **{collection("local", name): ("find",) for name in _SYNC_STATE},
        collection("", "system.profile"): ("find",),
    })  # fmt: skip


def _host_manager() -> Privileges:
    of_the_cluster = (
        "applicationMessage", "auditConfigure", "connPoolSync", "dropConnections", "flushRouterConfig", "fsync",
        "invalidateUserCache", "killAnyCursor", "killAnySession", "killop", "logRotate", "oidReset",
        "replSetResizeOplog", "resync", "rotateCertificates", "setParameter", "shutdown", "touch", "trafficRecord",
        "unlock",
    )  # fmt: skip
    return Privileges({CLUSTER: of_the_cluster, ALL_DATABASES: ("killCursors",)})


def _cluster_manager() -> Privileges:
    of_the_cluster = (
        "addShard", "appendOplogNote", "applicationMessage", "cleanupOrphaned", "flushRouterConfig",
        "getClusterParameter", "getDefaultRWConcern", "listSessions", "listShards", "removeShard", "replSetConfigure",
        "replSetGetConfig", "replSetGetStatus", "replSetStateChange", "resync", "runTenantMigration",
        "setClusterParameter", "setDefaultRWConcern", "setFeatureCompatibilityVersion", "setFreeMonitoring",
    )  # fmt: skip
    change = ("insert", "remove", "update")
    return Privileges({
        CLUSTER: of_the_cluster,
        ALL_DATABASES: _SHARD,
        _ALL_BUCKETS: _SHARD,
        database("config"): _READ + _SHARD + change,
        database("local"): _SHARD + change,
        **{collection("local", name): _READ for name in ("system.healthlog", "system.replset")},
        collection("config", "system.js"): _READ,
        EVERYTHING: ("dbCheck",),
        **{collection("local", name): change for name in _SYNC_STATE},
    })  # fmt: skip


def _cluster_admin() -> Privileges:
    own = Privileges({ALL_DATABASES: ("dropDatabase",), EVERYTHING: ("exportCollection", "importCollection")})
    return _joined(_cluster_monitor(), _cluster_manager(), _host_manager(), own)


def _copying(of_the_cluster: Iterable[str], of_settings: Iterable[str]) -> Privileges:
    everywhere = [ALL_DATABASES, _ALL_BUCKETS, *map(database, ("config", "local"))]
    named = [
        *(collection("local", name) for name in _SYNC_STATE),
        *(collection("", name) for name in ("system.js", "system.users", "system.profile")),
        *(collection("admin", name) for name in ("system.backup_users", "system.roles", "system.version")),
    ]
    return Privileges({
        CLUSTER: of_the_cluster,
        collection("config", "settings"): of_settings,
        EVERYTHING: ("collStats", "listCollections", "listIndexes"),
        **dict.fromkeys((*everywhere, *named), ("find",)),
    })  # fmt: skip


def _backup() -> Privileges:
    of_the_cluster = (
        "appendOplogNote", "getParameter", "listDatabases", "serverStatus", "setUserWriteBlockMode", "useUUID",
    )  # fmt: skip
    return _copying(of_the_cluster, ("find", "insert", "update"))


def _queryable_backup() -> Privileges:
    return _copying(("getParameter", "listDatabases", "useUUID"), ("find",))


def _restore() -> Privileges:
    written = [
        *map(database, ("config", "local")), _ALL_BUCKETS, collection("", "system.js"),
        *(collection("local", name) for name in ("system.replset", *_SYNC_STATE)),
        collection("admin", "system.backup_users"),
    ]  # fmt: skip
    return Privileges({
        ALL_DATABASES: _RESTORE + _ADMINISTER_USERS,
        **dict.fromkeys(written, _RESTORE),
        EVERYTHING: ("listCollections",),
        **{collection("admin", name): ("find",) for name in ("tempusers", "temproles")},
        collection("admin", "system.version"): [*_RESTORE, "find"],
        collection("", "system.users"): [*_RESTORE, "find", "remove", "update"],
        CLUSTER: (
            "bypassWriteBlockingMode", "forceUUID", "getParameter", "setUserWriteBlockMode", "useUUID", "applyOps",
        ),
        collection("admin", "system.roles"): ("createIndex",),
    })  # fmt: skip


def _root() -> Privileges:
    own = Privileges({
        collection("config", "system.preimages"): ("find", "remove"),
        EVERYTHING: ("validate",),
        CLUSTER: ("useTenant",),
    })  # fmt: skip
    return _joined(_cluster_admin(), _user_admin_any(), _db_admin_any(), _read_write_any(), _backup(), _restore(), own)


_OF_A_DATABASE = {
    "dbAdmin": _db_admin,
    "dbOwner": _db_owner,
    "enableSharding": _enable_sharding,
    "read": _read,
    "readWrite": _read_write,
    "userAdmin": _user_admin,
}
_OF_ADMIN = {
    "__queryableBackup": _queryable_backup,
    "__system": lambda: Privileges({EVERYTHING: (ANY_ACTION,)}),
    "backup": _backup,
    "clusterAdmin": _cluster_admin,
    "clusterManager": _cluster_manager,
    "clusterMonitor": _cluster_monitor,
    "dbAdminAnyDatabase": _db_admin_any,
    "directShardOperations": Privileges,
    "hostManager": _host_manager,
    "readAnyDatabase": _read_any,
    "readWriteAnyDatabase": _read_write_any,
    "restore": _restore,
    "root": _root,
    "userAdminAnyDatabase": _user_admin_any,
}


def names_in(db: str) -> list[RoleName]:
    """The built-in roles of a database, in order."""
    if db == "$external":
        return []
    names = _OF_A_DATABASE.keys() | (_OF_ADMIN.keys() if db == "admin" else set())
    return [RoleName(name, db) for name in sorted(names)]


def is_builtin(name: RoleName) -> bool:
    if name.db == "$external":
        return False
    return name.role in _OF_A_DATABASE or (name.db == "admin" and name.role in _OF_ADMIN)


@lru_cache(maxsize=256)
def privileges_of(name: RoleName) -> Privileges:
    """Return the privileges of a built-in role, which the caller may not change. KeyError for any other role."""
    of_database = _OF_A_DATABASE.get(name.role)
    if of_database is not None:
        return of_database(name.db)
    if name.db != "admin":
        raise KeyError(name)
    return _OF_ADMIN[name.role]()
