"""The cluster time from the replies of shards, as this router passes it on.

Always true: what is shown never goes back.
"""

from __future__ import annotations

from bson.timestamp import Timestamp

from docstore.bson import document_to_python, get_field
from docstore.commands.gossip import NO_GOSSIP, encode_gossip
from docstore.optime import unpack_timestamp


class Gossip:
    """The highest cluster time and operation time seen so far. `shown`: what replies carry of them."""

    def __init__(self) -> None:
        self._time = 0
        self.shown = NO_GOSSIP

    def hear(self, reply: bytes) -> None:
        """Take in a shard's raw reply."""
        found = get_field(reply, "$clusterTime")
        if found is None:
            return
        stamp = get_field(found[1], "clusterTime")
        if stamp is None or int.from_bytes(stamp[1], "little") <= self._time:
            return
        self._time = int.from_bytes(stamp[1], "little")
        time: Timestamp = unpack_timestamp(self._time)
        self.shown = encode_gossip({"operationTime": time, "$clusterTime": document_to_python(found[1])})
