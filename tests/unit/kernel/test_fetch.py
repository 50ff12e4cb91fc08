"""From index entries to documents: each once, in the order of the entries, however they are read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.kernel.kernels import Kernel

PREFIX = b"\0\0\0\7"


def rid(number: int) -> bytes:
    return number.to_bytes(8, "big")


class Records:
    """Records in memory, and how they were read."""

    def __init__(self, records: dict[int, bytes]) -> None:
        self._records = {PREFIX + rid(number): raw for number, raw in records.items()}
        self.gets = self.walked = 0

    def get(self, key: bytes) -> bytes | None:
        self.gets += 1
        return self._records.get(key)

    def walks(self) -> Any:
        """Walks that end where they are to, or go on."""
        self.walked += 1
        return self._up_to if self.walked % 2 else lambda start, _: self._up_to(start, b"\xff")

    def _up_to(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return (item for item in sorted(self._records.items()) if start <= item[0] < end)


def fetched(
    kernel: Kernel, order: list[int], records: Records, *, once: bool = False, bare: bool = True
) -> tuple[list[Any], tuple[int, int]]:
    examined = kernel.scan.fetch.Examined()
    entries = iter([b"\0\0\0\x09key" + rid(number) for number in order])
    found = list(
        kernel.scan.fetch.Fetching(entries, records.get, records.walks, PREFIX, set() if once else None, bare, examined)
    )
    return found, (examined.keys, examined.documents)


@pytest.mark.parametrize("seed", range(8))
def test_documents_come_in_the_order_of_their_entries(kernel: Kernel, seed: int) -> None:
    rng = random.Random(seed)
    contents = {number: b"%d" % number for number in range(1, 1000) if seed % 2 == 0 or rng.random() < 0.9}
    order = list(range(1, 1000))
    for _ in range(rng.choice([0, 1, 30, 2000])):
        one, other = rng.randrange(len(order)), rng.randrange(len(order))
        order[one], order[other] = order[other], order[one]

    found, examined = fetched(kernel, order, Records(contents))

    assert found == [contents[number] for number in order if number in contents]
    assert examined == (len(order), len(found))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("once", [False, True])
def test_entries_lead_to_near_and_far_documents_once_and_again(kernel: Kernel, seed: int, once: bool) -> None:
    rng = random.Random(seed)
    starts = rng.sample((1, 900, 2**33, 2**41, 2**41 + 700, 2**62, 2**63 - 300, 2**64 - 900), rng.randrange(1, 6))
    contents = {start + rng.randrange(600): b"%d" % place for start in starts for place in range(400)}
    order = rng.choices([*contents, *(number + 1 for number in contents if number < 2**64 - 1)], k=900)
    if seed % 3 == 0:
        order.sort(reverse=seed % 2 == 0)

    found, examined = fetched(kernel, order, Records(contents), once=once, bare=seed % 4 != 0)

    asked = list(dict.fromkeys(order)) if once else order
    expected = [(rid(number), contents[number]) for number in asked if number in contents]
    assert found == (expected if seed % 4 == 0 else [raw for _, raw in expected])
    assert examined == (len(order), len(found))


def test_a_document_under_several_entries_comes_once(kernel: Kernel) -> None:
    found, examined = fetched(kernel, [1, 2, 1, 3, 2, 1], Records({1: b"a", 2: b"b", 3: b"c"}), once=True, bare=False)

    assert found == [(rid(1), b"a"), (rid(2), b"b"), (rid(3), b"c")]
    assert examined == (6, 3)


def test_records_that_follow_one_another_are_read_in_one_walk(kernel: Kernel) -> None:
    records = Records(dict.fromkeys(range(100), b"x"))

    assert len(fetched(kernel, list(range(100)), records)[0]) == 100
    assert records.gets < 8


def test_records_that_lie_close_together_are_read_in_one_walk_whatever_their_order(kernel: Kernel) -> None:
    records = Records({number: b"%d" % number for number in range(200)})
    order = [number + place for number in range(0, 192, 16) for place in (6, 2, 12, 0, 14, 4, 8, 10)]

    found, _ = fetched(kernel, order, records)

    assert found == [b"%d" % number for number in order]
    assert records.gets == 0


def test_nothing_is_read_ahead_where_the_figures_are_to_be_exact(kernel: Kernel) -> None:
    asked: list[int] = []

    def entries() -> Iterator[bytes]:
        for number in range(10):
            asked.append(number)
            yield rid(number)

    records = Records(dict.fromkeys(range(10), b"x"))
    pairs = kernel.scan.fetch.Fetching(
        entries(), records.get, records.walks, PREFIX, None, True, kernel.scan.fetch.Examined(), (1, 0)
    )

    next(pairs)

    assert asked == [0]


def test_what_is_read_ahead_is_bounded_and_not_yet_examined(kernel: Kernel) -> None:
    records = Records({number: bytes(1 << 20) for number in range(0, 800, 8)})
    examined = kernel.scan.fetch.Examined()
    entries = iter([rid(number) for number in range(0, 800, 8)])
    pairs = kernel.scan.fetch.Fetching(entries, records.get, records.walks, PREFIX, None, True, examined)

    next(pairs)

    assert (examined.keys, examined.documents) == (1, 1)
    assert records.gets == 1
