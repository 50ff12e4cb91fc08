"""The durable documents of a DDL operation.

The coordinator, the primary shard of the database, keeps one document for each operation under way in
`config.system.sharding_ddl_coordinators`. Every participant keeps one in `config.collection_critical_sections`: the
hold, by which the operation has the namespace, or the whole database, to itself. While the hold stands no chunk of it
moves; a blocking hold makes operations wait.

A participant acts only for an operation whose hold stands. It remembers released holds for an hour, in
`config.released_critical_sections`, so that a request delayed past its operation's end has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import bson
from bson.binary import Binary
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python, get_field
from docstore.errors import Code, CommandError

COORDINATORS = "config.system.sharding_ddl_coordinators"
HOLDS = "config.collection_critical_sections"
RELEASED_HOLDS = "config.released_critical_sections"
REMEMBERED_SECONDS = 3600
"""The time for which released holds are remembered."""


class Kind(Enum):
    """The operations; the value is the stored form."""

    DROP_COLLECTION = "dropCollection"
    DROP_DATABASE = "dropDatabase"
    SHARD_COLLECTION = "shardCollection"
    CREATE_INDEXES = "createIndexes"
    DROP_INDEXES = "dropIndexes"
    COLL_MOD = "collMod"
    MOVE_PRIMARY = "movePrimary"
    RENAME_COLLECTION = "renameCollection"


class Phase(Enum):
    """The phases of an operation; each is majority-committed before its effects. The value is the stored form.

    HOLDING     the participants are being held
    PREPARING   participants make changes that are atomic or can be undone, or check
    UNDOING     one of them has refused: the others' changes are being undone
    APPLYING    participants make their changes; from here there is no way back
    COMMITTING  the config servers' catalog is being changed
    RELEASING   the participants are being released
    """

    HOLDING = "holding"
    PREPARING = "preparing"
    UNDOING = "undoing"
    APPLYING = "applying"
    COMMITTING = "committing"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. `namespace` is a collection's, or the name of a database.

    `request`: the client's. `participants`: shards that are held, or may be. `facts`: findings that later phases
    need. `failure`: the reply if it has been given up; else `result`.
    """

    id: Binary
    kind: Kind
    namespace: str
    request: RawBSONDocument
    phase: Phase = Phase.HOLDING
    participants: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: Mapping[str, Any] | None = None
    result: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def create(cls, identity: bytes, kind: Kind, namespace: str, request: Mapping[str, Any]) -> Operation:
        """A new one; `identity`: 16 bytes unlike all others."""
        return cls(
            id=Binary(identity, 4), kind=kind, namespace=namespace, request=RawBSONDocument(bson.encode(request))
        )

    @property
    def database(self) -> str:
        return self.namespace.partition(".")[0]

    def same_as(self, kind: Kind, namespace: str, request: Mapping[str, Any]) -> bool:
        """True if the operation is of this kind, for this namespace and request."""
        return (self.kind, self.namespace) == (kind, namespace) and self.request.raw == bson.encode(request)

    def document(self) -> dict[str, Any]:
        """Return the form that the coordinator stores."""
        body: dict[str, Any] = {
            "_id": self.id,
            "operationType": self.kind.value,
            "nss": self.namespace,
            "phase": self.phase.value,
            "request": self.request,
            "participants": list(self.participants),
            "facts": dict(self.facts),
            "result": dict(self.result),
        }
        return body if self.failure is None else {**body, "failure": dict(self.failure)}

    @classmethod
    def from_raw(cls, raw: bytes) -> Operation:
        body = document_to_python(raw)
        request = get_field(raw, "request")
        assert request is not None, "every coordinator document has the request"
        return cls(
            id=Binary(bytes(body["_id"]), 4),
            kind=Kind(body["operationType"]),
            namespace=body["nss"],
            request=RawBSONDocument(request[1]),
            phase=Phase(body["phase"]),
            participants=tuple(body["participants"]),
            facts=body["facts"],
            failure=body.get("failure"),
            result=body["result"],
        )


def conflict(name: str, other: str) -> bool:
    """True if the namespaces or databases are equal, or one is the database of the other."""
    return name == other or name.partition(".")[0] == other or other.partition(".")[0] == name


class Blocks(Enum):
    """The operations that a hold blocks besides migrations; the value is the stored form.

    CHANGES: changes of definitions.
    """

    NOTHING = "nothing"
    CHANGES = "changes"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A participant's document. `indexes`: for a build, the earlier index names, None until it begins.

    `phase`: the last requested phase; requests of earlier phases are refused. `seconds`: the time of writing, since
    1970.
    """

    operation: Binary
    namespace: str
    blocks: Blocks
    released: bool = False
    indexes: tuple[str, ...] | None = None
    phase: Phase | None = None
    seconds: int = 0

    def document(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "_id": self.operation,
            "nss": self.namespace,
            "blocks": self.blocks.value,
            "released": self.released,
            "seconds": self.seconds,
        }
        if self.indexes is not None:
            body["indexes"] = list(self.indexes)
        return body if self.phase is None else {**body, "phase": self.phase.value}

    @classmethod
    def from_raw(cls, raw: bytes) -> Hold:
        body = document_to_python(raw)
        return cls(
            operation=Binary(bytes(body["_id"]), 4),
            namespace=body["nss"],
            blocks=Blocks(body["blocks"]),
            released=body["released"],
            indexes=tuple(body["indexes"]) if "indexes" in body else None,
            phase=Phase(body["phase"]) if "phase" in body else None,
            seconds=body["seconds"],
        )


def hold_to_take(standing: Hold | None, conflicting: Hold | None, requested: Hold) -> Hold:
    """Return the hold to take for an operation. `standing`: its own hold, if any; `conflicting`: another operation's
    hold on the namespace. OperationFailed if it was released already; ConflictingOperationInProgress for another
    operation's hold.
    """
    if standing is not None:
        if standing.released:
            raise CommandError(Code.OperationFailed, f"the operation on {requested.namespace} has ended already")
        return standing
    if conflicting is not None:
        raise CommandError(Code.ConflictingOperationInProgress, f"{requested.namespace} is held for another operation")
    return requested


def enter_phase(standing: Hold, phase: Phase) -> Hold:
    """Return the hold of a participant that is asked for a phase. OperationFailed if the operation has passed that
    phase: the request is late, or of an earlier coordinator.
    """
    if standing.phase is not None and phase is Phase.PREPARING and standing.phase is not Phase.PREPARING:
        raise CommandError(
            Code.OperationFailed, f"the operation on {standing.namespace} has gone on from {phase.value}"
        )
    return replace(standing, phase=phase)


def let_go(standing: Hold | None, requested: Hold) -> Hold:
    """Return the record of a released hold, or of one that was never taken and may not be taken later."""
    hold = standing or requested
    return replace(hold, released=True, seconds=requested.seconds)
