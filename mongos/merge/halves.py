"""Split pipelines whose results are merged in one step, if the shards' results are complete and small.

An application sends the same stages after a `$match` with changing values. They are split once for all requests of
the process, in a context without a request. Stages that depend on a request (time, variables, other collections,
metadata) go through `mongos.merge.pipelines`, and so do merges that take longer than a step.

Invariant: shards get the same request and the client the same results as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import random

import bson

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.parse import parse_pipeline, parse_written
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
from mongos.limits import MAX_INLINE_RESULT_BYTES
from mongos.merge.joined import joined
from mongos.merge.merged import Shape
from mongos.relay.pipelines import read_beside
from mongos.relay.targets import NamespaceTargets

_ASIDE = (b"$meta\0", b"$sample\0", b"$rand\0", b"$sampleRate\0")
_SOME = bson.encode({"$match": {"_id": 1}})
"""Stands for the `$match` in front, whose values are others each time."""


@dataclass(frozen=True, slots=True)
class Halves:
    """The stages after a `$match`, split: the shards' part, and the router's, both as `mongos.merge.pipelines` takes
    it (`split`) and as it runs here (`merging`).
    """

    shards: tuple[bytes, ...]
    split: SplitPipeline
    merging: Pipeline

    def asked(self, match: Sequence[bytes]) -> bytes:
        """Return the field with a shard's pipeline. `match`: the first stage, if any."""
        stages = array_from([(OBJECT, stage) for stage in (*match, *self.shards)])
        return document_from([("pipeline", ARRAY, stages)])[4:-1]

    def joined(
        self, replies: Sequence[bytes], targets: NamespaceTargets, batch: int, clock: Callable[[], float]
    ) -> list[bytes] | None:
        """Return the merged results of the shards' replies if they are less than a batch; else None. Errors: those of
        the stages.
        """
        sort = self.split.merge_sort
        documents = joined(replies, Shape(sort=None if sort is None else sort.pattern()), targets)
        if documents is not None and self.merging.stages:
            documents = _run(self.merging, documents, clock)
        # For a batch that is just full, the cursor decides whether more documents follow.
        if documents is None or len(documents) >= batch or bytes_of(documents) > MAX_INLINE_RESULT_BYTES:
            return None
        return documents


@lru_cache(maxsize=256)
def halves_of(stages: tuple[bytes, ...], *, behind_match: bool) -> Halves | None:
    """Return the halves; None if the stages cannot be split in advance."""
    if read_beside(stages) != frozenset() or any(marker in stage for stage in stages for marker in _ASIDE):
        return None
    front = (_SOME,) if behind_match else ()
    try:
        split = split_pipeline(parse_pipeline([*front, *stages], query_context=new_context()))
        merging = parse_written(split.merge_stages, new_context())
    except CommandError:
        return None
    if tuple(split.shard_stages[: len(front)]) != front:
        # A filter that stands behind has moved to it.
        return None
    return Halves(tuple(split.shard_stages[len(front) :]), split, merging)


def _run(pipeline: Pipeline, documents: list[bytes], clock: Callable[[], float]) -> list[bytes] | None:
    """Return the results of the stages; None if they take longer than a step."""
    until = clock() + FIRST_STEP_SECONDS
    buffers = OperationBuffers()
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
    try:
        stream = pipeline.open(DocumentList(documents), Environment(clock=clock, buffers=buffers, rng=random))
        return drained(stream, clock, until)
    finally:
        PAUSING.level = level
        buffers.close()
