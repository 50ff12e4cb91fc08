from __future__ import annotations

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap, first_chunk, move_chunk, split_chunk
from docstore.sharding.split import (
    KIB,
    MIB,
    PartScan,
    SplitScan,
    WriteCounts,
    chunk_target_bytes,
    median_of,
    split_target,
    target_bytes,
    top_chunk_receiver,
)
from tests.unit.sharding.maps import EPOCH, KEY, at, chunk_map, shown


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, KIB), (2, 512 * KIB), (3, 16 * MIB), (9, 16 * MIB), (10, 32 * MIB), (19, 32 * MIB), (20, 128 * MIB)],
)
def test_the_ladder_of_target_sizes(count: int, expected: int) -> None:
    assert target_bytes(count) == expected


def test_a_small_configured_chunk_size_bounds_the_ladder() -> None:
    assert [target_bytes(count, MIB) for count in (1, 2, 3, 10, 20)] == [KIB, 512 * KIB, MIB, MIB, MIB]


def test_chunks_at_the_ends_split_at_nine_tenths() -> None:
    chunks = chunk_map([10, 20], ["a", "b", "c"])
    assert [chunk_target_bytes(chunks, chunk) for chunk in chunks] == [16 * MIB * 9 // 10, 16 * MIB, 16 * MIB * 9 // 10]


def test_the_shard_is_asked_at_every_fifth_of_the_target() -> None:
    chunks, counts = chunk_map([10, 20], ["a", "b", "c"]), WriteCounts()
    chunk = chunks.chunk_at(at(15).key)
    asked = [counts.add(chunks, chunk, MIB) for _ in range(8)]
    assert asked == [None, None, None, 16 * MIB, None, None, None, 16 * MIB]


def test_what_a_write_counts_towards_follows_the_map_and_the_setting() -> None:
    few, more, counts = chunk_map([10], ["a", "b"]), chunk_map([10, 20], ["a", "b", "c"]), WriteCounts()

    def asked(chunks: ChunkMap, key: int, configured: int) -> int | None:
        return counts.add(chunks, chunks.chunk_at(at(key).key), 128 * MIB, configured)

    assert [asked(few, 5, 64 * MIB), asked(few, 5, 64 * MIB)] == [512 * KIB * 9 // 10] * 2
    assert [asked(more, key, 64 * MIB) for key in (5, 15, 25, 15)] == [
        16 * MIB * 9 // 10, 16 * MIB, 16 * MIB * 9 // 10, 16 * MIB,
    ]  # fmt: skip
    assert asked(more, 15, MIB) == MIB
    assert asked(few, 5, MIB) == 512 * KIB * 9 // 10


def test_counts_of_vanished_chunks_are_forgotten() -> None:
    before, after, counts = chunk_map([10], ["a", "b"]), chunk_map([11], ["a", "b"]), WriteCounts()
    counts.add(before, before.chunk_at(at(5).key), 90 * KIB)
    counts.forget_stale(after)
    assert counts.add(before, before.chunk_at(at(5).key), 10 * KIB) is None


def points(keys: list[int], *, low_end: bool = False, high_end: bool = False, in_target: int = 4) -> list[bytes]:
    encoded = [at(key).key for key in keys]
    scan = SplitScan(KEY.min.key if low_end else at(0).key, split_target(low_end, high_end, in_target, 1))
    for key in encoded:
        if not scan.add(key):
            break
    return scan.points(encoded[-1] if encoded else None)


def test_a_chunk_at_the_low_end_is_cut_above_its_lowest_key() -> None:
    assert points([3, 3, 5, 7, 9], low_end=True) == [at(5).key]


def test_a_chunk_at_both_ends_follows_the_rule_of_the_low_end() -> None:
    assert points([3, 5, 7, 9], low_end=True, high_end=True) == [at(5).key]


def test_a_chunk_at_the_high_end_is_cut_at_its_highest_key() -> None:
    assert points([3, 5, 7, 9, 12], high_end=True) == [at(12).key]


@pytest.mark.parametrize("ends", [{"low_end": True}, {"high_end": True}, {}])
def test_nothing_is_cut_below_the_target_or_with_one_key_only(ends: dict[str, bool]) -> None:
    assert points([], **ends) == []
    assert points([1, 2, 3], **ends) == []
    assert points([1, 1, 1, 1, 1], **ends) == []


def test_an_inner_chunk_is_cut_at_every_half_target() -> None:
    assert points(list(range(1, 13)), in_target=8) == [at(5).key, at(9).key]


def test_an_inner_chunk_leaves_no_sliver_at_its_end() -> None:
    assert points(list(range(1, 10)), in_target=8) == [at(5).key]


@given(st.lists(st.integers(0, 40), max_size=80), st.integers(1, 30), st.booleans(), st.booleans())
def test_split_points_can_always_be_committed(keys: list[int], in_target: int, low_end: bool, high_end: bool) -> None:
    found = points(sorted(keys), in_target=in_target, low_end=low_end, high_end=high_end)
    low = KEY.min if low_end else at(0)
    edges = [low.key, *found, KEY.max.key]
    assert edges == sorted(set(edges))
    assert set(found) <= {at(key).key for key in keys}


@given(st.lists(st.integers(0, 9), max_size=30))
def test_the_median_leaves_documents_on_both_sides(keys: list[int]) -> None:
    encoded = sorted(at(key).key for key in keys)
    found = median_of(encoded)
    assert (found is None) == (len(set(keys)) < 2)
    if found is not None:
        assert encoded[0] < found <= encoded[-1]


def test_the_new_top_chunk_goes_to_the_shard_with_fewest_chunks() -> None:
    chunks = chunk_map([1, 2, 3], ["a", "a", "b", "a"])
    assert top_chunk_receiver(chunks, "a", ["a", "b", "c", "d"]) == "c"
    assert top_chunk_receiver(chunks, "a", ["a", "b"]) == "b"
    assert top_chunk_receiver(chunks, "b", ["a", "b"]) is None
    assert top_chunk_receiver(chunks, "a", ["a"]) is None


class Loading:
    """A router and two shards, reduced to what decides about chunks; every document has the same size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.documents: SortedDict = SortedDict()
        self.chunks = ChunkMap(KEY, EPOCH, [first_chunk(KEY, "shard1")])
        self.counts = WriteCounts()

    def insert(self, ids: list[str]) -> None:
        asked: dict[bytes, int] = {}
        for identity in ids:
            key = KEY.key_of(bson.encode({"id": identity}))
            self.documents[key] = identity
            chunk = self.chunks.chunk_at(key)
            target = self.counts.add(self.chunks, chunk, self.size)
            if target is not None:
                asked[chunk.min.key] = target
        for low, target in asked.items():
            self.split(self.chunks.chunk_at(low), target)

    def split(self, chunk: Chunk, target: int) -> None:
        low, high = chunk.min.key, chunk.max.key
        scan = SplitScan(low, split_target(low == KEY.min.key, high == KEY.max.key, target, self.size))
        for key in self.documents.irange(low, high, inclusive=(True, False)):
            if not scan.add(key):
                break
        highest = next(self.documents.irange(low, high, inclusive=(True, False), reverse=True), None)
        cuts = scan.points(highest)
        if not cuts:
            return
        parts = split_chunk(chunk, [at(self.documents[cut]) for cut in cuts], self.chunks.version.lastmod)
        self.chunks = self.chunks.updated(parts)
        if high != KEY.max.key or low == KEY.min.key:
            return
        to = top_chunk_receiver(self.chunks, chunk.shard, ["shard1", "shard2"])
        if to is not None:
            remaining = next(other for other in self.chunks if other.shard == chunk.shard and other != parts[-1])
            moved, bumped = move_chunk(parts[-1], to, remaining, self.chunks.version.lastmod)
            assert bumped is not None
            self.chunks = self.chunks.updated([moved, bumped])


@pytest.mark.parametrize("size", [60, 61, 77, 100, 103, 150, 222, 300, 399, 400])
@pytest.mark.parametrize("batch", [1, 1000])
def test_the_walk_throughs_19998_ids_make_its_three_chunks(size: int, batch: int) -> None:
    loading = Loading(size)
    ids = [str(number) for number in range(19998)]
    for start in range(0, len(ids), batch):
        loading.insert(ids[start : start + batch])
    assert shown(loading.chunks)[1:] == [("1", "shard1", "1|3"), ("999", "shard2", "2|0")]
    assert next(iter(loading.chunks)).lastmod == (2, 1)
    assert sum(1 for identity in ids if identity >= "999") == 11
    assert sum(1 for key in loading.documents if key >= at("999").key) == 11


@pytest.mark.parametrize(
    ("keys", "wanted", "upper", "cut"),
    [
        pytest.param("abcdefgh", 3, False, "d", id="the lower end"),
        pytest.param("abcdefgh", 3, True, "f", id="the upper end"),
        pytest.param("abbbbcde", 3, False, "b", id="as near as equal keys allow, below"),
        pytest.param("abcccdef", 4, False, "d", id="as near as equal keys allow, above"),
        pytest.param("aaaaaaab", 3, False, None, id="a key with too much at the end"),
        pytest.param("abbbbbbb", 3, True, None, id="a key with too much at the upper end"),
        pytest.param("bcd", 3, False, "a", id="all of it"),
        pytest.param("bcd", 4, True, "a", id="all of what is less than wanted"),
        pytest.param("", 4, False, "a", id="nothing"),
    ],
)
def test_a_part_of_a_chunk_ends_between_keys_near_what_is_wanted(
    keys: str, wanted: int, upper: bool, cut: str | None
) -> None:
    """Every key has 10 bytes, the chunk begins at `a`; its low end means all of it."""
    scan = PartScan(wanted * 10, wanted * 13, upper=upper)
    for key in reversed(keys) if upper else keys:
        if not scan.add(key.encode(), 10):
            break
    assert scan.cut(b"a") == (None if cut is None else cut.encode())
