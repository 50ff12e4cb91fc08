from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import CommandError
from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap, InconsistentChunks, first_chunk, move_chunk, split_chunk
from docstore.sharding.key import KeyRange
from docstore.sharding.version import Lastmod, ShardVersion
from tests.unit.sharding.maps import EPOCH, KEY, at, chunk_map, shown


def apply_split(chunks: ChunkMap, chunk: Chunk, values: list[int]) -> ChunkMap:
    return chunks.updated(split_chunk(chunk, [at(value) for value in values], chunks.version.lastmod))


def apply_move(chunks: ChunkMap, chunk: Chunk, to: str) -> ChunkMap:
    remaining = next((other for other in chunks if other.shard == chunk.shard and other != chunk), None)
    moved, bumped = move_chunk(chunk, to, remaining, chunks.version.lastmod)
    return chunks.updated([moved] if bumped is None else [moved, bumped])


def test_the_walk_through_gives_versions_2_1_and_1_3_and_2_0() -> None:
    chunks = ChunkMap(KEY, EPOCH, [first_chunk(KEY, "shard1")])
    chunks = chunks.updated(split_chunk(chunks.chunk_at(at("5").key), [at("1")], chunks.version.lastmod))
    assert [row[2] for row in shown(chunks)] == ["1|1", "1|2"]
    chunks = chunks.updated(split_chunk(chunks.chunk_at(at("5").key), [at("999")], chunks.version.lastmod))
    chunks = apply_move(chunks, chunks.chunk_at(at("999").key), "shard2")
    assert [row[1:] for row in shown(chunks)] == [("shard1", "2|1"), ("shard1", "1|3"), ("shard2", "2|0")]
    assert chunks.shard_version("shard1") == ShardVersion(EPOCH, Lastmod(2, 1))
    assert chunks.shard_version("shard2") == ShardVersion(EPOCH, Lastmod(2, 0))
    assert chunks.shard_version("shard3") == ShardVersion(EPOCH, Lastmod(0, 0))


def test_a_shard_left_without_chunks_has_version_zero() -> None:
    chunks = apply_move(chunk_map([], ["a"]), chunk_map([], ["a"]).chunk_at(b"\x30"), "b")
    assert chunks.shard_version("a").lastmod == Lastmod(0, 0)
    assert chunks.version.lastmod == Lastmod(2, 0)


@given(st.integers(0, 2**32))
def test_random_splits_and_moves_keep_the_map_whole(seed: int) -> None:
    """Also: a reader that refreshes by increments, at random moments, has the same map as one that reads everything."""
    rng = random.Random(seed)
    chunks = stale = chunk_map([], ["a"])
    history = [chunks]
    for _ in range(rng.randrange(1, 25)):
        chunk = rng.choice(list(chunks))
        before = chunks.version
        if rng.random() < 0.6:
            value = rng.randrange(1000)
            if not chunk.min.key < at(value).key < chunk.max.key:
                continue
            chunks = apply_split(chunks, chunk, [value])
            assert chunks.version.major == before.major
        else:
            donor, to = chunk.shard, rng.choice("abc".replace(chunk.shard, ""))
            chunks = apply_move(chunks, chunk, to)
            assert chunks.version.lastmod.major == before.major + 1
            assert not chunks.shard_version(donor).routes_like(history[-1].shard_version(donor))
        history.append(chunks)
        chunks.check()
        if rng.random() < 0.3:
            since = stale.version.lastmod
            stale = stale.updated([chunk for chunk in chunks if chunk.lastmod >= since])
            assert shown(stale) == shown(chunks)
    assert sum(chunks.counts.values()) == len(chunks)
    for value in range(0, 1000, 37):
        assert chunks.chunk_at(at(value).key).range.min.key <= at(value).key < chunks.chunk_at(at(value).key).max.key


def test_ownership_joins_neighbours() -> None:
    chunks = chunk_map([1, 2, 3], ["a", "a", "b", "a"])
    assert chunks.owned("a") == [(KEY.min.key, at(2).key), (at(3).key, KEY.max.key)]
    assert chunks.owned("c") == []


def test_overlapping_chunks_are_found_without_the_neighbours_that_only_touch() -> None:
    chunks = chunk_map([10, 20, 30], ["a", "b", "c", "d"])
    assert [chunk.shard for chunk in chunks.overlapping(at(10).key, at(20).key)] == ["b"]
    assert [chunk.shard for chunk in chunks.overlapping(at(19).key, at(21).key)] == ["b", "c"]
    assert [chunk.shard for chunk in chunks.overlapping(at(5).key, at(5).key)] == []


def test_a_half_written_split_shows_the_lower_part_cut() -> None:
    chunks = chunk_map([10], ["a", "b"])
    lower, upper = split_chunk(chunks.chunk_at(at(3).key), [at(5)], chunks.version.lastmod)
    torn = [*chunks, upper]
    healed = ChunkMap.from_catalog(KEY, EPOCH, torn)
    assert [row[0] for row in shown(healed)][1:] == [5, 10]
    assert healed.chunk_at(at(3).key).lastmod == Lastmod(1, 0)
    assert shown(healed.updated([lower, upper])) == shown(chunks.updated([lower, upper]))


def test_gaps_overlaps_between_shards_and_doubled_versions_are_refused() -> None:
    chunks = list(chunk_map([10, 20], ["a", "b", "c"]))
    broken = [
        [chunks[0], chunks[2]],
        [chunks[0], replace(chunks[1], range=KeyRange(at(10), at(25))), chunks[2]],
        [chunks[0], chunks[1]],
        [*chunks[:2], replace(chunks[2], lastmod=chunks[0].lastmod)],
    ]
    for listed in broken:
        with pytest.raises(InconsistentChunks):
            ChunkMap.from_catalog(KEY, EPOCH, listed)


@pytest.mark.parametrize("points", [[], [10], [20], [12, 12], [15, 12], [5]])
def test_split_points_rise_strictly_inside_the_chunk(points: list[int]) -> None:
    chunks = chunk_map([10, 20], ["a", "a", "a"])
    with pytest.raises(CommandError):
        split_chunk(chunks.chunk_at(at(12).key), [at(point) for point in points], chunks.version.lastmod)


def test_an_exact_chunk_is_found_by_its_bounds_however_spelled() -> None:
    chunks = chunk_map([10, 20], ["a", "b", "c"])
    assert chunks.exact(KeyRange(at(10.0), at(20))) == chunks.chunk_at(at(10).key)
    assert chunks.exact(KeyRange(at(10), at(21))) is None
