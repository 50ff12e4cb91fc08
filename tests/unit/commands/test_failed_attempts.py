"""How often an address may fail to log in."""

from __future__ import annotations

from docstore.commands.access.attempts import DEFAULT_ALLOWED, PER_SECOND, FailedAttempts


def test_who_has_failed_too_often_is_refused_until_some_time_has_gone() -> None:
    attempts = FailedAttempts()
    for _ in range(DEFAULT_ALLOWED):
        assert not attempts.exhausted("10.0.0.1", 5.0)
        attempts.failed("10.0.0.1", 5.0)
    assert attempts.exhausted("10.0.0.1", 5.0)
    assert not attempts.exhausted("10.0.0.2", 5.0)
    assert not attempts.exhausted("10.0.0.1", 5.0 + 1 / PER_SECOND)
    attempts.failed("10.0.0.1", 5.0 + 1 / PER_SECOND)
    assert attempts.exhausted("10.0.0.1", 5.0 + 1 / PER_SECOND)
    assert not attempts.exhausted("10.0.0.1", 5.0 + DEFAULT_ALLOWED)


def test_there_may_be_no_bound() -> None:
    attempts = FailedAttempts()
    attempts.allowed = 0
    for _ in range(2 * DEFAULT_ALLOWED):
        attempts.failed("10.0.0.1", 0.0)
    assert not attempts.exhausted("10.0.0.1", 0.0)


def test_few_addresses_are_remembered() -> None:
    attempts = FailedAttempts()
    attempts.allowed = 1
    for number in range(20_000):
        attempts.failed(f"address {number}", float(number))
    assert attempts.exhausted("address 19999", 19_999.0)
    assert not attempts.exhausted("address 0", 0.0)
