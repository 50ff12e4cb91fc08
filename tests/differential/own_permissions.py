"""Commands that a real mongod does not have, and what each needs: of routers' as MongoDB's manual says, of this
server's own as its pages say.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bson.objectid import ObjectId

from docstore.commands.access.need import Need, on_cluster, on_database, on_namespace
from docstore.security.privileges import ALL_DATABASES, EVERYTHING


class Own(NamedTuple):
    """A request to a database, and what it needs."""

    db: str
    request: dict[str, Any]
    needs: tuple[Need, ...] = ()


_C = "own.c"
_ID = ObjectId(24 * "0")
_FILES = (
    *on_cluster("appendOplogNote"),
    Need("find", ALL_DATABASES),
    *on_namespace("admin.system.users", "find"),
    *on_database("local", "find"),
    *on_database("config", "find"),
)
ON_ROUTERS: tuple[Own, ...] = (
    Own("admin", {"addShard": "s/h:1"}, on_cluster("addShard")),
    Own("admin", {"removeShard": "s"}, on_cluster("removeShard")),
    Own("admin", {"listShards": 1}, on_cluster("listShards")),
    Own("admin", {"getShardMap": 1}, on_cluster("getShardMap")),
    Own("admin", {"flushRouterConfig": 1}, on_cluster("flushRouterConfig")),
    Own("admin", {"enableSharding": "own"}, on_database("own", "enableSharding")),
    Own("admin", {"shardCollection": _C, "key": {"x": 1}}, on_namespace(_C, "enableSharding")),
    Own("admin", {"split": _C, "middle": {"x": 1}}, on_namespace(_C, "splitChunk")),
    Own("admin", {"moveChunk": _C, "find": {"x": 1}, "to": "s"}, on_namespace(_C, "moveChunk")),
    Own("admin", {"movePrimary": "own", "to": "s"}, on_database("own", "moveChunk")),
    Own("admin", {"clearJumboFlag": _C, "find": {"x": 1}}, on_namespace(_C, "clearJumboFlag")),
    Own("admin", {"balancerStart": 1}, on_namespace("config.settings", "update")),
    Own("admin", {"balancerStop": 1}, on_namespace("config.settings", "update")),
    Own("admin", {"balancerStatus": 1}, on_namespace("config.settings", "find")),
    Own("admin", {"isdbgrid": 1}),
)
ON_NODES: tuple[Own, ...] = (
    Own("own", {"eval": "1"}, (Need("anyAction", EVERYTHING),)),
    Own("own", {"group": {"ns": "c", "key": {}, "initial": {}, "$reduce": "function(){}"}}, on_namespace(_C, "find")),
    Own("admin", {"backup": "x"}, (*_FILES, *on_cluster("shutdown"))),
    Own("admin", {"backupOpen": 1}, _FILES),
    Own("admin", {"backupRead": _ID, "file": "x"}, _FILES),
    Own("admin", {"backupClose": _ID}, _FILES),
    Own(
        "admin",
        {
            "bulkWrite": 1,
            "ops": [
                {"insert": 0, "document": {}},
                {"update": 1, "filter": {}, "updateMods": {}, "upsert": True},
                {"delete": 1, "filter": {}},
            ],
            "nsInfo": [{"ns": _C}, {"ns": "other.c"}],
        },
        (*on_namespace(_C, "insert"), *on_namespace("other.c", "update", "insert", "remove")),
    ),
    Own("admin", {"logApplicationMessage": "x"}, on_cluster("applicationMessage")),
    Own("admin", {"loadStorageConf": 1}, (Need("createCollection", ALL_DATABASES), *on_cluster("setParameter"))),
    Own(
        "admin",
        {"loadStorageConf": 1, "replace": True},
        (
            *(Need(action, ALL_DATABASES) for action in ("createCollection", "collMod", "dropCollection")),
            *on_cluster("setParameter"),
        ),
    ),
    Own("own", {"createKeyspace": "own"}, on_database("own", "createCollection")),
    Own("own", {"dropKeyspace": 1}, on_database("own", "dropDatabase")),
    Own("own", {"describeKeyspace": 1}, on_database("own", "listCollections")),
    Own("admin", {"describeKeyspaces": 1}, on_cluster("listDatabases")),
    Own("own", {"createColumnFamily": "c"}, on_database("own", "createCollection")),
    Own("own", {"alterColumnFamily": "c"}, on_namespace(_C, "collMod")),
    Own("own", {"dropColumnFamily": "c"}, on_namespace(_C, "dropCollection")),
    *(
        Own("own", {name: "c"}, on_namespace(_C, "find"))
        for name in ("wcGet", "wcGetCount", "wcGetRangeSlices", "wcGetSlice", "wcMultigetSlice")
    ),
    Own("own", {"wcInsert": "c"}, on_namespace(_C, "insert")),
    Own("own", {"wcRemove": "c"}, on_namespace(_C, "remove")),
    Own("own", {"wcTruncate": "c"}, on_namespace(_C, "remove")),
    Own("own", {"wcBatchMutate": {}}, on_database("own", "insert", "remove")),
    Own("own", {"cql": "SELECT * FROM c"}, on_database("own", "find")),
    Own("own", {"cql": "INSERT INTO c (k) VALUES (1)"}, on_database("own", "insert")),
    Own(
        "own",
        {"cql": "UPDATE other.c SET v = 1 WHERE k = 1"},
        (*on_database("own", "update"), *on_database("other", "update")),
    ),
    Own("own", {"cql": "DELETE FROM c WHERE k = 1"}, on_database("own", "remove")),
    Own("own", {"cql": "TRUNCATE c"}, on_database("own", "remove")),
    Own("own", {"cql": "CREATE TABLE t (k int PRIMARY KEY)"}, on_database("own", "createCollection", "createIndex")),
    Own("own", {"cql": "ALTER TABLE t ADD v int"}, on_database("own", "collMod")),
    Own("own", {"cql": "DROP TABLE t"}, on_database("own", "dropCollection", "dropIndex")),
    Own("own", {"cql": "CREATE ROLE r"}),
    Own("own", {"cql": "GRANT SELECT ON KEYSPACE own TO r"}),
    Own("own", {"cql": "DROP KEYSPACE own"}, (Need("dropDatabase", ALL_DATABASES),)),
)
