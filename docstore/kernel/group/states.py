"""The accumulators of `docstore.kernel.group.grouping.Grouping`, by name."""

from __future__ import annotations

from collections.abc import Callable

from docstore.kernel.group.accumulators import EndState, ExtremeState, MembersState, State, SumState
from docstore.kernel.group.chosen import EndsState, ExtremesState, RankedState
from docstore.kernel.group.deviation import DeviationState

Start = Callable[[], State]
"""Makes a state."""

LAST_MIN = "last $min"
LAST_MAX = "last $max"
"""`$min` and `$max` that return the last of equal values."""

STATES: dict[str, Start] = {
    "$sum": lambda: SumState(False),
    "$avg": lambda: SumState(True),
    "$min": lambda: ExtremeState(-1, False),
    "$max": lambda: ExtremeState(1, False),
    LAST_MIN: lambda: ExtremeState(-1, True),
    LAST_MAX: lambda: ExtremeState(1, True),
    "$first": lambda: EndState(False),
    "$last": lambda: EndState(True),
    "$push": lambda: MembersState(False),
    "$addToSet": lambda: MembersState(True),
    "$stdDevPop": lambda: DeviationState(False),
    "$stdDevSamp": lambda: DeviationState(True),
}

CHOOSING_STATES: dict[str, Callable[[int], State]] = {
    "$firstN": lambda count: EndsState(count, False),
    "$lastN": lambda count: EndsState(count, True),
    "$minN": lambda count: ExtremesState(count, False, True),
    "$maxN": lambda count: ExtremesState(count, True, False),
    "$top": lambda count: RankedState(count, False, True),
    "$topN": lambda count: RankedState(count, False, False),
    "$bottom": lambda count: RankedState(count, True, True),
    "$bottomN": lambda count: RankedState(count, True, False),
}
"""Accumulators that keep n values."""
