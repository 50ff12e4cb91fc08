"""Chunk maps of many blocks, against what a plain list of all chunks says."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from dataclasses import replace

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.bson import documents_array
from docstore.sharding.chunk import Chunk, joined
from docstore.sharding.chunks import ChunkMap, InconsistentChunks, move_chunk, split_chunk
from docstore.sharding.key import KeyRange
from docstore.sharding.routing import Routing, RoutingRead
from docstore.sharding.targeting import shards_for
from docstore.sharding.version import NO_CHUNKS, Lastmod
from tests.unit.sharding.maps import EPOCH, KEY, at

SHARDS = "abcd"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few dozen chunks fill many blocks."""
    monkeypatch.setattr("docstore.sharding.chunks.BLOCK_CHUNKS", 4)


class NaiveMap:
    """The same map as a list of its chunks: whatever is asked is counted anew."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = sorted(chunks, key=lambda chunk: chunk.min.key)

    def version(self, shard: str | None = None) -> Lastmod:
        return max((chunk.lastmod for chunk in self.chunks if shard in (None, chunk.shard)), default=NO_CHUNKS)

    def chunk_at(self, key: bytes) -> Chunk:
        return self.chunks[bisect_right([chunk.min.key for chunk in self.chunks], key) - 1]

    def overlapping(self, low: bytes, high: bytes) -> list[Chunk]:
        return [chunk for chunk in self.chunks if low < high and chunk.min.key < high and low < chunk.max.key]

    def owned(self, shard: str) -> list[tuple[bytes, bytes]]:
        return joined((chunk.min.key, chunk.max.key) for chunk in self.chunks if chunk.shard == shard)

    def replaced(self, changed: list[Chunk]) -> NaiveMap:
        kept = [
            chunk for chunk in self.chunks
            if not any(chunk.min.key < new.max.key and new.min.key < chunk.max.key for new in changed)
        ]  # fmt: skip
        return NaiveMap([*kept, *changed])


def random_map(rng: random.Random) -> NaiveMap:
    cuts = sorted(rng.sample(range(1000), rng.randrange(40)))
    edges = [KEY.min, *map(at, cuts), KEY.max]
    lastmods = rng.sample(range(1, 1000), len(edges))
    return NaiveMap(
        [
            Chunk(KeyRange(low, high), rng.choice(SHARDS[:3]), Lastmod(1, lastmod))
            for (low, high), lastmod in zip(itertools.pairwise(edges), lastmods, strict=False)
        ]
    )


def change(rng: random.Random, naive: NaiveMap) -> list[Chunk]:
    """The records that a split or a move writes."""
    chunk = rng.choice(naive.chunks)
    if rng.random() < 0.5:
        points = sorted(
            {at(value).key: at(value) for value in rng.sample(range(1000), 12)
             if chunk.min.key < at(value).key < chunk.max.key}.items()
        )  # fmt: skip
        return split_chunk(chunk, [point for _, point in points], naive.version()) if points else []
    to = rng.choice(SHARDS.replace(chunk.shard, ""))
    remaining = next((other for other in naive.chunks if other.shard == chunk.shard and other != chunk), None)
    return [each for each in move_chunk(chunk, to, remaining, naive.version()) if each is not None]


def compare(chunks: ChunkMap, naive: NaiveMap, rng: random.Random) -> None:
    chunks.check()
    assert list(chunks) == naive.chunks
    assert len(chunks) == len(naive.chunks)
    assert chunks.version.lastmod == naive.version()
    assert chunks.shards == {chunk.shard for chunk in naive.chunks}
    for shard in SHARDS:
        assert chunks.counts.get(shard, 0) == sum(chunk.shard == shard for chunk in naive.chunks)
        assert chunks.shard_version(shard).lastmod == naive.version(shard)
        assert chunks.owned(shard) == naive.owned(shard)
        assert list(chunks.of(shard)) == [chunk for chunk in naive.chunks if chunk.shard == shard]
        assert chunks.ranges_at_most(shard) >= len(naive.owned(shard))
    for _ in range(10):
        low, high = (at(rng.randrange(-10, 1010)).key for _ in range(2))
        assert chunks.chunk_at(low) == naive.chunk_at(low)
        assert list(chunks.overlapping(low, high)) == naive.overlapping(low, high)
        assert chunks.shards_between(low, high) == {chunk.shard for chunk in naive.overlapping(low, high)}
    everything = [(KEY.min.key, KEY.max.key)]
    assert shards_for(chunks, everything) == sorted(chunks.shards)


@given(st.integers(0, 2**32))
def test_a_map_of_many_blocks_answers_like_a_list_of_its_chunks(seed: int) -> None:
    """However it has changed, by increments that hold one change or several."""
    rng = random.Random(seed)
    naive = random_map(rng)
    chunks = ChunkMap.from_catalog(KEY, EPOCH, naive.chunks)
    compare(chunks, naive, rng)
    for _ in range(rng.randrange(1, 12)):
        since = naive.version()
        for _ in range(rng.randrange(1, 4)):
            naive = naive.replaced(change(rng, naive))
        before = list(chunks)
        after = chunks.updated([chunk for chunk in naive.chunks if chunk.lastmod >= since])
        assert list(chunks) == before, "a map never changes"
        chunks = after
        compare(chunks, naive, rng)


@given(st.integers(0, 2**32))
def test_an_increment_that_does_not_fit_is_refused_or_makes_a_whole_map(seed: int) -> None:
    rng = random.Random(seed)
    naive = random_map(rng)
    chunks = ChunkMap.from_catalog(KEY, EPOCH, naive.chunks)
    wrong = [
        replace(chunk, range=KeyRange(*sorted((at(rng.randrange(1000)), at(rng.randrange(1000))), key=lambda b: b.key)),
                lastmod=Lastmod(rng.choice([1, 2]), rng.randrange(1000)))
        for chunk in rng.choices(naive.chunks, k=rng.randrange(1, 4))
    ]  # fmt: skip
    try:
        after = chunks.updated(wrong)
    except InconsistentChunks:
        return
    after.check()


def test_a_change_touches_the_blocks_of_its_chunks_alone() -> None:
    edges = [KEY.min, *map(at, range(400)), KEY.max]
    listed = [
        Chunk(KeyRange(low, high), "a", Lastmod(1, number))
        for number, (low, high) in enumerate(itertools.pairwise(edges))
    ]
    chunks = ChunkMap(KEY, EPOCH, listed)
    parts = split_chunk(chunks.chunk_at(at(200).key), [at(200.5)], chunks.version.lastmod)
    after = chunks.updated(parts)
    shared = {id(block) for block in chunks._blocks} & {id(block) for block in after._blocks}
    assert len(shared) == len(chunks._blocks) - 1


def page(chunks: list[Chunk], *, full: bool, more: bool) -> bytes:
    uuid, stamp = bson.Binary(bytes(16), 4), bson.Timestamp(1, 1)
    version = {"uuid": uuid, "timestamp": stamp, "lastMod": 1}
    head = {
        "database": {"_id": "test", "primary": "a", "version": version},
        "collection": {"_id": "test.c", "uuid": uuid, "timestamp": stamp, "key": {"id": 1}, "lastmodEpoch": EPOCH},
        "full": full,
        "more": more,
    }
    array = documents_array([bson.encode(chunk.document()) for chunk in chunks])
    body = bson.encode(head)[4:-1] + b"\4chunks\0" + array + b"\0"
    return (len(body) + 4).to_bytes(4, "little") + body


@given(st.integers(0, 2**32))
def test_pages_that_are_read_while_chunks_change_make_the_map_of_the_last(seed: int) -> None:
    rng = random.Random(seed)
    naive = random_map(rng)
    reading = RoutingRead("test.c", None)
    since: Lastmod | None = None
    routing: Routing | None = None
    for rounds in itertools.count():
        assert reading.request().get("since", {}).get("v") == (None if since is None else since.to_timestamp())
        left = sorted((c for c in naive.chunks if since is None or c.lastmod >= since), key=lambda c: c.lastmod)
        sent, more = left[:3], len(left) > 3
        routing = reading.take(page(sent, full=since is None, more=more))
        if not more:
            break
        assert routing is None
        since = sent[-1].lastmod
        if rounds < 5:
            naive = naive.replaced(change(rng, naive))
    assert routing is not None
    assert routing.collection is not None
    assert list(routing.collection.chunks) == naive.chunks


def test_pages_of_two_incarnations_are_not_put_together() -> None:
    chunks = random_map(random.Random(1)).chunks
    reading = RoutingRead("test.c", None)
    assert reading.take(page(chunks[:2], full=True, more=True)) is None
    with pytest.raises(InconsistentChunks):
        reading.take(page(chunks, full=True, more=False))
