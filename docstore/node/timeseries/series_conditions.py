"""Filters on measurements, split into conditions on buckets and on fields; cached per filter shape.

A measurement matches if the tests and the predicate of the filter's `Bound` hold. Its bucket then satisfies the bucket
predicate, and the bucket's `_id` lies between the ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.field_dependencies import fields_of_filter
from docstore.aggregation.stages.match import parts_of
from docstore.bson.walk import DATE, Value
from docstore.errors import CommandError
from docstore.kernel.match.form import form_of
from docstore.kernel.match.predicate import And, PathPredicate, Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Comparison, Filter, Op, conjunction
from docstore.query.plan.free_conditions import FreeTest, Tests, compared, places_of, tests_of
from docstore.query.plan.shapes import conjuncts
from docstore.timeseries.conditions import GREATEST_TIME, LEAST_TIME, begun_between, is_compared, of_metadata
from docstore.timeseries.definition import CONTROL, TimeseriesDefinition

_AT_LEAST = {Op.GT: Op.GT, Op.GTE: Op.GTE, Op.EQ: Op.GTE}
_AT_MOST = {Op.LT: Op.LT, Op.LTE: Op.LTE, Op.EQ: Op.LTE}
_MIN, _MAX = f"{CONTROL}.min.", f"{CONTROL}.max."


class Bound(NamedTuple):
    """A filter bound to the values of a request.

    * `buckets`: holds for every bucket with a match.
    * `ends`: the least and the greatest `_id` of those buckets, if the filter bounds the time.
    * `tests`: conditions on single fields; `predicate`: on the measurement as a whole.
    """

    buckets: Predicate | None
    ends: tuple[bytes, bytes] | None
    tests: list[PathPredicate]
    predicate: Predicate | None


@dataclass(frozen=True, slots=True)
class SeriesConditions:
    """The parsed conditions of a filter shape.

    * `moved`: conditions on the metadata, under its name in buckets.
    * `free`: conditions on single fields.
    * `residual`: all others, which read `fields` (None: any).
    * `bounds`: comparisons of measured fields, as (path, operator, position of the value).
    """

    moved: Tests | None
    free: tuple[FreeTest, ...]
    residual: Tests | None
    fields: frozenset[str] | None
    bounds: tuple[tuple[str, Op, int], ...]

    def bound(self, values: Sequence[Value], definition: TimeseriesDefinition) -> Bound | None:
        """Return the filter with these values, or None if a value needs the general path.

        Errors: those of regular expressions.
        """
        tests: list[PathPredicate] = []
        for param_test in self.free:
            test = compile_filter(param_test.condition(values))
            if not isinstance(test, PathPredicate):
                return None
            tests.append(test)
        parts = [] if self.moved is None else [self.moved.predicate(values)]
        least, greatest = LEAST_TIME, GREATEST_TIME
        for path, op, position in self.bounds:
            value = values[position]
            if not is_compared(value):
                continue
            if op in _AT_LEAST:
                parts.append(compile_filter(Comparison(_MAX + path, _AT_LEAST[op], value)))
            if op in _AT_MOST:
                parts.append(compile_filter(Comparison(_MIN + path, _AT_MOST[op], value)))
            if path == definition.time_field and value[0] == DATE:
                time = int.from_bytes(value[1], "little", signed=True)
                least = max(least, time) if op in _AT_LEAST else least
                greatest = min(greatest, time) if op in _AT_MOST else greatest
        buckets = None if not parts else parts[0] if len(parts) == 1 else And(parts)
        predicate = None if self.residual is None else self.residual.predicate(values)
        return Bound(buckets, begun_between(least, greatest, definition.span_seconds), tests, predicate)


class _Sample:
    """A sample filter as the cache key of its shape: filters of one shape are equal."""

    __slots__ = ("_own", "meta_field", "raw", "values")

    def __init__(self, form: bytes, meta_field: str | None, raw: bytes, values: list[Value]) -> None:
        self._own = (form, meta_field)
        self.meta_field = meta_field
        self.raw = raw
        self.values = values

    def __hash__(self) -> int:
        return hash(self._own)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sample) and self._own == other._own


def asked_of(raw: bytes, meta_field: str | None) -> tuple[SeriesConditions, list[Value], bytes] | None:
    """Return (the conditions of a filter, its values, its shape); None if its shape cannot be cached."""
    formed = form_of(raw)
    if formed is None:
        return None
    form, values = formed
    conditions = _parse_conditions(_Sample(form, meta_field, raw, values))
    return None if conditions is None else (conditions, values, form)


@lru_cache(maxsize=256)
def _parse_conditions(sample: _Sample) -> SeriesConditions | None:
    positions: dict[int, int] = {}
    moved: list[Filter] = []
    residuals: list[Filter] = []
    parameters: list[Value] = []
    try:
        # Parse the whole first: some checks need all of it. A context without a request refuses parts that depend on
        # one.
        parse_filter(sample.raw, query_context=new_context())
        for condition in parts_of(sample.raw):
            own = [value for _, value in compared(condition)]
            renamed = of_metadata(condition, sample.meta_field)
            raw = condition if renamed is None else renamed
            tree = parse_filter(raw, query_context=new_context())
            own_positions = places_of(raw, own, tree)
            if own_positions is None:
                return None
            positions |= {term: position + len(parameters) for term, position in own_positions.items()}
            parameters += own
            (residuals if renamed is None else moved).extend(conjuncts(tree))
    except CommandError:
        # The general path reports the error.
        return None
    if parameters != sample.values:
        return None
    bounds = [
        (term.path, term.op, positions[id(term)])
        for term in residuals
        if isinstance(term, Comparison) and id(term) in positions
    ]
    tests = tests_of(residuals, positions)
    assert all(top(term.path) != sample.meta_field for term in tests.free), "what is of the metadata alone is moved"
    # Conditions on single fields with parameterised values are tested by column, all others by document.
    document_tests = Tests(tests.constant, (), tests.either, tests.of_elements)
    has_rest = document_tests.constant is not None or bool(document_tests.either or document_tests.of_elements)
    fields = fields_of_filter(conjunction(residuals)) if has_rest else set[str]()
    return SeriesConditions(
        tests_of(moved, positions) if moved else None,
        tests.free,
        document_tests if has_rest else None,
        None if fields is None else frozenset(fields),
        tuple(bounds),
    )
