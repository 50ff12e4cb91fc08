"""What is durable of a DDL operation.

The coordinator, the primary shard of the database, keeps one document for each operation under way in
`config.system.sharding_ddl_coordinators`. Every shard that takes part keeps one in
`config.collection_critical_sections`: the hold, which says that this operation has the namespace, or the whole
database, to itself there. While it stands no chunk of it moves; where it blocks, operations wait.

A participant does nothing for an operation whose hold does not stand, and remembers released ones for an hour, in
`config.released_critical_sections`: a request that was delayed until its operation has ended has no effect.
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
"""How long a released hold is remembered."""


class Kind(Enum):
    """The operations; the value is what documents hold."""

    DROP_COLLECTION = "dropCollection"
    DROP_DATABASE = "dropDatabase"
    SHARD_COLLECTION = "shardCollection"
    CREATE_INDEXES = "createIndexes"
    DROP_INDEXES = "dropIndexes"
    COLL_MOD = "collMod"
    MOVE_PRIMARY = "movePrimary"
    RENAME_COLLECTION = "renameCollection"


class Phase(Enum):
    """How far an operation is; each is majority-committed before its effects. The value is what documents hold.

    HOLDING     the participants are being held
    PREPARING   participants do what can be undone or is done as a whole, or check
    UNDOING     one of them has refused: what the others have done is being undone
    APPLYING    participants do it; from here there is no way back
    COMMITTING  the config servers' catalog is being changed
    RELEASING   the participants are being let go
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

    `request`: what was asked for. `participants`: shards that are held, or may be. `facts`: what was found on the way
    and later phases need. `failure`: the reply with which it ends, when it has been given up; `result` when it has not.
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
    def begun(cls, identity: bytes, kind: Kind, namespace: str, request: Mapping[str, Any]) -> Operation:
        """A new one; `identity`: 16 bytes unlike all others."""
        return cls(
            id=Binary(identity, 4), kind=kind, namespace=namespace, request=RawBSONDocument(bson.encode(request))
        )

    @property
    def database(self) -> str:
        return self.namespace.partition(".")[0]

    def same_as(self, kind: Kind, namespace: str, request: Mapping[str, Any]) -> bool:
        """Whether this is what is asked for."""
        return (self.kind, self.namespace) == (kind, namespace) and self.request.raw == bson.encode(request)

    def document(self) -> dict[str, Any]:
        """As stored by the coordinator."""
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


def conflict(one: str, other: str) -> bool:
    """Whether of two namespaces or databases one is the other, or its database."""
    return one == other or one.partition(".")[0] == other or other.partition(".")[0] == one


class Blocks(Enum):
    """What waits where a hold stands, besides migrations; the value is what documents hold.

    CHANGES     changes of definitions
    """

    NOTHING = "nothing"
    CHANGES = "changes"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A participant's document. `indexes`: of a build, the names that the collection had before, None until it begins.

    `phase`: what the participant was asked for last; it does nothing of a phase before that. `seconds`: when it was
    written, since 1970.
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


def taken(standing: Hold | None, over: Hold | None, wanted: Hold) -> Hold:
    """The hold that an operation is to have: `standing` is what there is of it, `over` that of another operation on the
    same namespace.

    OperationFailed when it was released already; ConflictingOperationInProgress for the other.
    """
    if standing is not None:
        if standing.released:
            raise CommandError(Code.OperationFailed, f"the operation on {wanted.namespace} has ended already")
        return standing
    if over is not None:
        raise CommandError(Code.ConflictingOperationInProgress, f"{wanted.namespace} is held for another operation")
    return wanted


def asked(standing: Hold, phase: Phase) -> Hold:
    """The hold of a participant that is asked for a phase. OperationFailed when the operation has gone on from there:
    the request comes from a coordinator of before, or late.
    """
    if standing.phase is not None and phase is Phase.PREPARING and standing.phase is not Phase.PREPARING:
        raise CommandError(
            Code.OperationFailed, f"the operation on {standing.namespace} has gone on from {phase.value}"
        )
    return replace(standing, phase=phase)


def let_go(standing: Hold | None, wanted: Hold) -> Hold:
    """What is remembered of a hold that has been released, or that was never taken and is not to be any more."""
    found = standing or wanted
    return replace(found, released=True, seconds=wanted.seconds)
