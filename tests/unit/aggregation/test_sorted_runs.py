"""The merge of sorted runs."""

from __future__ import annotations

import random
from itertools import islice

from docstore.aggregation.sorted_runs import RUN_LENGTH, merged_runs

Pair = tuple[bytes, bytes]


def test_runs_are_merged_as_a_stable_sort_would() -> None:
    rng = random.Random(7)
    for _ in range(200):
        kinds = rng.choice([1, 3, 40, 10_000])
        pairs = [(b"%05d" % rng.randrange(kinds), b"%d" % place) for place in range(rng.randint(0, 400))]
        borders = sorted(rng.sample(range(len(pairs) + 1), min(len(pairs), rng.randint(0, 6))))
        parts = [pairs[begin:end] for begin, end in zip([0, *borders], [*borders, len(pairs)], strict=True)]
        runs = [sorted(part, key=lambda pair: pair[0]) for part in parts if part]

        assert list(merged_runs(runs)) == sorted(pairs, key=lambda pair: pair[0])


def test_the_first_pairs_come_before_the_runs_are_all_merged() -> None:
    runs: list[list[Pair]] = [[(b"%07d" % (place * 50 + run), b"") for place in range(2000)] for run in range(50)]

    first = list(islice(merged_runs(runs), 10))

    assert [key for key, _ in first] == [b"%07d" % place for place in range(10)]
    assert RUN_LENGTH // len(runs) < 2000


def test_what_has_been_given_is_gone_from_the_runs() -> None:
    runs: list[list[Pair]] = [[(b"%07d" % (place * 3 + run), b"") for place in range(5000)] for run in range(3)]

    merging = merged_runs(runs)
    given = len(list(islice(merging, 12_000)))

    left = sum(pair is not None for run in runs for pair in run)
    assert left <= 15_000 - given
