"""Does my log continue in the source's? (rules 12 and 18)

Two logs that share an entry share everything before it: an entry is named by (term, timestamp), a term has one primary,
and a primary only appends. So one comparison at the end of the shorter log decides, and they part behind the newest
entry of one that the other holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from docstore.optime import OpTime


class Verdict(Enum):
    """What to do after asking the source for everything at or after my last timestamp."""

    FETCH = "fetch"
    """My last entry is the source's first: the rest may be applied."""
    OTHER_SOURCE = "other source"
    """The source is behind me."""
    ASK_AGAIN = "ask again"
    """The source has come further since it was asked for entries."""
    ROLL_BACK = "roll back"
    """The source has a later history without my last entry."""
    TOO_STALE = "too stale"
    """The source has dropped what I would need next."""


def judge(own_last: OpTime, first: OpTime | None, *, source_oldest: OpTime, source_last: OpTime) -> Verdict:
    """`first`: the source's first entry at or after the timestamp of `own_last`, if there was one.

    The others are its oldest and its newest entry at a later moment.
    """
    if first == own_last:
        return Verdict.FETCH
    if source_last < own_last:
        return Verdict.OTHER_SOURCE
    if first is None and source_last.timestamp >= own_last.timestamp:
        # It was behind me; what it has got since then may begin with my last entry.
        return Verdict.ASK_AGAIN
    if source_oldest.timestamp > own_last.timestamp:
        return Verdict.TOO_STALE
    # Either another entry stands in my last one's place, or the source's log ended before it and went on in a later
    # term.
    return Verdict.ROLL_BACK


def common_point(theirs: Iterable[OpTime], holds: Callable[[OpTime], bool]) -> OpTime | None:
    """The newest of a log's positions, given newest first, that the other log `holds`; None: look at older ones."""
    return next(filter(holds, theirs), None)
