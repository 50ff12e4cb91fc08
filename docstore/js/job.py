"""The input and output of a map-reduce, as values.

A job holds the user's functions as BSON values (type, bytes), exactly as in the command: code, code with scope or a
string of source text. Documents and results travel as raw BSON; nothing here is decoded into Python objects.

- `counts.emit` is the number of `emit` calls, `counts.reduce` the number of calls of the user's reduce function,
  `counts.output` the number of results, `counts.input` the number of documents mapped.
- Results `{_id: key, value: value}` are distinct in `_id` and sorted by it in MongoDB's order, under the collation of
  the job if it has one.
- A partial result (a shard's) has been reduced but not finalized; `Workers.merge_reduce` finishes it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from docstore.bson import Value
from docstore.query.value.collation import Collation
from docstore.query.value.ordering import Ordering, ordering_of

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on one operation in a worker.

    `heap` bounds JavaScript objects and `data` everything the worker process allocates, both in bytes; `spill` is the
    heap size past which grouped state is reduced and written to disk; `seconds` is the time allowed, None for no
    limit. `owner`: whose share of the workers the operation takes (`docstore.js.shares`).
    """

    heap: int = 1100 * MEBIBYTE
    data: int = 2600 * MEBIBYTE
    spill: int = 320 * MEBIBYTE
    seconds: float | None = None
    owner: Hashable = None

    def with_heap(self, heap: int) -> Limits:
        """Return the limits with a heap of at most that many bytes, a third of which may be grouped state."""
        allowed = min(self.heap, heap)
        return replace(self, heap=allowed, spill=min(self.spill, allowed // 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReduceJob:
    """The functions of one map-reduce. `scope` and `stored` (the functions that the database keeps) are raw documents
    whose fields become global variables. Keys that are equal under `collation` are one key.
    """

    map: Value
    reduce: Value
    finalize: Value | None = None
    scope: bytes | None = None
    stored: bytes | None = None
    collation: Collation | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def ordering(self) -> Ordering:
        """The order of the results."""
        return ordering_of(self.collation)


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of calls of each step; counts of shards add up."""

    input: int = 0
    emit: int = 0
    reduce: int = 0
    output: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.input + other.input, self.emit + other.emit, self.reduce + other.reduce, self.output + other.output
        )
