"""One transaction of a router's client.

Invariants:

- its requests, including the end, run one after the other;
- once its commit begins, no other request is accepted, and repeated commits take the same course.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import bson
from bson.binary import Binary
from bson.int64 import Int64

from docstore.bson import append_fields
from docstore.commands.concerns import LOCAL, ReadConcern, ReadLevel
from docstore.commands.context import Context
from docstore.commands.gossip import encode_cluster_time
from docstore.commands.parts import Parts
from docstore.commands.sessions.activity import TransactionActivity
from docstore.commands.sessions.fields import NO_USER_DIGEST, Session
from docstore.errors import Code, CommandError

if TYPE_CHECKING:
    from mongos.router_parts import RouterParts
    from mongos.routing.shards import Shard


class State(Enum):
    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Participant:
    """One shard's part. `read_only`: it has not reported a write yet. `begun`: it has answered."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.read_only = True
        self.begun = False
        self.turn = asyncio.Lock()


class RouterTransaction:
    """`lsid` names the session, and `number` counts in it. `participants` by shard, in the order in which they were
    asked first; `recovery` is the shard that knows how it ended: the first that has written. `commit_requested`: that
    shard may have been asked to commit. `lost`: the error with which a shard has ended its part, and which every
    further statement gets. `parts`: what its requests see instead of the router's.
    """

    def __init__(self, router: RouterParts, session: Session, concern: ReadConcern, *, now: float) -> None:
        """`concern`: with the cluster time that is read, where it is a snapshot. `now`: the monotonic clock."""
        assert session.txn_number is not None, "a transaction has a number"
        self.lsid = session.lsid
        self.number = session.txn_number
        self.state = State.OPEN
        self.turn = asyncio.Lock()
        self.participants: dict[str, Participant] = {}
        self.recovery: Participant | None = None
        self.commit_requested = False
        self.lost: CommandError | None = None
        self.activity = TransactionActivity(
            self.lsid, self.number, began=now, read_timestamp=concern.at_cluster_time or 0
        )
        self._concern = concern
        lsid: dict[str, Any] = {"id": Binary(self.lsid[:16], 4)}
        if self.lsid[16:] != NO_USER_DIGEST:
            lsid["uid"] = Binary(self.lsid[16:], 0)
        self._fields = bson.encode({"lsid": lsid, "txnNumber": Int64(self.number), "autocommit": False})
        first: dict[str, Any] = {"startTransaction": True}
        if concern != LOCAL:
            first["readConcern"] = concern.document()
        self._first_fields = append_fields(self._fields, bson.encode(first)[4:-1])
        self._cluster_time = router.cluster_time
        self.parts = Parts()

    def request(self, context: Context) -> Context:
        """Return the request as it runs in the transaction."""
        services = context.services
        self.activity.begin_statement(
            context.connection, context.read_concern, explicit=context.explicit_read_concern, now=services.clock()
        )
        return context.derived(
            services=replace(services, parts=Parts({**services.parts, **self.parts})),
            session=Session(self.lsid, transaction=self.number),
            read_concern=LOCAL,
            explicit_read_concern=False,
        )

    def fields(self, *, first: bool) -> bytes:
        """A document of the fields by which a request is part of the transaction, and `first` on its shard."""
        document = self._first_fields if first else self._fields
        time = self._cluster_time()
        return append_fields(document, encode_cluster_time(time)) if time else document

    def command(self, command: Mapping[str, Any]) -> bytes:
        """Return a command that ends the transaction on a shard."""
        return append_fields(bson.encode(command), self.fields(first=False)[4:-1])

    def participant(self, shard: Shard) -> Participant:
        """Return the shard's part; create it on first use."""
        participant = self.participants.get(shard.name)
        if participant is None:
            participant = self.participants[shard.name] = Participant(shard)
        return participant

    def is_alone(self, participant: Participant) -> bool:
        """True if no other shard takes part or is about to."""
        return not any(
            other.begun or other.turn.locked() for other in self.participants.values() if other is not participant
        )

    def wrote(self, participant: Participant) -> None:
        """Note that the shard has something to commit."""
        participant.read_only = False
        self.recovery = self.recovery or participant

    def describe_participants(self) -> dict[str, Any]:
        """Return the shards that take part, as currentOp reports them."""
        participants = [
            {"name": participant.shard.name, "coordinator": number == 0, "readOnly": participant.read_only}
            for number, participant in enumerate(self.participants.values())
        ]
        return {"numParticipants": len(participants), "participants": participants}

    @property
    def recovery_token(self) -> dict[str, Any]:
        """Return the token by which any router can find out the outcome."""
        return {} if self.recovery is None else {"recoveryShardId": self.recovery.shard.name}

    def check(self) -> None:
        """Raise TransactionCommitted or NoSuchTransaction unless the transaction is open."""
        if self.state in (State.COMMITTED, State.COMMITTING):
            raise CommandError(
                Code.TransactionCommitted, f"Transaction with {{ txnNumber: {self.number} }} has been committed."
            )
        if self.state is State.ABORTED:
            raise CommandError(
                Code.NoSuchTransaction, f"Transaction with {{ txnNumber: {self.number} }} has been aborted."
            )


def concern_at(concern: ReadConcern, cluster_time: int) -> ReadConcern:
    """A transaction's read concern, with the cluster time of the one snapshot that all its shards read."""
    if concern.level is not ReadLevel.SNAPSHOT or concern.at_cluster_time is not None:
        return concern
    return ReadConcern(ReadLevel.SNAPSHOT, at_cluster_time=max(cluster_time, concern.after_cluster_time or 0) or None)
