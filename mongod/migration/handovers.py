"""What operations wait for on every member of a donor while the config servers decide whether a chunk changes hands.

Always true, on every member: operations on a collection wait while a coordinator document says that reads do and has no
decision, however it came to be there. A secondary has the document before anything that happens under the new owner has
a time, so whoever asks it for a causal read of such a time waits, and then finds the routing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mongod.migration.critical_section import CriticalSection

if TYPE_CHECKING:
    from mongod.migration.records import MigrationRecords


class Handovers:
    """`sections`: what waits, by namespace. `on_end` is told of the namespace, before what waits for it goes on."""

    def __init__(self, records: MigrationRecords, on_end: Callable[[str], None]) -> None:
        self.sections: dict[str, CriticalSection] = {}
        self._records = records
        self._on_end = on_end
        self.load()

    def load(self) -> None:
        """Have wait what the documents say, and nothing else."""
        standing = {
            coordinator.migration.namespace
            for coordinator in self._records.coordinators()
            if coordinator.blocks_reads and coordinator.decision is None
        }
        for namespace in self.sections.keys() - standing:
            self._on_end(namespace)
            self.sections.pop(namespace).end()
        for namespace in standing - self.sections.keys():
            self.sections[namespace] = section = CriticalSection()
            section.reads = True
