"""The cluster time that shards tell of in their replies, as this router passes it on.

Always true: what is shown never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson.timestamp import Timestamp

from docstore.bson import get_field
from docstore.bson.optime import unpack_timestamp


class Gossip:
    """The highest cluster time and operation time seen so far."""

    def __init__(self) -> None:
        self._time = 0
        self._shown: Mapping[str, Any] = {}

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
        self._shown = {"operationTime": time, "$clusterTime": bson.decode(found[1])}

    def shown(self) -> Mapping[str, Any]:
        """The fields of replies; the same object while nothing changed."""
        return self._shown
