"""Ranges of tokens: which partitions a SELECT without partition keys goes through, as ranges of row keys."""

from __future__ import annotations

from docstore.kernel.columns.encoding import escape
from docstore.sharding.partitioners import MAX_TOKEN, MIN_TOKEN, MURMUR3, RANDOM, Partitioner
from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.restrictions import RangeEnd, Restriction

_RANDOM_MAX = 1 << 127


def ring_range(partitioner: Partitioner, token: Restriction | None, bindings: Bindings) -> tuple[bytes, bytes] | None:
    """Return (start, end) of the partitions that the token restriction selects; an empty end is open. None if there
    are none.
    """
    if token is None:
        return b"", b""
    start: bytes | None = b""
    end: bytes | None = b""
    if token.equal is not None:
        value = token.equal(bindings)
        return _joined(_edge(partitioner, value, is_end=False), _edge(partitioner, value, is_end=True))
    if token.lower is not None:
        start = _end(partitioner, token.lower, bindings, lower=True)
    if token.upper is not None:
        end = _end(partitioner, token.upper, bindings, lower=False)
        if end is not None and not end:
            return None
    return _joined(start, end)


def _joined(start: bytes | None, end: bytes | None) -> tuple[bytes, bytes] | None:
    """Return the range; None if it is empty. A start of None is after everything, and so is an end."""
    if start is None or (end and start >= end):
        return None
    return start, end or b""


def _end(partitioner: Partitioner, end: RangeEnd, bindings: Bindings, *, lower: bool) -> bytes | None:
    return _edge(partitioner, end.value(bindings), is_end=end.inclusive != lower)


def _edge(partitioner: Partitioner, value: bytes, *, is_end: bool) -> bytes | None:
    """Return the start of a token's partitions, or their end with `is_end`. Empty: before everything. None: behind
    everything.
    """
    if partitioner.name not in (MURMUR3, RANDOM):
        return escape(value) + (b"\xff" if is_end else b"")
    lowest, highest = (MIN_TOKEN, MAX_TOKEN) if partitioner.name == MURMUR3 else (0, _RANDOM_MAX)
    token = int.from_bytes(value, "big", signed=True) + (1 if is_end else 0)
    if token > highest:
        return None
    return b"" if token <= lowest else partitioner.bytes_of(token)
