"""Work metering: code that creates or walks values charges its cost with `spend`, and a check runs once per quantum.

The installed check (`install`) may abort the work or let other tasks run.

- Charging has no other effect on the work than the time of the check.
- A cost is proportional to the bytes read or created; a small one costs no more than a comparison.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

QUANTUM = 64 * 1024
"""The cost between two checks."""

_remaining: cython.Py_ssize_t = QUANTUM
_looks: cython.Py_ssize_t = 0
_look: Callable[[int], None] | None = None


def install(look: Callable[[int], None] | None) -> None:
    """Install `look`, called with the cost since the last call; None: no check."""
    global _look
    _look = look


@cython.ccall
def looks() -> cython.Py_ssize_t:
    """Return the number of checks so far: an increase shows that some work was expensive."""
    return _looks


@cython.ccall
def spend(cost: cython.Py_ssize_t) -> cython.int:
    """Charge the cost of some work. Errors: those of the installed check."""
    global _remaining
    _remaining -= cost
    if _remaining < 0:
        _call_check()
    return 0


def _call_check() -> cython.int:
    global _remaining, _looks
    spent: cython.Py_ssize_t = QUANTUM - _remaining
    _remaining = QUANTUM
    _looks += 1
    if _look is not None:
        _look(spent)
    return 0
