"""Planted bugs of change streams."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_STREAM = "docstore.node.change_streams.stream:ChangeStream"
_ROUTED = "mongos.merge.change_stream:RoutedStream"

PLANTS = (
    Plant(
        "a change stream shows what is not committed",
        "streams",
        "docstore.node.change_streams.shared_reader:SharedReader.committed",
        "self._replication.committed.timestamp",
        "self.oplog.last.timestamp",
    ),
    Plant(
        "a resume token is ahead of what was given out",
        "streams",
        f"{_STREAM}.resume_token",
        "if self._ready:",
        "if False:",
    ),
    Plant(
        "a stream that goes on tells its last event again",
        "streams",
        f"{_STREAM}._make_ready",
        "operation.timestamp > after.timestamp",
        "operation.timestamp >= after.timestamp",
    ),
    Plant(
        "a router gives out what not all shards have promised",
        "routed-streams",
        f"{_ROUTED}._merged",
        "if any(other.promised < key for other in parts if not other.events):",
        "if False:",
    ),
    Plant(
        "a routed stream hears of no new shard",
        "routed-streams",
        f"{_ROUTED}._produce",
        "await self._open_new(await self._router.shards.as_of(promised), None)",
        "pass",
    ),
    Plant(
        "a router's token is ahead of what the shards have promised",
        "routed-streams",
        f"{_ROUTED}._pass_time",
        "promised = min(",
        "promised = max(",
    ),
    Plant(
        "what a move brings is told as a change",
        "routed-streams",
        "docstore.collection.oplog.journal:Journal.log",
        "if self._from_migrate:",
        "if False:",
    ),
    Plant(
        "the log names documents of sharded collections by their _id alone",
        "routed-streams",
        "docstore.collection.oplog.document_key:document_key",
        "keys.get(ns) if keys else None",
        "None",
    ),
)
