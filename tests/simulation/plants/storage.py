"""Planted bugs of what is kept: undo, rollback files, initial sync."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_ROLLBACK = "docstore.collection.oplog.rollback:Rollback"

PLANTS = (
    Plant(
        "what a rollback takes away is not kept",
        "deposed",
        "docstore.replicaset.sync.rollback:_until_undone",
        "is_saved = not group.removed",
        "is_saved = True",
    ),
    Plant(
        "rollback files are not brought to disk",
        "undoing",
        "docstore.replicaset.sync.rollback_files:_append",
        "os.fsync(file.fileno())",
        "pass",
    ),
    Plant(
        "undo records go before the commit",
        "deposed",
        "docstore.replicaset.replicaset:ReplicaSet._changed",
        "self._store.discard_undo(min(noted))",
        "self._store.discard_undo(noted[0])",
    ),
    Plant(
        "a key goes back by one write only",
        "deposed",
        f"{_ROLLBACK}._take_back",
        "changes[key] = previous",
        "changes.setdefault(key, previous)",
    ),
    Plant(
        "record ids of what a rollback puts back are given again",
        "undoing",
        f"{_ROLLBACK}.finish",
        "max(coll.next_record_id, last_long(highest) + 1)",
        "coll.next_record_id",
    ),
    Plant(
        "a rollback does not count back",
        "deposed",
        f"{_ROLLBACK}._take_back",
        "pack_counters(present_count - count, present_size - size)",
        "pack_counters(present_count, present_size)",
    ),
    Plant(
        "a repaired member goes on with what is left",
        "repaired",
        "docstore.node.process.repair:require_copy",
        "LocalState(store).write_initial_sync(True)",
        "pass",
    ),
    Plant(
        "a copy ends before it is consistent",
        "initial-sync",
        "docstore.replicaset.sync.initial_sync:InitialSync._end_of_source",
        "return last",
        "return begin",
    ),
)
