"""Sorting pairs by their keys."""

from __future__ import annotations

from operator import itemgetter
from random import Random

import pytest

from tests.unit.kernel.kernels import Kernel

Pairs = list[tuple[bytes, int]]


def keys_of(rng: Random, count: int, letters: bytes, longest: int) -> list[bytes]:
    return [bytes(rng.choices(letters, k=rng.randrange(longest + 1))) for _ in range(count)]


@pytest.mark.parametrize("beginning", [b"", b"all the same "])
@pytest.mark.parametrize("letters", [b"\0", b"\0\1", b"\xfe\xff\0", bytes(range(256))])
@pytest.mark.parametrize("longest", [0, 3, 8, 9, 16, 17, 40])
def test_pairs_come_in_the_order_of_their_keys_and_equal_ones_as_they_came(
    kernel: Kernel, beginning: bytes, letters: bytes, longest: int
) -> None:
    rng = Random(longest)
    for count in (0, 1, 2, 23, 24, 25, 100, 1000):
        pairs = [(beginning + key, place) for place, key in enumerate(keys_of(rng, count, letters, longest))]
        assert kernel.scan.pairs.sorted_pairs(list(pairs)) == sorted(pairs, key=itemgetter(0))


@pytest.mark.parametrize("runs", [1, 2, 3, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_runs_that_are_in_order_are_merged(kernel: Kernel, runs: int, reverse: bool) -> None:
    rng = Random(runs)
    pairs: Pairs = []
    for _ in range(runs):
        run = [(rng.randbytes(3), rng.randrange(1000)) for _ in range(200)]
        pairs += sorted(run, key=itemgetter(0), reverse=reverse)
    assert kernel.scan.pairs.sorted_pairs(list(pairs)) == sorted(pairs, key=itemgetter(0))


def test_a_list_that_is_in_order_is_given_back(kernel: Kernel) -> None:
    pairs = [(place.to_bytes(2, "big"), place) for place in range(500)]
    assert kernel.scan.pairs.sorted_pairs(list(pairs)) == pairs


def test_bytes_are_counted(kernel: Kernel) -> None:
    pairs = [(b"abc", b"de"), (b"", b"f")]
    assert kernel.scan.pairs.pair_bytes(pairs) == 6
    assert kernel.scan.pairs.key_bytes(pairs) == 3
    assert kernel.scan.pairs.items_of(pairs) == [b"de", b"f"]
