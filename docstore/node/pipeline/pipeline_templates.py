"""Pipeline templates: the raw pipeline split into filter, find options and cached parsed stages (see `at_once`).

Applications repeat the same stages behind a `$match` (and `$sort`, `$limit`) with other values. The stages are parsed
once per process, in a context without a request.

* Stages that depend on the request (time, random numbers, scripts, variables) are refused there, and so are stages that
  read more than their input.
* Consecutive `$match` stages become one filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.field_dependencies import fields_of_stages
from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.aggregation.stages.geo_near import GeoNear
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.lookup import Lookup
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.project import Project
from docstore.aggregation.stages.sort import SortStage
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, INT32, INT64, OBJECT, elements, values
from docstore.errors import CommandError
from docstore.node.limits import MAX_TEMPLATE_BYTES
from docstore.node.pipeline.count import CountedGroup, counted_group
from docstore.query.projection.projection import kept_paths
from docstore.query.value.collation import Collation

_STAGES = frozenset(
    (
        "$addFields", "$bucket", "$count", "$facet", "$fill", "$group", "$limit", "$lookup", "$match", "$project",
        "$redact", "$replaceRoot", "$replaceWith", "$set", "$setWindowFields", "$skip", "$sort", "$sortByCount",
        "$unset", "$unwind",
    )
)  # fmt: skip
"""Stages that depend only on their input, except for the foreign documents of a `$lookup`."""
_MATCH, _UNION, _LOOKUP, _GEO_NEAR = b"$match\0", b"$unionWith\0", b"$lookup\0", b"$geoNear\0"
_METADATA = b"$meta\0"
_NAME_AT = 5
"""Offset of a stage's name in its document."""


class InFind(NamedTuple):
    """The leading stages that the find executes: their number, sort specification, skip, and limit (0: none)."""

    stages: int = 0
    sort: bytes = EMPTY_DOCUMENT
    skip: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """The parsed stages behind a pipeline's `$match`.

    `counted` is a leading group that is only a count. `needs`: the paths that the stages read of documents; None: all.
    """

    find: InFind
    pipeline: Pipeline
    counted: CountedGroup | None
    needs: frozenset[str] | None
    distinct: str | None
    """The path of which the stages need only the distinct values."""


class SeriesPiece(NamedTuple):
    """The parsed stages behind the `$match` of a pipeline over measurements.

    `counted` is a leading group that is only a count. `wanted`: the fields that the stages read (None: any).
    `sorted_by`, `direction`: the first field of a leading `$sort`. `first`: its limit (None: all).
    """

    pipeline: Pipeline
    counted: CountedGroup | None
    wanted: frozenset[str] | None
    sorted_by: str = ""
    direction: int = 0
    first: int | None = None


Pieces = tuple[bytes, Piece, list[tuple[bytes, Piece]]]
"""(The leading filter, the stages behind it, and for each `$unionWith` its argument and the stages behind it.)"""


def pieces_of(stages: Sequence[bytes], collation: Collation | None = None, *, halves: bool = False) -> Pieces | None:
    """Return the template of a pipeline, or None if it does not qualify.

    Under a collation no other collection is read. `halves`: a router has written the stages.
    """
    if not stages or sum(map(len, stages)) > MAX_TEMPLATE_BYTES:
        return None
    filter_, at = _in_front(stages)
    unions = [position for position in range(at, len(stages)) if stages[position].startswith(_UNION, _NAME_AT)]
    ends = [*unions, len(stages)]
    piece = _parsed(tuple(stages[at : ends[0]]), collation, in_front=True, halves=halves)
    if piece is None or (unions and collation is not None):
        return None
    union_pieces: list[tuple[bytes, Piece]] = []
    for position, end in zip(unions, ends[1:], strict=True):
        union, following = (
            _of_stage(stages[position], _UNION),
            _parsed(tuple(stages[position + 1 : end]), None, in_front=False, halves=halves),
        )
        if union is None or following is None:
            return None
        union_pieces.append((union, following))
    return filter_, piece, union_pieces


def series_pieces(stages: Sequence[bytes]) -> tuple[bytes, SeriesPiece] | None:
    """Return (the leading filter, the stages behind it) of a pipeline over measurements.

    None if it does not qualify.
    """
    if sum(map(len, stages)) > MAX_TEMPLATE_BYTES:
        return None
    filter_, at = _in_front(stages)
    piece = _over_measurements(tuple(stages[at:]))
    return None if piece is None else (filter_, piece)


def _in_front(stages: Sequence[bytes]) -> tuple[bytes, int]:
    """Return (the conjunction of the leading `$match` stages, their number)."""
    filter_ = _of_stage(stages[0], _MATCH) if stages else None
    at = 0 if filter_ is None else 1
    filter_ = filter_ or EMPTY_DOCUMENT
    while at < len(stages) and (stage_filter := _of_stage(stages[at], _MATCH)) is not None:
        conjunction = _both(filter_, stage_filter)
        if conjunction is None:
            break
        filter_ = conjunction
        at += 1
    return filter_, at


class Nearness(NamedTuple):
    """A leading `$geoNear` and the stages behind it; `pipeline` has all of them."""

    stage: GeoNear
    pipeline: Pipeline
    behind: Pipeline


def nearness_of(stages: Sequence[bytes], *, halves: bool = False) -> Nearness | None:
    """Return the template of a pipeline that begins with `$geoNear`.

    None for others, or if stages need document metadata.
    """
    if not stages or not stages[0].startswith(_GEO_NEAR, _NAME_AT) or sum(map(len, stages)) > MAX_TEMPLATE_BYTES:
        return None
    if any(_METADATA in stage for stage in stages):
        return None
    piece = _parsed(tuple(stages[1:]), None, in_front=False, halves=halves)
    if piece is None:
        return None
    try:
        (stage,) = parse_pipeline(stages[:1], query_context=new_context()).stages
    except CommandError:
        return None
    if not isinstance(stage, GeoNear):
        return None
    return Nearness(stage, Pipeline((stage, *piece.pipeline.stages)), piece.pipeline)


def _of_stage(stage: bytes, name: bytes) -> bytes | None:
    """Return the argument of a stage if it has this name and a document as argument; else None."""
    if not stage.startswith(name, _NAME_AT):
        return None
    fields = elements(stage)
    return fields[0][2] if len(fields) == 1 and fields[0][1] == OBJECT else None


def _both(one: bytes, other: bytes) -> bytes | None:
    """Return the conjunction of two filters, or None if both constrain the same field."""
    fields, other_fields = elements(one), elements(other)
    if not {name for name, _, _ in fields}.isdisjoint(name for name, _, _ in other_fields):
        return None
    return document_from([*fields, *other_fields])


@lru_cache(maxsize=256)
def _parsed(
    stages: tuple[bytes, ...], collation: Collation | None, *, in_front: bool, halves: bool = False
) -> Piece | None:
    """Parse the stages behind the leading `$match` or behind a `$unionWith`; None if they do not qualify."""
    if not all(map(_is_plain, stages)) or (collation is not None and any(_LOOKUP in raw for raw in stages)):
        return None
    find = in_find(stages) if in_front else InFind()
    try:
        # Parse the whole first: the pipeline's checks need all stages.
        query_context = new_context(collation=collation, halves=halves)
        parse_pipeline(stages, query_context=query_context)
        pipeline = parse_pipeline(stages[find.stages :], query_context=query_context)
    except CommandError:
        return None
    if any(isinstance(stage, Lookup) and not _is_asked_by_filter(stage) for stage in pipeline.stages):
        return None
    counted = counted_group(pipeline.stages) if in_front and not find.stages else None
    if counted is not None:
        pipeline = Pipeline(pipeline.stages[1:], pipeline.query_context)
    first = pipeline.stages[0] if pipeline.stages and not find.stages else None
    # The order of the documents decides which of the values equal under a collation is returned.
    by_values = isinstance(first, Group) and counted is None and collation is None
    distinct = first.distinct() if isinstance(first, Group) and by_values else None
    return Piece(find, pipeline, counted, _needs(pipeline), distinct)


@lru_cache(maxsize=256)
def _over_measurements(stages: tuple[bytes, ...]) -> SeriesPiece | None:
    piece = _parsed(stages, None, in_front=False)
    if piece is None or any(isinstance(stage, Lookup) for stage in piece.pipeline.stages):
        return None
    counted = counted_group(piece.pipeline.stages)
    if counted is not None:
        return SeriesPiece(Pipeline(piece.pipeline.stages[1:], piece.pipeline.query_context), counted, frozenset())
    run = piece.pipeline.as_run()
    first = run[0] if run else None
    last = first.limit if isinstance(first, SortStage) and first.sort.collation is None else None
    path, direction = first.sort.fields[0] if isinstance(first, SortStage) and first.sort.fields else ("", 0)
    fields = fields_of_stages(stage.field_dependencies for stage in run)
    return SeriesPiece(piece.pipeline, None, fields, path, direction, last)


def _needs(pipeline: Pipeline) -> frozenset[str] | None:
    """Return the paths that the first stage reads of documents; None if it may read any."""
    first = pipeline.stages[0] if pipeline.stages else None
    if isinstance(first, Group):
        return first.paths()
    return kept_paths(first.projection) if isinstance(first, Project) else None


def in_find(stages: Sequence[bytes]) -> InFind:
    """Return the part of these stages that a find executes: a leading sort, skip and limit."""
    fields = [elements(raw)[0] for raw in stages[:3]]
    stage_count, sort = 0, EMPTY_DOCUMENT
    if fields and fields[0][:2] == ("$sort", OBJECT):
        stage_count, sort = 1, fields[0][2]
    numbers = {"$skip": 0, "$limit": 0}
    for name in numbers:
        if len(fields) > stage_count and fields[stage_count][0] == name and fields[stage_count][1] in (INT32, INT64):
            numbers[name] = int.from_bytes(fields[stage_count][2], "little", signed=True)
            stage_count += 1
    return InFind(stage_count, sort, numbers["$skip"], numbers["$limit"])


def _is_asked_by_filter(stage: Lookup) -> bool:
    """Return True if the foreign documents are found by an equality or by a pipeline that begins with `$match`."""
    if stage.keyed is not None:
        return True
    begins_with_match = bool(stage.pipeline.stages) and isinstance(stage.pipeline.stages[0], Match)
    return stage.collection is not None and (stage.local is not None or begins_with_match)


def _is_plain(stage: bytes) -> bool:
    """Return True if a stage and those nested in it are of `_STAGES`."""
    fields = elements(stage)
    if len(fields) != 1 or fields[0][0] not in _STAGES:
        return False
    name, code, data = fields[0]
    if code != OBJECT or name not in ("$facet", "$lookup"):
        return True
    inner = [stages for _, code, stages in elements(data) if code == ARRAY]
    return all(code == OBJECT and _is_within(raw) for stages in inner for code, raw in values(stages))


def _is_within(stage: bytes) -> bool:
    """Return True for a plain nested stage; `$lookup` and `$facet` are allowed in the outermost pipeline only."""
    return _is_plain(stage) and elements(stage)[0][0] not in ("$facet", "$lookup")
