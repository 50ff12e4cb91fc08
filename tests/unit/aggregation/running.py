"""Pipelines over Python documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from docstore.aggregation.parse import parse_written
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.streams import Stream
from docstore.errors import CommandError
from docstore.query.context import PLAIN
from tests.unit.query.raw import decoded, raw

ENVIRONMENT = Environment(clock=lambda: 0.0)
NEVER = -1.0
"""A deadline that has always passed: runs hand out as little as they may at a time."""


def parsed(stages: Sequence[dict[str, Any]]) -> Pipeline:
    """The stages as a process of the cluster writes them, with the marks of halves."""
    return parse_written([raw(stage) for stage in stages], PLAIN)


class FewAtATime:
    """A source that gives three documents at a time, and now and then none yet."""

    def __init__(self, documents: Iterable[bytes]) -> None:
        self._left = list(documents)
        self._calls = 0

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        self._calls += 1
        if self._calls % 3 == 0:
            return [], False
        taken, self._left = self._left[:3], self._left[3:]
        return taken, not self._left


class Kept:
    """A run that stays in memory."""

    def __init__(self, records: list[tuple[bytes, bytes]]) -> None:
        self._records = records

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._records)

    def unread(self, ahead: int) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._records)


class DiskSpace:
    """Room outside memory that is memory; counts the runs."""

    def __init__(self) -> None:
        self.runs = 0

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> Kept:
        self.runs += 1
        return Kept(list(records))


def drain(stream: Stream) -> list[bytes]:
    """Everything that comes out, as little at a time as may be."""
    found: list[bytes] = []
    while True:
        more, last = stream.next_batch(NEVER)
        found += more
        if last:
            return found


def aggregate(stages: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    stream = parsed(stages).open(FewAtATime(map(raw, documents)), ENVIRONMENT)
    return [decoded(document) for document in drain(stream)]


def refusal(stages: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]] = ()) -> int:
    """The code with which parsing or running the pipeline is refused."""
    try:
        aggregate(stages, documents)
    except CommandError as error:
        return error.code
    raise AssertionError(f"{stages} was not refused")
