"""How long the undo records of committed entries stand."""

from __future__ import annotations

from docstore.collection.oplog.undo_history import AT_ONCE, MOST_BYTES, WINDOW_SECONDS, UndoHistory


def _at(seconds: int) -> int:
    return seconds << 32 | 1


def test_records_stand_until_the_window_has_passed_them() -> None:
    history = UndoHistory()
    assert history.record_progress(AT_ONCE, 100, _at(1000)) is None
    assert not history.due(2 * AT_ONCE - 1)
    assert history.due(2 * AT_ONCE)
    assert history.record_progress(2 * AT_ONCE, 200, _at(1000 + WINDOW_SECONDS - 1)) is None
    assert history.record_progress(3 * AT_ONCE, 300, _at(1000 + WINDOW_SECONDS)) == _at(1000)
    assert history.record_progress(4 * AT_ONCE, 400, _at(5000)) == _at(1000 + WINDOW_SECONDS)


def test_the_oldest_go_where_there_are_too_many_bytes() -> None:
    history = UndoHistory()
    assert history.record_progress(AT_ONCE, 1000, _at(1)) is None
    assert history.record_progress(2 * AT_ONCE, MOST_BYTES, _at(2)) is None
    assert history.record_progress(3 * AT_ONCE, MOST_BYTES + 1001, _at(3)) == _at(1)


def test_without_a_window_nothing_committed_stands() -> None:
    history = UndoHistory()
    history.window = 0
    assert history.record_progress(AT_ONCE, 100, _at(1)) == _at(1)
