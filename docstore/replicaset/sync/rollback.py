"""Rollback: undoing entries that the rest of the set does not have (rule 18).

The common point with the source is the newest entry of its oplog that this member has. The rollback id is increased
durably before anything is undone, so that members that copy from this one notice. Entries are undone exactly, newest
first, in groups, by the undo records written with them (`docstore.collection.oplog.rollback`).

* The documents that a group removes or changes are on disk below `rollback/` before it is undone
  (`docstore.replicaset.sync.rollback_files`): after a crash each is in the database or there.
* An interrupted rollback is continued by the next one, because the oplog then ends where it stopped.
* If a file or a group cannot be written, nothing is undone, and the rollback retries until it can.
* Entries at or before the commit point are never undone: that is an assertion, not an error.
* The event loop is held for some milliseconds at a time.
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
    """The oplogs share no entry: this member is too stale, or the source belongs to another set."""


async def find_common_point(store: Store, remote: RemoteMember) -> OpTime:
    """Return the newest entry that both oplogs have. Errors: NoCommonPoint, NetworkError, CommandError."""
    oplog = store.oplog
    assert oplog is not None

    def holds(position: OpTime) -> bool:
        entry = oplog.entry(position.timestamp)
        return entry is not None and entry_optime(entry) == position

    point = None
    async for positions in remote.log_backwards(store.last_optime):
        point = common_point(positions, holds)
        if point is not None or positions[-1].timestamp < oplog.first.timestamp:
            break
        await asyncio.sleep(0)
    if point is not None:
        return point
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
    """Undo every entry after `common`; return their number. After a cancellation, undone entries stay undone.

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
    """Save the documents that the group removes, then undo it; retry while disk or process lacks space."""
    is_saved = not group.removed
    while True:
        try:
            if not is_saved:
                await asyncio.to_thread(files.keep, group.removed)
                is_saved = True
            await store.write_lock.wait()
            rollback.undo(group)
            return
        except (OSError, DiskFull) as error:
            LOG.error("The rollback cannot go on and is tried again; nothing is lost meanwhile", reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)
