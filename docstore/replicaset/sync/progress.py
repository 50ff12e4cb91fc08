"""Progress of an initial sync, for replSetGetStatus. Times are seconds since 1970."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bson.int64 import Int64

from docstore.optime import NULL_OPTIME, OpTime, unpack_timestamp

SHOWN_ATTEMPTS = 10


@dataclass(slots=True)
class _Span:
    """A time span. `ended` is None while it lasts."""

    began: float
    ended: float | None = None

    def document(self, now: float) -> dict[str, Any]:
        end = {} if self.ended is None else {"end": datetime.fromtimestamp(self.ended, UTC)}
        elapsed = (now if self.ended is None else self.ended) - self.began
        return {
            "start": datetime.fromtimestamp(self.began, UTC),
            **end,
            "elapsedMillis": Int64(max(int(elapsed * 1000), 0)),
        }


@dataclass(slots=True)
class CollectionProgress:
    """Progress of one collection: the sizes that the source reported, and the amounts received."""

    span: _Span
    documents_to_copy: int = 0
    bytes_to_copy: int = 0
    indexes: int = 0
    documents: int = 0
    bytes: int = 0
    batches: int = 0

    def copied(self, documents: int, size: int) -> None:
        """Count a stored batch of `documents` documents and `size` bytes."""
        self.documents += documents
        self.bytes += size
        self.batches += 1

    def document(self, now: float) -> dict[str, Any]:
        return {
            "documentsToCopy": Int64(self.documents_to_copy),
            "documentsCopied": Int64(self.documents),
            "indexes": self.indexes,
            "fetchedBatches": self.batches,
            "bytesToCopy": Int64(self.bytes_to_copy),
            "approxBytesCopied": Int64(self.bytes),
            **self.span.document(now),
            "receivedBatches": self.batches,
        }


@dataclass(slots=True)
class SyncProgress:
    """Progress of the current attempt, and failures of earlier ones. `total_bytes`: the source's data size."""

    wall_clock: Callable[[], float]
    attempts: int = 0
    began: float = 0.0
    source: str = ""
    total_bytes: int = 0
    applied: int = 0
    log_begin: OpTime = NULL_OPTIME
    log_end: OpTime = NULL_OPTIME
    to_clone: Counter[str] = field(default_factory=Counter)
    """Number of collections by database."""
    collections: dict[str, CollectionProgress] = field(default_factory=dict)
    """Collections cloned or in progress, by namespace."""
    failures: int = 0
    _shown_failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """Number of documents cloned."""
        return sum(collection.documents for collection in self.collections.values())

    @property
    def cloned(self) -> int:
        """Number of collections cloned."""
        return sum(collection.span.ended is not None for collection in self.collections.values())

    def begin(self, source: str) -> None:
        """Begin an attempt from `source`; reset the progress of the last one."""
        self.attempts += 1
        self.began, self.source = self.wall_clock(), source
        self.total_bytes = self.applied = 0
        self.log_begin = self.log_end = NULL_OPTIME
        self.to_clone.clear()
        self.collections.clear()

    def fail(self, reason: str) -> None:
        """Record the failure of the current attempt."""
        self.failures += 1
        elapsed = self.wall_clock() - self.began
        attempt = {"durationMillis": int(elapsed * 1000), "status": reason, "syncSource": self.source}
        self._shown_failures = [*self._shown_failures, attempt][-SHOWN_ATTEMPTS:]

    def clone(self, namespace: str) -> CollectionProgress:
        """Begin the clone of a collection, or restart it; return its progress."""
        self.collections[namespace] = progress = CollectionProgress(_Span(self.wall_clock()))
        return progress

    def end_clone(self, namespace: str) -> None:
        """Record the end of a collection's clone."""
        self.collections[namespace].span.ended = self.wall_clock()

    def document(self) -> dict[str, Any]:
        """Return the section `initialSyncStatus`."""
        now = self.wall_clock()
        elapsed = max(now - self.began, 0.0) if self.attempts else 0.0
        copied = sum(collection.bytes for collection in self.collections.values())
        databases = {database: self._database(database, now) for database in self.to_clone}
        cloned = sum(counts["clonedCollections"] == counts["collections"] for counts in databases.values())
        fields: dict[str, Any] = {"method": "logical", "failedInitialSyncAttempts": self.failures}
        if self.attempts:
            fields["initialSyncStart"] = datetime.fromtimestamp(self.began, UTC)
        fields |= {
            "totalInitialSyncElapsedMillis": Int64(int(elapsed * 1000)),
            "initialSyncAttempts": self._shown_failures,
            "approxTotalDataSize": Int64(self.total_bytes),
            "approxTotalBytesCopied": Int64(copied),
        }
        if copied:
            remaining = max(self.total_bytes - copied, 0)
            fields["remainingInitialSyncEstimatedMillis"] = Int64(int(elapsed * 1000 * remaining / copied))
        fields["appliedOps"] = Int64(self.applied)
        for name, optime in (("initialSyncOplogStart", self.log_begin), ("initialSyncOplogEnd", self.log_end)):
            if optime != NULL_OPTIME:
                fields[name] = unpack_timestamp(optime.timestamp)
        totals = {"databasesToClone": len(databases) - cloned, "databasesCloned": cloned}
        return {**fields, "databases": totals | databases}

    def _database(self, database: str, now: float) -> dict[str, Any]:
        progress_by_namespace = {
            namespace: collection
            for namespace, collection in self.collections.items()
            if namespace.partition(".")[0] == database
        }
        ended = [
            collection.span.ended for collection in progress_by_namespace.values() if collection.span.ended is not None
        ]
        fields: dict[str, Any] = {"collections": self.to_clone[database], "clonedCollections": len(ended)}
        if progress_by_namespace:
            began = min(collection.span.began for collection in progress_by_namespace.values())
            is_cloned = len(ended) == self.to_clone[database]
            fields |= _Span(began, max(ended) if is_cloned else None).document(now)
        return fields | {namespace: collection.document(now) for namespace, collection in progress_by_namespace.items()}
