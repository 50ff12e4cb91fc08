"""The checker of waiting notices cycles, and nothing else."""

from __future__ import annotations

from tests.checkers.waiting import WaitingChecker, check_patience, cycles


def test_cycles_are_told_from_chains() -> None:
    assert cycles({"a": ["b"], "b": ["c"], "d": ["b", "c"]}) == set()
    assert cycles({"a": ["b"], "b": ["a"]}) == {frozenset("ab")}
    assert cycles({"a": ["a"]}) == {frozenset("a")}
    assert cycles({"x": ["a"], "a": ["b"], "b": ["c", "y"], "c": ["a"], "p": ["q"], "q": ["p"]}) == {
        frozenset("abc"), frozenset("pq"),
    }  # fmt: skip


def test_a_cycle_must_stand_for_a_while_and_is_told_once() -> None:
    checker, edges = WaitingChecker(1.0), {"a": ["b"], "b": ["a"]}
    for now, seen in ((0.0, edges), (0.9, edges), (1.0, {"a": ["b"]}), (1.5, edges), (2.4, edges)):
        checker.look(now, seen)
    assert checker.anomalies == []
    for now in (2.6, 3.0):
        checker.look(now, edges)
    (found,) = checker.anomalies
    assert found.text == "a waits for b and b waits for a"


def test_who_waits_long_is_told() -> None:
    (found,) = check_patience({"find": 0.2, "insert": 1.5}, 1.0)
    assert found.text == "insert took 1.50 s"
