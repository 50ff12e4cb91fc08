from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat

import pytest

from docstore.sharding.balancing.policy import (
    Route,
    ShardState,
    Transfer,
    at_once,
    best_of,
    candidates,
    choose_route,
    most_bytes,
    tolerated_bytes,
)
from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap, move_chunk, split_chunk
from docstore.sharding.key import KeyRange
from docstore.sharding.split import KIB, MIB, PartScan
from tests.unit.sharding.maps import EPOCH, KEY, at, chunk_map

CHUNK = 128 * MIB
MANY = 30
"""So many chunks that the collection is not young."""
KEYS = 1000
ENCODED = [at(n).key for n in range(KEYS)]


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
    assert route_of(chunks, shards("ab"), a=3 * CHUNK) == Route("a", "b", CHUNK, 3 * CHUNK)
    assert route_of(chunks, shards("abc"), a=9 * CHUNK, b=5 * CHUNK, c=6 * CHUNK) == Route("a", "b", CHUNK, 4 * CHUNK)


@pytest.mark.parametrize(
    ("count", "bytes_"),
    [(1, 8 * MIB), (2, 8 * MIB), (4, 8 * MIB), (10, 16 * MIB), (19, 16 * MIB), (20, 3 * CHUNK), (1000, 3 * CHUNK)],
)
def test_a_young_collection_is_spread_by_the_size_at_which_its_chunks_split(count: int, bytes_: int) -> None:
    assert tolerated_bytes(count, CHUNK) == bytes_


def by_difference(difference: int) -> Route:
    return Route("a", "b", min(difference // 2, CHUNK), difference)


def choose(chunks: ChunkMap, route: Route, sized: Sequence[tuple[Chunk, int]]) -> Transfer | None:
    return at_once(chunks, route, sized) or best_of(chunks, route, sized)


def test_of_few_chunks_the_one_goes_that_leaves_the_shards_alike() -> None:
    """26 MB in four chunks, of which the ladder has left the large ones on one shard."""
    chunks = spread("aabb")
    route = route_of(chunks, shards("ab"), a=MIB // 2, b=26 * MIB)
    assert route == Route("b", "a", 51 * MIB // 4, 26 * MIB - MIB // 2)
    sized = list(zip(candidates(chunks, route), (15 * MIB, 11 * MIB), strict=True))
    assert choose(chunks, route, sized) == Transfer(list(chunks)[3], 11 * MIB)


def test_of_a_chunk_larger_than_what_is_wanted_the_end_next_to_the_receiver_goes() -> None:
    chunks = spread("aab")
    low, high, _ = chunks
    route = by_difference(10 * MIB)
    assert choose(chunks, route, [(low, 10 * MIB)]) == Transfer(low, 10 * MIB, part_bytes=5 * MIB)
    assert choose(chunks, route, [(low, MIB), (high, 9 * MIB)]) == Transfer(high, 9 * MIB, 5 * MIB, upper=True)
    whole = spread("a")
    assert choose(whole, route, [(next(iter(whole)), 10 * MIB)]) == Transfer(next(iter(whole)), 10 * MIB, 5 * MIB)


def test_of_many_chunks_the_first_with_enough_goes_and_no_more_than_a_chunks_size() -> None:
    chunks = spread("a" * MANY + "b")
    listed, route = list(chunks), by_difference(9 * CHUNK)
    sized = list(zip(listed, (0, CHUNK // 4, CHUNK, CHUNK), strict=False))
    assert at_once(chunks, route, sized) == Transfer(listed[2], CHUNK)
    assert at_once(chunks, route, [(listed[0], 2 * CHUNK)]) == Transfer(listed[0], 2 * CHUNK, part_bytes=CHUNK)
    assert at_once(chunks, route, sized[:2]) is None
    assert best_of(chunks, route, sized[:2]) == Transfer(listed[1], CHUNK // 4)


def test_nothing_goes_where_all_that_could_is_nothing_to_the_difference() -> None:
    """The rest are jumbo chunks, or such as cannot be split."""
    chunks = spread("aaa")
    for size in (0, 70, 90 * KIB):
        assert choose(chunks, by_difference(600 * KIB), [(chunk, size) for chunk in chunks]) is None
    assert choose(chunks, by_difference(600 * KIB), []) is None
    assert choose(chunks, by_difference(600 * KIB), [(chunk, 110 * KIB) for chunk in chunks]) is not None


def test_the_chunk_next_to_the_receivers_range_is_preferred() -> None:
    chunks = spread("a" * MANY + "bba")
    route = by_difference(9 * CHUNK)
    assert next(candidates(chunks, route)) == next(iter(chunks))
    chunks = spread("a" * MANY + "bb")
    assert next(candidates(chunks, route)) == list(chunks)[MANY - 1]
    sized = [(chunk, CHUNK // 2) for chunk in candidates(chunks, route)]
    assert choose(chunks, route, sized) == Transfer(list(chunks)[MANY - 1], CHUNK // 2)


def test_a_draining_shard_is_emptied_and_never_receives() -> None:
    chunks = spread("aabbc")
    route = route_of(chunks, shards("abc", draining="c"), a=9, b=3)
    assert route == Route("c", "b", CHUNK)
    last = list(chunks)[4]
    assert choose(chunks, route, [(last, 0)]) == Transfer(last, 0)
    assert choose(chunks, route, [(last, 2 * CHUNK)]) == Transfer(last, 2 * CHUNK, part_bytes=CHUNK)
    emptied = spread("aaaaaaaab")
    assert route_of(emptied, shards("abc", draining="bc")) == Route("b", "a", CHUNK)
    assert route_of(spread("aaaaaaaaaa"), shards("ac", draining="c"), a=99 * CHUNK) is None


def test_jumbo_chunks_stay() -> None:
    chunks = ChunkMap(KEY, EPOCH, [replace(chunk, jumbo=True) for chunk in spread("aaab")])
    assert not list(candidates(chunks, by_difference(CHUNK)))
    assert route_of(chunks, shards("ab", draining="a"), a=5) is None


def test_nothing_moves_when_every_shard_is_draining() -> None:
    assert route_of(spread("aaaaaaaaaa"), shards("ab", draining="ab"), a=99 * CHUNK) is None


class Simulated:
    """A collection whose data are in whole units (of `unit` bytes), so many at each key; no key has as much as
    would be in the way of a split."""

    def __init__(self, rng: random.Random) -> None:
        self.chunk_bytes = rng.choice((8, 64, 128)) * MIB
        names = "abcd"[: rng.randrange(2, 5)]
        cuts = sorted(rng.sample(range(1, KEYS), rng.randrange(rng.choice((3, 8, 60)))))
        owners = [rng.choice(rng.choice((names, "a"))) for _ in range(len(cuts) + 1)]
        self.chunks = chunk_map(cuts, owners)
        self.states = shards(names, draining=rng.choice(("", "", names[-1])))
        most = rng.choice((2, 2, 30))
        self.keys = [rng.randrange(most) if rng.random() < rng.choice((0.1, 1.0)) else 0 for _ in range(KEYS)]
        self.unit = tolerated_bytes(len(cuts) + 1, self.chunk_bytes) // (rng.choice((8, 40)) * most)

    def bytes_in(self, bounds: KeyRange) -> int:
        return self.unit * sum(self.keys[n] for n in self._numbers(bounds))

    def sizes(self) -> dict[str, int]:
        return {state.name: sum(self.bytes_in(c.range) for c in self.chunks.of(state.name)) for state in self.states}

    def route(self) -> Route | None:
        return choose_route(self.chunks, self.states, self.sizes(), self.chunk_bytes)

    def round(self, route: Route) -> bool:
        """As the balancer and a donor do one; False when nothing can go."""
        listed = list(candidates(self.chunks, route))
        while True:
            if route.difference is None:
                transfer = at_once(self.chunks, route, [(chunk, self.bytes_in(chunk.range)) for chunk in listed[:1]])
            else:
                transfer = choose(self.chunks, route, [(chunk, self.bytes_in(chunk.range)) for chunk in listed])
            if transfer is None:
                return False
            if self._carry_out(transfer, route.to):
                return True
            listed.remove(transfer.chunk)

    def _carry_out(self, transfer: Transfer, to: str) -> bool:
        chunk = transfer.chunk
        if transfer.part_bytes:
            wanted, low = transfer.part_bytes, chunk.min.key
            scan = PartScan(wanted, most_bytes(wanted), upper=transfer.upper)
            numbers = self._numbers(chunk.range)
            rising = chain.from_iterable(repeat(n, self.keys[n]) for n in numbers)
            for n in reversed(list(rising)) if transfer.upper else rising:
                if not scan.add(ENCODED[n], self.unit):
                    break
            point = scan.cut(low)
            if point is None:
                return False
            if point != low:
                bound = at(ENCODED.index(point))
                parts = split_chunk(chunk, [bound], self.chunks.version.lastmod)
                self.chunks = self.chunks.updated(parts)
                chunk = self.chunks.exact(parts[-1].range if transfer.upper else parts[0].range) or chunk
        self.chunks = moved(self.chunks, chunk, to)
        return True

    @staticmethod
    def _numbers(bounds: KeyRange) -> range:
        return range(bisect_left(ENCODED, bounds.min.key), bisect_left(ENCODED, bounds.max.key))


@pytest.mark.parametrize("seed", range(120))
def test_moves_come_to_an_end_with_shards_that_differ_by_less_than_is_tolerated(seed: int) -> None:
    """Whatever the distribution: every move brings the sizes closer, after as many rounds as there are chunk sizes of
    data and a few more the balancer is quiet, and no draining shard has anything left."""
    made = Simulated(random.Random(seed))
    total = sum(made.sizes().values())
    bound = 2 * total // made.chunk_bytes + 2 * len(made.chunks) + 60
    rounds = 0
    while (route := made.route()) is not None:
        before = spread_of(made.sizes())
        assert made.round(route), "something can always go: no key has as much as would be in the way"
        assert route.difference is None or spread_of(made.sizes()) < before
        rounds += 1
        assert rounds < bound
    sizes = made.sizes()
    left = [sizes[state.name] for state in made.states if not state.draining]
    assert max(left) - min(left) < tolerated_bytes(len(made.chunks), made.chunk_bytes)
    assert not any(made.chunks.counts.get(state.name) for state in made.states if state.draining)


def test_data_of_one_key_that_are_more_than_half_the_difference_stay_and_the_balancer_is_quiet() -> None:
    made = Simulated(random.Random(1))
    made.chunks, made.states, made.unit, made.chunk_bytes = spread("a"), shards("ab"), MIB, CHUNK
    made.keys = [0] * KEYS
    made.keys[7] = 100
    route = made.route()
    assert route is not None
    assert not made.round(route)
    made.keys[3], made.keys[9] = 20, 20
    route = made.route()
    assert route is not None
    assert made.round(route)
    assert made.sizes() == {"a": 120 * MIB, "b": 20 * MIB}


def moved(chunks: ChunkMap, chunk: Chunk, to: str) -> ChunkMap:
    remaining = next((other for other in chunks.of(chunk.shard) if other != chunk), None)
    after, bumped = move_chunk(chunk, to, remaining, chunks.version.lastmod)
    return chunks.updated([after] if bumped is None else [after, bumped])


def spread_of(sizes: Mapping[str, int]) -> int:
    return sum(size * size for size in sizes.values())
