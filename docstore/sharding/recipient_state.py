"""The state of the migration that a recipient receives (`docstore.sharding.recipient`)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from docstore.errors import Code, CommandError
from docstore.sharding.migration import AnyMigration, DatabaseMigration, Migration
from docstore.sharding.recipient_messages import (
    Batch,
    CollectionDefinition,
    Definition,
    Effect,
    Reply,
    TakeChanges,
    TakeDocuments,
    Work,
)

Effects = list[Effect]


class State(Enum):
    """See `docstore.sharding.recipient`."""

    CLEARING = auto()
    PERSISTING = auto()
    SWEEPING = auto()
    RECEIVING = auto()
    SECURING = auto()
    SECURED = auto()
    ENDED = auto()


PREPARING = (State.CLEARING, State.PERSISTING, State.SWEEPING)


@dataclass(frozen=True, slots=True)
class Status:
    """The status for donors and operators. `reason`: why it has ended."""

    migration: AnyMigration
    state: State
    reason: str


@dataclass(slots=True)
class Incoming:
    """The migration being received. `admitted`: the number of the last batch admitted; `stored`: of the last one
    stored; `batches`: those between, of which the first is being stored.
    """

    migration: AnyMigration
    definition: Definition | None
    heard: float
    state: State = State.CLEARING
    reason: str = ""
    work: Work | None = None
    """The piece that is under way."""
    admitted: int = 0
    stored: int = 0
    batches: deque[Batch] = field(default_factory=deque)
    repeated: list[Batch] = field(default_factory=list)
    """Batches sent again before they were stored."""
    acknowledging: set[int] = field(default_factory=set)
    """Tokens of batches that wait for a majority."""
    securing: set[int] = field(default_factory=set)
    """Tokens of `Commit`."""
    watching: dict[int, float] = field(default_factory=dict)
    """Tokens of `GetStatus`, and how long they may wait."""
    collections: dict[str, CollectionDefinition] = field(default_factory=dict)
    """For a database: the collections that the donor has announced."""

    @property
    def id(self) -> bytes:
        return bytes(self.migration.id)

    @property
    def chunk(self) -> tuple[Migration, Definition]:
        """Return the migration of a chunk and the definition of its collection."""
        assert isinstance(self.migration, Migration), "a chunk comes"
        assert self.definition is not None, "with the definition of its collection"
        return self.migration, self.definition

    @property
    def status(self) -> Status:
        return Status(self.migration, self.state, self.reason)

    def is_unknown(self, batch: Batch) -> bool:
        """True if a batch belongs to a collection of the database that the donor has not announced."""
        if isinstance(batch, TakeChanges):
            return any(change.namespace not in self.collections for change in batch.changes)
        if not isinstance(self.migration, DatabaseMigration) or not isinstance(batch, TakeDocuments):
            return False
        return batch.namespace not in self.collections

    def begin(self, work: Work, out: Effects) -> None:
        assert self.work is None, "one piece at a time"
        self.work = work
        out.append(work)

    def be_ready(self, out: Effects) -> None:
        """Start accepting documents."""
        self.state = State.RECEIVING
        out += [Reply(token, self.status) for token in self.watching]
        self.watching.clear()

    def refusal(self) -> CommandError:
        return CommandError(
            Code.OperationFailed,
            f"migration of {self.migration} does not take this while "
            f"{self.state.name.lower()}{': ' + self.reason if self.reason else ''}",
        )
