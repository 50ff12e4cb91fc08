"""`$bucketAuto`: so many groups of about the same number of documents, by the order of a value.

Documents are sorted by the value and dealt out: each group takes its share and all that equal its last value. With a
granularity the limits between groups are rounded to preferred numbers, and a group takes all below its upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from docstore.aggregation.accumulators.accumulators import Accumulator
from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.sorted_runs import SortedRuns
from docstore.aggregation.stage import Declaration, Environment, Stage, StageRun, hand_out
from docstore.aggregation.stages.bucket import COUNTED, is_groupable
from docstore.aggregation.stages.group import Field, parse_field
from docstore.aggregation.stages.preferred_numbers import Rounding, is_zero, rounding
from docstore.aggregation.streams import PlainStage
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, STRING, Value, elements, get_field
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.context import QueryContext
from docstore.query.value.notation import display
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import NULL_VALUE, NUMBERS, integral_of, text_of, type_name

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BucketAuto(PlainStage):
    raw: bytes
    key: Evaluate
    buckets: int
    fields: tuple[Field, ...]
    rounding: Rounding | None
    ordering: Ordering

    def start(self, environment: Environment) -> StageRun:
        return _BucketAutoRun(self, environment)


class _BucketAutoRun:
    satisfied = False

    def __init__(self, stage: BucketAuto, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._sorted = SortedRuns("$bucketAuto", environment)
        self._count = 0
        self._output: Iterator[bytes | None] | None = None

    def push(self, documents: list[bytes]) -> list[bytes]:
        evaluate, key_of = self._stage.key, self._stage.ordering.key
        pairs: list[tuple[bytes, bytes]] = []
        for document in documents:
            value = evaluate(Scope(document)) or NULL_VALUE
            if self._stage.rounding is not None:
                _check_rounded(value)
            pairs.append((key_of(value), document_from([("v", *value), ("d", OBJECT, document)])))
        self._count += len(pairs)
        self._sorted.add(pairs)
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._documents()
        return hand_out(self._output, self._environment.clock, deadline)

    def _documents(self) -> Iterator[bytes | None]:
        """The documents of the groups; None for every document that is taken into one."""
        stage = self._stage
        share = max(1, math.floor(self._count / stage.buckets + 0.5))
        rows = _Rows(self._sorted.merged())
        low: Value | None = None
        made = 0
        while rows.current is not None:
            bucket = _Bucket(stage.fields)
            first = rows.value
            made += 1
            yield from self._fill(bucket, rows, share if made < stage.buckets else self._count)
            if stage.rounding is None:
                high = bucket.last if rows.current is None else rows.value
                yield bucket.document(first, high)
                continue
            high = yield from self._round_up(bucket, rows, stage.rounding)
            yield bucket.document(stage.rounding.down(first) if low is None else low, high)
            low = high

    @staticmethod
    def _fill(bucket: _Bucket, rows: _Rows, wanted: int) -> Iterator[None]:
        """The share of a bucket, and what equals its last value."""
        taken = 0
        while rows.current is not None and (taken < wanted or rows.key == bucket.last_key):
            bucket.take(rows)
            taken += 1
            yield

    @staticmethod
    def _round_up(bucket: _Bucket, rows: _Rows, rounded: Rounding) -> Generator[None, None, Value]:
        """The upper limit; all that is below it joins the bucket. Above zero it is what is next, rounded down."""
        if is_zero(bucket.last):
            return bucket.last if rows.current is None else rounded.down(rows.value)
        high = rounded.up(bucket.last)
        limit = encode_key(high)
        while rows.current is not None and rows.key < limit:
            bucket.take(rows)
            yield
        return high


class _Rows:
    """The sorted documents, of which `current` is the next."""

    def __init__(self, pairs: Iterator[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self.current: bytes | None = None
        self.key = b""
        self.value: Value = NULL_VALUE
        self.advance()

    def advance(self) -> None:
        found = next(self._pairs, None)
        if found is None:
            self.current = None
            return
        self.key, row = found
        value, document = get_field(row, "v"), get_field(row, "d")
        assert value is not None, "a row has a value"
        assert document is not None, "a row has a document"
        self.value = value
        self.current = document[1]


class _Bucket:
    """One group in the making; `last` is the greatest value in it."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._names = [field.name for field in fields]
        self._arguments = [field.argument.evaluate for field in fields]
        self._states: list[Accumulator] = [field.state(NULL_VALUE) for field in fields]
        self.last: Value = NULL_VALUE
        self.last_key = b""

    def take(self, rows: _Rows) -> None:
        assert rows.current is not None, "there is a row to be taken"
        scope = Scope(rows.current)
        for state, argument in zip(self._states, self._arguments, strict=True):
            state.add(argument(scope))
        self.last, self.last_key = rows.value, rows.key
        rows.advance()

    def document(self, low: Value, high: Value) -> bytes:
        limits = document_from([("min", *low), ("max", *high)])
        made = [(name, *state.result()) for name, state in zip(self._names, self._states, strict=True)]
        if "_id" in self._names:
            return document_from(made)
        return document_from([("_id", OBJECT, limits), *made])


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
    given = {name: (code, data) for name, code, data in elements(value[1])}
    for name, option in given.items():
        check = _CHECKS.get(name)
        if check is None:
            raise CommandError(40245, f"Unrecognized option to $bucketAuto: {name}")
        check(option)
    if "groupBy" not in given or "buckets" not in given:
        raise CommandError(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified")
    buckets = integral_of(given["buckets"])
    assert buckets is not None, "the number of buckets was checked"
    output = given["output"][1] if "output" in given else COUNTED
    fields = tuple(parse_field(name, (code, data), query_context) for name, code, data in elements(output))
    return [
        BucketAuto(
            document_from([("$bucketAuto", *value)]),
            parse_expression(given["groupBy"], query_context=query_context).evaluate,
            buckets,
            fields,
            rounding(text_of(given["granularity"])) if "granularity" in given else None,
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
