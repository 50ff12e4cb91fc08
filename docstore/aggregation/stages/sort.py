"""`$sort`: in memory, in runs that are merged as they are handed out; with a limit behind it only the best are kept."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from docstore.aggregation.stage import CLOCK_EVERY, Declaration, Environment, Stage, StageRun, memory_exceeded
from docstore.bson.build import document_from
from docstore.bson.keys import KEY_OF_NULL, encode_key
from docstore.bson.walk import OBJECT, Value, get_field
from docstore.errors import CommandError
from docstore.query.sort import Sort, parse_sort_fields

RUN_LENGTH = 8192
"""Documents sorted at one go: a few milliseconds."""

_PER_DOCUMENT = 160
"""Bytes of memory that a document costs besides its own and its key's."""

_key = itemgetter(0)


@dataclass(frozen=True, slots=True)
class SortStage:
    """`limit` comes from a `$limit` behind it: no more than so many documents will be asked for."""

    raw: bytes
    sort: Sort
    limit: int | None = None

    def start(self, environment: Environment) -> StageRun:
        key = _whole_id if self.sort.fields == (("_id", 1),) else self.sort.pattern().sort_key
        return _SortRun(key, self.limit, environment)


def _whole_id(document: bytes) -> bytes:
    """The key of a sort by `_id` alone: arrays count as a whole there, since no stored `_id` is one."""
    found = get_field(document, "_id")
    return KEY_OF_NULL if found is None else encode_key(found)


class _SortRun:
    """Every run is sorted, equal keys in order of arrival; `_open` is what came in since a run was closed."""

    satisfied = False

    def __init__(self, sort_key: Callable[[bytes], bytes], limit: int | None, environment: Environment) -> None:
        self._sort_key = sort_key
        self._limit = limit
        self._environment = environment
        self._open: list[tuple[bytes, bytes]] = []
        self._runs: list[list[tuple[bytes, bytes]]] = []
        self._held = 0
        self._output: Iterator[tuple[bytes, bytes]] | None = None

    def push(self, documents: list[bytes]) -> list[bytes]:
        sort_key = self._sort_key
        for document in documents:
            key = sort_key(document)
            self._open.append((key, document))
            self._held += len(key) + len(document) + _PER_DOCUMENT
        if len(self._open) >= RUN_LENGTH:
            self._close_run()
        if self._held > self._environment.memory_limit:
            raise memory_exceeded("$sort", self._environment.memory_limit)
        return []

    def _close_run(self) -> None:
        self._open.sort(key=_key)
        if self._limit is not None and self._limit <= RUN_LENGTH:
            best = self._runs.pop() if self._runs else []
            kept = sorted([*best, *self._open], key=_key)[: self._limit]
            self._held = sum(len(key) + len(document) + _PER_DOCUMENT for key, document in kept)
            self._runs = [kept]
        else:
            self._runs.append(self._open)
        self._open = []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._close_run()
            self._output = heapq.merge(*self._runs, key=_key)
        found: list[bytes] = []
        for _, document in self._output:
            found.append(document)
            if len(found) % CLOCK_EVERY == 0 and self._environment.clock() >= deadline:
                return found, False
        return found, True


def _parse(value: Value) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(15973, "the $sort key specification must be an object")
    fields = parse_sort_fields(value[1])
    if not fields:
        raise CommandError(15976, "$sort stage must have at least one sort key")
    return [SortStage(document_from([("$sort", *value)]), Sort(fields))]


DECLARATIONS = (Declaration("$sort", _parse),)
