"""What is and what is not linearizable, by hand, by brute force and at size."""

from __future__ import annotations

import itertools
import math
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkers.hand_made import cas, failed, kinds, read, unknown, write
from tests.checkers.history import Kind, Operation, Outcome, of_majority
from tests.checkers.registers import Undecided, check_registers


def is_linearizable(*operations: Operation) -> bool:
    return not check_registers(operations)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([], id="nothing happened"),
        pytest.param([read(0, 1, None)], id="nothing was written"),
        pytest.param([write(0, 1, 1), read(2, 3, 1)], id="one after the other"),
        pytest.param([write(0, 10, 1), read(1, 2, None), read(3, 4, 1)], id="a write takes effect while it is open"),
        pytest.param(
            [write(0, 10, 1), write(1, 9, 2), read(11, 12, 1)], id="open writes in either order: the first last"
        ),
        pytest.param(
            [write(0, 10, 1), write(1, 9, 2), read(11, 12, 2)], id="open writes in either order: the second last"
        ),
        pytest.param([write(0, 1, 1), read(1, 2, None)], id="what merely touches in time is concurrent"),
        pytest.param([unknown(Kind.WRITE, 0, 1), read(5, 6, None), read(7, 8, 1)], id="an unknown write happens late"),
        pytest.param(
            [unknown(Kind.WRITE, 0, 1), read(5, 6, None), read(7, 8, None)], id="an unknown write never happens"
        ),
        pytest.param([failed(Kind.WRITE, 0, 1, 1), read(2, 3, None)], id="a failed write"),
        pytest.param([unknown(Kind.READ, 0), write(1, 2, 1)], id="an unknown read"),
        pytest.param([write(0, 1, 1), cas(2, 3, 1, 2, True), read(4, 5, 2)], id="compare and set that matches"),
        pytest.param([write(0, 1, 1), cas(2, 3, 7, 2, False), read(4, 5, 1)], id="compare and set that does not match"),
        pytest.param(
            [write(0, 1, 1), unknown(Kind.WRITE, 2, 2), cas(3, 4, 1, 5, False), read(5, 6, 2)],
            id="an unknown write explains why a compare and set does not match",
        ),
        pytest.param(
            [write(0, 1, 1), unknown(Kind.WRITE, 2, 2), cas(3, 4, 1, 5, False), write(5, 6, 6), read(7, 8, 6)],
            id="nobody reads the unknown write that a compare and set met",
        ),
    ],
)
def test_good_histories_pass(operations: list[Operation]) -> None:
    assert is_linearizable(*operations)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([write(0, 1, 1), read(2, 3, None)], id="lost"),
        pytest.param([write(0, 1, 1), write(2, 3, 2), read(4, 5, 1)], id="stale"),
        pytest.param([read(0, 1, 1), write(2, 3, 1)], id="read before it was written"),
        pytest.param([read(0, 1, 1)], id="read without being written"),
        pytest.param([failed(Kind.WRITE, 0, 1, 1), read(2, 3, 1)], id="a failed write was read"),
        pytest.param([write(0, 10, 1), read(1, 2, 1), read(3, 4, None)], id="new, then old, while the write is open"),
        pytest.param(
            [write(0, 1, 1), write(2, 9, 2), write(2, 9, 3), read(3, 4, 2), read(5, 6, 3), read(7, 8, 2)], id="flicker"
        ),
        pytest.param(
            [unknown(Kind.WRITE, 0, 1), read(1, 2, 1), write(3, 4, 2), read(5, 6, 1)],
            id="an unknown write happens twice",
        ),
        pytest.param([write(0, 1, 1), cas(2, 3, 1, 2, True), cas(4, 5, 1, 3, True)], id="both compare and sets match"),
        pytest.param([write(0, 1, 1), cas(2, 3, 1, 2, False)], id="a compare and set does not match what is there"),
        pytest.param([write(0, 1, 1), cas(2, 3, 1, 2, False), read(4, 5, 2)], id="one that did not match took effect"),
    ],
)
def test_bad_histories_are_found(operations: list[Operation]) -> None:
    assert kinds(check_registers(operations)) == ["not linearizable"]


def test_keys_are_judged_apart() -> None:
    good = [write(0, 1, 1, key="good"), read(2, 3, 1, key="good")]
    bad = [write(0, 1, 1, key="bad"), read(2, 3, None, key="bad")]
    (found,) = check_registers(good + bad)
    assert found.text.startswith("bad:")
    assert found.operations[0] is bad[1]


def test_what_less_than_a_majority_acknowledged_may_vanish_and_weaker_reads_may_be_stale() -> None:
    operations = [
        write(0, 1, 1),
        write(2, 3, 2, w=1),
        read(4, 5, 1),
        write(6, 7, 3),
        read(8, 9, 1, read_concern="majority"),
    ]
    assert not check_registers(of_majority(operations))
    assert check_registers(operations)


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """A few operations of any kind at small times, most of them nonsense."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        invoked = draw(st.integers(0, 6))
        ended = invoked + draw(st.integers(1, 4)) + 0.5
        kind = draw(st.sampled_from([Kind.READ, Kind.READ, Kind.WRITE, Kind.WRITE, Kind.CAS]))
        lost = draw(st.booleans()) and draw(st.booleans())
        operation = Operation(process=number, kind=kind, key="x", invoked=invoked)
        seen = st.sampled_from([None, 0, 1, 2, 3, 4])
        if kind is Kind.WRITE:
            operation.value = number
        elif kind is Kind.CAS:
            operation.value = [draw(seen), number]
        if not lost:
            operation.ended, operation.outcome = ended, Outcome.OK
            operation.result = {Kind.READ: draw(seen), Kind.CAS: draw(st.booleans())}.get(kind)
        found.append(operation)
    return found


def by_brute_force(operations: list[Operation]) -> bool:
    """Whether any subset of the unknown ones in any order explains everything."""
    known = [each for each in operations if each.ok]
    lost = [each for each in operations if each.outcome is Outcome.UNKNOWN and each.kind is not Kind.READ]
    for size in range(len(lost) + 1):
        for chosen in itertools.combinations(lost, size):
            if any(_explains(order) for order in itertools.permutations([*known, *chosen])):
                return True
    return False


def _explains(order: tuple[Operation, ...]) -> bool:
    value: Any = None
    latest = -math.inf
    for operation in order:
        latest = max(latest, operation.invoked)
        if operation.ended < latest:
            return False
        if operation.kind is Kind.READ:
            if operation.result != value:
                return False
        elif operation.kind is Kind.WRITE:
            value = operation.value
        else:
            matched = value == operation.value[0]
            if operation.ok and operation.result != matched:
                return False
            value = operation.value[1] if matched else value
    return True


@settings(max_examples=600, deadline=None)
@given(histories())
def test_the_search_agrees_with_brute_force(operations: list[Operation]) -> None:
    assert is_linearizable(*operations) == by_brute_force(operations)


def simulated(seed: int, count: int, *, processes: int = 8, keys: int = 3, lost: float = 0.05) -> list[Operation]:
    """What that many processes see of perfect registers; `lost` of the operations are never answered."""
    rng = random.Random(seed)
    values: dict[str, Any] = {}
    free = [0.0] * processes
    operations: list[tuple[float, Operation]] = []
    for number in range(count):
        process = min(range(processes), key=lambda each: free[each])
        invoked = free[process] + rng.expovariate(1)
        effect = invoked + rng.expovariate(1)
        ended = effect + rng.expovariate(1)
        free[process] = ended
        kind = rng.choice([Kind.READ, Kind.WRITE, Kind.CAS])
        operation = Operation(process=process, kind=kind, key=f"k{rng.randrange(keys)}", invoked=invoked, value=number)
        if rng.random() >= lost:
            operation.ended, operation.outcome = ended, Outcome.OK
        operations.append((effect + (rng.expovariate(0.1) if operation.ended == math.inf else 0), operation))
    for _, operation in sorted(operations, key=lambda each: each[0]):
        before = values.get(str(operation.key))
        if operation.kind is Kind.READ:
            operation.value, operation.result = None, before
        elif operation.kind is Kind.CAS:
            expected = rng.choice([before, before, -1])
            operation.value, operation.result = [expected, operation.value], expected == before
            values[str(operation.key)] = operation.value[1] if operation.result else before
        else:
            values[str(operation.key)] = operation.value
    return [operation for _, operation in operations]


@pytest.mark.parametrize("seed", range(8))
def test_what_perfect_registers_answer_is_linearizable(seed: int) -> None:
    assert not check_registers(simulated(seed, 400))


@pytest.mark.parametrize("seed", range(8))
def test_an_answer_from_long_ago_is_found(seed: int) -> None:
    operations = sorted(simulated(seed, 400, lost=0.02), key=lambda each: each.invoked)
    reads = [each for each in operations if each.kind is Kind.READ and each.ok and each.result is not None]
    last = reads[-1]
    last.result = next(each.result for each in reads if each.key == last.key and each.result != last.result)
    assert kinds(check_registers(operations)) == ["not linearizable"]


def test_thousands_of_operations_are_decided_in_seconds() -> None:
    operations = simulated(1, 6000, processes=12, keys=4, lost=0.03)
    started = time.process_time()
    assert not check_registers(operations)
    assert time.process_time() - started < 10


def test_a_search_that_meets_its_limit_says_so() -> None:
    operations = [write(0, 100, number, process=number) for number in range(14)]
    operations += [read(101, 102, 99)]
    with pytest.raises(Undecided):
        check_registers(operations, limit=1000)
