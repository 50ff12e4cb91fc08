"""The cluster time from the replies of shards and the requests of clients, as this router passes it on.

Always true: what is shown never goes back.
"""

from __future__ import annotations

from docstore.commands.gossip import NO_GOSSIP, encode_times, heard_cluster_time


class Gossip:
    """The highest cluster time and operation time seen so far. `shown`: what replies carry of them."""

    def __init__(self) -> None:
        self._time = 0
        self.shown = NO_GOSSIP

    def hear(self, reply: bytes) -> None:
        """Take in a shard's raw reply."""
        self.observe(heard_cluster_time(reply))

    def observe(self, heard: int) -> None:
        """Take in a time, packed."""
        if heard > self._time:
            self._time = heard
            self.shown = encode_times(heard, heard)

    @property
    def cluster_time(self) -> int:
        """The highest, packed; 0 before any was seen."""
        return self._time
