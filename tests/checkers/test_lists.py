"""What the order of elements in append-only lists gives away."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.checkers.hand_made import append, failed, kinds, read_list, unknown
from tests.checkers.history import Kind, Operation, Outcome
from tests.checkers.lists import check_lists
from tests.checkers.sessions import check_sessions

ONE_THEN_TWO = [append(0, 1, 1), append(2, 3, 2)]


@pytest.mark.parametrize(
    ("operations", "final"),
    [
        pytest.param([], [], id="nothing happened"),
        pytest.param([*ONE_THEN_TWO, read_list(4, 5, [1, 2])], [1, 2], id="one after the other"),
        pytest.param(
            [append(0, 9, 1), append(1, 8, 2), read_list(2, 3, [2])], [2, 1], id="open appends in either order"
        ),
        pytest.param([append(0, 1, 1, w=1)], [], id="what less than a majority acknowledged is gone"),
        pytest.param([unknown(Kind.APPEND, 0, 1), append(2, 3, 2)], [2, 1], id="an unknown append happens late"),
        pytest.param([unknown(Kind.APPEND, 0, 1)], [], id="an unknown append never happens"),
        pytest.param([append(0, 1, 1, w=1), read_list(2, 3, [1], read_concern="local")], [], id="dirty local read"),
        pytest.param(
            [*ONE_THEN_TWO, read_list(4, 5, [1], read_concern="majority")], [1, 2], id="majority read is late"
        ),
    ],
)
def test_good_lists_pass(operations: list[Operation], final: list[Any]) -> None:
    assert not check_lists(operations, {"x": final})


@pytest.mark.parametrize(
    ("operations", "final", "kind"),
    [
        pytest.param(ONE_THEN_TWO, [1], "lost append", id="gone"),
        pytest.param(ONE_THEN_TWO, [1, 2, 2], "duplicated append", id="twice in the end"),
        pytest.param(
            [*ONE_THEN_TWO, read_list(4, 5, [1, 2, 1], read_concern="local")],
            [1, 2],
            "duplicated append",
            id="twice in a read",
        ),
        pytest.param(ONE_THEN_TWO, [2, 1], "reordered", id="against real time"),
        pytest.param(
            [append(0, 9, 1), append(0, 9, 2), read_list(4, 5, [2, 1])], [1, 2], "reordered", id="other than was read"
        ),
        pytest.param(
            [*ONE_THEN_TWO, read_list(4, 5, [2], read_concern="majority")],
            [1, 2],
            "reordered",
            id="a read misses what is before",
        ),
        pytest.param(
            [append(0, 1, 1, w=1), read_list(2, 3, [1], read_concern="majority")],
            [],
            "read of rolled back",
            id="a majority read is undone",
        ),
        pytest.param([failed(Kind.APPEND, 0, 1, 1)], [1], "aborted read", id="a failed append happened"),
        pytest.param(
            [failed(Kind.APPEND, 0, 1, 1), read_list(2, 3, [1], read_concern="local")],
            [],
            "aborted read",
            id="a failed append was read",
        ),
        pytest.param([], [1], "phantom", id="appended by nobody"),
        pytest.param([read_list(0, 1, [1]), append(2, 3, 1)], [1], "read of the future", id="read before it was asked"),
        pytest.param([*ONE_THEN_TWO, read_list(4, 5, [1])], [1, 2], "stale read", id="older than an acknowledgement"),
        pytest.param(
            [unknown(Kind.APPEND, 0, 1), read_list(1, 2, [1]), read_list(3, 4, [])],
            [1],
            "stale read",
            id="older than an earlier read",
        ),
    ],
)
def test_each_fault_of_a_list_has_its_name(operations: list[Operation], final: list[Any], kind: str) -> None:
    assert kinds(check_lists(operations, {"x": final})) == [kind]


def perfect(
    seed: int, count: int, *, processes: int = 5, keys: int = 3
) -> tuple[list[Operation], dict[str, list[int]]]:
    """What processes with a causal session each see of perfect lists, and the lists in the end."""
    rng = random.Random(seed)
    free = [0.0] * processes
    steps = []
    for number in range(count):
        process = min(range(processes), key=lambda each: free[each])
        invoked = free[process] + rng.expovariate(1)
        effect = invoked + rng.expovariate(1)
        free[process] = effect + rng.expovariate(1)
        fields: dict[str, Any] = {"process": process, "session": f"s{process}", "key": rng.choice("xyz"[:keys])}
        if rng.random() < 0.5:
            operation = append(invoked, free[process], number, **fields)
            if rng.random() < 0.05:
                operation.outcome, operation.ended = Outcome.UNKNOWN, float("inf")
                effect += rng.expovariate(0.1)
        else:
            operation = read_list(invoked, free[process], [], **fields)
        steps.append((effect, operation))
    lists: dict[str, list[int]] = {key: [] for key in "xyz"[:keys]}
    for _, operation in sorted(steps, key=lambda step: step[0]):
        elements = lists[str(operation.key)]
        if operation.kind is Kind.APPEND:
            elements.append(operation.value)
        else:
            operation.result = list(elements)
    return [operation for _, operation in steps], lists


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9))
def test_what_perfect_lists_answer_has_no_anomaly(seed: int) -> None:
    operations, final = perfect(seed, 60)
    assert not check_lists(operations, final)
    assert not check_sessions(operations, final)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_a_lost_or_doubled_or_swapped_append_is_found(seed: int, rng: random.Random) -> None:
    operations, final = perfect(seed, 60)
    elements = final[rng.choice(sorted(final))]
    acknowledged = [
        each.value for each in operations if each.kind is Kind.APPEND and each.ok and each.value in elements
    ]
    assume(acknowledged)
    place = elements.index(rng.choice(acknowledged))
    fault = rng.choice(["lost", "doubled"])
    if fault == "lost":
        del elements[place]
    else:
        elements.append(elements[place])
    assert check_lists(operations, final)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_a_read_that_misses_what_its_session_wrote_is_found(seed: int, rng: random.Random) -> None:
    operations, final = perfect(seed, 60)
    written: set[tuple[Any, Any]] = set()
    victims = []
    for each in sorted(operations, key=lambda each: each.invoked):
        if each.kind is Kind.APPEND and each.ok:
            written.add((each.session, each.key))
        elif each.kind is Kind.READ_LIST and (each.session, each.key) in written:
            victims.append(each)
    assume(victims)
    rng.choice(victims).result = []
    assert "not causal: read your writes" in kinds(check_sessions(operations, final))
