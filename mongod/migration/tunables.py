"""The server parameters of migrations and range deletions, under MongoDB's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docstore.commands.parameters import ServerParameter
from docstore.errors import Code, CommandError


@dataclass(slots=True)
class Tunables:
    """`orphan_delay`: seconds between a migration and the deletion of the moved documents. No delay is needed:
    queries that began before the migration read from snapshots. Every member also forgets its routing (the signal
    precedes the deletions in the oplog) before it loses a document. The real server waits 900, because its snapshots
    do not last.

    `delete_batch`: documents in one step of a range deletion, `delete_pause` the seconds between two.
    `wait_for_deletion`: how long an incoming migration waits for a deletion that overlaps it.
    """

    orphan_delay: float = 0.0
    delete_batch: int = 128
    delete_pause: float = 0.02
    wait_for_deletion: float = 10.0

    def parameters(self) -> tuple[ServerParameter, ...]:
        """Return the parameters for getParameter and setParameter."""
        return (
            ServerParameter(
                name="orphanCleanupDelaySecs",
                get=lambda: int(self.orphan_delay),
                assign=lambda value: setattr(
                    self, "orphan_delay", float(parse_whole_number("orphanCleanupDelaySecs", value))
                ),
            ),
            ServerParameter(
                name="rangeDeleterBatchSize",
                get=lambda: self.delete_batch,
                assign=lambda value: setattr(
                    self, "delete_batch", parse_whole_number("rangeDeleterBatchSize", value) or 128
                ),
            ),
            ServerParameter(
                name="rangeDeleterBatchDelayMS",
                get=lambda: int(self.delete_pause * 1000),
                assign=lambda value: setattr(
                    self, "delete_pause", parse_whole_number("rangeDeleterBatchDelayMS", value) / 1000
                ),
            ),
            ServerParameter(
                name="receiveChunkWaitForRangeDeleterTimeoutMS",
                get=lambda: int(self.wait_for_deletion * 1000),
                assign=lambda value: setattr(
                    self,
                    "wait_for_deletion",
                    parse_whole_number("receiveChunkWaitForRangeDeleterTimeoutMS", value) / 1000,
                ),
            ),
        )


def parse_whole_number(name: str, value: Any) -> int:
    """Return a whole number that is not negative; accepts text of a command line. Errors: BadValue."""
    if isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
        raise CommandError(Code.BadValue, f"{name} must be a whole number of 0 or more")
    return int(value)
