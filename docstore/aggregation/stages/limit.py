"""`$limit` and `$skip`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docstore.aggregation.field_dependencies import FieldDependencies
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.streams import StageRun
from docstore.bson.build import document_from
from docstore.bson.limits import LONG_MAX
from docstore.bson.walk import Value
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.find import FindQuery
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, int64_value, integral_of


@dataclass(frozen=True, slots=True)
class _PositionalStage(PlainStage):
    """A stage that selects documents by their positions, whatever they contain."""

    count: int

    keeps_documents = True
    counts_documents = True

    @property
    def field_dependencies(self) -> FieldDependencies:
        return FieldDependencies(frozenset())


@dataclass(frozen=True, slots=True)
class Limit(_PositionalStage):
    def join_with(self, following: Stage) -> Stage | None:
        return Limit(min(self.count, following.count)) if isinstance(following, Limit) else None

    def in_find(self, query: FindQuery, *, with_sort: bool) -> FindQuery | None:
        return None if query.limit else replace(query, limit=self.count)

    @property
    def raw(self) -> bytes:
        return document_from([("$limit", *int64_value(self.count))])

    def start(self, environment: Environment) -> StageRun:
        return _LimitRun(self.count)


class _LimitRun:
    __slots__ = ("_left",)

    def __init__(self, count: int) -> None:
        self._left = count

    @property
    def satisfied(self) -> bool:
        return self._left == 0

    def push(self, documents: list[bytes]) -> list[bytes]:
        batch = documents[: self._left]
        self._left -= len(batch)
        return batch

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        return [], True


@dataclass(frozen=True, slots=True)
class Skip(_PositionalStage):
    def join_with(self, following: Stage) -> Stage | None:
        total = self.count + following.count if isinstance(following, Skip) else LONG_MAX + 1
        return Skip(total) if total <= LONG_MAX else None

    def in_find(self, query: FindQuery, *, with_sort: bool) -> FindQuery | None:
        return None if query.limit else replace(query, skip=query.skip + self.count)

    @property
    def raw(self) -> bytes:
        return document_from([("$skip", *int64_value(self.count))])

    def start(self, environment: Environment) -> StageRun:
        return _SkipRun(self.count)


class _SkipRun:
    __slots__ = ("_left",)

    satisfied = False

    def __init__(self, count: int) -> None:
        self._left = count

    def push(self, documents: list[bytes]) -> list[bytes]:
        dropped = min(self._left, len(documents))
        self._left -= dropped
        return documents[dropped:]

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        return [], True


def leading_limit(stages: Sequence[Stage]) -> int | None:
    """Return the number of documents that the leading `$skip` and `$limit` stages read; None: all."""
    skipped = 0
    for stage in stages:
        if isinstance(stage, Skip):
            skipped += stage.count
        elif isinstance(stage, Limit):
            return skipped + stage.count
        else:
            break
    return None


def _count(name: str, code: int, value: Value) -> int:
    start = f"invalid argument to {name} stage: Expected"
    if value[0] not in NUMBERS:
        raise CommandError(code, f"{start} a number in: {name}: {display(value)}")
    count = integral_of(value)
    if count is None or count > LONG_MAX:
        raise CommandError(code, f"{start} an integer: {name}: {display(value)}")
    if count < 0:
        raise CommandError(code, f"{start} a non-negative number in: {name}: {display(value)}")
    return count


def _parse_limit(value: Value, query_context: QueryContext) -> list[Stage]:
    count = _count("$limit", 5107201, value)
    if count == 0:
        raise CommandError(15958, "the limit must be positive")
    return [Limit(count)]


def _parse_skip(value: Value, query_context: QueryContext) -> list[Stage]:
    return [Skip(_count("$skip", 5107200, value))]


DECLARATIONS = (Declaration("$limit", _parse_limit), Declaration("$skip", _parse_skip))
