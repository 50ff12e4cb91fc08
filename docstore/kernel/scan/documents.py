"""The loops over stored documents: they read an iterator and append the matches.

They check the clock every 128 documents, and after each expensive one (`docstore.bson.allowance`). `values` are the
stored documents from the engine's iterator; the loop consumes those that do not match. A `deadline` is compared with
`clock()`, in the clock's unit; infinity means none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cython

from docstore.kernel.match.predicate import Predicate

if not cython.compiled:
    from docstore.bson.allowance import looks

EXHAUSTED = 0
FULL = 1
TIME_IS_UP = 2
_CLOCK_EVERY = 128


def scan(
    values: Iterator[bytes],
    predicate: Predicate | None,
    out: list[bytes],
    max_docs: int,
    max_bytes: int,
    clock: Callable[[], float],
    deadline: float,
) -> int:
    """Append matching documents to `out`; return EXHAUSTED, FULL or TIME_IS_UP.

    FULL: this call appended `max_docs` documents, or at least `max_bytes` bytes of documents (the last one may exceed
    it).
    """
    remaining: cython.Py_ssize_t = max_docs
    room: cython.Py_ssize_t = max_bytes
    until_clock: cython.int = _CLOCK_EVERY
    look_count: cython.Py_ssize_t = looks()
    raw: bytes
    if remaining <= 0 or room <= 0:
        return FULL
    for raw in values:
        if predicate is None or predicate.test(raw, 0, len(raw)):
            out.append(raw)
            remaining -= 1
            room -= len(raw)
            if remaining == 0 or room <= 0:
                return FULL
        until_clock -= 1
        if until_clock == 0 or looks() != look_count:
            until_clock = _CLOCK_EVERY
            look_count = looks()
            if clock() >= deadline:
                return TIME_IS_UP
    return EXHAUSTED


def scan_pairs(
    pairs: Iterator[tuple[bytes, bytes]],
    predicate: Predicate | None,
    out: list[tuple[bytes, bytes]],
    max_docs: int,
    max_bytes: int,
    clock: Callable[[], float],
    deadline: float,
) -> int:
    """Scan (key, document) pairs as `scan` does; the pairs of matching documents are appended."""
    remaining: cython.Py_ssize_t = max_docs
    room: cython.Py_ssize_t = max_bytes
    until_clock: cython.int = _CLOCK_EVERY
    look_count: cython.Py_ssize_t = looks()
    pair: tuple[bytes, bytes]
    raw: bytes
    if remaining <= 0 or room <= 0:
        return FULL
    for pair in pairs:
        raw = pair[1]
        if predicate is None or predicate.test(raw, 0, len(raw)):
            out.append(pair)
            remaining -= 1
            room -= len(raw)
            if remaining == 0 or room <= 0:
                return FULL
        until_clock -= 1
        if until_clock == 0 or looks() != look_count:
            until_clock = _CLOCK_EVERY
            look_count = looks()
            if clock() >= deadline:
                return TIME_IS_UP
    return EXHAUSTED


def count_scan(
    values: Iterator[bytes], predicate: Predicate | None, clock: Callable[[], float], deadline: float
) -> tuple[int, bool]:
    """Return (matching documents, True if the iterator was exhausted before the deadline)."""
    count: cython.Py_ssize_t = 0
    until_clock: cython.int = _CLOCK_EVERY
    look_count: cython.Py_ssize_t = looks()
    raw: bytes
    for raw in values:
        if predicate is None or predicate.test(raw, 0, len(raw)):
            count += 1
        until_clock -= 1
        if until_clock == 0 or looks() != look_count:
            until_clock = _CLOCK_EVERY
            look_count = looks()
            if clock() >= deadline:
                return count, False
    return count, True
