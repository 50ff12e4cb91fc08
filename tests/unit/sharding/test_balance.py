from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.sharding.balance import Route, ShardState, candidates, choose_chunk, choose_route, tolerated_bytes
from docstore.sharding.chunks import Chunk, ChunkMap, move_chunk
from docstore.sharding.split import KIB, MIB
from tests.unit.sharding.maps import EPOCH, KEY, chunk_map

CHUNK = 128 * MIB
MANY = 30
"""So many chunks that the collection is not young."""


def spread(placement: str) -> ChunkMap:
    """One chunk for each letter, on the shard of that name."""
    return chunk_map(range(1, len(placement)), list(placement))


def shards(names: str, draining: str = "") -> list[ShardState]:
    return [ShardState(name, name in draining) for name in names]


def route_of(chunks: ChunkMap, states: list[ShardState], **sizes: int) -> Route | None:
    return choose_route(chunks, states, sizes, CHUNK)


def test_a_difference_below_three_chunk_sizes_is_balanced() -> None:
    chunks = spread("a" * MANY + "b")
    assert route_of(chunks, shards("ab"), a=3 * CHUNK - 1) is None
    assert route_of(chunks, shards("ab"), a=3 * CHUNK) == Route("a", "b", 3 * CHUNK)
    assert route_of(chunks, shards("abc"), a=9 * CHUNK, b=5 * CHUNK, c=6 * CHUNK) == Route("a", "b", 4 * CHUNK)


@pytest.mark.parametrize(
    ("count", "bytes_"),
    [(1, 8 * MIB), (2, 8 * MIB), (4, 8 * MIB), (10, 16 * MIB), (19, 16 * MIB), (20, 3 * CHUNK), (1000, 3 * CHUNK)],
)
def test_a_young_collection_is_spread_by_the_size_at_which_its_chunks_split(count: int, bytes_: int) -> None:
    assert tolerated_bytes(count, CHUNK) == bytes_


def test_of_few_chunks_the_one_goes_that_leaves_the_shards_alike() -> None:
    """26 MB in four chunks, of which the ladder has left the large ones on one shard."""
    chunks = spread("aabb")
    route = route_of(chunks, shards("ab"), a=MIB // 2, b=26 * MIB)
    assert route == Route("b", "a", 26 * MIB - MIB // 2)
    sized = list(zip(candidates(chunks, route), (15 * MIB, 11 * MIB), strict=True))
    assert choose_chunk(route, sized, few=True) == list(chunks)[3]


def test_a_chunk_as_large_as_the_difference_and_one_without_data_stay() -> None:
    chunks = spread("aaa")
    sized = list(zip(chunks, (0, 600 * KIB, 0), strict=True))
    assert choose_chunk(Route("a", "b", 600 * KIB), sized, few=True) is None
    assert choose_chunk(Route("a", "b", 601 * KIB), sized, few=False) == list(chunks)[1]


def test_of_few_chunks_none_goes_to_and_fro() -> None:
    """A move that leaves the shards as far apart as before, or nearly, is not worth it."""
    chunks = spread("aa")
    for size in (70, 540 * KIB, 600 * KIB):
        assert choose_chunk(Route("a", "b", 600 * KIB), [(chunk, size) for chunk in chunks], few=True) is None
    assert choose_chunk(Route("a", "b", 600 * KIB), [(chunk, 500 * KIB) for chunk in chunks], few=True) is not None


def test_the_chunk_next_to_the_receivers_range_is_preferred() -> None:
    chunks = spread("a" * MANY + "bba")
    route = Route("a", "b", 9 * CHUNK)
    assert next(candidates(chunks, route)) == next(iter(chunks))
    chunks = spread("a" * MANY + "bb")
    assert next(candidates(chunks, route)) == list(chunks)[MANY - 1]
    sized = [(chunk, CHUNK // 2) for chunk in candidates(chunks, route)]
    assert choose_chunk(route, sized, few=False) == list(chunks)[MANY - 1]


def test_a_draining_shard_is_emptied_and_never_receives() -> None:
    chunks = spread("aabbc")
    route = route_of(chunks, shards("abc", draining="c"), a=9, b=3)
    assert route == Route("c", "b")
    assert choose_chunk(route, [(chunk, 0) for chunk in candidates(chunks, route)], few=True) == list(chunks)[4]
    emptied = spread("aaaaaaaab")
    assert route_of(emptied, shards("abc", draining="bc")) == Route("b", "a")
    assert route_of(spread("aaaaaaaaaa"), shards("ac", draining="c"), a=99 * CHUNK) is None


def test_jumbo_chunks_stay() -> None:
    chunks = ChunkMap(KEY, EPOCH, [replace(chunk, jumbo=True) for chunk in spread("aaab")])
    assert not list(candidates(chunks, Route("a", "b", CHUNK)))
    assert route_of(chunks, shards("ab", draining="a"), a=5) is None


def test_nothing_moves_when_every_shard_is_draining() -> None:
    assert route_of(spread("aaaaaaaaaa"), shards("ab", draining="ab"), a=99 * CHUNK) is None


@given(st.integers(0, 2**32))
def test_moves_come_to_an_end_with_shards_that_differ_by_less_than_is_tolerated(seed: int) -> None:
    """Or with chunks left that are too small or as large as the difference."""
    rng = random.Random(seed)
    chunks = spread("".join(rng.choice("aaab") for _ in range(rng.randrange(2, 60))))
    data = {chunk.min.key: rng.randrange(CHUNK // 2) for chunk in chunks}
    states = shards("abcd", draining=rng.choice(["", "d"]))

    def sizes(made: ChunkMap) -> dict[str, int]:
        return {state.name: sum(data[chunk.min.key] for chunk in made.of(state.name)) for state in states}

    before = spread_of(sizes(chunks))
    while (route := choose_route(chunks, states, sizes(chunks), CHUNK)) is not None:
        sized = [(chunk, data[chunk.min.key]) for chunk in candidates(chunks, route)]
        chunk = choose_chunk(route, sized, few=len(chunks) < 20)
        if chunk is None:
            wide = route.difference or 0
            assert all(size < wide / 8 or size > wide * 7 / 8 for _, size in sized)
            return
        chunks = moved(chunks, chunk, route.to)
        after = spread_of(sizes(chunks))
        assert after < before, "every move brings the shards closer"
        before = after


def moved(chunks: ChunkMap, chunk: Chunk, to: str) -> ChunkMap:
    remaining = next((other for other in chunks.of(chunk.shard) if other != chunk), None)
    after, bumped = move_chunk(chunk, to, remaining, chunks.version.lastmod)
    return chunks.updated([after] if bumped is None else [after, bumped])


def spread_of(sizes: Mapping[str, int]) -> int:
    return sum(size * size for size in sizes.values())
