"""The loops over stored documents: iterator in, matches out, the clock looked at every 128 documents, and behind each
that has cost much (`docstore.bson.allowance`).

`values` are the stored documents as the engine's iterator gives them; what was taken from it and does not match is
gone. A `deadline` is compared with `clock()`, in the clock's own unit; infinity means none.
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
    """Append matching documents to `out`; EXHAUSTED, FULL or TIME_IS_UP.

    FULL: this call appended `max_docs` documents, or documents of `max_bytes` bytes or more in all (the last one may
    reach beyond).
    """
    left: cython.Py_ssize_t = max_docs
    room: cython.Py_ssize_t = max_bytes
    until_clock: cython.int = _CLOCK_EVERY
    looked: cython.Py_ssize_t = looks()
    raw: bytes
    if left <= 0 or room <= 0:
        return FULL
    for raw in values:
        if predicate is None or predicate.test(raw, 0, len(raw)):
            out.append(raw)
            left -= 1
            room -= len(raw)
            if left == 0 or room <= 0:
                return FULL
        until_clock -= 1
        if until_clock == 0 or looks() != looked:
            until_clock = _CLOCK_EVERY
            looked = looks()
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
    """As `scan`, over (key, document) pairs; the pairs of matching documents are appended."""
    left: cython.Py_ssize_t = max_docs
    room: cython.Py_ssize_t = max_bytes
    until_clock: cython.int = _CLOCK_EVERY
    looked: cython.Py_ssize_t = looks()
    pair: tuple[bytes, bytes]
    raw: bytes
    if left <= 0 or room <= 0:
        return FULL
    for pair in pairs:
        raw = pair[1]
        if predicate is None or predicate.test(raw, 0, len(raw)):
            out.append(pair)
            left -= 1
            room -= len(raw)
            if left == 0 or room <= 0:
                return FULL
        until_clock -= 1
        if until_clock == 0 or looks() != looked:
            until_clock = _CLOCK_EVERY
            looked = looks()
            if clock() >= deadline:
                return TIME_IS_UP
    return EXHAUSTED


def count_scan(
    values: Iterator[bytes], predicate: Predicate | None, clock: Callable[[], float], deadline: float
) -> tuple[int, bool]:
    """(matching documents, whether the iterator was exhausted before the deadline)."""
    count: cython.Py_ssize_t = 0
    until_clock: cython.int = _CLOCK_EVERY
    looked: cython.Py_ssize_t = looks()
    raw: bytes
    for raw in values:
        if predicate is None or predicate.test(raw, 0, len(raw)):
            count += 1
        until_clock -= 1
        if until_clock == 0 or looks() != looked:
            until_clock = _CLOCK_EVERY
            looked = looks()
            if clock() >= deadline:
                return count, False
    return count, True
