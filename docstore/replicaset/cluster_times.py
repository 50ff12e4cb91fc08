"""The cluster time of a member, as it goes along with what the member asks of other processes.

Always true: what a process does because of a reply has a later time than what the reply tells of.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from docstore.collection.oplog.oplog import Oplog
from docstore.commands.gossip import MAX_CLOCK_DRIFT_SECONDS, encode_cluster_time, heard_cluster_time


class MemberTimes:
    """Implements `docstore.net.pool.ClusterTimes`. `initiated`: whether the member belongs to a set yet."""

    def __init__(self, oplog: Oplog, initiated: Callable[[], bool]) -> None:
        self._oplog = oplog
        self._initiated = initiated

    def field(self) -> bytes:
        """See the protocol."""
        return encode_cluster_time(self._oplog.cluster_time) if self._oplog.last.timestamp else b""

    def hear(self, reply: bytes) -> None:
        """See the protocol."""
        heard = heard_cluster_time(reply)
        oplog = self._oplog
        if oplog.cluster_time < heard < int(time.time() + MAX_CLOCK_DRIFT_SECONDS) << 32 and self._initiated():
            oplog.observe(heard)
