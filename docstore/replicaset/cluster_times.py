# cython: annotation_typing=False
"""The cluster time of a member, advanced by the replies it receives and sent with its own replies.

Anything that a process does because of a reply has a later cluster time than the reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from docstore.collection.oplog.oplog import Oplog
from docstore.commands.gossip import (
    MAX_CLOCK_DRIFT_SECONDS,
    NO_GOSSIP,
    EncodedGossip,
    encode_cluster_time,
    encode_times,
    heard_cluster_time,
)
from docstore.security.time_proofs import TimeProofs


class MemberTimes:
    """Implements `docstore.net.pool.ClusterTimes`.

    `initiated` returns True once the member belongs to a set. `proofs` sign the times of replies.
    """

    def __init__(self, oplog: Oplog, initiated: Callable[[], bool], proofs: TimeProofs | None = None) -> None:
        self._oplog = oplog
        self._initiated = initiated
        self._proofs = proofs
        self._shown = NO_GOSSIP
        self._shown_of = (0, 0)

    def gossip(self) -> EncodedGossip:
        """Return `operationTime` and `$clusterTime` for replies; the same object while unchanged."""
        current = (self._oplog.cluster_time, self._oplog.last.timestamp)
        if current != self._shown_of and current[1]:
            self._shown_of = current
            self._shown = encode_times(*current, None if self._proofs is None else self._proofs.sign(current[0]))
        return self._shown

    def field(self) -> bytes:
        """Implement the protocol."""
        return encode_cluster_time(self._oplog.cluster_time) if self._oplog.last.timestamp else b""

    def hear(self, reply: bytes) -> None:
        """Implement the protocol."""
        heard = heard_cluster_time(reply)
        oplog = self._oplog
        if oplog.cluster_time < heard < int(time.time() + MAX_CLOCK_DRIFT_SECONDS) << 32 and self._initiated():
            oplog.observe(heard)
