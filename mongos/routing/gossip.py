"""The cluster time from the replies of shards and the requests of clients, as this router passes it on.

Always true: what is shown never goes back.
"""

from __future__ import annotations

from docstore.commands.gossip import NO_GOSSIP, encode_times, heard_cluster_time
from docstore.security.time_proofs import TimeProofs


class Gossip:
    """The highest cluster time and operation time seen so far. `shown`: what replies carry of them."""

    def __init__(self, proofs: TimeProofs | None = None) -> None:
        """`proofs` sign what is shown."""
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
