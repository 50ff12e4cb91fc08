"""Read concerns that name a cluster time, which PyMongo has no words for outside of sessions."""

from __future__ import annotations

from typing import Any

from bson.timestamp import Timestamp
from pymongo.read_concern import ReadConcern


class AtTime(ReadConcern):
    """Reads of the state at a time."""

    def __init__(self, time: Timestamp) -> None:
        super().__init__("snapshot")
        self._time = time

    @property
    def document(self) -> dict[str, Any]:
        return {"level": "snapshot", "atClusterTime": self._time}


class AfterTime(ReadConcern):
    """Reads of what a majority has, at a time or later."""

    def __init__(self, time: Timestamp) -> None:
        super().__init__("majority")
        self._time = time

    @property
    def document(self) -> dict[str, Any]:
        return {"level": "majority", "afterClusterTime": self._time}
