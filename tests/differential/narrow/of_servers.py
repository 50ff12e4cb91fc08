"""Random commands about operations, sessions, parameters and what processes send each other."""

from __future__ import annotations

from collections.abc import Callable

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from tests.differential.narrow.choices import Choices
from tests.differential.narrow.documents import Document, doc

_Maker = Callable[[Choices], Document]


def _pattern(c: Choices) -> Document:
    fields = (
        ("lsid", c.session()), ("uid", bson.Binary(bytes(32), 0)), ("users", [doc(user=c.user(), db="admin")]),
        ("roles", [doc(role="root", db="admin")]),
    )  # fmt: skip
    return Document(field for field in fields if c.chance(0.4))


def _own(c: Choices) -> tuple[tuple[str, object], ...]:
    return (("$ownOps", c.pick((True, False, 1, 0))),) if c.chance(0.6) else ()


def _id(_c: Choices) -> ObjectId:
    return ObjectId(bytes(12))


ADMINISTERING: tuple[_Maker, ...] = (
    lambda c: doc(("currentOp", 1), *_own(c), *((("$all", True),) if c.chance(0.3) else ())),
    lambda c: doc(killOp=1, op=c.pick((123456, 1, 1000, -1))),
    lambda c: doc(
        ("listDatabases", 1),
        *((("authorizedDatabases", c.chance(0.5)),) if c.chance(0.6) else ()),
        nameOnly=c.chance(0.5),
    ),
    lambda c: doc(killSessions=[c.session() for _ in range(c.below(2))]),
    lambda c: doc(killAllSessions=[doc(user=c.user(), db="admin")] if c.chance(0.7) else []),
    lambda c: doc(killAllSessionsByPattern=[_pattern(c)] if c.chance(0.7) else []),
    lambda c: doc(endSessions=[c.session()]),
    lambda c: doc(refreshSessions=[c.session()]),
    lambda c: doc(startSession=1),
    lambda c: doc(serverStatus=1),
    lambda c: doc(getParameter=1, quiet=1),
    lambda c: doc(setParameter=1, quiet=False),
    lambda c: doc(connectionStatus=1, showPrivileges=c.chance(0.5)),
    lambda c: doc(hostInfo=1),
    lambda c: doc(getLog=c.pick(("global", "startupWarnings", "*"))),
    lambda c: doc(top=1),
    lambda c: doc(getCmdLineOpts=1),
    lambda c: doc(lockInfo=1),
    lambda c: doc(connPoolStats=1),
    lambda c: doc(invalidateUserCache=1),
    lambda c: doc(replSetGetStatus=1),
    lambda c: doc(replSetGetConfig=1),
    lambda c: doc(getDefaultRWConcern=1),
    lambda c: doc(setDefaultRWConcern=1, defaultReadConcern=doc(level="local")),
    lambda c: doc(getClusterParameter=c.pick(("*", "changeStreamOptions"))),
    lambda c: doc(("setClusterParameter", doc(changeStreamOptions=doc(preAndPostImages=doc(expireAfterSeconds=9))))),
    lambda c: doc(listCommands=1),
    lambda c: doc(features=1),
    lambda c: doc(logRotate=1),
    lambda c: doc(listShards=1),
    lambda c: doc(getShardMap=1),
    lambda c: doc(flushRouterConfig=1),
    lambda c: doc(balancerStatus=1),
    lambda c: doc(balancerStop=1),
    lambda c: doc(ping=1),
    lambda c: doc(hello=1),
    lambda c: doc(
        ("commitTransaction", 1), ("lsid", c.session()), ("txnNumber", Int64(1 << 40)), ("autocommit", False)
    ),
    lambda c: doc(("abortTransaction", 1), ("lsid", c.session()), ("txnNumber", Int64(1 << 40)), ("autocommit", False)),
)
AMONG_PROCESSES: tuple[_Maker, ...] = (
    lambda c: doc(applyOps=[doc(op=c.pick("iudnc"), ns=c.namespace(), o=doc(_id=9, x=1), o2=doc(_id=9))]),
    lambda c: doc(
        ("applyOps", [doc(op="c", ns="own.$cmd", o=doc(applyOps=[doc(op="i", ns=c.namespace(), o=doc(_id=8))]))])
    ),
    lambda c: doc(("applyOps", [doc(op="c", ns="own.$cmd", o=doc(renameCollection=c.namespace(), to=c.namespace()))])),
    lambda c: doc(appendOplogNote=1, data=doc(x=1)),
    lambda c: doc(_mergeAuthzCollections=1, tempUsersCollection=c.namespace(), db="own", drop=c.chance(0.5)),
    lambda c: doc(
        ("internalRenameIfOptionsAndIndexesMatch", 1), ("from", c.namespace()), ("to", c.namespace()),
        ("collectionOptions", doc()), ("indexes", []),
    ),
    lambda c: doc(_killOperations=1, operationKeys=[bson.Binary(bytes(16), 4)]),
    lambda c: doc(_getUserCacheGeneration=1),
    lambda c: doc(_isSelf=1),
    lambda c: doc(replSetHeartbeat="rs", configVersion=1, hbv=Int64(1), term=Int64(1)),
    lambda c: doc(
        ("replSetRequestVotes", 1), ("setName", "rs"), ("dryRun", True), ("term", Int64(1)),
        ("candidateIndex", Int64(0)), ("configVersion", Int64(1)),
    ),
    lambda c: doc(replSetUpdatePosition=1, optimes=[]),
    lambda c: doc(replSetGetRBID=1),
    lambda c: doc(
        ("prepareTransaction", 1), ("lsid", c.session()), ("txnNumber", Int64(1 << 40)), ("autocommit", False)
    ),
    lambda c: doc(
        ("coordinateCommitTransaction", 1), ("participants", []), ("lsid", c.session()),
        ("txnNumber", Int64(1 << 40)), ("autocommit", False),
    ),
    lambda c: doc(_shardsvrDropCollection=c.name()),
    lambda c: doc(_shardsvrDropDatabase=1),
    lambda c: doc(("_shardsvrRenameCollection", c.name()), ("to", c.namespace())),
    lambda c: doc(("_shardsvrCollMod", c.name())),
    lambda c: doc(("_shardsvrCreateCollection", c.name())),
    lambda c: doc(_configsvrCreateDatabase=c.database()),
    lambda c: doc(_configsvrAddShard="h:1"),
    lambda c: doc(_recvChunkStatus=c.namespace()),
    lambda c: doc(_transferMods=1, sessionId="x"),
    lambda c: doc(_migrateClone=1, sessionId="x"),
    lambda c: doc(("splitVector", c.namespace()), ("keyPattern", doc(x=1)), ("maxChunkSizeBytes", Int64(1 << 20))),
    lambda c: doc(("splitChunk", c.namespace()), ("from", "s"), ("splitKeys", [doc(x=1)]), ("epoch", _id(c))),
    lambda c: doc(checkShardingIndex=c.namespace(), keyPattern=doc(x=1)),
    lambda c: doc(getShardVersion=c.namespace()),
    lambda c: doc(getDatabaseVersion=c.database()),
    lambda c: doc(("setShardVersion", c.namespace())),
    lambda c: doc(cleanupOrphaned=c.namespace()),
    lambda c: doc(
        ("clusterFind", c.name()), ("filter", doc())
    ),
    lambda c: doc(("clusterInsert", c.name()), ("documents", [doc(x=1)])),
    lambda c: doc(("clusterAggregate", c.name()), ("pipeline", []), ("cursor", doc())),
    lambda c: doc(dbCheck=c.name()),
    lambda c: doc(replSetReconfig=doc(_id="rs", version=2, members=[])),
    lambda c: doc(replSetStepDown=1),
    lambda c: doc(fsync=1),
    lambda c: doc(configureFailPoint="x", mode="off"),
    lambda c: doc(sleep=1),
    lambda c: doc(godinsert=c.name(), obj=doc(x=1)),
    lambda c: doc(captrunc=c.name(), n=1),
    lambda c: doc(("testDeprecation", 1)),
    lambda c: doc(("backup", "x")),
    lambda c: doc(("eval", "1")),
    lambda c: doc(("group", doc(ns=c.name(), key=doc(), initial=doc(), **{"$reduce": "function() {}"}))),
)  # fmt: skip
