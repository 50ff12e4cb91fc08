"""The pipeline optimiser: moves filters and limits forward and joins neighbouring stages of one kind.

A `$match` is divided at its top level. Each condition moves before a stage that preserves its fields, or is repeated
there under the input's field names (`docstore.aggregation.filter_pushdown`). No move changes the output or its order.
Stages declare what they allow (`docstore.aggregation.stage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from docstore.aggregation.stage import Stage
from docstore.aggregation.stages.match import Match, parts_of
from docstore.bson.build import array_documents, array_value, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter


def optimised(stages: Sequence[Stage], query_context: QueryContext) -> list[Stage]:
    """Return equivalent stages that read fewer documents. `query_context`: that of the stages' parsing."""
    ordered = _with_joined_matches(stages, query_context)
    position = 1
    while position < len(ordered):
        better = _better(ordered[position - 1], ordered[position], query_context)
        if better is None:
            position += 1
        else:
            ordered[position - 1 : position + 1] = better
            position = max(1, position - 1)
    return ordered


def _with_joined_matches(stages: Sequence[Stage], query_context: QueryContext) -> list[Stage]:
    """Return the stages with consecutive `$match` stages joined."""
    joined: list[Stage] = []
    for is_match, row in groupby(stages, lambda stage: isinstance(stage, Match)):
        neighbours = list(row)
        if is_match and len(neighbours) > 1:
            filters = [stage.specification for stage in neighbours if isinstance(stage, Match)]
            neighbours = [_match(filters, query_context)]
        joined += neighbours
    return joined


def _better(first: Stage, second: Stage, query_context: QueryContext) -> list[Stage] | None:
    """Return better stages in place of two neighbours; None if there are none."""
    if isinstance(second, Match):
        if isinstance(first, Match):
            return [_match([*_members(first.specification), *_members(second.specification)], query_context)]
        return [second, first] if first.commutes_with_filters else _divided(first, second, query_context)
    joined = first.join_with(second)
    if joined is not None:
        return [joined]
    return [second, first] if first.maps_documents and second.counts_documents else None


def _divided(first: Stage, second: Match, query_context: QueryContext) -> list[Stage] | None:
    """Return the parts of a filter before and after the stage it followed; None if all of it stays."""
    conditions = list(parts_of(second.specification))
    moved, remaining, implied = first.divide_filter(conditions, query_context, with_implied=not second.pushed_down)
    if not moved and not implied:
        return None
    if moved == conditions:
        return [second, first]
    front = _match(moved + implied, query_context)
    if not remaining:
        return [front, first]
    back = _match(remaining, query_context) if moved else second
    return [front, first, replace(back, pushed_down=True)]


def _members(condition: bytes) -> list[bytes]:
    """Return the members of a conjunction: one of conjunctions would be nested as deep as there are stages."""
    fields = elements(condition)
    if len(fields) != 1 or fields[0][:2] != ("$and", ARRAY) or any(code != OBJECT for code, _ in values(fields[0][2])):
        return [condition]
    return array_documents(fields[0][2])


def _match(filters: list[bytes], query_context: QueryContext) -> Match:
    """Return the stage for the conjunction of filters."""
    raw = filters[0]
    if len(filters) > 1:
        members: list[Value] = [(OBJECT, condition) for condition in filters]
        raw = document_from([("$and", *array_value(members))])
    return Match(document_from([("$match", OBJECT, raw)]), parse_filter(raw, query_context=query_context))
