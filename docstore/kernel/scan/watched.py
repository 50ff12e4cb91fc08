"""Iterators over stored items that detect an end by error.

The engine's iterators stop at damage on the disk as they stop at the end of a range. Invariants:

- Items come from the source, in its order.
- The iteration ends only after the engine's status was checked, and that raised nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cython

_MANY = 128
"""The number of items after which an iterator that yields by itself is worth its creation."""


class WalkChecks:
    """An engine's checks of its iterators: `status(walk)` raises the error of an iterator.

    `end(walk, yields, start, end, reverse, last item)` raises an error if an iteration that ended after that item has
    missed one; it looks by `walk`.
    """

    status: Callable[[Any], None]
    end: Callable[[Any, str, bytes, bytes, bool, Any], None]

    def __init__(self, status: Callable[[Any], None], end: Callable[[Any, str, bytes, bytes, bool, Any], None]) -> None:
        self.status = status
        self.end = end


class Walk:
    """Yields the entries of `[start, end)` in the state in which it was made, downwards if `reverse`.

    `yields` names what it yields: `keys`, `values` or `items`, which are (key, value). `walk` is an iterator that is
    moved by calls, with the options `options`, whose bound is `end`; they must live as long.

    After many items an iterator takes over that yields by itself, which takes a fifth less time. `take_over(key)`
    returns it, from that key on; None if the state is not the newest any more. Downwards it yields (key, value) instead
    of values, and those below `start` too. It ends silently at damage, so its end is checked.
    """

    _walk: Any
    _options: Any
    _start: bytes
    _end: bytes
    _reverse: cython.bint
    _yields: str
    _keys: cython.bint
    _values: cython.bint
    _take_over: Callable[[bytes], Iterator[Any] | None]
    _checks: WalkChecks
    _count: cython.int
    _fast_walk: Iterator[Any] | None
    _newest: object
    _ended: cython.bint

    def __init__(
        self,
        walk: Any,
        options: Any,
        start: bytes,
        end: bytes,
        reverse: bool,
        yields: str,
        take_over: Callable[[bytes], Iterator[Any] | None],
        checks: WalkChecks,
    ) -> None:
        self._walk = walk
        self._options = options
        self._start = start
        self._end = end
        self._reverse = reverse
        self._yields = yields
        self._keys = yields == "keys"
        self._values = yields == "values"
        self._take_over = take_over
        self._checks = checks
        self._count = 0
        self._fast_walk = None
        self._newest = None
        self._ended = False

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Any:
        key: bytes | None
        if self._fast_walk is not None:
            return self._next_of_fast()
        key = self._move()
        if key is None:
            raise StopIteration
        if self._count == _MANY:
            self._fast_walk = self._take_over(key)
            if self._fast_walk is not None:
                return self._next_of_fast()
        if self._keys:
            return key
        return self._walk.value() if self._values else (key, self._walk.value())

    @cython.cfunc
    def _move(self) -> bytes | None:
        """Go to the next entry and return its key; None at the end of the range."""
        walk = self._walk
        key: bytes | None
        if self._ended:
            return None
        if self._reverse:
            if self._count:
                walk.prev()
            else:
                walk.seek_for_prev(self._end)
        elif self._count:
            walk.next()
        else:
            walk.seek(self._start)
        self._count += 1
        key = walk.key()
        if key is None:
            self._ended = True
            self._checks.status(walk)
        elif self._reverse and key < self._start:
            self._ended = True
            return None
        return key

    @cython.cfunc
    def _next_of_fast(self) -> Any:
        item: Any = next(self._fast_walk, None)  # type: ignore[arg-type]
        if item is not None and not (self._reverse and self._is_below(item)):
            self._newest = item
            return item[1] if self._values and self._reverse else item
        self._fast_walk = None
        self._ended = True
        self._checks.end(self._walk, self._yields, self._start, self._end, self._reverse, self._newest)
        self._newest = None
        raise StopIteration

    @cython.cfunc
    def _is_below(self, item: Any) -> bool:
        """Return True for an item below the range, where a walk downwards ends."""
        key: bytes = item if self._keys else item[0]
        return key < self._start


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

    @cython.ccall
    def seek(self, key: bytes) -> None:
        """Continue from the first key that is not below `key`."""
        self._walk.seek(key)
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
