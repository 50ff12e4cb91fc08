"""What work on values may cost before somebody looks up: `spend` is said by whatever makes or walks values.

Who looks up (`install`) may refuse the work or let others run. Always true: whoever spends is told of nothing else, and
loses nothing but time; a cost is about the bytes that are read or made, so what is small costs no more than a
comparison.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

QUANTUM = 64 * 1024
"""What may be spent between two looks."""

if not cython.compiled:
    _left = QUANTUM
    _looks = 0
_look: Callable[[int], None] | None = None


def install(look: Callable[[int], None] | None) -> None:
    """From now on `look` is called with what was spent since the last call; None: nobody looks."""
    global _look
    _look = look


def looks() -> cython.Py_ssize_t:
    """How often somebody had reason to look up: whoever sees that it has grown has seen work that cost something."""
    return _looks


def spend(cost: cython.Py_ssize_t) -> cython.int:
    """Count the cost of some work. Errors: those of who looks."""
    global _left
    _left -= cost
    if _left < 0:
        _looked()
    return 0


def _looked() -> cython.int:
    global _left, _looks
    spent: cython.Py_ssize_t = QUANTUM - _left
    _left = QUANTUM
    _looks += 1
    if _look is not None:
        _look(spent)
    return 0
