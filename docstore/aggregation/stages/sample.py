"""`$sample`: so many documents, chosen at random."""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from docstore.aggregation.sorted_runs import RUN_LENGTH, SortedRuns
from docstore.aggregation.stage import (
    CLOCK_EVERY,
    Declaration,
    Environment,
    Stage,
    StageRun,
    hand_out,
    memory_exceeded,
)
from docstore.aggregation.streams import PlainStage
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, Value, elements
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.unsupported import not_supported
from docstore.query.value.values import NUMBERS, int64_value, truncated_of

_KEY = struct.Struct(">dQ")
"""Numbers that are not negative, as bytes of the same order."""


@dataclass(frozen=True, slots=True)
class Sample(PlainStage):
    size: int

    @property
    def raw(self) -> bytes:
        return document_from([("$sample", OBJECT, document_from([("size", *int64_value(self.size))]))])

    def start(self, environment: Environment) -> StageRun:
        if environment.rng is None:
            raise not_supported("stage in this place", "$sample")
        return _SampleRun(self.size, environment.rng, environment)


class _SampleRun:
    """Every document draws a number; those with the greatest stay, in the order of their numbers."""

    def __init__(self, size: int, rng: Callable[[], float], environment: Environment) -> None:
        self._size = size
        self._dice = rng
        self._environment = environment
        self._clock = environment.clock
        self._kept: list[tuple[float, int, bytes]] = []
        self._numbers = itertools.count()
        self._held = self._counted = 0
        self._output: Iterator[bytes | None] | None = None

    @property
    def satisfied(self) -> bool:
        return self._size == 0

    def push(self, documents: list[bytes]) -> list[bytes]:
        kept = self._kept
        for document in documents:
            drawn = (self._dice(), next(self._numbers), document)
            self._held += len(document)
            if len(kept) < self._size:
                heapq.heappush(kept, drawn)
            else:
                self._held -= len(heapq.heappushpop(kept, drawn)[2])
        self._count(self._held)
        if self._held > self._environment.memory_limit:
            raise memory_exceeded("$sample", self._environment.memory_limit)
        return []

    def _count(self, held: int) -> None:
        self._environment.buffers.change(held - self._counted)
        self._counted = held

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._in_order()
        return hand_out(self._output, self._clock, deadline)

    def _in_order(self) -> Iterator[bytes | None]:
        """The documents by their numbers; None for every run of them that is sorted."""
        runs = SortedRuns("$sample", self._environment)
        self._count(0)
        while self._kept:
            part, self._kept = self._kept[-RUN_LENGTH:], self._kept[:-RUN_LENGTH]
            runs.add([(_KEY.pack(number, place), document) for number, place, document in part])
            for _ in range(CLOCK_EVERY):
                yield None
        for _, document in runs.merged():
            yield document


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(28745, "the $sample stage specification must be an object")
    size: int | None = None
    for name, code, data in elements(value[1]):
        if name != "size":
            raise CommandError(28748, f"unrecognized option to $sample: {name}")
        if code not in NUMBERS:
            raise CommandError(28746, "size argument to $sample must be a number")
        size = truncated_of((code, data))
        assert size is not None, "a number can be cut"
        if size < 0:
            raise CommandError(28747, "size argument to $sample must not be negative")
    if size is None:
        raise CommandError(28749, "$sample stage must specify a size")
    return [Sample(size)]


DECLARATIONS = (Declaration("$sample", _parse),)
