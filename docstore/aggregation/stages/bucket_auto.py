"""`$bucketAuto`: a given number of groups of about equal size, by the order of a value.

Documents are sorted by the value and distributed: each group takes its share, and all that equal its last value. With a
granularity, the boundaries between groups are rounded to preferred numbers, and a group takes all below its upper
boundary. Only the values that the groups need are kept of documents (`docstore.kernel.group.rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from docstore.aggregation.expressions.calculations import source_of
from docstore.aggregation.expressions.model import Expression
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.sorted_runs import Pair, SortedRuns
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.stages.accumulated_fields import Field, parse_field, result_of
from docstore.aggregation.stages.bucket import COUNTED, is_groupable
from docstore.aggregation.stages.preferred_numbers import Rounding, is_zero, rounding
from docstore.aggregation.streams import GIVEN_BYTES, StageRun
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import CommandError
from docstore.kernel.group.rows import RowGroup, Rows, sorted_value
from docstore.kernel.keys.encoding import encode_key
from docstore.query.context import QueryContext
from docstore.query.value.notation import display
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.values import NUMBERS, integral_of, text_of, type_name

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BucketAuto(PlainStage):
    raw: bytes
    key: Expression
    buckets: int
    fields: tuple[Field, ...]
    rounding: Rounding | None
    ordering: Ordering

    def start(self, environment: Environment) -> StageRun:
        return _BucketAutoRun(self, environment)

    def rows(self) -> Rows:
        """Return the row encoder for documents."""
        return Rows(
            source_of(self.key),
            [source_of(field.argument) for field in self.fields],
            None if self.ordering is BINARY else self.ordering.key,
            None if self.rounding is None else _check_rounded,
        )


class _BucketAutoRun:
    satisfied = False

    def __init__(self, stage: BucketAuto, environment: Environment) -> None:
        self._stage = stage
        self._clock = environment.clock
        self._rows = stage.rows()
        self._sorted = SortedRuns("$bucketAuto", environment)
        self._count = 0
        self._output: Iterator[bytes | None] | None = None

    def push(self, documents: list[bytes]) -> list[bytes]:
        self._count += len(documents)
        self._sorted.add(self._rows.pairs(documents))
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._documents()
        batch: list[bytes] = []
        size = 0
        for document in self._output:
            if document is not None:
                batch.append(document)
                size += len(document)
            if size >= GIVEN_BYTES or self._clock() >= deadline:
                return batch, False
        return batch, True

    def _documents(self) -> Iterator[bytes | None]:
        """Yield the documents of the groups; None after some rows without a result."""
        stage = self._stage
        share = max(1, math.floor(self._count / stage.buckets + 0.5))
        coming = _Coming(self._sorted.pieces())
        low: Value | None = None
        bucket_number = 0
        yield from coming.look()
        while coming.rows:
            bucket = _Bucket(self._rows, stage.fields)
            bucket_number += 1
            yield from self._fill(bucket, coming, share if bucket_number < stage.buckets else self._count)
            if stage.rounding is None:
                yield bucket.document(bucket.first, coming.value if coming.rows else bucket.last)
                continue
            high = yield from self._round_up(bucket, coming, stage.rounding)
            yield bucket.document(stage.rounding.down(bucket.first) if low is None else low, high)
            low = high

    @staticmethod
    def _fill(bucket: _Bucket, coming: _Coming, share: int) -> Iterator[None]:
        """Add a bucket's share of rows, and those that equal its last value."""
        while coming.rows:
            coming.at = bucket.group.take(coming.rows, coming.at, share)
            if coming.at < len(coming.rows):
                return
            yield from coming.look()

    @staticmethod
    def _round_up(bucket: _Bucket, coming: _Coming, rounded: Rounding) -> Generator[None, None, Value]:
        """Add all rows below the rounded upper boundary; return it. Above zero it is the next value, rounded down."""
        if is_zero(bucket.last):
            return rounded.down(coming.value) if coming.rows else bucket.last
        high = rounded.up(bucket.last)
        limit = encode_key(high)
        while coming.rows:
            coming.at = bucket.group.take_below(coming.rows, coming.at, limit)
            if coming.at < len(coming.rows):
                break
            yield from coming.look()
        return high


class _Coming:
    """The sorted rows, read in pieces; the next row is at `at`. Empty rows: the end."""

    def __init__(self, pieces: Iterator[list[Pair]]) -> None:
        self._pieces = pieces
        self.rows: list[Pair] = []
        self.at = 0

    def look(self) -> Iterator[None]:
        """Load the next piece of rows, if any are left."""
        self.rows, self.at = [], 0
        for piece in self._pieces:
            yield
            if piece:
                self.rows = piece
                return

    @property
    def value(self) -> Value:
        """The value of the next row."""
        return sorted_value(self.rows[self.at][1])


class _Bucket:
    """One group being built."""

    def __init__(self, rows: Rows, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._states = [field.row_state() for field in fields]
        self.group = RowGroup(rows, self._states)

    @property
    def first(self) -> Value:
        """Its smallest value."""
        return sorted_value(self.group.first)

    @property
    def last(self) -> Value:
        """Its largest value."""
        return sorted_value(self.group.last)

    def document(self, low: Value, high: Value) -> bytes:
        limits = document_from([("min", *low), ("max", *high)])
        pairs = zip(self._fields, self._states, strict=True)
        outputs = [(field.name, *result_of(field.accumulator, state)) for field, state in pairs]
        if any(field.name == "_id" for field in self._fields):
            return document_from(outputs)
        return document_from([("_id", OBJECT, limits), *outputs])


def _check_rounded(value: Value) -> None:
    if value[0] not in NUMBERS:
        raise CommandError(
            40258,
            "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type:"
            f" {type_name(value)}",
        )
    key = encode_key(value)
    if key == _NAN:
        raise CommandError(40259, "$bucketAuto can specify a 'granularity' with numbers only, but found a NaN")
    if key < _ZERO:
        raise CommandError(
            40260, f"$bucketAuto can specify a 'granularity' with non-negative numbers only, but found {display(value)}"
        )


_ZERO = encode_key((0x10, bytes(4)))
_NAN = encode_key((0x01, b"\0\0\0\0\0\0\xf8\x7f"))


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(40240, f"The argument to $bucketAuto must be an object, but found type: {type_name(value)}")
    options = {name: (code, data) for name, code, data in elements(value[1])}
    for name, option in options.items():
        check = _CHECKS.get(name)
        if check is None:
            raise CommandError(40245, f"Unrecognized option to $bucketAuto: {name}")
        check(option)
    if "groupBy" not in options or "buckets" not in options:
        raise CommandError(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified")
    buckets = integral_of(options["buckets"])
    assert buckets is not None, "the number of buckets was checked"
    output = options["output"][1] if "output" in options and elements(options["output"][1]) else COUNTED
    fields = tuple(parse_field(name, (code, data), query_context) for name, code, data in elements(output))
    return [
        BucketAuto(
            document_from([("$bucketAuto", *value)]),
            parse_expression(options["groupBy"], query_context=query_context),
            buckets,
            fields,
            rounding(text_of(options["granularity"])) if "granularity" in options else None,
            query_context.ordering,
        )
    ]


def _check_group_by(option: Value) -> None:
    if not is_groupable(option):
        raise CommandError(
            40239,
            "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but found:"
            f" {display(option)}",
        )


def _check_buckets(option: Value) -> None:
    if option[0] not in NUMBERS:
        raise CommandError(
            40241, f"The $bucketAuto 'buckets' field must be a numeric value, but found type: {type_name(option)}"
        )
    buckets = integral_of(option)
    if buckets is None or not -_INT32_MAX - 1 <= buckets <= _INT32_MAX:
        raise CommandError(
            40242,
            f"The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {display(option)}",
        )
    if buckets <= 0:
        raise CommandError(40243, f"The $bucketAuto 'buckets' field must be greater than 0, but found: {buckets}")


def _check_output(option: Value) -> None:
    if option[0] != OBJECT:
        raise CommandError(
            40244, f"The $bucketAuto 'output' field must be an object, but found type: {type_name(option)}"
        )


def _check_granularity(option: Value) -> None:
    if option[0] != STRING:
        raise CommandError(
            40261, f"The $bucketAuto 'granularity' field must be a string, but found type: {type_name(option)}"
        )
    rounding(text_of(option))


_CHECKS: dict[str, Callable[[Value], None]] = {
    "groupBy": _check_group_by,
    "buckets": _check_buckets,
    "output": _check_output,
    "granularity": _check_granularity,
}

DECLARATIONS = (Declaration("$bucketAuto", _parse),)
