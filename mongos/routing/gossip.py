"""The router's gossip of cluster times, from the replies of shards and the requests of clients.

Invariant: the time in replies never decreases.
"""

from __future__ import annotations

from docstore.commands.gossip import NO_GOSSIP, encode_times, heard_cluster_time
from docstore.security.time_proofs import TimeProofs


class Gossip:
    """The highest cluster time and operation time so far. `shown`: their form in replies."""

    def __init__(self, proofs: TimeProofs | None = None) -> None:
        """`proofs`: signs the times in replies."""
        self._proofs = proofs
        self._time = 0
        self.shown = NO_GOSSIP

    def hear(self, reply: bytes) -> None:
        """Take in a shard's raw reply."""
        self.observe(heard_cluster_time(reply))

    def observe(self, heard: int) -> None:
        """Take in a time, packed."""
        if heard > self._time:
            self._time = heard
            self.shown = encode_times(heard, heard, None if self._proofs is None else self._proofs.sign(heard))

    @property
    def cluster_time(self) -> int:
        """The highest, packed; 0 before any was seen."""
        return self._time
