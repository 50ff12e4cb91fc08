"""For how long nothing could be written. A number for reports; what is too long is for whoever knows the faults."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tests.checkers.history import Operation


def longest_unavailability(operations: Iterable[Operation], started: float, ended: float) -> float:
    """The longest time in which no majority write was acknowledged, in seconds."""
    times = sorted(each.ended for each in operations if not each.kind.reads and each.majority)
    marks = [started, *(time for time in times if started < time < ended), ended]
    return max(after - before for before, after in pairwise(marks))
