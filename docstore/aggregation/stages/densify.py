"""`$densify`: adds documents for the missing values of a numeric or date field.

Documents are sorted by the field (by partition first, with bounds of or for each partition). Values are generated in
steps from the minimum, or the lower bound; existing values are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bson.decimal128 import Decimal128

from docstore.aggregation.expressions.date_arithmetic import add_units
from docstore.aggregation.expressions.field_paths import walk
from docstore.aggregation.sorted_runs import SortedRuns
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.stages.set_window_fields import partition_paths, wrong_type
from docstore.aggregation.streams import StageRun, hand_out
from docstore.aggregation.window.bounds import unit_of
from docstore.aggregation.window.sliding import plus
from docstore.bson.build import array_value, document_from
from docstore.bson.order import compare
from docstore.bson.walk import (
    ARRAY,
    DATE,
    DECIMAL,
    DOUBLE,
    EMPTY_DOCUMENT,
    INT32,
    INT64,
    NULL,
    OBJECT,
    STRING,
    UNDEFINED,
    Value,
    values,
)
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.projection.projection import Branch, Computed, PathCollision, plant, projection_of
from docstore.query.value.option_fields import option_fields
from docstore.query.value.ordering import Ordering
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import (
    NULL_VALUE,
    NUMBERS,
    decimal_value,
    double_value,
    int32_value,
    int64_bytes,
    int64_value,
    int_of,
    integral_of,
    text_of,
    type_name,
)

MOST_GENERATED = 500_000


@dataclass(frozen=True, slots=True)
class Densify(PlainStage):
    """The stage. `bounds`: (lower, exclusive upper); None: the range of the documents, or of each partition with
    `by_partition`.
    """

    raw: bytes
    field: str
    partition_fields: tuple[str, ...]
    step: Value
    unit: str | None
    bounds: tuple[Value, Value] | None
    by_partition: bool
    ordering: Ordering

    def start(self, environment: Environment) -> StageRun:
        return _DensifyRun(self, environment)


_NOUGHT: Mapping[int, Value] = {
    INT32: int32_value(0),
    INT64: int64_value(0),
    DOUBLE: double_value(0.0),
    DECIMAL: decimal_value(Decimal128("0")),
}
"""Zero in each numeric type."""


class _Row:
    """The generated values of one partition."""

    def __init__(self, stage: Densify, parts: list[Value | None], first: Value) -> None:
        self._stage = stage
        self._next = first
        self._at: Value | None = None
        root = Branch()
        for path, value in zip(stage.partition_fields, parts, strict=True):
            if path == stage.field or path.startswith(stage.field + ".") or stage.field.startswith(path + "."):
                raise CommandError(5733306, "a generated document cannot hold the field that is being densified")
            try:
                plant(root, path, Computed(lambda document, value=value: value))  # type: ignore[misc]
            except PathCollision:
                continue
        plant(root, stage.field, Computed(lambda document: self._at))
        self._projection = projection_of(root, keep_others=True, in_place=True)

    def up_to(self, limit: Value, inclusive: bool = False) -> Iterator[bytes]:
        """Yield the documents for the values before a limit."""
        while True:
            order = compare(self._next, limit)
            if order > 0 or (order == 0 and not inclusive):
                return
            self._at = self._next
            self.advance()
            yield self._projection.apply(EMPTY_DOCUMENT)

    def pass_by(self, value: Value) -> None:
        """Skip a value that a document has."""
        if compare(self._next, value) == 0:
            self.advance()

    def advance(self) -> None:
        stage = self._stage
        if stage.unit is None:
            self._next = plus(self._next, stage.step)
        else:
            steps = integral_of(stage.step)
            assert steps is not None
            self._next = DATE, int64_bytes(add_units(int_of(self._next), stage.unit, steps))


class _DensifyRun:
    satisfied = False

    def __init__(self, stage: Densify, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._path = stage.field.split(".")
        self._partition_paths = [path.split(".") for path in stage.partition_fields]
        self._by_partition = bool(stage.partition_fields) and (stage.by_partition or stage.bounds is not None)
        self._sorted = SortedRuns("$densify", environment)
        self._output: Iterator[bytes | None] | None = None

    def push(self, documents: list[bytes]) -> list[bytes]:
        self._sorted.add([(self._key(document), document) for document in documents])
        return []

    def _parts(self, document: bytes) -> list[Value | None]:
        return [walk((OBJECT, document), path) for path in self._partition_paths]

    def _key(self, document: bytes) -> bytes:
        key_of = self._stage.ordering.key
        key = key_of(walk((OBJECT, document), self._path) or NULL_VALUE)
        if not self._by_partition:
            return key
        return b"".join(key_of(part or NULL_VALUE) for part in self._parts(document)) + key

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._documents()
        return hand_out(self._output, self._environment.clock, deadline)

    def _documents(self) -> Iterator[bytes | None]:
        stage = self._stage
        rows: dict[bytes, _Row] = {}
        least: Value | None = None
        greatest: Value | None = None
        generated = 0
        if stage.bounds is not None and not stage.partition_fields:
            rows[self._partition_key([])] = _Row(stage, [], stage.bounds[0])
        for _, document in self._sorted.merged():
            value = walk((OBJECT, document), self._path)
            if value is None or value == NULL_VALUE:
                yield document
                continue
            self._check(value)
            least = value if least is None else least
            greatest = value
            parts = self._parts(document)
            row = rows.get(self._partition_key(parts))
            if row is None:
                row = _Row(stage, parts, self._first(value, least))
                rows[self._partition_key(parts)] = row
            limit = value
            if stage.bounds is not None and compare(value, stage.bounds[1]) > 0:
                limit = stage.bounds[1]
            for filler in row.up_to(limit):
                generated = _counted(generated)
                yield filler
            row.pass_by(value)
            yield document
        if stage.by_partition:
            return
        last, inclusive = (greatest, True) if stage.bounds is None else (stage.bounds[1], False)
        for row in rows.values():
            assert last is not None
            for filler in row.up_to(last, inclusive):
                generated = _counted(generated)
                yield filler

    def _partition_key(self, parts: list[Value | None]) -> bytes:
        return self._stage.ordering.key(array_value([part or NULL_VALUE for part in parts]))

    def _first(self, value: Value, least: Value) -> Value:
        if self._stage.bounds is not None:
            return self._stage.bounds[0]
        if self._stage.by_partition:
            return value
        # Generated values have the type of the step, the first one included.
        return least if self._stage.unit is not None else plus(least, _NOUGHT[self._stage.step[0]])

    def _check(self, value: Value) -> None:
        if value[0] != DATE and value[0] not in NUMBERS:
            raise CommandError(5733201, f"Densify field type must be numeric or a date, not {type_name(value)}")
        if (value[0] == DATE) != (self._stage.unit is not None):
            raise CommandError(6053600, "the values to densify and the step must both be dates or both be numbers")


def _counted(generated: int) -> int:
    if generated >= MOST_GENERATED:
        raise CommandError(5897900, f"Generated {generated} documents in $densify, which is over the limit")
    return generated + 1


_NULLABLE = frozenset(("field", "range", "step", "unit"))
"""Options that count as absent if null."""


def _fields(name: str, value: Value, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Value]:
    options: dict[str, Value] = {}
    for field, (code, data) in option_fields(name, value[1]).items():
        if field not in required and field not in optional:
            raise CommandError(40415, f"BSON field '{name}.{field}' is an unknown field.")
        if code not in (NULL, UNDEFINED) or field not in _NULLABLE:
            options[field] = (code, data)
    for field in required:
        if field not in options:
            raise CommandError(40414, f"BSON field '{name}.{field}' is missing but a required field")
    return options


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(Code.FailedToParse, f"The $densify stage specification must be an object, found {value[0]}")
    options = _fields("$densify", value, ("field", "range"), ("partitionByFields",))
    if options["field"][0] != STRING:
        raise wrong_type("$densify", "field", options["field"], "string")
    if options["range"][0] != OBJECT:
        raise wrong_type("$densify", "range", options["range"], "object")
    field = text_of(options["field"])
    check_field_path(field)
    fields = _partition_fields(options.get("partitionByFields"))
    extent = _fields("$densify.range", options["range"], ("step", "bounds"), ("unit",))
    step, unit = _parse_step(extent)
    bounds, by_partition = _parse_bounds(extent["bounds"], step, unit, bool(fields))
    raw = document_from([("$densify", *value)])
    return [Densify(raw, field, fields, step, unit, bounds, by_partition, query_context.ordering)]


def _partition_fields(value: Value | None) -> tuple[str, ...]:
    if value is None:
        return ()
    paths = partition_paths("$densify", value)
    for path in paths:
        check_field_path(path)
    return tuple(dict.fromkeys(paths))


def _parse_step(extent: dict[str, Value]) -> tuple[Value, str | None]:
    step = extent["step"]
    if step[0] not in NUMBERS:
        raise wrong_type("$densify.range", "step", step, "number")
    if compare(step, int32_value(0)) <= 0:
        raise CommandError(5733401, "The step parameter in a range statement must be a strictly positive numeric value")
    if "unit" not in extent:
        return step, None
    if extent["unit"][0] != STRING:
        raise wrong_type("$densify.range", "unit", extent["unit"], "string")
    unit = unit_of(extent["unit"])
    if integral_of(step) is None:
        raise CommandError(6586400, "The step parameter must be a whole number when densifying a date range")
    return step, unit


def _parse_bounds(
    value: Value, step: Value, unit: str | None, partitioned: bool
) -> tuple[tuple[Value, Value] | None, bool]:
    """Return (bounds, True if every partition has its own)."""
    if value[0] == STRING:
        kind = text_of(value)
        if kind not in ("full", "partition"):
            raise CommandError(5946802, "Bounds string must either be 'full' or 'partition'")
        if kind == "partition" and not partitioned:
            raise CommandError(5733408, "One cannot specify the bounds as 'partition' without partitionByFields")
        return None, kind == "partition"
    if value[0] != ARRAY:
        raise CommandError(5733404, "The bounds must be 'full', 'partition', or an ascending array of two values")
    members = values(value[1])
    if len(members) != 2:
        raise CommandError(5733403, "A bounding array in a range statement must have exactly two elements")
    lower, upper = members
    if compare(lower, upper) > 0:
        raise CommandError(5733402, "A bounding array must be an ascending array of either two dates or two numbers")
    if lower[0] != DATE and lower[0] not in NUMBERS:
        raise CommandError(5946800, "Explicit bounds must be numeric or dates")
    if lower[0] != DATE and unit is not None:
        raise CommandError(5733409, "Numeric bounds may not have unit parameter")
    if (upper[0] != DATE) if lower[0] == DATE else (upper[0] not in NUMBERS):
        raise CommandError(5733406, "A bounding array must contain either both dates or both numeric types")
    if lower[0] == DATE and unit is None:
        raise CommandError(5733410, "A bounding array of dates must specify a unit")
    if lower[0] != DATE and not lower[0] == upper[0] == step[0]:
        raise CommandError(5876900, "Upper bound, lower bound, and step must all have the same type")
    return (lower, upper), False


DECLARATIONS = (Declaration("$densify", _parse),)
