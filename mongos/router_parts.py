"""`RouterParts`: the parts of a router that its own parts use, so that these need not know the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mongos.merge.leftovers import Leftovers
    from mongos.routing.cache import RoutingCache
    from mongos.routing.shards import Shard, Shards


class RouterParts(Protocol):
    """A router (`mongos.router.Router`), or the copy of one that works inside a transaction."""

    shards: Shards
    cache: RoutingCache
    leftovers: Leftovers

    @property
    def config(self) -> Shard:
        """The config server."""

    def cluster_time(self) -> int:
        """Return the latest cluster time heard from a shard or a client, packed; 0 before any."""
