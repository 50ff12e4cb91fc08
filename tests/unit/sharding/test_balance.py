from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from docstore.sharding.balance import Move, ShardState, choose_move
from docstore.sharding.chunks import ChunkMap, move_chunk
from tests.unit.sharding.maps import EPOCH, KEY, chunk_map


def spread(placement: str) -> ChunkMap:
    """One chunk for each letter, on the shard of that name."""
    return chunk_map(range(1, len(placement)), list(placement))


def shards(names: str, draining: str = "") -> list[ShardState]:
    return [ShardState(name, name in draining) for name in names]


def chosen(move: Move | None, chunks: ChunkMap) -> tuple[int, str] | None:
    return None if move is None else (list(chunks).index(move.chunk), move.to)


def test_a_difference_of_seven_is_left_alone() -> None:
    assert choose_move(spread("aaaaaaab"), shards("ab"), moved_last_round=False) is None


def test_a_difference_of_eight_starts_moving() -> None:
    chunks = spread("aaaaaaaa")
    assert chosen(choose_move(chunks, shards("ab"), moved_last_round=False), chunks) == (0, "b")


def test_what_was_begun_goes_on_to_a_difference_below_two() -> None:
    assert choose_move(spread("aaab"), shards("ab"), moved_last_round=True) is not None
    assert choose_move(spread("aab"), shards("ab"), moved_last_round=True) is None


def test_the_chunk_next_to_the_receivers_range_is_preferred() -> None:
    chunks = spread("aaaaaaaaaab")
    assert chosen(choose_move(chunks, shards("ab"), moved_last_round=False), chunks) == (9, "b")


def test_a_draining_shard_is_emptied_and_never_receives() -> None:
    chunks = spread("aabbc")
    assert chosen(choose_move(chunks, shards("abc", draining="c"), moved_last_round=False), chunks) == (4, "a")
    emptied = spread("aaaaaaaab")
    assert choose_move(emptied, shards("abc", draining="bc"), moved_last_round=False) == Move(list(emptied)[8], "a")
    assert choose_move(spread("aaaaaaaaaa"), shards("ac", draining="c"), moved_last_round=False) is None


def test_jumbo_chunks_stay() -> None:
    chunks = ChunkMap(KEY, EPOCH, [replace(chunk, jumbo=True) for chunk in spread("aaaaaaaaaa")])
    assert choose_move(chunks, shards("ab"), moved_last_round=True) is None


def test_nothing_moves_when_every_shard_is_draining() -> None:
    assert choose_move(spread("aaaaaaaaaa"), shards("ab", draining="ab"), moved_last_round=False) is None


@given(st.integers(0, 2**32))
def test_rounds_end_with_shards_that_differ_by_less_than_two(seed: int) -> None:
    """No chunk is moved twice on the way, so rounds cannot go in circles."""
    rng = random.Random(seed)
    chunks = spread("".join(rng.choice("aaab") for _ in range(rng.randrange(8, 40))))
    states = shards("abcd", draining=rng.choice(["", "d"]))
    moved: set[bytes] = set()
    while (move := choose_move(chunks, states, moved_last_round=True)) is not None:
        assert move.chunk.min.key not in moved
        moved.add(move.chunk.min.key)
        remaining = next((other for other in chunks if other.shard == move.donor and other != move.chunk), None)
        after, bumped = move_chunk(move.chunk, move.to, remaining, chunks.version.lastmod)
        chunks = chunks.updated([after] if bumped is None else [after, bumped])
    counts = [chunks.counts.get(state.name, 0) for state in states if not state.draining]
    assert max(counts) - min(counts) < 2
