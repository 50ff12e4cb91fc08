"""Progress of an initial sync."""

from __future__ import annotations

from docstore.replicaset.sync.progress import SHOWN_ATTEMPTS, SyncProgress


def test_failures_are_counted_and_only_the_last_are_kept() -> None:
    progress = SyncProgress(lambda: 0.0)
    for number in range(1000):
        progress.begin("127.0.0.1:1")
        progress.fail(f"failure {number}")
    assert progress.failures == 1000
    document = progress.document()
    assert document["failedInitialSyncAttempts"] == 1000
    reasons = [attempt["status"] for attempt in document["initialSyncAttempts"]]
    assert reasons == [f"failure {number}" for number in range(1000 - SHOWN_ATTEMPTS, 1000)]
