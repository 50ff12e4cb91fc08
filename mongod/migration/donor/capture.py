"""Capture of the changes of a range while it is being cloned.

Only the `_id`s are kept: the document is read when the change is sent, so many changes of one document cost one.

Invariant: from `start` on, the `_id` of every committed change of a document that was or is in the range is in the
capture until `take` returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from docstore.bson import Value
from docstore.collection.changes import Commit
from docstore.collection.store import Store
from docstore.kernel.keys.encoding import encode_key
from docstore.sharding.migration import Migration
from mongod.migration.ranges import id_of, in_range

MAX_BYTES = 64 * 1024 * 1024


class Capture:
    """Listens to a store for one migration. `overflowed` when more had to be kept than `max_bytes`: give up then."""

    def __init__(self, store: Store, migration: Migration, *, max_bytes: int = MAX_BYTES) -> None:
        self._migration = migration
        self._ids: dict[bytes, Value] = {}
        self._bytes = 0
        self._max_bytes = max_bytes
        self.overflowed = False
        self._unsubscribe: Callable[[], None] | None = store.subscribe(self._committed)

    def __len__(self) -> int:
        return len(self._ids)

    def stop(self) -> None:
        """Stop listening and discard the capture."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._ids.clear()

    def take(self, count: int) -> list[Value]:
        """At most `count` of the `_id`s, which leave the capture."""
        chosen = list(islice(self._ids, count))
        values = [self._ids.pop(key) for key in chosen]
        self._bytes -= sum(len(key) + len(value[1]) for key, value in zip(chosen, values, strict=True))
        return values

    def _committed(self, commit: Commit) -> None:
        migration = self._migration
        for change in commit.changes:
            if change.ns != migration.namespace or change.op not in "iud":
                continue
            for document in (change.after, change.before):
                if document is not None and in_range(migration.key, migration.range, document):
                    self._add(id_of(document))
                    break

    def _add(self, value: Value) -> None:
        key = encode_key(value)
        if self.overflowed or key in self._ids:
            return
        self._ids[key] = value
        self._bytes += len(key) + len(value[1])
        if self._bytes > self._max_bytes:
            self.overflowed = True
