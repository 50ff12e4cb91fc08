"""Two-phase commit of a transaction over several shards: the coordinator's document, and its requests to
participants.

The coordinator is the primary of the first shard that the transaction has written to. Its document is in
`config.transaction_coordinators`:

    {_id: {lsid: {id, uid}, txnNumber: long}, participants: [shard, ...],
     decision: {decision: "commit", commitTimestamp} | {decision: "abort"}}      once it is made

Invariants:

- no participant is asked to prepare before a majority of the coordinator's shard has the document, and none hears a
  decision before a majority has that: every prepared participant has a coordinator that will tell it the outcome;
- the transaction commits exactly if every participant is prepared durably, under its own timestamp. The highest of
  these timestamps is the commit timestamp on all shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64

from docstore.bson import document_to_python
from docstore.optime import pack_timestamp, unpack_timestamp

COORDINATORS = "config.transaction_coordinators"
_MAJORITY = {"w": "majority"}


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome. `commit_timestamp`: packed; None if it is aborted."""

    commit_timestamp: int | None

    @property
    def committed(self) -> bool:
        return self.commit_timestamp is not None


@dataclass(frozen=True, slots=True)
class Commitment:
    """The commit of one transaction. `lsid`: 48 bytes. `decision`: None before it is made."""

    lsid: bytes
    number: int
    participants: tuple[str, ...]
    decision: Decision | None = None

    @property
    def id(self) -> dict[str, Any]:
        """The document's `_id`."""
        return {"lsid": _lsid(self.lsid), "txnNumber": Int64(self.number)}

    def decided(self, decision: Decision) -> Commitment:
        return replace(self, decision=decision)

    def document(self) -> dict[str, Any]:
        """Return the stored form."""
        body: dict[str, Any] = {"_id": self.id, "participants": list(self.participants)}
        if self.decision is not None:
            timestamp = self.decision.commit_timestamp
            body["decision"] = (
                {"decision": "abort"}
                if timestamp is None
                else {"decision": "commit", "commitTimestamp": unpack_timestamp(timestamp)}
            )
        return body

    @classmethod
    def from_raw(cls, raw: bytes) -> Commitment:
        body = document_to_python(raw)
        lsid, decision = body["_id"]["lsid"], body.get("decision")
        return cls(
            bytes(lsid["id"]) + bytes(lsid["uid"]),
            int(body["_id"]["txnNumber"]),
            tuple(body["participants"]),
            None if decision is None else _decision(decision),
        )

    def prepare(self) -> dict[str, Any]:
        """-> `{prepareTimestamp}`, once a majority has it. NoSuchTransaction and others if it can never be prepared."""
        return {"prepareTransaction": 1, **self._of_transaction()}

    def tell(self, decision: Decision) -> dict[str, Any]:
        """-> nothing, once a majority has it."""
        timestamp = decision.commit_timestamp
        if timestamp is None:
            return {"abortTransaction": 1, "prepared": True, **self._of_transaction()}
        return {
            "commitTransaction": 1,
            "commitTimestamp": unpack_timestamp(timestamp),
            **self._of_transaction(),
        }

    def _of_transaction(self) -> dict[str, Any]:
        return {
            "lsid": _lsid(self.lsid),
            "txnNumber": Int64(self.number),
            "autocommit": False,
            "writeConcern": _MAJORITY,
        }


def coordinate_commit(participants: Sequence[str]) -> dict[str, Any]:
    """Return a router's request to the coordinator. Without participants it asks for the outcome, which is `aborted`
    if the coordinator was not asked to commit.

    -> nothing. NoSuchTransaction if it is aborted.
    """
    return {"coordinateCommitTransaction": 1, "participants": [{"shardId": shard} for shard in participants]}


def _lsid(lsid: bytes) -> dict[str, Any]:
    return {"id": Binary(lsid[:16], 4), "uid": Binary(lsid[16:], 0)}


def _decision(body: Mapping[str, Any]) -> Decision:
    return Decision(pack_timestamp(body["commitTimestamp"]) if body["decision"] == "commit" else None)
