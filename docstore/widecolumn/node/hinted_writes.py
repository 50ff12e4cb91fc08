"""Writes that a router kept as hints, on the shard that carries them out.

Invariants:

* a hint is judged in the step that merges it, so no truncation comes between;
* it is acknowledged when a majority has it: the router then forgets it, and no rollback takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from docstore.commands.concerns import WriteConcern
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import write_timed_out
from docstore.widecolumn.model.hint_origin import HintOrigin, hint_outdated
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of

if TYPE_CHECKING:
    from docstore.commands.context import Context
    from docstore.node.node import DataNode
    from docstore.optime import OpTime


def check_hint(node: DataNode, families: Sequence[FamilyStore], origin: HintOrigin) -> None:
    """Raise `hint_outdated` for a hint that is no longer valid."""
    for found in families:
        collection = found.collection
        if collection.uuid != origin.family:
            raise hint_outdated(f"{collection.ns} is another column family")
        if origin.at <= collection.options.truncated_at:
            raise hint_outdated(f"{collection.ns} has been truncated")
        if wide_of(node).now() - origin.at // 1_000_000 > found.definition.gc_grace_seconds:
            raise hint_outdated(f"it is older than the grace period of {collection.ns}")


async def wait_durable(context: Context, node: DataNode, optime: OpTime) -> None:
    """Wait until a majority has everything up to that optime. Errors: TimedOut."""
    oplog = node.store.oplog
    assert oplog is not None, "a shard has an oplog"
    term = oplog.term
    concern = WriteConcern("majority", timeout_ms=wide_of(node).settings.write_timeout)
    failure = await node.replication.wait_write(optime, concern, context.deadline)
    if failure is not None:
        raise write_timed_out(Level.QUORUM.value, 2, 1, failure["errmsg"])
    if oplog.term != term:
        raise write_timed_out(Level.QUORUM.value, 2, 1, "another primary has been elected")
