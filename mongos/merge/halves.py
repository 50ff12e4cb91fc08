"""Split pipelines that are remembered: an application sends the same stages after a `$match` with changing values.

They are split once for all requests of the process, in a context without a request. Stages that depend on a request
(time, variables, other collections, metadata) are split for each request by `mongos.merge.pipelines`.

Invariant: shards get the same request and the client the same results as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import bson

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.parse import parse_pipeline, parse_written
from docstore.aggregation.split import SplitPipeline, split_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.bson import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT
from docstore.errors import CommandError
from mongos.relay.pipelines import read_beside

_ASIDE = (b"$meta\0", b"$sample\0", b"$rand\0", b"$sampleRate\0")
_SOME = bson.encode({"$match": {"_id": 1}})
"""Stands for the `$match` in front, whose values are others each time."""


@dataclass(frozen=True, slots=True)
class Halves:
    """The stages after a `$match`, split (`split`): the shards' part, and the router's, parsed."""

    shards: tuple[bytes, ...]
    split: SplitPipeline
    merging: Pipeline

    def asked(self, match: Sequence[bytes]) -> bytes:
        """Return the field with a shard's pipeline. `match`: the first stage, if any."""
        stages = array_from([(OBJECT, stage) for stage in (*match, *self.shards)])
        return document_from([("pipeline", ARRAY, stages)])[4:-1]


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
