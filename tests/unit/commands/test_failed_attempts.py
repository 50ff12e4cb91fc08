"""How long an attempt to log in waits after others from its address, as the same user, have failed."""

from __future__ import annotations

import tracemalloc

from docstore.commands.access.attempts import (
    DEFAULT_ALLOWED,
    MAX_DELAY_SECONDS,
    MAX_ENTRIES,
    PER_SECOND,
    FailedAttempts,
)
from docstore.security.names import UserName

ANN, BOB = UserName("ann", "admin"), UserName("bob", "admin")
HERE, THERE = "10.0.0.1", "10.0.0.2"


def test_who_has_failed_often_waits_until_time_has_made_up_for_it() -> None:
    attempts = FailedAttempts()
    for _ in range(DEFAULT_ALLOWED - 1):
        attempts.failed(HERE, ANN, 5.0)
        assert not attempts.delay(HERE, ANN, 5.0)
    attempts.failed(HERE, ANN, 5.0)
    assert attempts.delay(HERE, ANN, 5.0) == 1 / PER_SECOND
    assert not attempts.delay(HERE, ANN, 5.0 + 1 / PER_SECOND)
    attempts.failed(HERE, ANN, 5.0)
    assert attempts.delay(HERE, ANN, 5.0) == 2 / PER_SECOND
    for _ in range(10_000):
        attempts.failed(HERE, ANN, 5.0)
    assert attempts.delay(HERE, ANN, 5.0) == MAX_DELAY_SECONDS


def test_others_wait_for_nothing() -> None:
    attempts = FailedAttempts()
    for _ in range(10_000):
        attempts.failed(HERE, ANN, 5.0)
    assert not attempts.delay(HERE, BOB, 5.0)
    assert not attempts.delay(THERE, ANN, 5.0)


def test_there_may_be_no_bound() -> None:
    attempts = FailedAttempts()
    attempts.allowed = 0
    for _ in range(2 * DEFAULT_ALLOWED):
        attempts.failed(HERE, ANN, 0.0)
    assert not attempts.delay(HERE, ANN, 0.0)


def test_what_is_remembered_is_bounded() -> None:
    attempts = FailedAttempts()
    attempts.allowed = 1
    for number in range(2 * MAX_ENTRIES):
        attempts.failed(f"address {number}", ANN, float(number))
    last = 2 * MAX_ENTRIES - 1
    assert attempts.delay(f"address {last}", ANN, float(last))
    assert not attempts.delay("address 0", ANN, 0.0)


def test_long_names_take_no_more_memory_than_short_ones() -> None:
    attempts = FailedAttempts()
    tracemalloc.start()
    for number in range(1000):
        attempts.failed(THERE, UserName(f"{number}" + "\U0001f600" * 16_000, "admin"), 5.0)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 1_000_000
