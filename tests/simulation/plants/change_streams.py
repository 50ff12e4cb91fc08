"""Planted bugs of change streams."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_STREAM = "docstore.node.change_streams.stream:ChangeStream"

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
)
