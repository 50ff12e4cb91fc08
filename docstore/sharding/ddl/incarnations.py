"""What a shard knows for good of namespaces and databases that are gone: routing that still shows them is not used.

A document of `config.cache.collections` may hold `droppedUntil`: whatever of that name became sharded at this time or
before has been dropped here. One of `config.cache.databases`, a note, says the same of a database and everything in it.
They are majority-committed before the config servers forget what was dropped, and timestamps of later incarnations are
higher. So neither a config server that lags nor a router that has slept brings anything back.

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


def is_fenced(routing: Routing, fence: Mapping[str, Any] | None) -> bool:
    """Whether the routing may show a database of a joined note, and is to be confirmed."""
    version = routing.database
    return fence is not None and version is not None and version.timestamp <= fence[DROPPED_UNTIL]


def joinable(notes: Iterable[dict[str, Any]], current: Mapping[str, Timestamp]) -> list[dict[str, Any]]:
    """The notes whose incarnations the config servers have forgotten; `current`: the timestamps of their databases."""
    return [note for note in notes if note["_id"] not in current or current[note["_id"]] > note[DROPPED_UNTIL]]


def joined(fence: Mapping[str, Any] | None, notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The fence that takes the place of these notes, of one at least, and of the fence before."""
    return {**dropped(FENCE, (note[DROPPED_UNTIL] for note in notes), fence), "joined": ObjectId()}
