"""The order of stages, improved: filters and limits come as early as they can, neighbours of one kind become one.

A `$match` is divided at its top level, and each part moves in front of a stage that leaves the fields alone of which
it speaks. Fields are told apart by the first part of their paths. What it says of fields that have got other names
is said in front of the stage too (`docstore.aggregation.renaming`). What is moved never changes which documents come
out, nor their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.looked_at import fields_of_filter
from docstore.aggregation.renaming import filter_of, in_front_of
from docstore.aggregation.stage import Stage
from docstore.aggregation.stages.graph_lookup import GraphLookup
from docstore.aggregation.stages.limit import Limit, Skip
from docstore.aggregation.stages.lookup import Lookup
from docstore.aggregation.stages.match import Match, parts_of
from docstore.aggregation.stages.project import Project
from docstore.aggregation.stages.replace_root import ReplaceRoot
from docstore.aggregation.stages.sort import SortStage
from docstore.aggregation.stages.unpack_bucket import UnpackBucket
from docstore.aggregation.stages.unwind import Unwind
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import OBJECT, Value
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.projection import KEEP
from docstore.query.value.values import LONG_MAX


def optimised(stages: Sequence[Stage], query_context: QueryContext) -> list[Stage]:
    """Stages that make the same of any documents, and look at fewer. `query_context` is what they were parsed with."""
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
    """The stages, with one `$match` for all that follow each other."""
    joined: list[Stage] = []
    for is_match, run in groupby(stages, lambda stage: isinstance(stage, Match)):
        neighbours = list(run)
        if is_match and len(neighbours) > 1:
            neighbours = [_match([filter_of(stage) for stage in neighbours if isinstance(stage, Match)], query_context)]
        joined += neighbours
    return joined


def _better(first: Stage, second: Stage, query_context: QueryContext) -> list[Stage] | None:
    """What stands better in the place of two neighbours; None: nothing does."""
    match first, second:
        case Match(), Match():
            return [_match([filter_of(first), filter_of(second)], query_context)]
        case SortStage(), Match():
            return [second, first]
        case UnpackBucket(), Match():
            return _over_buckets(first, second, query_context)
        case _, Match():
            return _divided(first, second, query_context)
        case Limit(), Limit():
            return [Limit(min(first.count, second.count))]
        case Skip(), Skip() if first.count + second.count <= LONG_MAX:
            return [Skip(first.count + second.count)]
        case ((Project() | ReplaceRoot()), (Limit() | Skip())):
            return [second, first]
        case _:
            return None


def _divided(first: Stage, second: Match, query_context: QueryContext) -> list[Stage] | None:
    """The parts of a filter on both sides of the stage that it followed; None where all of it has to stay."""
    leaves_alone = _leaves_alone(first)
    before: list[bytes] = []
    after: list[bytes] = []
    for part in parts_of(filter_of(second)):
        fields = None if leaves_alone is None else fields_of_filter(parse_filter(part, query_context=query_context))
        moves = leaves_alone is not None and fields is not None and all(map(leaves_alone, fields))
        (before if moves else after).append(part)
    implied = [] if second.taken else in_front_of(first, after, query_context)
    if not before and not implied:
        return None
    if not after:
        return [second, first]
    left = second if not before else _match(after, query_context)
    return [_match(before + implied, query_context), first, replace(left, taken=True)]


def _over_buckets(first: UnpackBucket, second: Match, query_context: QueryContext) -> list[Stage] | None:
    """What a filter on measurements says of buckets in front of the stage, and what is left of it."""
    moved, left, implied = first.over_buckets(filter_of(second))
    if second.taken:
        implied = []
    if not moved and not implied:
        return None
    front = _match(moved + implied, query_context)
    if not left:
        return [front, first]
    return [front, first, replace(_match(left, query_context) if moved else second, taken=True)]


def _leaves_alone(stage: Stage) -> Callable[[str], bool] | None:
    """The test of whether a field of the top level comes out as it went in; None where a document may not come out
    once for each that went in or nothing is known.
    """
    match stage:
        case Project():
            children, others = stage.projection.root.children, stage.projection.keep_others
            return lambda name: children.get(name, KEEP if others else None) is KEEP
        case Unwind():
            changed = {top(path) for path in (stage.path, stage.index_path) if path is not None}
            return lambda name: name not in changed
        case Lookup() | GraphLookup():
            return lambda name: name != top(stage.as_path)
        case _:
            return None


def _match(filters: list[bytes], query_context: QueryContext) -> Match:
    """The stage for the conjunction."""
    raw = filters[0]
    if len(filters) > 1:
        members: list[Value] = [(OBJECT, each) for each in filters]
        raw = document_from([("$and", *array_value(members))])
    return Match(document_from([("$match", OBJECT, raw)]), parse_filter(raw, query_context=query_context))
