"""Rollback: taking back what the set has gone on without (rule 18).

The common point with the source is found by walking both logs backwards. The rollback id grows durably before
anything is undone, so that whoever copies from us notices. Every undone entry is undone exactly, from the undo
record written with it; documents that this removes or changes are written to
`rollback/<namespace>/removed.<time>.bson` under the database directory as they were. What is at or before the commit
point is never undone: that is an assertion, not an error.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from docstore.collection.oplog.oplog import entry_optime
from docstore.log import component
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replication.matching import CommonPoint

if TYPE_CHECKING:
    from docstore.collection.store import Store

LOG = component("ROLLBACK")


class NoCommonPoint(Exception):
    """The logs share no entry any more: this member can only be synced anew."""


async def find_common_point(store: Store, remote: RemoteMember) -> OpTime:
    """The newest entry that both logs hold. Errors: NoCommonPoint, NetworkError, CommandError."""
    assert store.oplog is not None
    search = CommonPoint(entry_optime(entry) for entry in store.oplog.scan_back(store.engine))
    async for positions in remote.log_backwards():
        found = search.feed(positions)
        if found == NULL_OPTIME:
            break
        if found is not None:
            return found
    raise NoCommonPoint


async def roll_back(
    store: Store,
    local: LocalState,
    common: OpTime,
    *,
    commit_point: OpTime,
    directory: Path,
    now: float,
    flush: Callable[[], Awaitable[None]],
) -> int:
    """Undo every entry after `common`; returns how many.

    `directory`: where the removed documents go; `now` (seconds since 1970) names the files. Errors:
    `docstore.collection.oplog.rollback.UnrecoverableRollback`.
    """
    assert common >= min(commit_point, store.last_optime), (
        f"rolling back to {common}, behind commit point {commit_point}"
    )
    local.raise_rollback_id()
    await flush()
    removed = RemovedDocuments(directory, now)
    try:
        undone = store.rollback_to(common, removed.add)
    finally:
        removed.close()
    await flush()
    LOG.warning("Rolled back", entries=undone, commonPoint=str(common), removedDocuments=removed.count)
    return undone


class RemovedDocuments:
    """The files of one rollback, one per namespace, each a sequence of BSON documents."""

    def __init__(self, directory: Path, now: float) -> None:
        self._directory = directory
        self._name = f"removed.{datetime.fromtimestamp(now, UTC).strftime('%Y-%m-%dT%H-%M-%S.%f')}.bson"
        self._files: dict[str, IO[bytes]] = {}
        self.count = 0

    def add(self, namespace: str, document: bytes) -> None:
        """Keep a document as it stood before the rollback."""
        file = self._files.get(namespace)
        if file is None:
            folder = self._directory / namespace.replace("/", "%2F")
            folder.mkdir(parents=True, exist_ok=True)
            file = self._files[namespace] = (folder / self._name).open("ab")
        file.write(document)
        self.count += 1

    def close(self) -> None:
        """Bring the files to disk."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
