"""The split of a pipeline: what every shard runs over its own documents, and what is run over all their results.

Stages that look at one document at a time stay on the shards. The first stage that needs all documents is done in two
halves where that is possible: a `$group` collects states on the shards that are merged afterwards; a `$sample` draws
numbers there, of which the greatest of all stay; a `$sort` sorts there and the merge keeps the order, as it does that
of a `$geoNear`; a `$limit` is applied on both sides. All that follows runs after the merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docstore.aggregation.known_metadata import known_metadata
from docstore.aggregation.stage import DOING_MERGE, WILL_BE_MERGED, Stage
from docstore.aggregation.stages.geo_near import GeoNear
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.limit import Limit, leading_limit
from docstore.aggregation.stages.sample import Sample
from docstore.aggregation.stages.sort import SortStage
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, elements, get_field
from docstore.query.metadata import Measure
from docstore.query.sort import Sort
from docstore.query.value.values import TRUE, string_value


@dataclass(frozen=True, slots=True)
class SplitPipeline:
    """`merge_sort` is the order in which the shards' streams come and are to be merged; None: in any order.
    `metadata`: those that are known of the documents in these.
    """

    shard_stages: list[bytes]
    merge_stages: list[bytes]
    merge_sort: Sort | None
    metadata: Mapping[str, Measure] = field(default_factory=dict)


def split_stages(stages: Sequence[Stage]) -> SplitPipeline:
    """The two halves of the stages."""
    shards: list[bytes] = []
    for position, stage in enumerate(stages):
        if stage.runs_on_shards:
            shards.append(stage.raw)
            continue
        rest = [later.raw for later in stages[position:]]
        known = known_metadata(stages[:position], {})
        if isinstance(stage, Group):
            partial, merged = _split_group(stage)
            return SplitPipeline([*shards, partial], [merged, *rest[1:]], None)
        if isinstance(stage, Sample):
            first, second = stage.halves()
            return SplitPipeline([*shards, first.raw], [second.raw, *rest[1:]], None)
        if isinstance(stage, GeoNear):
            return SplitPipeline([stage.raw, *_pushed_limit(stages[1:])], rest[1:], stage.order)
        if isinstance(stage, SortStage):
            pushed = _pushed_limit(stages[position + 1 :])
            return SplitPipeline([*shards, stage.raw, *pushed], rest[1:], stage.sort, known)
        return SplitPipeline([*shards, *_pushed_limit(stages[position:])], rest, None, known)
    return SplitPipeline(shards, [], None)


def _pushed_limit(stages: Sequence[Stage]) -> list[bytes]:
    """The `$limit` that no shard needs to go beyond, given the stages after it has to be applied again."""
    limit = leading_limit(stages)
    return [] if limit is None else [Limit(limit).raw]


def _split_group(stage: Group) -> tuple[bytes, bytes]:
    specification = get_field(stage.raw, "$group")
    assert specification is not None
    partial = document_from([*elements(specification[1]), (WILL_BE_MERGED, *TRUE)])
    merged: list[tuple[str, int, bytes]] = [("_id", *string_value("$_id"))]
    merged += [field for field in elements(specification[1]) if field[0] != "_id"]
    merged.append((DOING_MERGE, *TRUE))
    return _stage(partial), _stage(document_from(merged))


def _stage(specification: bytes) -> bytes:
    return document_from([("$group", OBJECT, specification)])
