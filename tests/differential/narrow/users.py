"""Users with few privileges, and the data that they may or may not see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docstore.security.scram import SHA_1


def _on(db: str, collection: str, *actions: str) -> dict[str, Any]:
    return {"resource": {"db": db, "collection": collection}, "actions": list(actions)}


def _cluster(*actions: str) -> dict[str, Any]:
    return {"resource": {"cluster": True}, "actions": list(actions)}


def _role(role: str, db: str) -> dict[str, str]:
    return {"role": role, "db": db}


USERS: dict[str, tuple[list[dict[str, Any]], list[dict[str, str]]]] = {
    "nobody": ([], []),
    "reader": ([], [_role("read", "own")]),
    "writer": ([], [_role("readWrite", "own")]),
    "one": ([_on("own", "c", "find")], []),
    "changer": ([_on("own", "c", "find", "update"), _on("own", "d", "find", "remove")], []),
    "inserter": ([_on("own", "c", "insert"), _on("other", "c", "insert", "createIndex")], []),
    "renamer": ([_on("own", "", "renameCollectionSameDB"), _on("own", "d", "find")], []),
    "copier": ([_on("own", "c", "find", "dropCollection"), _on("other", "spare", "insert", "createIndex")], []),
    "viewer": (
        [_on("own", name, "find", "collMod", "createCollection") for name in ("v", "w", "spare")]
        + [_on("own", "c", "find")],
        [],
    ),
    "follower": ([_on("own", "c", "changeStream")], []),
    "watcher": ([_on("own", "", "changeStream", "find")], []),
    "definer": ([], [_role("dbAdmin", "own")]),
    "owner": ([], [_role("dbOwner", "own")]),
    "granter": ([], [_role("userAdmin", "own")]),
    "half": ([_on("own", "", "grantRole"), _on("", "", "revokeRole"), _on("other", "", "createRole", "viewRole")], []),
    "self": ([_on("admin", "", "changeOwnPassword", "changeOwnCustomData")], []),
    "everywhere": ([], [_role("readAnyDatabase", "admin")]),
    "keeper": ([], [_role("readWrite", "admin")]),
    "monitor": ([], [_role("clusterMonitor", "admin")]),
    "finder": ([_on("", "c", "find")], []),
    "measurer": ([_on("own", "t", "find", "insert"), _on("own", "u", "collStats", "collMod", "remove")], []),
    "bucketeer": ([_on("own", "system.buckets.t", "find", "remove"), _on("own", "c", "find", "insert")], []),
    "ender": ([_cluster("killop", "killAnySession"), _on("own", "c", "killCursors", "killAnyCursor")], []),
    "lister": ([_cluster("listDatabases", "listSessions"), _on("own", "", "listCollections", "listIndexes")], []),
    "inspector": ([_on("own", "c", "collStats", "indexStats", "planCacheRead", "dbHash", "validate")], []),
}  # fmt: skip
"""(privileges, roles) of each; all are users of `admin`."""
DATABASES = ("own", "own", "own", "other", "admin")
NAMES = (
    "c", "d", "v", "secret", "spare", "w", "t", "system.users", "system.roles", "system.views", "system.js",
    "system.profile", "system.buckets.t", "u", "system.version", "k",
)  # fmt: skip
_SERIES = {"timeField": "at", "metaField": "m"}


def documents(db: str, name: str) -> list[dict[str, Any]]:
    """The documents of a collection at first; each says where it is from."""
    return [{"_id": n, "x": n, "m": f"@{db}.{name}@"} for n in range(1, 4)]


DATA: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        (db, {"insert": name, "documents": documents(db, name)})
        for db, names in (("own", ("c", "d", "secret")), ("other", ("c", "d", "secret")), ("admin", ("c", "secret")))
        for name in names
    ),
    ("own", {"create": "v", "viewOn": "c", "pipeline": []}),
    ("own", {"create": "w", "viewOn": "v", "pipeline": [{"$match": {"x": {"$gt": 1}}}]}),
    ("own", {"create": "t", "timeseries": _SERIES}),
    ("own", {"create": "u", "timeseries": _SERIES}),
    ("own", {"create": "k", "capped": True, "size": 4096}),
)


def users_made() -> Iterator[dict[str, Any]]:
    """Yield the commands that make the users, on `admin`."""
    for name, (privileges, roles) in USERS.items():
        yield {"createRole": f"of {name}", "privileges": privileges, "roles": []}
        yield {"createUser": name, "pwd": "p", "roles": [*roles, f"of {name}"], "mechanisms": [SHA_1]}
