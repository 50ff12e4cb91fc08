"""Read concerns that name a cluster time, which PyMongo has no words for outside of sessions."""

from __future__ import annotations

from typing import Any

from bson.timestamp import Timestamp
from pymongo.read_concern import ReadConcern


class _Timed(ReadConcern):
    """A level, and a field with the time."""

    def __init__(self, level: str, field: str, time: Timestamp) -> None:
        super().__init__(level)
        self._timed = {"level": level, field: time}

    @property
    def document(self) -> dict[str, Any]:
        return dict(self._timed)


def at_time(time: Timestamp) -> ReadConcern:
    """Reads of the state at a time."""
    return _Timed("snapshot", "atClusterTime", time)


def after_time(time: Timestamp) -> ReadConcern:
    """Return a majority read concern at a time or later."""
    return _Timed("majority", "afterClusterTime", time)
