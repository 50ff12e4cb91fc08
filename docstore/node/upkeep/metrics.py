"""Counts of what the node has done since it started, for serverStatus and `$collStats`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Statements by kind, as `opcounters` shows them; `writes` counts the commands that held them."""

    insert: int = 0
    query: int = 0
    update: int = 0
    delete: int = 0
    getmore: int = 0
    writes: int = 0

    def document(self, requests: int) -> dict[str, int]:
        """In the real server's order. What of all `requests` is none of the five is a command."""
        return {
            "insert": self.insert,
            "query": self.query,
            "update": self.update,
            "delete": self.delete,
            "getmore": self.getmore,
            "command": max(requests - self.query - self.getmore - self.writes, 0),
        }
