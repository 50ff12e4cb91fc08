"""A shard's durable record of dropped collections and databases, so that it rejects routing that still shows them.

A document of `config.cache.collections` may hold `droppedUntil`: collections of that name sharded at that time or
before have been dropped here. A document of `config.cache.databases`, a note, says the same of a database and its
collections. Both are majority-committed before the config servers forget the dropped incarnation, and later
incarnations have higher timestamps. So neither a lagging config server nor a router with old routing brings an
incarnation back.

The number of notes is bounded. Old ones are joined into one document, the fence: `{_id: "", droppedUntil, joined}`. A
routing whose database is not newer than the fence, and has no note, may be one of an incarnation that is gone. It is
used only when a linearizable read of the config servers, later than the read of the routing, finds that incarnation.
This refuses no less than the notes did, however far a config server lags:

* a note is joined only after a linearizable read has shown that the config servers have forgotten what it ends: the
  database is not there, or it is newer. That holds for ever, because timestamps rise;
* a deposed config server answers no linearizable read. So every later one finds the incarnation of a joined note gone;
* the fence is written before the notes go, in one unit. A failover keeps a beginning of the unit: the fence alone.

A confirmed incarnation stays confirmed while the fence stays the same: what has been dropped since has its note.
`joined` is another value each time that notes are joined, also where `droppedUntil` does not rise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.sharding.routing import Routing

DATABASES = "config.cache.databases"
DROPPED_UNTIL = "droppedUntil"
FENCE = ""
"""The `_id` of the fence, which no database has for a name."""
MAX_DATABASE_NOTES = 1000
"""How many notes stay; confirming a database costs more than its note does."""


def is_dropped(routing: Routing, collection: Mapping[str, Any] | None, database: Mapping[str, Any] | None) -> bool:
    """True if the routing shows an incarnation that was dropped here, according to the two documents."""
    version, collection_routing = routing.database, routing.collection
    if database is not None and version is not None and version.timestamp <= database[DROPPED_UNTIL]:
        return True
    until = None if collection is None else collection.get(DROPPED_UNTIL)
    return until is not None and collection_routing is not None and collection_routing.timestamp <= until


def dropped(name: str, timestamps: Iterable[Timestamp], record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the document that records incarnations up to these timestamps as dropped, in addition to those of
    `record`.
    """
    until = [*timestamps]
    if record is not None and DROPPED_UNTIL in record:
        until.append(record[DROPPED_UNTIL])
    return {"_id": name, DROPPED_UNTIL: max(until)}


def is_fenced(routing: Routing, fence: Mapping[str, Any] | None) -> bool:
    """Return True if the routing may show a dropped database of a joined note, so that it must be confirmed."""
    version = routing.database
    return fence is not None and version is not None and version.timestamp <= fence[DROPPED_UNTIL]


def joinable(notes: Iterable[dict[str, Any]], current: Mapping[str, Timestamp]) -> list[dict[str, Any]]:
    """Return the notes whose incarnations the config servers have forgotten.

    `current`: the timestamps of the databases that the config servers have, by name.
    """
    return [note for note in notes if note["_id"] not in current or current[note["_id"]] > note[DROPPED_UNTIL]]


def joined(fence: Mapping[str, Any] | None, notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fence that replaces these notes (at least one) and the previous fence."""
    return {**dropped(FENCE, (note[DROPPED_UNTIL] for note in notes), fence), "joined": ObjectId()}
