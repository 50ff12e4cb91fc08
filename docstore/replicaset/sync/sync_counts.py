"""Counts of oplog entries fetched and applied since the start of the process, for serverStatus.

`opcountersRepl` counts applied operations by kind, and each operation of a transaction. `metrics.repl` counts batches
and entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson.int64 import Int64

from docstore.bson import array_documents, get_field
from docstore.bson.build import bytes_of

_KINDS = {"insert": b"i", "query": b"", "update": b"u", "delete": b"d", "getmore": b"", "command": b"c"}
"""Fields of `opcountersRepl`, with the kind of entry that each counts; empty for none."""


def _kind_of(operation: bytes) -> bytes:
    kind = get_field(operation, "op")
    return b"" if kind is None else kind[1][4:-1]


def _kinds_of(entry: bytes) -> Iterable[bytes]:
    """Return the kinds of the operations of an entry's `applyOps`; without one, the kind of the entry itself."""
    kind = _kind_of(entry)
    body = get_field(entry, "o") if kind == b"c" else None
    operations = None if body is None else get_field(body[1], "applyOps")
    return (kind,) if operations is None else map(_kind_of, array_documents(operations[1]))


@dataclass(slots=True)
class SyncCounts:
    """Times are seconds. `buffered_entries` and `buffered_bytes`: fetched, not yet applied."""

    operations: Counter[bytes] = field(default_factory=Counter)
    applied_entries: int = 0
    applied_batches: int = 0
    applying_seconds: float = 0.0
    fetched_entries: int = 0
    fetched_bytes: int = 0
    fetched_batches: int = 0
    empty_batches: int = 0
    fetching_seconds: float = 0.0
    readers: int = 0
    buffered_entries: int = 0
    buffered_bytes: int = 0
    initial_syncs: int = 0

    def applied(self, entries: Sequence[bytes]) -> None:
        """Count entries applied in one slice."""
        self.applied_entries += len(entries)
        self.operations.update(kind for entry in entries for kind in _kinds_of(entry))

    def applied_batch(self, seconds: float) -> None:
        """Count an applied batch."""
        self.applied_batches += 1
        self.applying_seconds += seconds

    def fetched(self, entries: list[bytes], seconds: float) -> None:
        """Count a batch that the source returned after `seconds`."""
        self.fetched_batches += 1
        self.empty_batches += not entries
        self.fetched_entries += len(entries)
        self.fetched_bytes += bytes_of(entries)
        self.fetching_seconds += seconds

    def buffer(self, entries: list[bytes]) -> None:
        """Set the buffer: entries fetched, not yet applied."""
        self.buffered_entries, self.buffered_bytes = len(entries), bytes_of(entries)

    def opcounters(self) -> dict[str, Any]:
        """Return the section `opcountersRepl`."""
        return {name: Int64(self.operations[kind]) for name, kind in _KINDS.items()}

    def metrics(self, failed_initial_syncs: int) -> dict[str, Any]:
        """Return the section `metrics.repl`."""
        return {
            "apply": {
                "batches": {"num": self.applied_batches, "totalMillis": int(self.applying_seconds * 1000)},
                "ops": Int64(self.applied_entries),
            },
            "buffer": {"count": Int64(self.buffered_entries), "sizeBytes": Int64(self.buffered_bytes)},
            "initialSync": {
                "completed": Int64(self.initial_syncs),
                "failedAttempts": Int64(failed_initial_syncs),
            },
            "network": {
                "bytes": Int64(self.fetched_bytes),
                "getmores": {
                    "num": self.fetched_batches,
                    "totalMillis": int(self.fetching_seconds * 1000),
                    "numEmptyBatches": Int64(self.empty_batches),
                },
                "ops": Int64(self.fetched_entries),
                "readersCreated": Int64(self.readers),
            },
        }
