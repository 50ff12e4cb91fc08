"""Blocks operations on every member of a donor while the config servers decide whether a chunk or a database changes
hands.

Invariant, on every member: operations on the migrated namespace wait while a coordinator document blocks reads and
has no decision, however the document got there. A secondary applies the document before any operation of the new
owner has a time. A causal read of such a time on the secondary therefore waits, and then finds the routing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mongod.migration.critical_section import CriticalSections

if TYPE_CHECKING:
    from mongod.migration.records import MigrationRecords


class Handovers:
    """`sections`: the critical sections, by collection or database. `on_end` gets the name before the waiting
    operations resume.
    """

    def __init__(self, records: MigrationRecords, on_end: Callable[[str], None]) -> None:
        self.sections = CriticalSections(on_end)
        self._records = records
        self.load()

    def load(self) -> None:
        """Block exactly the operations that the documents name."""
        standing = {
            coordinator.migration.namespace: coordinator.migration
            for coordinator in self._records.coordinators()
            if coordinator.blocks_reads and coordinator.decision is None
        }
        for namespace in self.sections.keys() - standing.keys():
            self.sections.end(namespace)
        for namespace in standing.keys() - self.sections.keys():
            self.sections.begin(namespace, standing[namespace].concerns, reads=True)
