"""Users with few privileges, and random valid requests that they send: nested, under aliases, with fields twice."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import document_from, elements


class Document(tuple[tuple[str, Any], ...]):
    """The fields of a document in order, whatever their names."""

    __slots__ = ()


def doc(*fields: tuple[str, Any], **more: Any) -> Document:
    return Document((*fields, *more.items()))


def encode(document: Document) -> bytes:
    return document_from((name, *_value(value)) for name, value in document)


def _value(value: Any) -> tuple[int, bytes]:
    if isinstance(value, Document):
        return 3, encode(value)
    if isinstance(value, list):
        return 4, encode(Document((str(place), member) for place, member in enumerate(value)))
    ((_, code, data),) = elements(bson.encode({"": value}))
    return code, data


def _on(db: str, collection: str, *actions: str) -> dict[str, Any]:
    return {"resource": {"db": db, "collection": collection}, "actions": list(actions)}


USERS: dict[str, tuple[list[dict[str, Any]], list[dict[str, str]]]] = {
    "nobody": ([], []),
    "reader": ([], [{"role": "read", "db": "own"}]),
    "writer": ([], [{"role": "readWrite", "db": "own"}]),
    "one": ([_on("own", "c", "find")], []),
    "changer": ([_on("own", "c", "find", "update"), _on("own", "d", "find", "remove")], []),
    "inserter": ([_on("own", "c", "insert"), _on("other", "c", "insert", "createIndex")], []),
    "renamer": ([_on("own", "", "renameCollectionSameDB"), _on("own", "d", "find")], []),
    "copier": ([_on("own", "c", "find", "dropCollection"), _on("other", "spare", "insert", "createIndex")], []),
    "viewer": ([_on("own", "v", "find", "collMod", "createCollection"), _on("own", "c", "find")], []),
    "follower": ([_on("own", "c", "changeStream")], []),
    "definer": ([], [{"role": "dbAdmin", "db": "own"}]),
    "owner": ([], [{"role": "dbOwner", "db": "own"}]),
    "granter": ([], [{"role": "userAdmin", "db": "own"}]),
    "everywhere": ([], [{"role": "readAnyDatabase", "db": "admin"}]),
    "keeper": ([], [{"role": "readWrite", "db": "admin"}]),
    "monitor": ([], [{"role": "clusterMonitor", "db": "admin"}]),
    "finder": ([_on("", "c", "find")], []),
}
"""(privileges, roles) of each; all are users of `admin`."""
DATABASES = ("own", "own", "own", "other", "admin")
NAMES = (
    "c", "d", "v", "secret", "spare", "system.users", "system.roles", "system.views", "system.js", "system.profile",
)  # fmt: skip
OF_ADMIN = frozenset(
    ("renameCollection", "renamecollection", "currentOp", "currentop", "killOp", "listDatabases", "getParameter")
)
"""Commands that are sent to `admin`, most of the time."""
ALIASES = {
    "findAndModify": "findandmodify", "renameCollection": "renamecollection", "collMod": "collmod",
    "dropIndexes": "deleteIndexes", "createIndexes": "createindexes", "listIndexes": "listindexes",
    "listCollections": "listcollections", "dropDatabase": "dropdatabase", "serverStatus": "serverstatus",
    "currentOp": "currentop", "convertToCapped": "converttocapped", "getMore": "getmore", "collStats": "collstats",
}  # fmt: skip
CRASHING = frozenset(("$lookup", "$graphLookup"))
"""Stages of which the real server does not survive two values of one option."""


class Requests:
    """Random requests. `random`: where everything comes from."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def request(self) -> tuple[str, Document, dict[str, list[Document]]]:
        """(database, request without one, document sequences)."""
        random = self._random
        db = random.choice(DATABASES)
        make = random.choice(self._makers())
        command = make(db)
        name = command[0][0]
        sequences: dict[str, list[Document]] = {}
        if name in ALIASES and random.random() < 0.15:
            command = Document(((ALIASES[name], command[0][1]), *command[1:]))
        if random.random() < 0.12 and name in ("find", "count", "distinct", "aggregate", "update", "delete"):
            command = doc(("explain", command), verbosity=random.choice(("queryPlanner", "executionStats")))
        elif random.random() < 0.15 and name in ("insert", "update", "delete"):
            field, documents = command[1]
            kept = command[2:] if random.random() < 0.8 else command[1:]
            command, sequences = Document((command[0], *kept)), {field: documents}
        if random.random() < 0.1:
            command = Document((*command, random.choice(self._envelope())))
        if random.random() < 0.25:
            command = self._repeated(command, db)
        return ("admin" if command[0][0] in OF_ADMIN and random.random() < 0.9 else db), command, sequences

    def _envelope(self) -> list[tuple[str, Any]]:
        return [
            ("comment", "x"), ("maxTimeMS", 5000), ("$readPreference", doc(mode="primaryPreferred")),
            ("lsid", doc(id=bson.Binary(bytes(16), 4))), ("$db", "other"), ("$ownOps", True), ("nameOnly", True),
        ]  # fmt: skip

    def _repeated(self, document: Document, db: str) -> Document:
        """The document, in which some field somewhere stands twice."""
        random = self._random
        places = [
            place
            for place, (name, value) in enumerate(document)
            if name not in CRASHING and isinstance(value, Document | list) and value
        ]
        if places and random.random() < 0.7:
            place = random.choice(places)
            name, value = document[place]
            if isinstance(value, Document):
                value = self._repeated(value, db)
            else:
                member = random.randrange(len(value))
                if isinstance(value[member], Document):
                    value = [*value[:member], self._repeated(value[member], db), *value[member + 1 :]]
            return Document((*document[:place], (name, value), *document[place + 1 :]))
        if not document or any(name in CRASHING for name, _ in document):
            return document
        name, value = random.choice(document)
        other = {str: random.choice(NAMES), bool: not value, int: 1}.get(type(value), value)
        repeated = (name, other) if random.random() < 0.8 else (name, value)
        at = random.randrange(1, len(document) + 1)
        return Document((*document[:at], repeated, *document[at:]))

    def _name(self) -> str:
        weights = [6, 4, 3, 4, 2] + [1] * (len(NAMES) - 5)
        return self._random.choices(NAMES, weights)[0]

    def _database(self) -> str:
        return self._random.choice(DATABASES)

    def _stage(self, db: str, depth: int = 0) -> Document:
        random = self._random
        nested = [self._stage(db, depth + 1) for _ in range(random.randrange(3))] if depth < 2 else []
        change = doc(("$set", doc(z=1)))
        graph = {"startWith": "$x", "connectFromField": "x", "connectToField": "x", "as": "y"}
        target = random.choice([self._name(), doc(db=self._database(), coll=random.choice(("spare", "c")))])
        return random.choice(
            [
                doc(("$match", doc(x=1))),
                doc(("$match", doc())),
                doc(("$limit", 1)),
                doc(("$group", doc(_id="$x"))),
                doc(("$lookup", doc(("from", self._name()), localField="x", foreignField="x", **{"as": "y"}))),
                doc(("$lookup", doc(("from", self._name()), ("pipeline", nested), ("as", "y")))),
                doc(("$graphLookup", doc(("from", self._name()), *graph.items()))),
                doc(("$unionWith", self._name())),
                doc(("$unionWith", doc(coll=self._name(), pipeline=nested))),
                doc(("$facet", doc(a=nested or [doc(("$limit", 1))], b=[doc(("$match", doc()))]))),
                doc(("$out", target)),
                doc(("$merge", doc(into=target))),
                doc(
                    (
                        "$merge",
                        doc(
                            into=target,
                            whenMatched=random.choice(("replace", "merge", "keepExisting", "fail", [change])),
                            whenNotMatched=random.choice(("insert", "discard", "fail")),
                        ),
                    )
                ),
                doc(("$currentOp", doc(allUsers=random.random() < 0.5))),
                doc(("$listLocalSessions", doc(allUsers=random.random() < 0.5))),
                doc(("$collStats", doc(count=doc()))),
                doc(("$indexStats", doc())),
                doc(("$planCacheStats", doc())),
                doc(("$changeStream", doc(allChangesForCluster=random.random() < 0.5))),
            ]
        )

    def _makers(self) -> list[Any]:
        return [
            *[self._read] * 3, *[self._aggregate] * 6, *[self._write] * 4, *[self._define] * 4, *[self._rename] * 2,
            *[self._administer] * 2, *[self._of_users] * 2,
        ]  # fmt: skip

    def _read(self, _db: str) -> Document:
        name = self._name()
        return self._random.choice(
            [
                doc(find=name, filter=doc()),
                doc(find=name, filter=doc(x=1), limit=1, singleBatch=True),
                doc(count=name, query=doc()),
                doc(distinct=name, key="x"),
                doc(listIndexes=name),
                doc(collStats=name),
                doc(("getMore", Int64(7)), collection=name),
                doc(killCursors=name, cursors=[Int64(7)]),
            ]
        )

    def _aggregate(self, db: str) -> Document:
        stages = [self._stage(db) for _ in range(self._random.randrange(1, 4))]
        about: Any = self._name()
        if stages[0][0][0] in ("$currentOp", "$listLocalSessions") and self._random.random() < 0.9:
            about = 1
        more = {"bypassDocumentValidation": True} if self._random.random() < 0.1 else {}
        return doc(aggregate=about, pipeline=stages, cursor=doc(), **more)

    def _write(self, _db: str) -> Document:
        name, random = self._name(), self._random
        upsert = random.random() < 0.5
        statement = doc(q=doc(x=random.randrange(9)), u=doc(("$set", doc(y=1))), upsert=upsert)
        more = {"bypassDocumentValidation": True} if random.random() < 0.1 else {}
        return random.choice(
            [
                doc(insert=name, documents=[doc(x=1)], **more),
                doc(update=name, updates=[statement], **more),
                doc(update=name, updates=[doc(q=doc(x=77), u=doc(("$set", doc(y=1)))), statement], **more),
                doc(delete=name, deletes=[doc(q=doc(x=99), limit=1)]),
                doc(findAndModify=name, query=doc(x=77), update=doc(("$set", doc(y=1))), upsert=upsert, **more),
                doc(findAndModify=name, query=doc(x=99), remove=True),
            ]
        )

    def _define(self, db: str) -> Document:
        name, random = self._name(), self._random
        pipeline = [self._stage(db, 1) for _ in range(random.randrange(3))]
        return random.choice(
            [
                doc(create=random.choice(("spare", name))),
                doc(create="spare", viewOn=name, pipeline=pipeline),
                doc(create="spare", capped=True, size=4096),
                doc(collMod="v", viewOn=name, pipeline=pipeline),
                doc(collMod="v", pipeline=pipeline),
                doc(collMod=name),
                doc(drop=random.choice(("spare", "system.users", "system.views"))),
                doc(createIndexes=name, indexes=[doc(key=doc(z=1), name="z")]),
                doc(dropIndexes=name, index="z"),
                doc(convertToCapped="spare", size=4096),
                doc(cloneCollectionAsCapped=name, toCollection="spare", size=4096),
                doc(listCollections=1, nameOnly=random.random() < 0.5, authorizedCollections=random.random() < 0.5),
                doc(validate=name),
                doc(planCacheClear=name),
                doc(profile=-1),
                doc(dbStats=1),
                doc(dbHash=1),
            ]
        )

    def _rename(self, _db: str) -> Document:
        random = self._random
        source, target = (f"{random.choice(('own', 'own', 'other', 'admin'))}.{self._name()}" for _ in range(2))
        return doc(renameCollection=source, to=target, dropTarget=random.random() < 0.5)

    def _administer(self, _db: str) -> Document:
        random = self._random
        return random.choice(
            [
                doc(currentOp=1),
                doc(("currentOp", 1), ("$ownOps", random.random() < 0.7)),
                doc(killOp=1, op=123456),
                doc(listDatabases=1, nameOnly=True, authorizedDatabases=random.random() < 0.5),
                doc(killSessions=[doc(id=bson.Binary(bytes(16), 4))]),
                doc(killAllSessions=[doc(user="root", db="admin")]),
                doc(killAllSessionsByPattern=[]),
                doc(serverStatus=1),
                doc(getParameter=1, quiet=1),
                doc(connectionStatus=1, showPrivileges=True),
                doc(hostInfo=1),
                doc(getLog="global"),
                doc(top=1),
                doc(getCmdLineOpts=1),
                doc(lockInfo=1),
                doc(connPoolStats=1),
                doc(invalidateUserCache=1),
            ]
        )

    def _of_users(self, _db: str) -> Document:
        random = self._random
        named = (doc(role="read", db=self._database()), doc(role="userAdmin", db="admin"))
        role: Any = random.choice(("read", "root", *named))
        resource = random.choice(
            (doc(db=self._database(), collection=self._name()), doc(db="", collection=""), doc(cluster=True))
        )
        privileges = [doc(resource=resource, actions=["find"])]
        return random.choice(
            [
                doc(usersInfo=random.choice((1, "root", doc(user="root", db="admin"), doc(forAllDBs=True)))),
                doc(rolesInfo=random.choice((1, "read", doc(role="root", db="admin"))), showPrivileges=True),
                doc(createUser="spare", pwd="p", roles=[role]),
                doc(updateUser="spare", pwd="q"),
                doc(updateUser="root", pwd="q"),
                doc(dropUser="spare"),
                doc(grantRolesToUser="spare", roles=[role]),
                doc(revokeRolesFromUser="spare", roles=[role]),
                doc(createRole="spare", privileges=privileges, roles=[role] if random.random() < 0.5 else []),
                doc(updateRole="spare", privileges=privileges),
                doc(grantPrivilegesToRole="spare", privileges=privileges),
                doc(revokePrivilegesFromRole="spare", privileges=privileges),
                doc(dropRole="spare"),
            ]
        )
