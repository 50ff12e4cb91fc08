"""Recording operations, and reading a saved history again."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.checkers.history import History, Kind, Outcome, load


def test_an_operation_that_nobody_ends_stays_unknown_for_ever() -> None:
    history = History(clock=itertools.count(1.0).__next__)
    done = history.invoke(0, Kind.WRITE, "x", 1, w="majority")
    lost = history.invoke(1, Kind.WRITE, "x", 2, w=1)
    refused = history.invoke(2, Kind.WRITE, "x", 3, w=1)
    history.ok(done)
    history.unknown(lost)
    history.failed(refused)
    assert [each.outcome for each in history] == [Outcome.OK, Outcome.UNKNOWN, Outcome.FAILED]
    assert [each.ended for each in history] == [4.0, float("inf"), 5.0]
    assert [each.may_have_happened for each in history] == [True, True, False]
    assert [each.majority for each in history] == [True, False, False]


def test_a_saved_history_is_the_same_when_loaded(tmp_path: Path) -> None:
    history = History(clock=itertools.count(1.0).__next__)
    history.ok(history.invoke(0, Kind.READ_LIST, "x", read_concern="majority", session="s"), [1, 2])
    history.invoke(0, Kind.APPEND, "x", 3, w="majority", session="s", retryable=7)
    history.save(tmp_path / "history.jsonl")
    assert load(tmp_path / "history.jsonl") == history.operations
