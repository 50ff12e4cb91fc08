"""The other collections that a pipeline reads: their routing, and the fields that tell it to a shard.

A pipeline goes to one shard as a whole if that shard has all the other collections and none is sharded. The shard
checks the routing in the request, and reports the sources of views among them (`docstore.node.pipeline.beside`). The
router caches these and considers them in later requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.sharding.routing import Routing
from docstore.sharding.version import STALE_CODES
from mongos.router import router_of
from mongos.routing.requests import other_versions
from mongos.routing.shards import CONFIG


@dataclass(frozen=True, slots=True)
class Beside:
    """`names`: the collections that the pipeline names; `routing`: theirs and that of the sources of views, by name."""

    names: frozenset[str]
    routing: Mapping[str, Routing]

    def is_on(self, shard: str) -> bool:
        """True if the shard has all of them, according to the cached routing."""
        return all(routing.collection is None and routing.primary == shard for routing in self.routing.values())

    @property
    def said(self) -> dict[str, Any]:
        """Return the fields that tell the routing to a shard that has all of them."""
        of_shards = {name: routing for name, routing in self.routing.items() if routing.primary != CONFIG}
        return other_versions(of_shards) if of_shards else {}

    async def is_new(self, context: Context, error: CommandError) -> bool:
        """True if an error reports further collections. After a stale error the routing is read anew."""
        cache = router_of(context).cache
        if error.code in STALE_CODES:
            for routing in self.routing.values():
                await cache.refresh(routing.namespace)
            return False
        names = error.extra.get("alsoReads")
        return names is not None and cache.also_read(context.db, self.names, names)


async def read_beside(context: Context, names: frozenset[str]) -> Beside:
    """Return the routing of the collections that a pipeline of this database reads beside its own."""
    cache = router_of(context).cache
    routing = {name: await cache.get(f"{context.db}.{name}") for name in sorted(cache.read_with(context.db, names))}
    return Beside(names, routing)
