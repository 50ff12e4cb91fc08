"""Counts of a member's elections and catch-ups since the start of the process, for serverStatus."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class CatchUpEnd(Enum):
    """Outcome of a new primary's catch-up."""

    SUCCEEDED = "succeeded"
    ALREADY_CAUGHT_UP = "already caught up"
    SKIPPED = "there is no other member"
    TIMED_OUT = "timed out"
    FAILED = "the source's oplog diverges from this member's"
    NEW_TERM = "a new term has begun"
    ABORTED = "it was aborted by a command"


@dataclass(slots=True)
class ElectionCounts:
    """`called` and `won` by the reason of the election (`docstore.replication.roles`)."""

    called: Counter[str] = field(default_factory=Counter)
    won: Counter[str] = field(default_factory=Counter)
    step_downs_by_higher_term: int = 0
    catch_ups: int = 0
    """Number of terms in which another member was ahead of the new primary."""
    catch_up_ends: Counter[CatchUpEnd] = field(default_factory=Counter)

    def call(self, reason: str) -> None:
        """Count an election that this member called."""
        self.called[reason] += 1

    def win(self, reason: str) -> None:
        """Count an election that this member won."""
        self.won[reason] += 1

    def step_down(self, *, catching_up: bool) -> None:
        """Count a step-down because of a higher term; it also ends a catch-up."""
        self.step_downs_by_higher_term += 1
        if catching_up:
            self.end_catch_up(CatchUpEnd.NEW_TERM)

    def catch_up(self) -> None:
        """Count a catch-up: another member is ahead of the new primary."""
        self.catch_ups += 1

    def end_catch_up(self, end: CatchUpEnd) -> None:
        """Count the outcome of a catch-up."""
        self.catch_up_ends[end] += 1
