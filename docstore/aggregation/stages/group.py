"""`$group`: one document per distinct key.

Keys are distinct under comparison (1 and 1.0 are one key; the first one seen is returned); a missing key is null. Two
internal marks in the specification, set by the split of a pipeline, denote the halves of a distributed group:
`$willBeMerged` (output the states) and `$doingMerge` (input such states).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from docstore.aggregation.accumulators.accumulators import ACCUMULATORS, Accumulator
from docstore.aggregation.expressions.calculations import paths_of, source_of
from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.expressions.model import Evaluate, Expression, Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.field_dependencies import FieldDependencies
from docstore.aggregation.filter_pushdown import PathSource, plain_path
from docstore.aggregation.group_results import STEP_BYTES, GroupResults
from docstore.aggregation.limits import MAX_KERNEL_GROUP_FIELDS
from docstore.aggregation.spilled_groups import Row
from docstore.aggregation.stage import (
    DOING_MERGE,
    WILL_BE_MERGED,
    Declaration,
    Environment,
    PlainStage,
    SplitStage,
    Stage,
)
from docstore.aggregation.stages.accumulated_fields import Field, finished_state, parse_field
from docstore.aggregation.streams import CLOCK_EVERY, StageRun
from docstore.bson.build import array_from, document_from
from docstore.bson.walk import BOOL, EMPTY_DOCUMENT, OBJECT, Value, elements, get_field, values
from docstore.errors import CommandError
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.grouping import Grouping
from docstore.kernel.group.sources import FilledSource, Source
from docstore.kernel.group.states import LAST_MAX, LAST_MIN, STATES, Start
from docstore.kernel.keys.encoding import encode_key
from docstore.query.context import QueryContext
from docstore.query.find import DistinctPath, FindQuery
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.values import NULL_VALUE, NUMBERS, TRUE, string_value

_LAST = {"$min": STATES[LAST_MIN], "$max": STATES[LAST_MAX]}

_PLANNED = ACCUMULATORS.keys() - {"$mergeObjects"}


_PER_GROUP = 300
"""Bytes of memory of a group besides its key and its states."""


def _specified(fields: list[tuple[str, int, bytes]]) -> bytes:
    return document_from([("$group", OBJECT, document_from(fields))])


def merging_half(outputs: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return the `$group` that merges the states of these output fields, which shards have computed."""
    return _specified([("_id", *string_value("$_id")), *outputs, (DOING_MERGE, *TRUE)])


@dataclass(frozen=True, slots=True)
class Group(PlainStage):
    raw: bytes
    key: Expression
    fields: tuple[Field, ...]
    will_be_merged: bool = False
    doing_merge: bool = False
    last_extremes: bool = False
    """True if `$min` and `$max` return the last of equal values."""
    planned_key: Expression | None = None
    """The key as a real server's query planner evaluates it, if its errors differ."""
    ordering: Ordering = BINARY
    """The equality of keys; the kernel supports only the binary order."""

    def start(self, environment: Environment) -> StageRun:
        if not self._is_for_kernel():
            return general_run(self, environment)
        if self.doing_merge:
            return _MergingRun(self, environment)
        return _KernelRun(self, lambda: self._grouping(None), environment)

    def start_unwound(self, path: str, environment: Environment) -> StageRun | None:
        if self.doing_merge or not self._is_for_kernel():
            return None
        try:
            return _KernelRun(self, lambda: self._grouping(path), environment)
        except ValueError:
            return None

    @property
    def field_dependencies(self) -> FieldDependencies:
        paths = self.paths()
        return FieldDependencies(None if paths is None else {top(path) for path in paths}, drops_others=True)

    @property
    def copied_paths(self) -> PathSource | None:
        if self.doing_merge:
            return None
        copied = {f"_id.{name}": part.path for name, part in self.key.fields or ()}
        copied["_id"] = self.key.path
        return lambda path: plain_path(copied.get(path))

    def narrow_find(self, query: FindQuery) -> FindQuery:
        if query.sort.measures:
            return query
        path = None if query.sort.fields or query.skip or query.limit else self.distinct()
        distinct = None if path is None else DistinctPath(path, by_element=False)
        return replace(query, needs=self.paths(), distinct=distinct)

    def split(self) -> SplitStage | None:
        fields = elements(elements(self.raw)[0][2])
        return SplitStage(
            _specified([*fields, (WILL_BE_MERGED, *TRUE)]), merging_half(field for field in fields if field[0] != "_id")
        )

    def planned(self, following: Stage | None) -> Stage | None:
        if not all(field.accumulator in _PLANNED for field in self.fields):
            return None
        return replace(self, last_extremes=True, key=self.planned_key or self.key)

    def paths(self) -> frozenset[str] | None:
        """Return the document paths that the groups depend on; None if they are not evident."""
        part_paths = [paths_of(expression) for expression in (self.key, *(field.argument for field in self.fields))]
        path_sets = [paths for paths in part_paths if paths is not None]
        return frozenset[str]().union(*path_sets) if len(path_sets) == len(part_paths) else None

    def distinct(self) -> str | None:
        """Return the path whose distinct values are the groups, if there are no other fields."""
        return self.key.path if not self.fields and self.ordering is BINARY else None

    def states(self, key: Value) -> list[Accumulator]:
        """Return the initial states of a key's group."""
        return [field.state(key, last_extremes=self.last_extremes) for field in self.fields]

    def _is_for_kernel(self) -> bool:
        return (
            self.ordering is BINARY
            and len(self.fields) <= MAX_KERNEL_GROUP_FIELDS
            and all(field.kernel_start is not None for field in self.fields)
        )

    def merging(self) -> Grouping:
        """Return the kernel's grouping that merges states."""
        return self._grouping(None)

    def _grouping(self, unwind: str | None) -> Grouping:
        fields: list[tuple[str, Start, Source]] = []
        for field in self.fields:
            start = _LAST.get(field.accumulator) if self.last_extremes else None
            start = start or field.kernel_start
            assert start is not None, "asked before"
            fields.append((field.name, start, source_of(field.argument)))
        return Grouping(source_of(self.key), fields, self._finished, unwind)

    def _finished(self, position: int, state: State, partly: bool) -> Value:
        return finished_state(self.fields[position].accumulator, state, partly=partly)

    def document(self, key: Value, states: list[Accumulator]) -> bytes:
        """Return the document of a group: its results, or its states if they will be merged."""
        results = [state.partial() if self.will_be_merged else state.result() for state in states]
        fields = ((field.name, *value) for field, value in zip(self.fields, results, strict=True))
        return document_from([("_id", *key), *fields])

    def merged(self, rows: list[bytes]) -> bytes:
        """Return the document of a group that was spilled as these rows."""
        states: list[Accumulator] | None = None
        for row in rows:
            key, *partials = values(row)
            if states is None:
                first, states = key, self.states(key)
            for state, part in zip(states, partials, strict=True):
                state.merge(part)
        assert states is not None, "a group has a row"
        return self.document(first, states)


class _KernelRun:
    """Grouping by the kernel; the stage's own accumulators compute what its states cannot."""

    satisfied = False

    def __init__(self, group: Group, make: Callable[[], Grouping], environment: Environment) -> None:
        self._group = group
        self._make = make
        self._grouping = make()
        self._results = GroupResults(environment)
        self._merging = make()

    def push(self, documents: list[bytes]) -> list[bytes]:
        self._grouping.add(documents)
        if self._results.is_too_much(self._grouping.memory):
            self._results.give(self._grouping.keys(), self._grouping.rows)
            self._grouping = self._make()
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        grouping = self._grouping
        output = self._results.finish(grouping.keys(), grouping.rows, self._documents, self._merged, deadline)
        if self._results.has_all:
            self._grouping = self._make()
        return output

    def _documents(self) -> Iterator[list[bytes]]:
        groups = self._grouping.groups()
        count = 1
        while batch := self._grouping.documents(islice(groups, count), self._group.will_be_merged):
            count = max(1, count // 8) if sum(map(len, batch)) > STEP_BYTES else min(2 * count, CLOCK_EVERY)
            yield batch

    def _merged(self, rows: list[bytes]) -> bytes:
        return self._merging.merged(rows, self._group.will_be_merged) or self._group.merged(rows)


class _MergingRun:
    """Merging of incoming states: they are collected, and merged per group at the end."""

    satisfied = False

    def __init__(self, group: Group, environment: Environment) -> None:
        self._group = group
        self._merging = group.merging()
        self._results = GroupResults(environment)
        self._rows: dict[bytes, list[bytes]] = {}
        self._held = 0

    def push(self, documents: list[bytes]) -> list[bytes]:
        rows = self._rows
        for document in documents:
            key = get_field(document, "_id")
            assert key is not None, "a partial group has a key"
            encoded = encode_key(key)
            partials = rows.get(encoded)
            if partials is None:
                rows[encoded] = [document]
            else:
                partials.append(document)
        self._held += sum(map(len, documents)) + _PER_GROUP * len(documents)
        if self._results.is_too_much(self._held):
            self._results.give(rows, partial(_all_rows, rows))
            self._rows = {}
            self._held = 0
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        rows = self._rows
        output = self._results.finish(rows, partial(_all_rows, rows), self._documents, self._merged, deadline)
        if self._results.has_all:
            self._rows = {}
        return output

    def _documents(self) -> Iterator[list[bytes]]:
        return ([self._merged(rows)] for rows in self._rows.values())

    def _merged(self, rows: list[bytes]) -> bytes:
        return self._merging.merged(rows, self._group.will_be_merged) or self._group.merged(rows)


def _all_rows(rows: dict[bytes, list[bytes]], keys: list[bytes]) -> list[Row]:
    return [(key, row) for key in keys for row in rows[key]]


def general_run(group: Group, environment: Environment) -> StageRun:
    """Return the interpreted run, which supports everything: if the kernel's cannot, or for comparison with it."""
    return _GroupRun(group, environment)


class _GroupRun:
    """Interpreted grouping, and the merging of states."""

    satisfied = False

    def __init__(self, group: Group, environment: Environment) -> None:
        self._group = group
        self._key: Evaluate = group.key.evaluate
        self._key_of = group.ordering.key
        self._arguments: list[Evaluate] = [field.argument.evaluate for field in group.fields]
        self._groups: dict[bytes, tuple[Value, list[Accumulator]]] = {}
        self._held = 0
        self._results = GroupResults(environment)

    def push(self, documents: list[bytes]) -> list[bytes]:
        for document in documents:
            self._take(Scope(document))
        if self._results.is_too_much(self._held):
            self._results.give(self._groups, partial(_rows, self._groups))
            self._groups = {}
            self._held = 0
        return []

    def _take(self, scope: Scope) -> None:
        key = self._key(scope) or NULL_VALUE
        encoded = self._key_of(key)
        entry = self._groups.get(encoded)
        if entry is None:
            entry = (key, self._group.states(key))
            self._groups[encoded] = entry
            self._held += len(encoded) + len(key[1]) + _PER_GROUP * (1 + len(entry[1]))
        if self._group.doing_merge:
            for state, argument in zip(entry[1], self._arguments, strict=True):
                part = argument(scope)
                assert part is not None, "a partial group without one of its states"
                self._held += state.merge(part)
        else:
            for state, argument in zip(entry[1], self._arguments, strict=True):
                self._held += state.add(argument(scope))

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        groups = self._groups
        output = self._results.finish(groups, partial(_rows, groups), self._documents, self._group.merged, deadline)
        if self._results.has_all:
            self._groups = {}
        return output

    def _documents(self) -> Iterator[list[bytes]]:
        return ([self._group.document(key, states)] for key, states in self._groups.values())


def _rows(groups: dict[bytes, tuple[Value, list[Accumulator]]], keys: list[bytes]) -> list[Row]:
    rows: list[Row] = []
    for encoded in keys:
        key, states = groups[encoded]
        rows.append((encoded, array_from([key, *(state.partial() for state in states)])))
    return rows


def parse_group(value: Value, query_context: QueryContext) -> Group:
    """Parse the stage."""
    if value[0] != OBJECT:
        raise CommandError(15947, "a group's fields must be specified in an object")
    key: Expression | None = None
    fields: list[Field] = []
    marks: set[str] = set()
    for name, code, data in elements(value[1]):
        if name == "_id":
            if key is not None:
                raise CommandError(15948, "a group's _id may only be specified once")
            _check_key((code, data))
            key = _filled(parse_expression((code, data), query_context=query_context))
        elif query_context.halves and name in (WILL_BE_MERGED, DOING_MERGE):
            marks.add(name)
        else:
            fields.append(parse_field(name, (code, data), query_context))
    if key is None:
        raise CommandError(15955, "a group specification must include an _id")
    raw = document_from([("$group", *value)])
    if DOING_MERGE in marks:
        states = {field.name: parse_expression(string_value("$" + field.name)) for field in fields}
        fields = [replace(field, argument=states[field.name]) for field in fields]
    return Group(
        raw, key, tuple(fields), WILL_BE_MERGED in marks, DOING_MERGE in marks, ordering=query_context.ordering
    )


def _check_key(value: Value) -> None:
    """Refuse a key document that looks like an inclusion projection. Errors: 17390."""
    fields = elements(value[1]) if value[0] == OBJECT else []
    if fields and not fields[0][0].startswith("$") and any(code == BOOL or code in NUMBERS for _, code, _ in fields):
        raise CommandError(17390, "$group does not support inclusion-style expressions")


def _filled(key: Expression) -> Expression:
    """Return the key with a missing field of a one-field document as null."""
    if key.fields is None or len(key.fields) != 1:
        return key
    ((name, field),) = key.fields
    without, value_of = key.evaluate, field.evaluate
    source = FilledSource(source_of(field))
    filled = Expression(lambda scope: value_of(scope) or NULL_VALUE, arguments=(field,), calculation=source)

    def evaluate(scope: Scope) -> Value | None:
        key_value = without(scope)
        return (OBJECT, document_from([(name, *NULL_VALUE)])) if key_value == (OBJECT, EMPTY_DOCUMENT) else key_value

    return replace(key, evaluate=evaluate, fields=((name, filled),))


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    return [parse_group(value, query_context)]


DECLARATIONS = (Declaration("$group", _parse),)
