"""Pipelines of several shards whose results are put together in one step, where they are all there is and not much.

An application sends the same stages behind a `$match` with other values. They are split once for all requests of the
process, in a context that knows nothing of a request: whatever depends on one (the time, variables, other collections,
metadata) goes the general way (`mongos.merge.pipelines`), and so does what takes longer than a step.

Always true: shards are asked what they are asked there, and what comes out is what comes out there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import random

import bson

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.split import SplitPipeline, split_pipeline
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.streams import DocumentList, drained
from docstore.bson import array_from, document_from
from docstore.bson.build import bytes_of
from docstore.bson.walk import ARRAY, OBJECT
from docstore.buffers import OperationBuffers
from docstore.errors import CommandError
from docstore.net.scheduling.scheduler import FIRST_STEP_SECONDS
from docstore.query.pausing import PAUSING, REFUSED
from mongos.merge.joined import joined
from mongos.merge.merged import Shape
from mongos.relay.pipelines import read_beside
from mongos.relay.targets import NamespaceTargets

_ASIDE = (b"$meta\0", b"$sample\0", b"$rand\0", b"$sampleRate\0")
_SOME = bson.encode({"$match": {"_id": 1}})
"""Stands for the `$match` in front, whose values are others each time."""
_MOST_GIVEN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Halves:
    """The stages behind a `$match`: those of the shards, and the router's, as they are given to the general way
    (`split`) and as they are run here.
    """

    shards: tuple[bytes, ...]
    split: SplitPipeline
    merging: Pipeline

    def asked(self, match: Sequence[bytes]) -> bytes:
        """The field with the pipeline of a shard. `match`: the stage in front, if there is one."""
        stages = array_from([(OBJECT, stage) for stage in (*match, *self.shards)])
        return document_from([("pipeline", ARRAY, stages)])[4:-1]

    def joined(
        self, replies: Sequence[bytes], targets: NamespaceTargets, batch: int, clock: Callable[[], float]
    ) -> list[bytes] | None:
        """The results of the shards' replies, where they are fewer than a batch; None where that takes the general way.
        Errors: those of the stages.
        """
        sort = self.split.merge_sort
        documents = joined(replies, Shape(sort=None if sort is None else sort.pattern()), targets)
        if documents is not None and self.merging.stages:
            documents = _run(self.merging, documents, clock)
        # Of a batch that is just full the general way knows whether a cursor stays.
        if documents is None or len(documents) >= batch or bytes_of(documents) > _MOST_GIVEN_BYTES:
            return None
        return documents


@lru_cache(maxsize=256)
def halves_of(stages: tuple[bytes, ...], *, behind_match: bool) -> Halves | None:
    """None where they are not such stages."""
    if read_beside(stages) != frozenset() or any(each in stage for stage in stages for each in _ASIDE):
        return None
    front = (_SOME,) if behind_match else ()
    try:
        split = split_pipeline(parse_pipeline([*front, *stages], query_context=new_context()))
        merging = parse_pipeline(split.merge_stages, query_context=new_context())
    except CommandError:
        return None
    if tuple(split.shard_stages[: len(front)]) != front:
        # A filter that stands behind has moved to it.
        return None
    return Halves(tuple(split.shard_stages[len(front) :]), split, merging)


def _run(pipeline: Pipeline, documents: list[bytes], clock: Callable[[], float]) -> list[bytes] | None:
    """What stages make of documents; None where it takes longer than a step."""
    until = clock() + FIRST_STEP_SECONDS
    buffers = OperationBuffers()
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
    try:
        stream = pipeline.open(DocumentList(documents), Environment(clock=clock, buffers=buffers, rng=random))
        return drained(stream, clock, until)
    finally:
        PAUSING.level = level
        buffers.close()
