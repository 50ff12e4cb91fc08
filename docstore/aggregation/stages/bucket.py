"""`$bucket`: a `$group` by the interval that contains a value, and a `$sort` into interval order.

- Another process is handed the group as a marked `$bucket`, whose `$sort` is a stage of its own, and a shard the half
  that computes states. Written as a `$switch` the intervals would be large, and evaluated sequentially.
- The boundaries and the default are evaluated once, so that all shards have the same intervals by `$$NOW`.
- explain shows the group as a real server does: with a `$switch`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

from docstore.aggregation.expressions.model import Expression, Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import WILL_BE_MERGED, Declaration, SplitStage, Stage
from docstore.aggregation.stages import group, sort
from docstore.bson.allowance import spend
from docstore.bson.build import array_from, document_from
from docstore.bson.order import type_class
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.value.notation import display
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import NULL_VALUE, TRUE, int32_value, text_of, type_name

COUNTED = document_from([("count", OBJECT, document_from([("$sum", *int32_value(1))]))])
"""The default output."""

_UNSORTED = "$unsorted"
_MARKS = (_UNSORTED, WILL_BE_MERGED)
"""The marks of a stage without its `$sort`, whole or as the half of a shard."""
_PER_BRANCH = 512
"""Work units charged per branch of a switch."""
_PER_BOUNDARY = 64
"""Work units charged per boundary compared with its neighbour."""
_NO_BUCKET = 40066
_NO_BUCKET_PLANNED = 4934200


def is_groupable(value: Value) -> bool:
    """True if a `groupBy` is a path or an expression, not a constant."""
    if value[0] == STRING:
        return text_of(value).startswith("$")
    fields = elements(value[1]) if value[0] == OBJECT else []
    return bool(fields) and fields[0][0].startswith("$")


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """The options of a stage.

    `mark`: the mark of a stage that a process has sent; empty for one of a client. `fields`: the others, as another
    process is handed them.
    """

    fields: tuple[tuple[str, int, bytes], ...]
    mark: str
    group_by: Value
    boundaries: list[Value]
    default: Value | None
    has_default: bool
    output: bytes

    def specification(self, mark: str) -> bytes:
        """Return the stage with this mark."""
        return document_from([("$bucket", OBJECT, document_from([*self.fields, (mark, *TRUE)]))])


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketGroup(group.Group):
    """The group of a `$bucket`."""

    options: BucketOptions

    def split(self) -> SplitStage | None:
        merging = group.merging_half(elements(self.options.output))
        return SplitStage(self.options.specification(WILL_BE_MERGED), merging)

    @property
    def explained_specification(self) -> bytes:
        fields = [("_id", OBJECT, _switch(self.options)), *elements(self.options.output)]
        if self.will_be_merged:
            fields.append((WILL_BE_MERGED, *TRUE))
        return document_from([("$group", OBJECT, document_from(fields))])


def shown_specification(raw: bytes, query_context: QueryContext) -> bytes:
    """Return the specification of any stage, as it is handed on, as explain shows it."""
    name, code, data = elements(raw)[0]
    return (
        _parse((code, data), replace(query_context, halves=True))[0].explained_specification
        if name == "$bucket"
        else raw
    )


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(40201, f"Argument to $bucket stage must be an object, but found type: {type_name(value)}.")
    options = _options({name: (code, data) for name, code, data in elements(value[1])}, query_context)
    outputs = elements(options.output)
    parsed = group.parse_group((OBJECT, document_from([("_id", *NULL_VALUE), *outputs])), query_context)
    key = parse_expression(options.group_by, query_context=query_context)
    keys = [_interval(key, options, query_context.ordering, code) for code in (_NO_BUCKET, _NO_BUCKET_PLANNED)]
    stage = BucketGroup(
        options.specification(options.mark or _UNSORTED),
        keys[0],
        parsed.fields,
        will_be_merged=options.mark == WILL_BE_MERGED,
        planned_key=keys[1],
        ordering=query_context.ordering,
        options=options,
    )
    if options.mark:
        return [stage]
    rising = document_from([("_id", *int32_value(1))])
    return [stage, sort.parse_sort((OBJECT, rising), query_context)]


def _options(arguments: dict[str, Value], query_context: QueryContext) -> BucketOptions:
    mark = next((name for name in _MARKS if name in arguments), "") if query_context.halves else ""
    arguments.pop(mark, None)
    boundaries: list[Value] = []
    default: Value | None = None
    handed_on = dict(arguments)
    for name, value in arguments.items():
        if name == "groupBy":
            if not is_groupable(value):
                raise CommandError(
                    40202,
                    "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found:"
                    f" {display(value)}.",
                )
        elif name == "boundaries":
            boundaries = _boundaries(value, query_context)
            handed_on[name] = ARRAY, array_from(map(_constant, values(value[1]), boundaries))
        elif name == "default":
            expression = parse_expression(value, query_context=query_context)
            if not expression.is_constant:
                raise CommandError(
                    40195, f"The $bucket 'default' field must be a constant expression, but found: {display(value)}."
                )
            default = expression.constant
            handed_on[name] = value if default is None else _constant(value, default)
        elif name == "output":
            if value[0] != OBJECT:
                raise CommandError(
                    40196, f"The $bucket 'output' field must be an object, but found type: {type_name(value)}."
                )
        else:
            raise CommandError(40197, f"Unrecognized option to $bucket: {name}.")
    if "groupBy" not in arguments or "boundaries" not in arguments:
        raise CommandError(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.")
    key_of = query_context.ordering.key
    if default is not None and key_of(boundaries[0]) <= key_of(default) < key_of(boundaries[-1]):
        raise CommandError(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest"
            " boundary.",
        )
    output = arguments["output"][1] if "output" in arguments else COUNTED
    return BucketOptions(
        fields=tuple((name, *value) for name, value in handed_on.items()),
        mark=mark,
        group_by=arguments["groupBy"],
        boundaries=boundaries,
        default=default,
        has_default="default" in arguments,
        output=output,
    )


def _boundaries(value: Value, query_context: QueryContext) -> list[Value]:
    if value[0] != ARRAY:
        raise CommandError(
            40200, f"The $bucket 'boundaries' field must be an array, but found type: {type_name(value)}."
        )
    boundaries: list[Value] = []
    for bound in values(value[1]):
        expression = parse_expression(bound, query_context=query_context)
        if not expression.is_constant:
            raise CommandError(
                40191,
                "The $bucket 'boundaries' field must be an array of constant values, but found value:"
                f" {display(bound)}.",
            )
        boundaries.append(expression.constant or NULL_VALUE)
    if len(boundaries) < 2:
        raise CommandError(
            40192,
            f"The $bucket 'boundaries' field must have at least 2 values, but found {len(boundaries)} value(s).",
        )
    for position, (low, high) in enumerate(pairwise(boundaries)):
        spend(_PER_BOUNDARY)
        if type_class(low[0]) != type_class(high[0]):
            raise CommandError(
                40193,
                "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting types"
                f" {type_name(low)} and {type_name(high)}.",
            )
        if query_context.ordering.compare(low, high) >= 0:
            raise CommandError(
                40194,
                f"The 'boundaries' option to $bucket must be sorted, but elements {position} and {position + 1} are"
                f" not in ascending order ({display(low)} is not less than {display(high)}).",
            )
    return boundaries


def _interval(key: Expression, options: BucketOptions, ordering: Ordering, code: int) -> Expression:
    """Return an expression for the lower boundary of the interval that contains `key`; an error for a value in none."""
    evaluate = key.evaluate
    boundaries = options.boundaries
    key_of = ordering.key
    encoded = [key_of(boundary) for boundary in boundaries]

    def interval(scope: Scope) -> Value | None:
        at = bisect_right(encoded, key_of(evaluate(scope) or NULL_VALUE))
        if 0 < at < len(encoded):
            return boundaries[at - 1]
        if options.has_default:
            return options.default
        raise CommandError(code, "$bucket found a value in no interval, and no default was specified")

    return Expression(interval)


def _switch(options: BucketOptions) -> bytes:
    """Return the interval as an encoded `$switch`."""
    branches: list[Value] = []
    for low, high in pairwise(options.boundaries):
        spend(_PER_BRANCH)
        bounds = [_compared("$gte", options.group_by, low), _compared("$lt", options.group_by, high)]
        case = document_from([("$and", ARRAY, array_from(bounds))])
        branches.append((OBJECT, document_from([("case", OBJECT, case), ("then", OBJECT, _literal(low))])))
    fields = [("branches", ARRAY, array_from(branches))]
    if options.has_default and options.default is not None:
        fields.append(("default", OBJECT, _literal(options.default)))
    return document_from([("$switch", OBJECT, document_from(fields))])


def _compared(operator: str, operand: Value, boundary: Value) -> Value:
    return OBJECT, document_from([(operator, ARRAY, array_from([operand, (OBJECT, _literal(boundary))]))])


def _constant(expression: Value, value: Value) -> Value:
    """Return what evaluates to `value` in any process, which an expression such as `$$NOW` does not."""
    return expression if expression == value else (OBJECT, _literal(value))


def _literal(value: Value) -> bytes:
    return document_from([("$literal", *value)])


DECLARATIONS = (Declaration("$bucket", _parse),)
