"""What a shard knows for good of namespaces and databases that are gone: routing that still shows them is not used.

A document of `config.cache.collections` may hold `droppedUntil`: whatever of that name became sharded at this time or
before has been dropped here. One of `config.cache.databases` says the same of a database and everything in it. They are
majority-committed before the config servers forget what was dropped, and timestamps of later incarnations are higher.
So neither a config server that lags nor a router that has slept brings anything back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bson.timestamp import Timestamp

from docstore.sharding.routing import Routing

DATABASES = "config.cache.databases"
DROPPED_UNTIL = "droppedUntil"


def is_dropped(routing: Routing, collection: Mapping[str, Any] | None, database: Mapping[str, Any] | None) -> bool:
    """Whether the routing shows something that has been dropped here; the arguments are the two documents."""
    version, found = routing.database, routing.collection
    if database is not None and version is not None and version.timestamp <= database[DROPPED_UNTIL]:
        return True
    until = None if collection is None else collection.get(DROPPED_UNTIL)
    return until is not None and found is not None and found.timestamp <= until


def dropped(name: str, timestamps: Iterable[Timestamp], known: Mapping[str, Any] | None) -> dict[str, Any]:
    """The document that says that incarnations of these timestamps are gone, whatever `known` has said before."""
    until = [*timestamps]
    if known is not None and DROPPED_UNTIL in known:
        until.append(known[DROPPED_UNTIL])
    return {"_id": name, DROPPED_UNTIL: max(until)}
