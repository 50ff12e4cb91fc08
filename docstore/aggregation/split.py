"""The split of a pipeline into the part that each shard runs and the part that runs over their merged results.

- Stages that process documents independently run on the shards.
- The first stage that needs all documents runs in two halves if it supports that
  (`docstore.aggregation.stage.Stage.split`). `$group` computes states on the shards that are merged afterwards.
  `$sample` draws random numbers there, of which the greatest remain. `$sort` sorts there and the merge preserves the
  order, as for `$geoNear`. `$limit` is applied on both sides.
- All later stages run after the merge.
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
    """The two halves. `merge_sort`: the order in which the shards' streams arrive and are merged; None: any order.

    `metadata`: the metadata known of the documents in these streams.
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
        # The shards' streams have documents, with the metadata known before the stage.
        metadata = known_metadata(stages[:position], {})
        if halves is not None:
            shards += [halves.on_shards, *_pushed_limit(stages[position + 1 :])]
            return SplitPipeline(shards, following, halves.order, metadata)
        return SplitPipeline([*shards, *_pushed_limit(stages[position:])], [stage.raw, *following], None, metadata)
    return SplitPipeline(shards, [], None)


def _pushed_limit(stages: Sequence[Stage]) -> list[bytes]:
    """Return the `$limit` that bounds each shard; all stages are applied again after the merge."""
    limit = leading_limit(stages)
    return [] if limit is None else [Limit(limit).raw]
