"""What a stage is: a value that has been parsed, and its run over one stream of documents.

Runs are push-based and synchronous. Whoever drives a pipeline pushes batches small enough to be worked off in a few
milliseconds; what has gathered in blocking stages is handed out by `finish`, which watches a deadline. So nothing in a
pipeline holds the loop for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from docstore.bson.walk import Value
from docstore.errors import Code, CommandError

MEMORY_LIMIT = 100 * 1024 * 1024
"""Bytes that one blocking stage may hold."""

CLOCK_EVERY = 128
"""Documents handed out between two looks at the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What runs need from outside. `clock` is in the unit of the deadlines."""

    clock: Callable[[], float]
    memory_limit: int = MEMORY_LIMIT
    collection_statistics: Callable[[bytes], bytes] | None = None
    """The document of `$collStats`, given its options."""


class StageRun(Protocol):
    """One stage at work on one stream."""

    @property
    def satisfied(self) -> bool:
        """Whether further input cannot change the output: a limit has been reached."""
        ...

    def push(self, documents: list[bytes]) -> list[bytes]:
        """Take documents in; what comes out at once."""
        ...

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        """After the last push: (documents, whether these are the last ones). Called until they are."""
        ...


class Stage(Protocol):
    """A parsed stage. `raw` is its specification, `{$name: ...}`."""

    @property
    def raw(self) -> bytes: ...

    def start(self, environment: Environment) -> StageRun: ...


StageParser = Callable[[Value], list[Stage]]
"""Parses what stands behind a stage's name. Some names stand for several stages."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An entry of the table of stages."""

    name: str
    parse: StageParser
    only_first: bool = False
    """The stage makes documents of its own and can stand nowhere else."""


class Streaming:
    """The run of a stage that turns each batch into another and keeps nothing."""

    __slots__ = ("_work",)

    satisfied = False

    def __init__(self, work: Callable[[list[bytes]], list[bytes]]) -> None:
        self._work = work

    def push(self, documents: list[bytes]) -> list[bytes]:
        return self._work(documents)

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        return [], True


def hand_out(documents: Iterator[bytes], clock: Callable[[], float], deadline: float) -> tuple[list[bytes], bool]:
    """What an iterator gives until the deadline, and whether that was all."""
    found: list[bytes] = []
    for document in documents:
        found.append(document)
        if len(found) % CLOCK_EVERY == 0 and clock() >= deadline:
            return found, False
    return found, True


def memory_exceeded(name: str, limit: int) -> CommandError:
    """The refusal of a blocking stage that would hold too much."""
    return CommandError(
        Code.QueryExceededMemoryLimitNoDiskUseAllowed,
        f"Exceeded memory limit of {limit} bytes for {name}, and this server does not spill to disk",
    )
