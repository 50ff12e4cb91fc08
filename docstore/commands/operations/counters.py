"""Counters of a process's statements since its start, for serverStatus."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Statements by kind, as in `opcounters`; `writes` counts write commands."""

    insert: int = 0
    query: int = 0
    update: int = 0
    delete: int = 0
    getmore: int = 0
    writes: int = 0

    def count(self, kind: str, statements: int) -> None:
        """Count statements of a kind: insert, update, delete."""
        setattr(self, kind, getattr(self, kind) + statements)

    def document(self, requests: int) -> dict[str, int]:
        """Return the counters in the reference's order; `requests` of no other kind count as commands."""
        return {
            "insert": self.insert,
            "query": self.query,
            "update": self.update,
            "delete": self.delete,
            "getmore": self.getmore,
            "command": max(requests - self.query - self.getmore - self.writes, 0),
        }
