"""The nodes that clients may connect to, and the part of the ring that each is said to have.

A cluster stores rows on its shards; its routers are the nodes that a client of the native protocol knows. The tokens
of the ring are shared among them, so that a client that goes by tokens spreads its requests evenly.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from docstore.sharding.partitioners import MIN_TOKEN

RELEASE = "5.0.0"
CQL_VERSION = "3.4.7"
DATA_CENTER = "datacenter1"
RACK = "rack1"
PARTITIONER = "org.apache.cassandra.dht.Murmur3Partitioner"
TOKENS_PER_NODE = 16
_RING = 1 << 64


@dataclass(frozen=True, slots=True)
class Node:
    """A process with the native protocol. `address`: an IP address; `tokens`: the ends of its ranges."""

    host_id: uuid.UUID
    address: str
    port: int
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """The process itself and the others."""

    local: Node
    peers: Sequence[Node] = field(default=())
    cluster_name: str = "Docstore"


def host_id_of(name: str) -> uuid.UUID:
    """Return the id of a process; `name` is the same after a restart."""
    return uuid.uuid3(uuid.NAMESPACE_URL, f"docstore:{name}")


def with_tokens(nodes: Iterable[Node]) -> list[Node]:
    """Share the ring among the nodes, evenly and in an order that all processes agree on."""
    ordered = sorted(nodes, key=lambda node: node.host_id)
    count = len(ordered) * TOKENS_PER_NODE
    ends = [str(MIN_TOKEN + _RING * at // count) for at in range(count)]
    return [
        Node(node.host_id, node.address, node.port, tuple(ends[at :: len(ordered)])) for at, node in enumerate(ordered)
    ]
