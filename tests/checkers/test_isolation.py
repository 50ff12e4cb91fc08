"""What the dependencies of transactions over lists give away."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.checkers.hand_made import done, failed, kinds, unknown
from tests.checkers.history import Kind, Operation, Outcome
from tests.checkers.isolation import check_isolation, write_skews

Step = tuple[str, str, Any]


def a(key: str, element: int) -> Step:
    """An append."""
    return ("append", key, element)


def r(key: str, *elements: int) -> Step:
    """A read."""
    return ("read", key, list(elements))


def committed(*steps: Step, at: float = 0.0, until: float = 100.0, **fields: Any) -> Operation:
    return done(Kind.TRANSACTION, at, until, [list(step) for step in steps], **fields)


def aborted(*steps: Step) -> Operation:
    return failed(Kind.TRANSACTION, 0, 100, [list(step) for step in steps])


def open_ended(*steps: Step) -> Operation:
    return unknown(Kind.TRANSACTION, 0, [list(step) for step in steps])


GOOD: dict[str, tuple[list[Operation], dict[str, list[int]]]] = {
    "nothing": ([], {}),
    "one after the other": (
        [committed(a("x", 1), a("y", 1)), committed(r("x", 1), a("x", 2), r("x", 1, 2), r("y", 1))],
        {"x": [1, 2], "y": [1]},
    ),
    "an old snapshot": ([committed(a("x", 1), a("y", 1)), committed(r("x"), r("y"))], {"x": [1], "y": [1]}),
    "write skew": ([committed(r("x"), a("y", 1)), committed(r("y"), a("x", 1))], {"x": [1], "y": [1]}),
    "an unknown one that never was": ([open_ended(a("x", 1)), committed(r("x"))], {"x": []}),
    "an unknown one that was": ([open_ended(a("x", 1), a("y", 1)), committed(r("x", 1))], {"x": [1], "y": [1]}),
    "two appends to one list": ([committed(a("x", 1), a("x", 2)), committed(r("x", 1, 2))], {"x": [1, 2]}),
    "what less than a majority has is gone": ([committed(a("x", 1), w=1)], {"x": []}),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_snapshot_isolation_allows_passes(name: str) -> None:
    operations, final = GOOD[name]
    assert not check_isolation(operations, final)


BAD: dict[str, tuple[list[Operation], dict[str, list[int]]]] = {
    "G0 dirty write": ([committed(a("x", 1), a("y", 1)), committed(a("x", 2), a("y", 2))], {"x": [1, 2], "y": [2, 1]}),
    "G1a aborted read": ([aborted(a("x", 1)), committed(r("x", 1))], {"x": []}),
    "G1b intermediate read": ([committed(a("x", 1), a("x", 2)), committed(r("x", 1))], {"x": [1, 2]}),
    "G1c circular information flow": (
        [committed(a("x", 1), r("y", 1)), committed(r("x", 1), a("y", 1))],
        {"x": [1], "y": [1]},
    ),
    "G-single read skew": ([committed(a("x", 1), a("y", 1)), committed(r("x", 1), r("y"))], {"x": [1], "y": [1]}),
    "lost update": ([committed(r("x"), a("x", 1)), committed(r("x"), a("x", 2))], {"x": [1, 2]}),
    "aborted and happened": ([aborted(a("x", 1))], {"x": [1]}),
    "half-committed": ([open_ended(a("x", 1), a("y", 1))], {"x": [1], "y": []}),
    "lost transaction": ([committed(a("x", 1))], {"x": []}),
    "duplicated append": ([committed(a("x", 1))], {"x": [1, 1]}),
    "phantom": ([committed(r("x", 7))], {"x": [7]}),
    "reordered": ([committed(a("x", 1)), committed(a("x", 2)), committed(r("x", 2))], {"x": [1, 2]}),
    "read of rolled back": ([committed(a("x", 1), w=1), committed(r("x", 1))], {"x": []}),
    "not repeatable": ([committed(a("x", 1)), committed(r("x"), r("x", 1))], {"x": [1]}),
    "own writes not read": ([committed(a("x", 1), r("x"))], {"x": [1]}),
    "read of the future": ([committed(r("x", 1), a("x", 1))], {"x": [1]}),
    "stale snapshot": ([committed(a("x", 1), until=1.0), committed(r("x"), at=2.0)], {"x": [1]}),
}


@pytest.mark.parametrize("name", BAD)
def test_each_anomaly_has_its_name(name: str) -> None:
    operations, final = BAD[name]
    assert name in kinds(check_isolation(operations, final))


def test_a_cycle_in_which_two_rw_do_not_meet_is_told_edge_by_edge() -> None:
    """T0 -rw x-> T1 -ww y-> T2 -rw z-> T3 -ww u-> T0."""
    operations = [
        committed(r("x"), a("u", 2)),
        committed(a("x", 1), a("y", 1)),
        committed(a("y", 2), r("z")),
        committed(a("z", 1), a("u", 1)),
    ]
    (found,) = check_isolation(operations, {"x": [1], "y": [1, 2], "z": [1], "u": [1, 2]})
    assert found.kind == "G-nonadjacent"
    assert [found.text.count(kind) for kind in ("-rw", "-ww")] == [2, 2]
    assert set(map(id, found.operations)) == set(map(id, operations))


def test_write_skew_is_shown_and_is_no_anomaly() -> None:
    operations, final = GOOD["write skew"]
    (cycle,) = write_skews(operations, final)
    assert [edge.kind for edge in cycle] == ["rw", "rw"]
    operations, final = GOOD["one after the other"]
    assert not write_skews(operations, final)


def perfect(seed: int, count: int) -> tuple[list[Operation], dict[str, list[int]]]:
    """Transactions of a store that gives each a snapshot, and commits it unless another wrote its lists meanwhile."""
    rng = random.Random(seed)
    lists: dict[str, list[int]] = {key: [] for key in "xyz"}
    versions = dict.fromkeys(lists, 0)
    running: list[tuple[Operation, dict[str, list[int]], dict[str, int]]] = []
    operations = []
    for now in range(6 * count):
        if len(operations) < count and rng.random() < 0.2:
            operation = open_ended()
            operation.invoked = now
            operations.append(operation)
            running.append((operation, {key: list(each) for key, each in lists.items()}, dict(versions)))
        elif running:
            operation, snapshot, seen = rng.choice(running)
            if rng.random() < 0.8:
                key = rng.choice("xyz")
                if rng.random() < 0.5:
                    operation.value.append(["read", key, list(snapshot[key])])
                else:
                    snapshot[key].append(1000 * len(operations) + now)
                    operation.value.append(["append", key, snapshot[key][-1]])
                continue
            running.remove((operation, snapshot, seen))
            written = {key for what, key, _ in operation.value if what == "append"}
            if all(versions[key] == seen[key] for key in written) and rng.random() < 0.9:
                operation.outcome, operation.ended = Outcome.OK, now
                for key in written:
                    lists[key], versions[key] = snapshot[key], versions[key] + 1
            else:
                operation.outcome, operation.ended = Outcome.FAILED, now
    return operations, lists


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_a_store_of_snapshots_has_no_anomaly(seed: int) -> None:
    operations, final = perfect(seed, 40)
    assert not check_isolation(operations, final)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_a_read_of_another_moment_is_found(seed: int, rng: random.Random) -> None:
    """Of a transaction that has read what another one appended: of something else that one appended it saw nothing."""
    operations, final = perfect(seed, 200)
    victims = []
    for each in operations:
        reads = {key: value for what, key, value in each.value if what == "read"}
        for other in operations:
            both = {key: element for what, key, element in other.value if what == "append" and key in reads}
            seen = [key for key, element in both.items() if element in reads[key]]
            if each.ok and other.ok and other is not each and len(seen) > 1:
                victims.append((each, rng.choice(seen), other))
    assume(victims)
    victim, key, other = rng.choice(victims)
    gone = min(final[key].index(element) for what, each, element in other.value if what == "append" and each == key)
    for step in victim.value:
        if step[:2] == ["read", key]:
            step[2] = step[2][:gone]
    assert check_isolation(operations, final)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_a_lost_or_swapped_transaction_is_found(seed: int, rng: random.Random) -> None:
    operations, final = perfect(seed, 60)
    elements = final[rng.choice("xyz")]
    assume(elements)
    elements.remove(rng.choice(elements))
    assert check_isolation(operations, final)
