"""Documents that survive a drop, and those that a drop takes though they came later."""

from __future__ import annotations

from tests.checkers.drops import check_drops
from tests.checkers.hand_made import done, kinds, unknown
from tests.checkers.history import Kind, Operation


def insert(invoked: float, ended: float) -> Operation:
    return done(Kind.INSERT, invoked, ended, "t.c", key="a")


def drop(invoked: float, ended: float) -> Operation:
    return done(Kind.DROP, invoked, ended, key="t.c")


def test_what_was_dropped_stays_away() -> None:
    assert not check_drops([insert(0, 1), drop(2, 3)], ())
    assert kinds(check_drops([insert(0, 1), drop(2, 3)], {"a"})) == ["dropped and back"]


def test_what_came_after_the_drop_stays() -> None:
    assert not check_drops([drop(0, 1), insert(2, 3)], {"a"})
    assert kinds(check_drops([drop(0, 1), insert(2, 3)], ())) == ["lost write"]


def test_an_insert_beside_a_drop_may_go_either_way() -> None:
    for final in ((), {"a"}):
        assert not check_drops([drop(0, 2), insert(1, 3)], final)
        assert not check_drops([unknown(Kind.DROP, 0, key="t.c"), insert(1, 2)], final)
        assert not check_drops([unknown(Kind.INSERT, 0, "t.c", key="a"), drop(1, 2)], final)
