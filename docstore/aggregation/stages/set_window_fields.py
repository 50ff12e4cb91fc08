"""`$setWindowFields`: fields computed from the neighbours of each document in its partition.

Documents are first sorted by partition and order; then one partition at a time is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docstore.aggregation.expressions.calculations import source_of
from docstore.aggregation.expressions.model import Expression
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.sorted_runs import SortedRuns
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.streams import CLOCK_EVERY, GIVEN_BYTES, StageRun
from docstore.aggregation.window.functions import Open, parse_output
from docstore.aggregation.window.partition import NOT_YET, Fields, Partition, Placed
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, NULL, OBJECT, STRING, UNDEFINED, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.group.sources import HeldSource
from docstore.kernel.group.windows import WindowKeys, partition_end, partition_of
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.context import QueryContext
from docstore.query.projection.projection import Branch, Computed, PathCollision, Projection, plant, projection_of
from docstore.query.sort import parse_sort_fields
from docstore.query.value.option_fields import option_fields
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import NULL_VALUE, text_of, type_name


@dataclass(frozen=True, slots=True)
class SetWindowFields(PlainStage):
    raw: bytes
    partition_by: Expression | None
    sort_fields: Fields
    outputs: tuple[tuple[str, Open], ...]
    ordering: Ordering

    def start(self, environment: Environment) -> StageRun:
        return _WindowRun(self, environment)


class _Outputs:
    """The output fields: a projection with the values of the current document."""

    def __init__(self, outputs: tuple[tuple[str, Open], ...]) -> None:
        self._values = [HeldSource() for _ in outputs]
        self._opens = [function for _, function in outputs]
        root = Branch()
        for (path, _), value in zip(outputs, self._values, strict=True):
            plant(root, path, Computed(value))
        self._projection: Projection = projection_of(root, keep_others=True, in_place=True)

    def documents(self, partition: Partition) -> Iterator[list[bytes]]:
        """Yield the documents in lists, which are empty if that takes long."""
        opened: list[tuple[HeldSource, Placed]] = [
            (value, function(partition)) for value, function in zip(self._values, self._opens, strict=True)
        ]
        apply, document_at = self._projection.apply, partition.placed().document
        batch: list[bytes] = []
        size = 0
        for position in range(len(partition)):
            for source, value_at in opened:
                while (value := value_at(position)) is NOT_YET:
                    yield batch
                    batch, size = [], 0
                source.current_value = value
            document = apply(document_at(position))
            batch.append(document)
            size += len(document)
            if len(batch) == CLOCK_EVERY or size >= GIVEN_BYTES:
                yield batch
                batch, size = [], 0
        yield batch


class _WindowRun:
    satisfied = False

    def __init__(self, stage: SetWindowFields, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._keys = WindowKeys(
            None if stage.partition_by is None else source_of(stage.partition_by),
            KeyPattern(list(stage.sort_fields), stage.ordering.fold) if stage.sort_fields else None,
            None if stage.ordering is BINARY else stage.ordering.key,
            checked_partition,
        )
        self._sorted = SortedRuns("$setWindowFields", environment)
        self._output: Iterator[list[bytes]] | None = None

    def push(self, documents: list[bytes]) -> list[bytes]:
        self._sorted.add(self._keys.pairs(documents))
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._steps()
        batch: list[bytes] = []
        size = 0
        for documents in self._output:
            batch += documents
            size += sum(map(len, documents))
            if size >= GIVEN_BYTES or self._environment.clock() >= deadline:
                return batch, False
        return batch, True

    def _steps(self) -> Iterator[list[bytes]]:
        """Yield the documents in lists, which are empty while input is only read."""
        outputs = _Outputs(self._stage.outputs)
        partition = Partition(self._stage.sort_fields, self._environment)
        current: bytes | None = None
        for piece in self._sorted.pieces():
            at = 0
            while at < len(piece):
                end = at if current is None else partition_end(piece, at, current)
                if end > at:
                    partition.add(piece[at:end])
                    at = end
                    continue
                if current is not None:
                    yield from outputs.documents(partition)
                    partition.close()
                partition = Partition(self._stage.sort_fields, self._environment)
                current = partition_of(piece[at][0])
            yield []
        yield from outputs.documents(partition)
        partition.close()


def checked_partition(value: Value | None) -> Value:
    """Return the partition key; a missing one is null."""
    if value is None:
        return NULL_VALUE
    if value[0] == ARRAY:
        raise CommandError(Code.TypeMismatch, "An expression used to partition cannot evaluate to value of type array")
    return value


def wrong_type(stage: str, field: str, value: Value, expected: str) -> CommandError:
    return CommandError(
        Code.TypeMismatch,
        f"BSON field '{stage}.{field}' is the wrong type '{type_name(value)}', expected type '{expected}'",
    )


def partition_paths(stage: str, value: Value) -> list[str]:
    """Return the paths of `partitionByFields`, skipping nulls. Errors: 10065, TypeMismatch, those of paths."""
    if value[0] in (NULL, UNDEFINED):
        raise CommandError(10065, "invalid parameter: expected an object (partitionByFields)")
    if value[0] != ARRAY:
        raise wrong_type(stage, "partitionByFields", value, "array")
    paths: list[str] = []
    for index, member in enumerate(values(value[1])):
        if member[0] in (NULL, UNDEFINED):
            continue
        if member[0] != STRING:
            raise wrong_type(stage, f"partitionByFields.{index}", member, "string")
        paths.append(text_of(member))
    return paths


def parse_set_window_fields(value: Value, query_context: QueryContext) -> list[Stage]:
    """Parse the stage. Errors: FailedToParse, and the codes of each part."""
    if value[0] != OBJECT:
        raise CommandError(Code.FailedToParse, "the $setWindowFields stage specification must be an object")
    options: dict[str, Value] = {}
    for name, (code, data) in option_fields("$setWindowFields", value[1]).items():
        if name not in ("partitionBy", "sortBy", "output"):
            raise CommandError(40415, f"BSON field '$setWindowFields.{name}' is an unknown field.")
        if code in (NULL, UNDEFINED):
            continue
        if name != "partitionBy" and code != OBJECT:
            raise wrong_type("$setWindowFields", name, (code, data), "object")
        options[name] = (code, data)
    if "output" not in options:
        raise CommandError(40414, "BSON field '$setWindowFields.output' is missing but a required field")
    partition_by: Expression | None = None
    if "partitionBy" in options:
        partition_by = parse_expression(options["partitionBy"], query_context=query_context)
        if partition_by.is_constant:
            checked_partition(partition_by.constant)
            partition_by = None
    sort_fields = parse_sort_fields(options["sortBy"][1]) if "sortBy" in options else None
    outputs = parse_outputs(options["output"], sort_fields, query_context)
    raw = document_from([("$setWindowFields", *value)])
    return [SetWindowFields(raw, partition_by, sort_fields or (), outputs, query_context.ordering)]


def parse_outputs(
    value: Value, sort_fields: Fields | None, query_context: QueryContext
) -> tuple[tuple[str, Open], ...]:
    """Return (path, window function) of each output."""
    outputs: list[tuple[str, Open]] = []
    paths = Branch()
    for path, code, data in elements(value[1]):
        outputs.append((path, parse_output((code, data), sort_fields, query_context)))
        check_field_path(path)
        try:
            plant(paths, path, Computed(lambda document: None))
        except PathCollision:
            raise CommandError(
                6307900, "$setWindowFields 'output' specification contains two conflicting paths"
            ) from None
    return tuple(outputs)


DECLARATIONS = (Declaration("$setWindowFields", parse_set_window_fields),)
