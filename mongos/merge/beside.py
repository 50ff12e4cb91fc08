"""The other collections that a pipeline reads: where they are, and what a shard is told that reads them too.

One shard is asked for all of a pipeline where it has all the other collections, none of them being sharded. It checks
the routing by which it was asked, and names what views among them stand on (`docstore.node.pipeline.beside`): that is
remembered, and looked at by the router from then on.
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
    """`names`: those that the pipeline says; `routing`: of these and of what is read with them, by name."""

    names: frozenset[str]
    routing: Mapping[str, Routing]

    def is_on(self, shard: str) -> bool:
        """Whether the shard has all of it, as far as is known."""
        return all(each.collection is None and each.primary == shard for each in self.routing.values())

    @property
    def said(self) -> dict[str, Any]:
        """The fields by which a shard that has all of it is told so."""
        of_shards = {name: each for name, each in self.routing.items() if each.primary != CONFIG}
        return other_versions(of_shards) if of_shards else {}

    async def is_new(self, context: Context, error: CommandError) -> bool:
        """Whether an error says that more is read. What it calls stale has been read anew then."""
        cache = router_of(context).cache
        if error.code in STALE_CODES:
            for each in self.routing.values():
                await cache.refresh(each.namespace)
            return False
        more = error.extra.get("alsoReads")
        return more is not None and cache.also_read(context.db, self.names, more)


async def read_beside(context: Context, names: frozenset[str]) -> Beside:
    """What a pipeline of this database reads beside its collection."""
    cache = router_of(context).cache
    routing = {name: await cache.get(f"{context.db}.{name}") for name in sorted(cache.read_with(context.db, names))}
    return Beside(names, routing)
