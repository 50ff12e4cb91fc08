"""Does my log continue in the source's? (rules 12 and 18)

Two logs that share an entry share everything before it: an entry is named by (term, timestamp), a term has one primary,
and a primary only appends. So one comparison at the end of the shorter log decides, and a walk backwards through both
finds where they part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from docstore.optime import NULL_OPTIME, OpTime


class Verdict(Enum):
    """What to do after asking the source for everything at or after my last timestamp."""

    FETCH = "fetch"
    """My last entry is the source's first: the rest may be applied."""
    OTHER_SOURCE = "other source"
    """The source is behind me."""
    ROLL_BACK = "roll back"
    """The source has a later history without my last entry."""
    TOO_STALE = "too stale"
    """The source has dropped what I would need next."""


def judge(own_last: OpTime, first: OpTime | None, *, source_oldest: OpTime, source_last: OpTime) -> Verdict:
    """`first`: the source's first entry at or after the timestamp of `own_last`, if there is one."""
    if first == own_last:
        return Verdict.FETCH
    if source_last < own_last:
        return Verdict.OTHER_SOURCE
    if source_oldest.timestamp > own_last.timestamp:
        return Verdict.TOO_STALE
    # Either another entry stands in my last one's place, or the source's log ended before it and went on in a later
    # term.
    return Verdict.ROLL_BACK


class CommonPoint:
    """Walks two logs backwards; both are given newest first and fall strictly."""

    def __init__(self, own: Iterator[OpTime]) -> None:
        self._own = own
        self._next: OpTime | None = next(own, None)
        self.undone: list[OpTime] = []
        """Own entries passed so far: what a rollback removes, newest first."""

    def feed(self, theirs: Iterable[OpTime]) -> OpTime | None:
        """The common point, or None: feed older entries. `NULL_OPTIME` when my log holds no common entry at all."""
        for entry in theirs:
            while self._next is not None and self._next > entry:
                self.undone.append(self._next)
                self._next = next(self._own, None)
            if self._next is None:
                return NULL_OPTIME
            if self._next == entry:
                return entry
        return None
