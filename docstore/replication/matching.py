"""Comparison of the own log with a source's (rules 12 and 18).

Two logs that share an entry share all entries before it: an entry is identified by (term, timestamp), a term has one
primary, and a primary only appends. So one comparison at the end of the shorter log decides; the logs diverge after the
newest entry that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from docstore.optime import OpTime


class Verdict(Enum):
    """The next step, after the source was asked for entries from the own last timestamp on."""

    FETCH = "fetch"
    """The own last entry is the source's first: apply the rest."""
    OTHER_SOURCE = "other source"
    """The source is behind."""
    ASK_AGAIN = "ask again"
    """The source has advanced since it was asked."""
    ROLL_BACK = "roll back"
    """The source has a later history without the own last entry."""
    TOO_STALE = "too stale"
    """The source has truncated the entries needed next."""


def judge(own_last: OpTime, first: OpTime | None, *, source_oldest: OpTime, source_last: OpTime) -> Verdict:
    """Return the verdict. `first`: the source's first entry at or after the timestamp of `own_last`, or None.

    `source_oldest` and `source_last` were read later.
    """
    if first == own_last:
        return Verdict.FETCH
    if source_last < own_last:
        return Verdict.OTHER_SOURCE
    if first is None and source_last.timestamp >= own_last.timestamp:
        # The source was behind; its new entries may begin with the own last one.
        return Verdict.ASK_AGAIN
    if source_oldest.timestamp > own_last.timestamp:
        return Verdict.TOO_STALE
    # Either the source has another entry in place of the own last one, or its log ended before that and continued in a
    # later term.
    return Verdict.ROLL_BACK


def common_point(theirs: Iterable[OpTime], holds: Callable[[OpTime], bool]) -> OpTime | None:
    """Return the newest of the positions, given newest first, that the other log `holds`; None: look at older ones."""
    return next(filter(holds, theirs), None)
