"""Iterators over stored items that detect an end by error.

The engine's iterators stop at damage on the disk as they stop at the end of a range. Invariants:

- Items come from the source, in its order.
- The iteration ends only after the engine's status was checked, and that raised nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cython


class Watched:
    """Yields the items of `source`; calls `at_end(last item, or None)` when there is no more.

    `source` yields pairs, keys or values. With a `floor` (keys and pairs, downwards) the first key below it ends the
    iteration like the end of the source, and is not yielded. `second` yields only the second half of pairs.
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


class Moved:
    """Yields the keys, or the values, in half-open ranges, one after the other, by one iterator of the engine that
    seeks from each to the next. For short ranges that is cheaper than an iterator for each. `check(walk)` raises the
    iterator's error; `options` are its options, which must live as long.

    An iterator after the end of a range shows that no key lies between the two. Ranges that begin there are skipped, or
    begun, without a seek.
    """

    _walk: Any
    _ranges: Iterator[tuple[bytes, bytes]]
    _check: Callable[[Any], None]
    _values: cython.bint
    _end: bytes | None
    _options: Any
    _empty_from: bytes | None
    _stands_at: bytes | None

    def __init__(
        self,
        walk: Any,
        options: Any,
        ranges: Sequence[tuple[bytes, bytes]],
        values: bool,
        check: Callable[[Any], None],
    ) -> None:
        self._walk = walk
        self._options = options
        self._ranges = iter(ranges)
        self._check = check
        self._values = values
        self._end = None
        self._empty_from = None
        self._stands_at = None

    def __iter__(self) -> Moved:
        return self

    def __next__(self) -> bytes:
        bounds: tuple[bytes, bytes]
        key: bytes | None
        walk = self._walk
        while True:
            if self._end is None:
                bounds = next(self._ranges)
                if self._empty_from is not None and bounds[0] >= self._empty_from:
                    # At its end the iterator has no position, and is after everything.
                    if self._stands_at is None or self._stands_at >= bounds[1]:
                        continue
                    if self._stands_at >= bounds[0]:
                        self._end = bounds[1]
                        self._empty_from = None
                        return walk.value() if self._values else self._stands_at
                self._end = bounds[1]
                self._empty_from = None
                walk.seek(bounds[0])
            else:
                walk.next()
            # Without a position it has no key.
            key = walk.key()
            if key is None:
                self._check(walk)
            elif key < self._end:
                return walk.value() if self._values else key
            self._stands_at = key
            self._empty_from = self._end
            self._end = None


class Sought:
    """Yields the keys, or (key, value) `pairs`, from the last sought key on, by one iterator of the engine: cheaper
    than one for each seek. `check(walk)` raises the iterator's error; `options` are its options, which must live as
    long. `seek` must be called first.
    """

    _walk: Any
    _check: Callable[[Any], None]
    _pairs: cython.bint
    _options: Any
    _begins: cython.bint

    def __init__(self, walk: Any, options: Any, pairs: bool, check: Callable[[Any], None]) -> None:
        self._walk = walk
        self._options = options
        self._pairs = pairs
        self._check = check
        self._begins = True

    def seek(self, place: bytes) -> None:
        """Continue from the first key that is not below `place`."""
        self._walk.seek(place)
        self._begins = True

    def __iter__(self) -> Sought:
        return self

    def __next__(self) -> Any:
        walk = self._walk
        if self._begins:
            self._begins = False
        else:
            walk.next()
        key: bytes | None = walk.key()
        if key is not None:
            return (key, walk.value()) if self._pairs else key
        self._check(walk)
        raise StopIteration
