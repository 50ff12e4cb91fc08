"""The split of a pipeline: the stages that every shard runs over its own documents, and those run over all results.

Stages that read one document at a time stay on the shards. The first stage that needs all documents is done in two
halves if it says how (`docstore.aggregation.stage.Stage.split`): a `$group` collects states on the shards that are
merged afterwards; a `$sample` draws numbers there, of which the greatest remain; a `$sort` sorts there and the merge
keeps the order, as it does that of a `$geoNear`. A `$limit` is applied on both sides. All that follows runs after the
merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docstore.aggregation.known_metadata import known_metadata
from docstore.aggregation.stage import Pipeline, Stage
from docstore.aggregation.stages.limit import Limit, leading_limit
from docstore.query.metadata import Measure
from docstore.query.sort import Sort


@dataclass(frozen=True, slots=True)
class SplitPipeline:
    """`merge_sort` is the order in which the shards' streams come and are to be merged; None: in any order.
    `metadata`: those that are known of the documents in these.
    """

    shard_stages: list[bytes]
    merge_stages: list[bytes]
    merge_sort: Sort | None
    metadata: Mapping[str, Measure] = field(default_factory=dict)


def split_pipeline(pipeline: Pipeline) -> SplitPipeline:
    """Return the two halves of a pipeline."""
    stages = pipeline.stages
    shards: list[bytes] = []
    for position, stage in enumerate(stages):
        if stage.runs_on_shards:
            shards.append(stage.raw)
            continue
        following = [later.raw for later in stages[position + 1 :]]
        halves = stage.split()
        if halves is not None and halves.merging is not None:
            return SplitPipeline([*shards, halves.on_shards], [halves.merging, *following], None)
        # The shards' streams are of documents, whose metadata are known as far as they were in front of the stage.
        known = known_metadata(stages[:position], {})
        if halves is not None:
            shards += [halves.on_shards, *_pushed_limit(stages[position + 1 :])]
            return SplitPipeline(shards, following, halves.order, known)
        return SplitPipeline([*shards, *_pushed_limit(stages[position:])], [stage.raw, *following], None, known)
    return SplitPipeline(shards, [], None)


def _pushed_limit(stages: Sequence[Stage]) -> list[bytes]:
    """Return the `$limit` beyond which no shard has to go; all stages are applied again behind the merge."""
    limit = leading_limit(stages)
    return [] if limit is None else [Limit(limit).raw]
