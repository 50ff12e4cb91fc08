"""Building keys, bounds and chunk maps for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bson
from bson.objectid import ObjectId

from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.version import Lastmod

EPOCH = ObjectId("0123456789abcdef01234567")
KEY = ShardKey(("id",))


def at(value: Any, key: ShardKey = KEY) -> Bound:
    """The bound at a value of a key with one field."""
    return key.bound(bson.encode({key.fields[0]: value}))


def chunk_map(
    cuts: Sequence[Any], shards: Sequence[str], lastmods: Sequence[tuple[int, int]] | None = None
) -> ChunkMap:
    """Chunks between the cuts (rising values of `id`), one shard name each; versions 1|0, 1|1, ... unless given."""
    edges = [KEY.min, *(at(cut) for cut in cuts), KEY.max]
    versions = lastmods or [(1, position) for position in range(len(shards))]
    chunks = [
        Chunk(KeyRange(edges[position], edges[position + 1]), shard, Lastmod(*versions[position]))
        for position, shard in enumerate(shards)
    ]
    made = ChunkMap(KEY, EPOCH, chunks)
    made.check()
    return made


def shown(chunks: ChunkMap) -> list[tuple[Any, str, str]]:
    """(low end, shard, version) of each chunk."""
    return [(bson.decode(chunk.min.raw)["id"], chunk.shard, str(chunk.lastmod)) for chunk in chunks]
