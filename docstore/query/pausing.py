"""Where work on values may be refused, and where it may even pause, for as long as it goes on.

Expressions, filters and stages are plain functions, called from deep inside of what must not be interrupted. Whoever
calls them says how far an interruption may go: `PAUSING.level` is 0 where nothing may happen, `REFUSED` where an error
does no harm, `PAUSED` where others may run, too, in a command that is made for that, `OVERTAKEN` where they may in any:
whoever says so finds out and begins anew. It goes back to what it was when the call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

REFUSED: Final = 1
PAUSED: Final = 2
OVERTAKEN: Final = 3


class Pausing:
    """How far an interruption may go at this moment; work alternates, so there is one for the process."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0


PAUSING: Final = Pausing()

T = TypeVar("T")
Given = TypeVarTuple("Given")


def allowing(level: int, make: Callable[[*Given], T], *given: *Given) -> T:
    """What `make` gives, where an interruption may go so far at least."""
    before, PAUSING.level = PAUSING.level, max(PAUSING.level, level)
    try:
        return make(*given)
    finally:
        PAUSING.level = before
