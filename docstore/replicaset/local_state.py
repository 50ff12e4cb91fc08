"""A member's own state in its `local` database: plain documents, never replicated.

| collection | document |
|---|---|
| `local.system.replset` | the configuration, as stored by `ReplicaSetConfig.to_document(stored=True)` |
| `local.replset.election` | `{term, candidateIndex}`: the last vote |
| `local.replset.oplogLimits` | `{maxBytes, minRetentionHours}`: where an operator has set them |
| `local.replset.minvalid` | `{initialSyncFlag: true}` in an initial sync; then `copiedUntil` until that is committed |
| `local.system.rollback.id` | `{_id: "rollbackId", rollbackId}`: grows with each rollback |

A write is one unit and returns before it is on disk: callers that depend on it wait for the flusher. Writes may use the
whole disk space reserve, so a member that rejects documents still votes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import bson
from bson.objectid import ObjectId

from docstore.bson import document_to_python
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import ReplicaSetConfig, parse_config
from docstore.replication.messages import NO_VOTE, LastVote
from docstore.storage import Urgency

if TYPE_CHECKING:
    from docstore.collection.store import Store

CONFIG_NS = "local.system.replset"
ELECTION_NS = "local.replset.election"
INITIAL_SYNC_NS = "local.replset.minvalid"
OPLOG_LIMITS_NS = "local.replset.oplogLimits"
ROLLBACK_ID_NS = "local.system.rollback.id"


class LocalState:
    """Reads and replaces these documents."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rollback_id = int(self._read(ROLLBACK_ID_NS).get("rollbackId", 1))
        copied = self._read(INITIAL_SYNC_NS).get("copiedUntil")
        self._copied_until = NULL_OPTIME if copied is None else OpTime.from_document(copied)

    @property
    def config(self) -> ReplicaSetConfig | None:
        document = self._read(CONFIG_NS)
        return parse_config(document) if document else None

    def write_config(self, config: ReplicaSetConfig) -> None:
        self._write(CONFIG_NS, config.to_document(stored=True))

    @property
    def vote(self) -> LastVote:
        document = self._read(ELECTION_NS)
        if not document:
            return NO_VOTE
        return LastVote(term=int(document["term"]), candidate=int(document["candidateIndex"]))

    def write_vote(self, vote: LastVote) -> None:
        self._write(ELECTION_NS, {"term": bson.Int64(vote.term), "candidateIndex": bson.Int64(vote.candidate)})

    @property
    def oplog_limits(self) -> dict[str, Any]:
        """`maxBytes` and `minRetentionHours` of the oplog; empty where nobody has set them."""
        return self._read(OPLOG_LIMITS_NS)

    def write_oplog_limits(self, max_bytes: int, retention_hours: float) -> None:
        self._write(OPLOG_LIMITS_NS, {"maxBytes": bson.Int64(max_bytes), "minRetentionHours": float(retention_hours)})

    @property
    def initial_sync(self) -> bool:
        """True if an initial sync was begun and has not ended."""
        return bool(self._read(INITIAL_SYNC_NS).get("initialSyncFlag", False))

    def write_initial_sync(self, under_way: bool, *, copied_until: OpTime = NULL_OPTIME) -> None:
        """Record the begin or end of an initial sync.

        `copied_until`: the last entry that came with the copy, and cannot be undone separately.
        """
        self._copied_until = copied_until
        copied = {} if copied_until == NULL_OPTIME else {"copiedUntil": copied_until.to_document()}
        self._write(INITIAL_SYNC_NS, {"initialSyncFlag": under_way, **copied})

    @property
    def copied_until(self) -> OpTime:
        """The end of an initial sync's copy until it is known to be committed; else NULL_OPTIME."""
        return self._copied_until

    @property
    def rollback_id(self) -> int:
        return self._rollback_id

    def raise_rollback_id(self) -> None:
        """Increase the rollback id, so that members that copy from this one notice that its oplog was cut."""
        self._rollback_id += 1
        self._write(ROLLBACK_ID_NS, {"_id": "rollbackId", "rollbackId": self._rollback_id})

    def _read(self, namespace: str) -> dict[str, Any]:
        collection = self._store.collection(namespace)
        if collection is None:
            return {}
        for raw in collection.documents(self._store.engine):
            return document_to_python(raw)
        return {}

    def _write(self, namespace: str, document: Mapping[str, Any]) -> None:
        """Replace the collection's only document, keeping its `_id`."""
        with self._store.unit(replicated=False) as unit:
            unit.batch.urgency = Urgency.CONSENSUS
            collection = self._store.collection(namespace) or self._store.create_collection(unit, namespace)
            present = next(iter(collection.records(self._store.engine)), None)
            if present is None:
                unit.insert(collection, bson.encode(document if "_id" in document else {"_id": ObjectId(), **document}))
            else:
                record_id, before = present
                replacement = {"_id": document_to_python(before)["_id"], **document}
                unit.replace(collection, record_id, before, bson.encode(replacement))
            unit.commit()
