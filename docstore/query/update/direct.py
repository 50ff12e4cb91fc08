# cython: annotation_typing=False
"""Updates that the kernel applies without the general update (`docstore.kernel.compute.field_updates`).

Most updates are of this kind; `direct_update` returns None for others. The general update handles documents that the
kernel declines, and the insert of an upsert if it needs more. It is parsed when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import cython

from docstore.bson.build import document_from
from docstore.bson.walk import Value
from docstore.kernel.compute.field_updates import FieldChanges
from docstore.kernel.compute.operators import field_changes
from docstore.query.filter.tree import Filter
from docstore.query.update.parse import has_operators, parse_update
from docstore.query.update.update import ChangedPaths, Update, inserted, lead_through
from docstore.query.update.upsert import seed_document

_SHORT = 256
"""Most bytes of a specification whose update is cached."""


class DirectUpdate:
    """Satisfies `docstore.query.update.update.Update`. `compares`: its result depends on which values are equal."""

    __slots__ = ("_array_filters", "_changes", "_general", "_specification", "changed", "compares", "needs_position")

    is_replacement = False

    def __init__(self, specification: bytes, array_filters: tuple[bytes, ...], changes: FieldChanges) -> None:
        self._specification = specification
        self._array_filters = array_filters
        self._changes = changes
        self.changed: frozenset[bytes] | None = changes.names
        self.compares: bool = changes.compares
        self.needs_position: bool = changes.positional
        self._general: Update | None = None

    @cython.ccall
    def change(self, raw: bytes, now: int, position: int = -1) -> bytes | None:
        """Return the document after the update, the same object if nothing changes; None if `apply` must decide.
        `position`: the position of the array element that the filter matched.
        """
        return self._changes.apply(raw, position, now)

    def change_each(self, documents: list[bytes], now: int, largest: int) -> list[bytes] | None:
        """Return `change` of all documents; none may grow beyond `largest` bytes. None if they must be changed one by
        one. Errors: those of `docstore.bson.validate`.
        """
        return self._changes.apply_each(documents, now, largest)

    def apply(self, raw: bytes, *, matched_index: str | None, now: int, timestamp: int) -> bytes:
        after = self.change(raw, now, -1 if matched_index is None else int(matched_index))
        if after is not None:
            return after
        return self._general_update().apply(raw, matched_index=matched_index, now=now, timestamp=timestamp)

    @property
    def changed_in_place(self) -> frozenset[bytes]:
        """See `OperatorUpdate.changed_in_place`."""
        return self._changes.names_in_place

    def changed_through(self, paths: Iterable[str]) -> frozenset[bytes]:
        """See `OperatorUpdate.changed_through`."""
        changes = self._changes
        return changes.names_in_place if lead_through(paths, changes.arrays) else changes.names

    @property
    def paths(self) -> ChangedPaths:
        """See `OperatorUpdate.paths`; empty if the log entry holds whole top-level fields."""
        return self._changes.paths or {}

    def moves_id(self, raw: bytes) -> bool:
        return False

    def identified(self, identity: Value) -> bytes | None:
        """Return the document to insert if the filter is an equality on `_id` alone; None if `upsert` must build it."""
        return self.seeded(document_from([("_id", *identity)]), identity)

    @cython.ccall
    def seeded(self, seed: bytes, new_id: Value, now: int = -1) -> bytes | None:
        """Return the document to insert from the seed that the filter describes; None if `upsert` must build it. `now`
        is as in `change`, -1 if it is not known.
        """
        document = self._changes.insert(seed, now)
        return None if document is None else inserted(document, new_id)

    def upsert(self, tree: Filter, new_id: Value, *, now: int, timestamp: int) -> bytes:
        document = self.seeded(seed_document(tree), new_id, now)
        return (
            document
            if document is not None
            else self._general_update().upsert(tree, new_id, now=now, timestamp=timestamp)
        )

    def _general_update(self) -> Update:
        if self._general is None:
            self._general = parse_update(self._specification, self._array_filters)
        return self._general


def direct_update(specification: bytes, array_filters: tuple[bytes, ...] = ()) -> DirectUpdate | None:
    """Return the update for a document of simple operators, else None. An invalid specification is never simple."""
    if not has_operators(specification):
        return None
    short = len(specification) + sum(map(len, array_filters)) <= _SHORT
    return (_cached_update if short else _direct_update)(specification, array_filters)


def _direct_update(specification: bytes, array_filters: tuple[bytes, ...]) -> DirectUpdate | None:
    changes = field_changes(specification, array_filters)
    return None if changes is None else DirectUpdate(specification, array_filters, changes)


_cached_update = lru_cache(maxsize=256)(_direct_update)
"""Applications repeat the same short updates; an update holds no state of a request."""
