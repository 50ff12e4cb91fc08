"""Random valid requests: nested in each other, under aliases, with fields twice, as others' and inside transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

import bson
from bson.int64 import Int64
from bson.timestamp import Timestamp

from tests.differential.narrow.choices import Choices
from tests.differential.narrow.documents import Document, doc, encode, names_cursor
from tests.differential.narrow.of_catalog import DEFINING, DROPPING, rename
from tests.differential.narrow.of_documents import (
    EXPLAINED,
    LISTED,
    READING,
    WRITING,
    aggregate,
    map_reduce,
    transaction,
)  # fmt: skip
from tests.differential.narrow.of_servers import ADMINISTERING, AMONG_PROCESSES
from tests.differential.narrow.of_users import OF_USERS
from tests.differential.narrow.stages import CRASHING
from tests.differential.narrow.users import NAMES
from tests.harness.raw_client import Frame

OF_ADMIN = frozenset(
    (
        *("renameCollection", "renamecollection", "currentOp", "currentop", "killOp", "listDatabases", "getParameter"),
        *("setParameter", "getCmdLineOpts", "getLog", "top", "lockInfo", "replSetGetStatus", "replSetGetConfig"),
        *("getDefaultRWConcern", "setDefaultRWConcern", "getClusterParameter", "setClusterParameter", "logRotate"),
        *("commitTransaction", "abortTransaction", "enableSharding", "shardCollection", "split", "moveChunk"),
    )
)
"""Commands that are sent to `admin`, most of the time."""
ALIASES = {
    "findAndModify": "findandmodify", "renameCollection": "renamecollection", "collMod": "collmod",
    "dropIndexes": "deleteIndexes", "createIndexes": "createindexes", "listIndexes": "listindexes",
    "listCollections": "listcollections", "dropDatabase": "dropdatabase", "serverStatus": "serverstatus",
    "currentOp": "currentop", "convertToCapped": "converttocapped", "getMore": "getmore", "collStats": "collstats",
    "mapReduce": "mapreduce", "dbStats": "dbstats", "dataSize": "datasize", "isMaster": "ismaster",
    "buildInfo": "buildinfo", "dbHash": "dbhash", "filemd5": "filemd5",
}  # fmt: skip
_KEPT = frozenset((*CRASHING, "databaseVersion"))
"""Fields in which nothing is put twice. A real server reads `databaseVersion` in every request, ours in none."""
_ODD_DATABASES = ("local", "config", "$external", "", "own.c", "OWN", "own ", "test")


class Request(NamedTuple):
    """A request to a database, without its `$db`; `sequences`: the documents that come beside it."""

    db: str
    command: Document
    sequences: dict[str, list[Document]]

    @property
    def names_cursor(self) -> bool:
        """True if it has other bytes for each server."""
        return names_cursor(self.command)

    def frame(self, cursors: Sequence[int] = ()) -> Frame:
        """Return the bytes of its documents. `cursors`: the ids of the open cursors of the server that it is for."""
        sequences = {name: list(map(encode, documents)) for name, documents in self.sequences.items()}
        return encode(Document((*self.command, ("$db", self.db))), cursors), sequences


class Requests:
    """Random requests. `random`: where everything comes from; `transactions`: the number of the last transaction that
    the user has begun."""

    def __init__(self, random: Random, transactions: int = 0) -> None:
        self._choices = Choices(random, transactions)

    def next(self) -> list[Request]:
        """A request, or those of a transaction."""
        c = self._choices
        if c.chance(0.06):
            *steps, (db, ending) = transaction(c)
            return [*(Request(db, self._twisted(step, db), {}) for db, step in steps), Request(db, ending, {})]
        db = c.database()
        return [self._request(db, c.made(_KINDS))]

    def _request(self, db: str, command: Document) -> Request:
        c = self._choices
        name = command[0][0]
        sequences: dict[str, list[Document]] = {}
        if name in ALIASES and c.chance(0.1):
            command = Document(((ALIASES[name], command[0][1]), *command[1:]))
        if c.chance(0.15 if name in EXPLAINED else 0.01):
            command = self._explained(command)
        elif name in LISTED and c.chance(0.15):
            field, documents = command[1]
            kept = command[2:] if c.chance(0.8) else command[1:]
            command, sequences = Document((command[0], *kept)), {field: documents}
        if c.chance(0.15):
            command = Document((*command, c.pick(_ENVELOPE)(c)))
        command = self._twisted(command, db)
        if name in OF_ADMIN and c.chance(0.9):
            db = "admin"
        elif name == "aggregate" and ("aggregate", "system.sessions") in command[:1]:
            db = "config"
        elif c.chance(0.02):
            db = c.pick(_ODD_DATABASES)
        return Request(db, command, sequences)

    def _explained(self, command: Document) -> Document:
        c = self._choices
        verbosity = c.pick(("queryPlanner", "executionStats", "allPlansExecution"))
        if c.chance(0.05):
            command = doc(explain=command, verbosity=verbosity)
        if c.chance(0.1):
            command = Document((*command, ("$db", c.database())))
        return doc(("explain", command), verbosity=verbosity)

    def _twisted(self, command: Document, db: str) -> Document:
        return self._repeated(command, db) if self._choices.chance(0.2) else command

    def _repeated(self, document: Document, db: str) -> Document:
        """The document, in which some field somewhere stands twice."""
        c = self._choices
        places = [
            place
            for place, (name, value) in enumerate(document)
            if name not in _KEPT and isinstance(value, Document | list) and value
        ]
        if places and c.chance(0.7):
            place = c.pick(places)
            name, value = document[place]
            if isinstance(value, Document):
                value = self._repeated(value, db)
            else:
                member = c.below(len(value))
                if isinstance(value[member], Document):
                    value = [*value[:member], self._repeated(value[member], db), *value[member + 1 :]]
            return Document((*document[:place], (name, value), *document[place + 1 :]))
        if not document or any(name in CRASHING for name, _ in document):
            return document
        name, value = c.pick(document)
        other = {str: c.pick(NAMES), bool: not value, int: 1}.get(type(value), value)
        repeated = (name, other) if c.chance(0.8) else (name, value)
        at = 1 + c.below(len(document))
        return Document((*document[:at], repeated, *document[at:]))


_KINDS: tuple[Callable[[Choices], Document], ...] = (
    *[lambda c: c.made(READING)] * 5, *[aggregate] * 9, *[lambda c: c.made(WRITING)] * 6,
    *[lambda c: c.made(DEFINING)] * 7, *[rename] * 2, *[lambda c: c.made(ADMINISTERING)] * 4,
    *[lambda c: c.made(AMONG_PROCESSES)] * 2, *[lambda c: c.made(OF_USERS)] * 4,
    lambda c: map_reduce(c) if c.chance(0.3) else c.made(DROPPING) if c.chance(0.05) else aggregate(c),
)  # fmt: skip


# `$audit`, which claims to be of another user, is left out: a real server refuses it in every request, and here it is
# a field that commands which ignore unknown fields ignore too.
_ENVELOPE: tuple[Callable[[Choices], tuple[str, Any]], ...] = (
    lambda c: ("comment", "x"),
    lambda c: ("maxTimeMS", 5000),
    lambda c: ("$readPreference", doc(mode="primaryPreferred")),
    lambda c: ("lsid", c.session()),
    lambda c: ("$db", c.database()),
    lambda c: ("$ownOps", True),
    lambda c: ("nameOnly", True),
    lambda c: ("authorizedCollections", True),
    lambda c: ("readConcern", doc(level=c.pick(("local", "majority", "snapshot", "available", "linearizable")))),
    lambda c: ("writeConcern", doc(w=c.pick((1, "majority")))),
    lambda c: ("collation", doc(locale="en")),
    lambda c: ("apiVersion", "1"),
    lambda c: ("let", doc(z=1)),
    lambda c: ("collectionUUID", bson.Binary(bytes(16), 4)),
    lambda c: ("fromMongos", True),
    lambda c: ("needsMerge", True),
    lambda c: ("exchange", doc(policy="roundrobin", consumers=1)),
    lambda c: ("runtimeConstants", doc(localNow=datetime(2020, 1, 1, tzinfo=UTC), clusterTime=Timestamp(1, 1))),
    lambda c: ("isMapReduceCommand", True),
    lambda c: ("shardVersion", [Timestamp(0, 0), bson.ObjectId(bytes(12))]),
    lambda c: ("databaseVersion", doc(uuid=bson.Binary(bytes(16), 4), lastMod=1)),
    lambda c: ("$client", doc(x=1)),
    lambda c: ("mayBypassWriteBlocking", True),
    lambda c: ("$clusterTime", doc(clusterTime=Timestamp(1, 1), signature=doc(hash=bytes(20), keyId=Int64(0)))),
    lambda c: ("txnNumber", Int64(c.below(9))),
    lambda c: ("stmtId", c.below(3)),
    lambda c: ("startTransaction", True),
    lambda c: ("autocommit", False),
    lambda c: ("tracking_info", doc()),
    lambda c: ("$tenant", bson.ObjectId(bytes(12))),
    lambda c: ("allowPartialResults", True),
    lambda c: ("within", []),
    lambda c: ("isTimeseriesNamespace", True),
    lambda c: ("encryptionInformation", doc(type=1, schema=doc())),
    lambda c: ("maxTimeMSOpOnly", 5000),
    lambda c: ("clientOperationKey", bson.Binary(bytes(16), 4)),
    lambda c: ("readOnce", True),
    lambda c: ("_requestReshardingResumeToken", True),
    lambda c: ("term", Int64(1)),
)
