"""Yield policy: whether evaluation may raise on interruption, or let other tasks run.

Expressions, filters and stages are plain functions, called inside code that must not be interrupted. Their caller sets
`PAUSING.level`, which is restored when the call returns:

- 0: no interruption;
- `REFUSED`: evaluation may raise an error;
- `PAUSED`: evaluation may also yield to other tasks, in commands that are made for it;
- `OVERTAKEN`: evaluation may yield in any command; the caller detects conflicts and starts again. On the event loop it
  may raise ScriptsWanted instead: the caller undoes its step and continues on a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

REFUSED: Final = 1
PAUSED: Final = 2
OVERTAKEN: Final = 3


class Pausing:
    """The level of interruption allowed at this moment. Tasks alternate, so the process has one instance."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0


PAUSING: Final = Pausing()

T = TypeVar("T")
Given = TypeVarTuple("Given")


def allowing(level: int, make: Callable[[*Given], T], *given: *Given) -> T:
    """Return `make(*given)`, called with at least this level of interruption."""
    before, PAUSING.level = PAUSING.level, max(PAUSING.level, level)
    try:
        return make(*given)
    finally:
        PAUSING.level = before
