"""What operations wait for on every member of a donor while the config servers decide whether a chunk, or a database,
changes hands.

Always true, on every member: operations on what moves wait while a coordinator document says that reads do and has no
decision, however it came to be there. A secondary has the document before anything that happens under the new owner has
a time, so whoever asks it for a causal read of such a time waits, and then finds the routing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mongod.migration.critical_section import CriticalSections

if TYPE_CHECKING:
    from mongod.migration.records import MigrationRecords


class Handovers:
    """`sections`: what waits, by collection or database. `on_end` is told of that, before what waits for it goes on."""

    def __init__(self, records: MigrationRecords, on_end: Callable[[str], None]) -> None:
        self.sections = CriticalSections(on_end)
        self._records = records
        self.load()

    def load(self) -> None:
        """Have wait what the documents say, and nothing else."""
        standing = {
            coordinator.migration.namespace: coordinator.migration
            for coordinator in self._records.coordinators()
            if coordinator.blocks_reads and coordinator.decision is None
        }
        for namespace in self.sections.keys() - standing.keys():
            self.sections.end(namespace)
        for namespace in standing.keys() - self.sections.keys():
            self.sections.begin(namespace, standing[namespace].concerns, reads=True)
