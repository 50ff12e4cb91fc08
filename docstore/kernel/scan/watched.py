"""An iterator over stored items that does not end unseen.

The engine's iterators stop at damage on the disk as they stop at the end of a range. Invariants: what is given has come
from the source, in its order; the end of the iteration is reached only after `at_end` was asked and has raised
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cython


class Watched:
    """Items of `source`, the newest of which is remembered; `at_end(newest, or None)` is called when there is no more.

    `source` gives pairs, keys or values. With a `floor` (keys and pairs, downwards) the first key below it ends the
    iteration as the end of the source would, and is not given. `second` gives only the second half of pairs.
    """

    _source: Iterator[Any]
    _at_end: Callable[[Any], None]
    _floor: bytes | None
    _second: cython.bint
    _pairs: cython.bint
    _newest: object
    _ended: cython.bint

    def __init__(
        self,
        source: Iterator[Any],
        at_end: Callable[[Any], None],
        floor: bytes | None = None,
        *,
        pairs: bool = False,
        second: bool = False,
    ) -> None:
        self._source = source
        self._at_end = at_end
        self._floor = floor
        self._pairs = pairs or second
        self._second = second
        self._newest = None
        self._ended = False

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        item = next(self._source, None)
        if item is not None and (self._floor is None or (item[0] if self._pairs else item) >= self._floor):
            self._newest = item
            return item[1] if self._second else item
        self._ended = True
        self._at_end(self._newest)
        self._newest = None
        raise StopIteration
