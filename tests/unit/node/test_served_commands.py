"""A command that is declared as served answers some request with ok; one that is declared to refuse answers none."""

from __future__ import annotations

from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.commands.declaration import CommandTable
from docstore.commands.parameters import ServerParameter
from docstore.node.commands import COMMANDS
from docstore.options.values import EMULATED
from tests.unit.node.local import LocalNode, loop

TABLE = CommandTable(COMMANDS)
FIND = {"resource": {"db": "test", "collection": ""}, "actions": ["find"]}
LSID = {"id": Binary(bytes(16), 4)}
ADMIN: dict[str, dict[str, Any]] = {
    "bulkWrite": {"ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "test.c"}]},
    "connectionStatus": {},
    "currentOp": {},
    "fsync": {"lock": True},
    "fsyncUnlock": {},
    "getClusterParameter": {"getClusterParameter": "*"},
    "getCmdLineOpts": {},
    "getLog": {"getLog": "global"},
    "getParameter": {"getParameter": "*"},
    "killOp": {"op": 1},
    "listDatabases": {},
    "lockInfo": {},
    "logApplicationMessage": {"logApplicationMessage": "hello"},
    "logRotate": {},
    "renameCollection": {"renameCollection": "test.c", "to": "test.renamed"},
    "rotateCertificates": {"message": "new ones"},
    "setFeatureCompatibilityVersion": {"setFeatureCompatibilityVersion": EMULATED},
    "setParameter": {"pace": 2},
    "top": {},
}
"""Requests that are sent to the database admin."""
BARE = {
    "buildInfo", "connPoolStats", "dbHash", "dbStats", "dropDatabase", "features", "getnonce", "hello", "hostInfo",
    "isMaster", "listCollections", "listCommands", "logout", "ping", "serverStatus", "startSession", "whatsmyuri",
}  # fmt: skip
"""Commands that need nothing but their name."""
OF_A_COLLECTION: dict[str, dict[str, Any]] = {
    "aggregate": {"pipeline": [], "cursor": {}},
    "cloneCollectionAsCapped": {"toCollection": "d", "size": 4096},
    "collMod": {},
    "collStats": {},
    "compact": {},
    "convertToCapped": {"size": 4096},
    "count": {},
    "createIndexes": {"indexes": [{"key": {"x": 1}, "name": "x_1"}]},
    "delete": {"deletes": [{"q": {}, "limit": 0}]},
    "distinct": {"key": "x"},
    "drop": {},
    "dropIndexes": {"index": "*"},
    "find": {},
    "findAndModify": {"update": {"$set": {"x": 1}}},
    "insert": {"documents": [{}]},
    "killCursors": {"cursors": [Int64(1)]},
    "listIndexes": {},
    "planCacheClear": {},
    "planCacheClearFilters": {},
    "planCacheListFilters": {},
    "planCacheSetFilter": {"query": {}, "indexes": ["x"]},
    "reIndex": {},
    "update": {"updates": [{"q": {}, "u": {"$set": {"x": 1}}}]},
    "validate": {},
}
OTHERS: dict[str, dict[str, Any]] = {
    "create": {"create": "new"},
    "dataSize": {"dataSize": "test.c"},
    "endSessions": {"endSessions": [LSID]},
    "explain": {"explain": {"find": "c"}},
    "filemd5": {"filemd5": "f"},
    "killAllSessions": {"killAllSessions": []},
    "killAllSessionsByPattern": {"killAllSessionsByPattern": []},
    "killSessions": {"killSessions": [LSID]},
    "profile": {"profile": 0},
    "refreshSessions": {"refreshSessions": [LSID]},
    "validateDBMetadata": {"apiParameters": {"version": "1"}},
}
ABOUT_USERS: dict[str, dict[str, Any]] = {
    "createUser": {"createUser": "bob", "pwd": "x", "roles": ["read"]},
    "updateUser": {"updateUser": "ann", "roles": ["read"]},
    "dropUser": {"dropUser": "ann"},
    "dropAllUsersFromDatabase": {},
    "grantRolesToUser": {"grantRolesToUser": "ann", "roles": ["read"]},
    "revokeRolesFromUser": {"revokeRolesFromUser": "ann", "roles": ["read"]},
    "createRole": {"createRole": "another", "privileges": [], "roles": ["read"]},
    "updateRole": {"updateRole": "own", "roles": ["read"]},
    "dropRole": {"dropRole": "own"},
    "dropAllRolesFromDatabase": {},
    "grantPrivilegesToRole": {"grantPrivilegesToRole": "own", "privileges": [FIND]},
    "revokePrivilegesFromRole": {"revokePrivilegesFromRole": "own", "privileges": [FIND]},
    "grantRolesToRole": {"grantRolesToRole": "own", "roles": ["read"]},
    "revokeRolesFromRole": {"revokeRolesFromRole": "own", "roles": ["read"]},
    "rolesInfo": {"rolesInfo": 1},
    "usersInfo": {"usersInfo": 1},
    "invalidateUserCache": {},
}
"""Requests where there are a user "ann" and a role "own"."""
UNPREPARED = {"authenticate"}
"""What a node without the option for it refuses; others' tests see it served."""
REFUSED: dict[str, dict[str, Any]] = {
    "setIndexCommitQuorum": {"indexNames": ["x_1"], "commitQuorum": 1},
}
"""What those need besides a name."""
ELSEWHERE = {
    "abortTransaction",
    "backup",
    "backupClose",
    "backupOpen",
    "backupRead",
    "commitTransaction",
    "getDefaultRWConcern",
    "replSetResizeOplog",
    "saslContinue",
    "saslStart",
    "setClusterParameter",
    "setDefaultRWConcern",
    "shutdown",
}
"""They need files, a set, a transaction or a password, or end the process: they have tests of their own."""


def request(name: str) -> tuple[str, dict[str, Any]]:
    """(database, command) that a node should answer with ok."""
    if name in ADMIN:
        return "admin", {name: 1, **ADMIN[name]}
    if name in OTHERS:
        return "test", {name: 1, **OTHERS[name]}
    if name in ABOUT_USERS:
        return "test", {name: 1, **ABOUT_USERS[name]}
    return "test", {name: "c", **OF_A_COLLECTION[name]} if name in OF_A_COLLECTION else {name: 1}


async def filled() -> LocalNode:
    node = LocalNode()
    node.node.parameters.add([ServerParameter(name="pace", get=lambda: 1, assign=lambda _: None)])
    await node.insert("c", {"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    return node


@pytest.mark.parametrize(
    "name", [each.name for each in TABLE if not each.refuses and each.name not in ELSEWHERE | UNPREPARED]
)
def test_a_command_that_is_served_answers(name: str) -> None:
    async def story() -> dict[str, Any]:
        node = await filled()
        if name == "getMore":
            first = await node.run({"find": "c", "batchSize": 1})
            return await node.reply({"getMore": Int64(first["cursor"]["id"]), "collection": "c"})
        if name == "fsyncUnlock":
            await node.run({"fsync": 1, "lock": True}, "admin")
        assert name in {*ADMIN, *BARE, *OF_A_COLLECTION, *OTHERS, *ABOUT_USERS}
        if name in ABOUT_USERS:
            await node.run({"createUser": "ann", "pwd": "p", "mechanisms": ["SCRAM-SHA-1"], "roles": []})
            await node.run({"createRole": "own", "privileges": [FIND], "roles": []})
        db, command = request(name)
        return await node.reply(command, db)

    assert loop(story())["ok"] == 1


@pytest.mark.parametrize("name", [each.name for each in TABLE if each.refuses])
def test_a_command_that_is_declared_to_refuse_refuses(name: str) -> None:
    async def story() -> dict[str, Any]:
        db = "admin" if TABLE.get(name).admin_only else "test"
        return await (await filled()).reply({name: "c", **REFUSED.get(name, {})}, db)

    reply = loop(story())
    assert reply["ok"] == 0
    assert reply["codeName"] not in ("Location40414", "Location40415", "TypeMismatch", "Unauthorized"), reply
