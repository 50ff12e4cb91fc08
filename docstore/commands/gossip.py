"""What replies carry of the cluster's time, encoded, which is another with each write."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import bson
from bson.timestamp import Timestamp

from docstore.bson import get_field
from docstore.errors import CommandError
from docstore.optime import pack_timestamp

MAX_CLOCK_DRIFT_SECONDS = 365 * 24 * 3600
"""How far ahead of our wall clock a gossiped cluster time may be."""
_CLUSTER_TIME_TOO_FAR = 205

_UNSIGNED = b"\x03signature\0\x33\0\0\0\x05hash\0\x14\0\0\0" + bytes(21) + b"\x12keyId\0" + bytes(8) + b"\0"
_BEFORE = b"\x03$clusterTime\0" + (17 + 8 + len(_UNSIGNED) + 1).to_bytes(4, "little") + b"\x11clusterTime\0"
_BETWEEN = _UNSIGNED + b"\0\x11operationTime\0"
_FIELDS = struct.Struct(f"<{len(_BEFORE)}sQ{len(_BETWEEN)}sQ")


class EncodedGossip(NamedTuple):
    """`fields` as they stand in a document; `cluster_time` is the packed timestamp in them, 0 where there is none."""

    fields: bytes
    cluster_time: int


NO_GOSSIP = EncodedGossip(b"", 0)


def encode_times(cluster_time: int, operation_time: int) -> EncodedGossip:
    """`{$clusterTime: {clusterTime, signature}, operationTime}` of two packed timestamps; nothing is signed."""
    return EncodedGossip(_FIELDS.pack(_BEFORE, cluster_time, _BETWEEN, operation_time), cluster_time)


def encode_cluster_time(cluster_time: int) -> bytes:
    """The field `$clusterTime` alone, of a packed timestamp."""
    return encode_times(cluster_time, 0).fields[: len(_BEFORE) + 8 + len(_UNSIGNED) + 1]


def heard_cluster_time(reply: bytes) -> int:
    """The packed timestamp that a reply's `$clusterTime` has; 0 without one."""
    found = get_field(reply, "$clusterTime")
    stamp = None if found is None else get_field(found[1], "clusterTime")
    return 0 if stamp is None else int.from_bytes(stamp[1], "little")


def clients_time(document: Mapping[str, Any], now: float) -> int:
    """The packed timestamp of a client's `$clusterTime`, 0 where it has none. `now`: seconds since 1970.

    Errors: ClusterTimeFailsRateLimiter for one from the far future.
    """
    told = document.get("clusterTime")
    if not isinstance(told, Timestamp):
        return 0
    if told.time > now + MAX_CLOCK_DRIFT_SECONDS:
        raise CommandError(
            _CLUSTER_TIME_TOO_FAR,
            f"New $clusterTime, {told.time}, is too far from this node's wall clock time, {int(now)}.",
        )
    return pack_timestamp(told)


def encode_gossip(gossip: Mapping[str, Any]) -> EncodedGossip:
    """The same of any gossip."""
    told = gossip.get("$clusterTime")
    return EncodedGossip(bson.encode(gossip)[4:-1], 0 if told is None else pack_timestamp(told["clusterTime"]))
