from __future__ import annotations

import bson

from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import int32

DOCUMENTS = [bson.encode({"_id": i, "even": i % 2 == 0}) for i in range(1000)]
NEVER = float("inf")


def stopped() -> float:
    return 0.0


class Ticking:
    """A clock that goes on by one at every look."""

    looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return float(self.looks)


def even(kernel: Kernel) -> object:
    return kernel.Compare("even", "eq", kernel.from_python(True))


def test_scan_appends_every_match_and_says_that_it_is_done(kernel: Kernel) -> None:
    out = [b"already there"]
    status = kernel.scan.documents.scan(iter(DOCUMENTS), even(kernel), out, 10**6, 10**9, stopped, NEVER)
    assert status == kernel.EXHAUSTED
    assert out == [b"already there", *DOCUMENTS[::2]]


def test_scan_without_a_predicate_takes_all(kernel: Kernel) -> None:
    out: list[bytes] = []
    assert kernel.scan.documents.scan(iter(DOCUMENTS), None, out, 10**6, 10**9, stopped, NEVER) == kernel.EXHAUSTED
    assert out == DOCUMENTS


def test_scan_stops_when_it_is_full_and_goes_on_where_it_stopped(kernel: Kernel) -> None:
    values = iter(DOCUMENTS)
    out: list[bytes] = []
    assert kernel.scan.documents.scan(values, even(kernel), out, 101, 10**9, stopped, NEVER) == kernel.FULL
    assert out == DOCUMENTS[:202:2]
    assert kernel.scan.documents.scan(values, even(kernel), out, 10**6, 10**9, stopped, NEVER) == kernel.EXHAUSTED
    assert out == DOCUMENTS[::2]


def test_scan_counts_bytes_of_what_it_appended(kernel: Kernel) -> None:
    out: list[bytes] = []
    size = len(DOCUMENTS[0])
    assert kernel.scan.documents.scan(iter(DOCUMENTS), None, out, 10**6, 3 * size, stopped, NEVER) == kernel.FULL
    assert len(out) == 3
    assert kernel.scan.documents.scan(iter(DOCUMENTS), None, out, 10**6, 3 * size + 1, stopped, NEVER) == kernel.FULL
    assert len(out) == 7


def test_scan_looks_at_the_clock_every_128_documents(kernel: Kernel) -> None:
    clock = Ticking()
    values = iter(DOCUMENTS)
    out: list[bytes] = []
    assert kernel.scan.documents.scan(values, kernel.Always(False), out, 10**6, 10**9, clock, 3.0) == kernel.TIME_IS_UP
    assert clock.looks == 3
    assert next(values) == DOCUMENTS[3 * 128]


def test_scan_with_no_room_touches_nothing(kernel: Kernel) -> None:
    values = iter(DOCUMENTS)
    assert kernel.scan.documents.scan(values, None, [], 0, 10**9, stopped, NEVER) == kernel.FULL
    assert kernel.scan.documents.scan(values, None, [], 1, 0, stopped, NEVER) == kernel.FULL
    assert next(values) == DOCUMENTS[0]


def test_scan_pairs_keeps_the_keys(kernel: Kernel) -> None:
    pairs = [(b"%d" % i, document) for i, document in enumerate(DOCUMENTS)]
    out: list[tuple[bytes, bytes]] = []
    assert kernel.scan_pairs(iter(pairs), even(kernel), out, 100, 10**9, stopped, NEVER) == kernel.FULL
    assert out == pairs[:200:2]
    assert kernel.scan_pairs(iter(pairs), kernel.Always(False), out, 1, 10**9, Ticking(), 1.0) == kernel.TIME_IS_UP


def test_count_scan_counts_until_the_deadline(kernel: Kernel) -> None:
    predicate = kernel.Compare("_id", "gte", int32(100))
    assert kernel.count_scan(iter(DOCUMENTS), predicate, stopped, NEVER) == (900, True)
    assert kernel.count_scan(iter(DOCUMENTS), None, Ticking(), 2.0) == (256, False)


def test_the_clock_is_looked_at_behind_each_document_that_is_asked_much(kernel: Kernel) -> None:
    many = kernel.Or([kernel.Compare("even", "eq", int32(number)) for number in range(5_000)])
    values = iter(DOCUMENTS)
    assert kernel.scan.documents.scan(values, many, [], 10**6, 10**9, Ticking(), 3) == kernel.TIME_IS_UP
    assert next(values) == DOCUMENTS[3]
    assert kernel.scan.documents.scan_pairs(((b"", raw) for raw in values), many, [], 10**6, 10**9, Ticking(), 3) == 2
    assert next(values) == DOCUMENTS[7]
    assert kernel.scan.documents.count_scan(values, many, Ticking(), 3) == (0, False)
    assert next(values) == DOCUMENTS[11]
