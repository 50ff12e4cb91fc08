"""Rollbacks of a store alone, in one go."""

from __future__ import annotations

from collections.abc import Callable

from docstore.collection.oplog.rollback import Rollback
from docstore.collection.store import Store
from docstore.optime import OpTime


def roll_back(
    store: Store,
    optime: OpTime,
    on_removed: Callable[[str, bytes], None] | None = None,
    *,
    one_by_one: bool = False,
) -> int:
    """Undo every entry after `optime`; how many. `on_removed(ns, document)` hears of each document before it goes."""
    rollback = Rollback(store, optime)
    try:
        while (group := rollback.next_group(lambda: 1.0, 1.0 if one_by_one else 2.0)) is not None:
            for _, ns, document in group.removed:
                if on_removed is not None:
                    on_removed(ns, document)
            rollback.undo(group)
    finally:
        rollback.finish()
    return rollback.undone
