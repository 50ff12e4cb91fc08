"""Rollback: taking back what the set has gone on without (rule 18).

The common point with the source is the newest entry of its log that we have. The rollback id grows durably before
anything is undone, so that whoever copies from us notices. Entries are undone exactly, newest first, from the undo
records written with them, a group at a time (`docstore.collection.oplog.rollback`). Always true:

* the documents that a group takes away or changes are on disk below `rollback/` before it is undone
  (`docstore.replicaset.sync.rollback_files`): whenever the process or the power goes, each is in the database or there;
* a rollback that was cut off is gone on with by the next one, as the log then ends where it came to;
* where a file or a group cannot be written nothing is undone, and it is tried again until it can;
* what is at or before the commit point is never undone: that is an assertion, not an error;
* the loop is held for some milliseconds at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.rollback import Rollback, UndoGroup
from docstore.log import component
from docstore.optime import OpTime
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replicaset.sync.rollback_files import RollbackFiles
from docstore.replication.matching import common_point
from docstore.storage import DiskFull

if TYPE_CHECKING:
    from docstore.collection.store import Store

LOG = component("ROLLBACK")
SLICE_SECONDS = 0.002
RETRY_SECONDS = 1.0


class NoCommonPoint(Exception):
    """The logs share no entry: this member is too stale, or the source is none of its set."""


async def find_common_point(store: Store, remote: RemoteMember) -> OpTime:
    """The newest entry that both logs hold. Errors: NoCommonPoint, NetworkError, CommandError."""
    oplog = store.oplog
    assert oplog is not None

    def holds(position: OpTime) -> bool:
        entry = oplog.entry(position.timestamp)
        return entry is not None and entry_optime(entry) == position

    found = None
    async for positions in remote.log_backwards(store.last_optime):
        found = common_point(positions, holds)
        if found is not None or positions[-1].timestamp < oplog.first.timestamp:
            break
        await asyncio.sleep(0)
    if found is not None:
        return found
    raise NoCommonPoint(f"{remote.address} has none of our log's entries up to {store.last_optime}")


async def roll_back(
    store: Store,
    local: LocalState,
    common: OpTime,
    *,
    commit_point: OpTime,
    files: RollbackFiles,
    clock: Callable[[], float],
    flush: Callable[[], Awaitable[None]],
) -> int:
    """Undo every entry after `common`; returns how many. It may be cancelled: what has been undone stays undone.

    Errors: `docstore.collection.oplog.rollback.UnrecoverableRollback`, for an entry that cannot be undone.
    """
    last = store.last_optime
    assert common >= min(commit_point, last), f"rolling back to {common}, behind commit point {commit_point}"
    rollback = Rollback(store, common)
    local.raise_rollback_id()
    await flush()
    LOG.warning("Rolling back", lastEntry=str(last), commonPoint=str(common), rollbackId=local.rollback_id)
    removed = 0
    try:
        while (group := rollback.next_group(clock, clock() + SLICE_SECONDS)) is not None:
            await _until_undone(store, rollback, group, files)
            removed += len(group.removed)
            await asyncio.sleep(0)
    finally:
        rollback.finish()
        LOG.warning(
            "Rolled back" if store.last_optime == common else "Rollback broken off",
            entries=rollback.undone,
            commonPoint=str(common),
            lastEntry=str(store.last_optime),
            removedDocuments=removed,
            files=files.names[:10],
            numFiles=len(files.names),
        )
    await flush()
    return rollback.undone


async def _until_undone(store: Store, rollback: Rollback, group: UndoGroup, files: RollbackFiles) -> None:
    """Keep what the group takes away, then undo it; again and again while the disk or the process has no room."""
    kept = not group.removed
    while True:
        try:
            if not kept:
                await asyncio.to_thread(files.keep, group.removed)
                kept = True
            await store.write_lock.wait()
            rollback.undo(group)
            return
        except (OSError, DiskFull) as error:
            LOG.error("The rollback cannot go on and is tried again; nothing is lost meanwhile", reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)
