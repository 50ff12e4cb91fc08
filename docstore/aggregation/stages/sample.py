"""`$sample`: a given number of random documents.

Every document draws a random number; those with the greatest numbers remain, in the order of their numbers. So samples
of shards can be merged: they send documents with their numbers (`numbered`), of which the greatest remain.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from docstore.aggregation.sorted_runs import RUN_LENGTH, SortedRuns
from docstore.aggregation.stage import (
    DOING_MERGE,
    WILL_BE_MERGED,
    Declaration,
    Environment,
    PlainStage,
    SplitStage,
    Stage,
    memory_exceeded,
)
from docstore.aggregation.streams import CLOCK_EVERY, StageRun, hand_out
from docstore.bson.build import document_from
from docstore.bson.walk import DOUBLE, OBJECT, Value, elements, get_field
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.unsupported import not_supported
from docstore.query.value.values import NUMBERS, TRUE, double_of, double_value, int64_value, truncated_of

_KEY = struct.Struct(">dQ")
"""Encodes non-negative numbers in byte order."""


@dataclass(frozen=True, slots=True)
class Sample(PlainStage):
    """The stage. `mark`: its half (WILL_BE_MERGED, DOING_MERGE); empty for a whole one."""

    size: int
    mark: str = ""

    @property
    def raw(self) -> bytes:
        fields = [("size", *int64_value(self.size))]
        if self.mark:
            fields.append((self.mark, *TRUE))
        return document_from([("$sample", OBJECT, document_from(fields))])

    def split(self) -> SplitStage | None:
        return SplitStage(replace(self, mark=WILL_BE_MERGED).raw, replace(self, mark=DOING_MERGE).raw)

    def start(self, environment: Environment) -> StageRun:
        if environment.rng is None:
            raise not_supported("stage in this place", "$sample")
        return _SampleRun(self, environment.rng, environment)


class _SampleRun:
    def __init__(self, stage: Sample, rng: Callable[[], float], environment: Environment) -> None:
        self._size = stage.size
        self._mark = stage.mark
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
        heap = self._kept
        merging = self._mark == DOING_MERGE
        for document in documents:
            number, document = _parse_partial(document) if merging else (self._dice(), document)
            drawn = (number, next(self._numbers), document)
            self._held += len(document)
            if len(heap) < self._size:
                heapq.heappush(heap, drawn)
            else:
                self._held -= len(heapq.heappushpop(heap, drawn)[2])
        self._count(self._held)
        if self._held > self._environment.memory_limit:
            raise memory_exceeded("$sample", self._environment.memory_limit)
        return []

    def _count(self, bytes_in_memory: int) -> None:
        self._environment.buffers.change(bytes_in_memory - self._counted)
        self._counted = bytes_in_memory

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._in_order()
        return hand_out(self._output, self._clock, deadline)

    def _in_order(self) -> Iterator[bytes | None]:
        """Yield the documents by their numbers; None after each sorted run."""
        runs = SortedRuns("$sample", self._environment)
        self._count(0)
        while self._kept:
            part, self._kept = self._kept[-RUN_LENGTH:], self._kept[:-RUN_LENGTH]
            runs.add([(_KEY.pack(number, serial), document) for number, serial, document in part])
            for _ in range(CLOCK_EVERY):
                yield None
        is_final = self._mark != WILL_BE_MERGED
        for key, document in runs.merged():
            yield document if is_final else numbered(_KEY.unpack(key)[0], document)


def numbered(number: float, document: bytes) -> bytes:
    """Return a document with its random number, as a shard sends it."""
    return document_from([("number", *double_value(number)), ("document", OBJECT, document)])


def _parse_partial(sent: bytes) -> tuple[float, bytes]:
    number, document = get_field(sent, "number"), get_field(sent, "document")
    if number is None or number[0] != DOUBLE or document is None or document[0] != OBJECT:
        raise CommandError(Code.BadValue, f"{DOING_MERGE} is for documents that {WILL_BE_MERGED} has made")
    return double_of(number), document[1]


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(28745, "the $sample stage specification must be an object")
    size: int | None = None
    mark = ""
    for name, code, data in elements(value[1]):
        if query_context.halves and name in (WILL_BE_MERGED, DOING_MERGE):
            mark = name
            continue
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
    return [Sample(size, mark)]


DECLARATIONS = (Declaration("$sample", _parse),)
