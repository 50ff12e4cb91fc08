"""The four guarantees of causal sessions, each kept and each broken."""

from __future__ import annotations

from tests.checkers.hand_made import append, kinds, read_list
from tests.checkers.history import Anomaly, Operation
from tests.checkers.sessions import check_sessions

XY = {"x": [1, 2], "y": [7, 8]}


def check(*operations: Operation) -> list[Anomaly]:
    for operation in operations:
        if operation.kind.reads and operation.read_concern == "linearizable":
            operation.read_concern = "majority"
    return check_sessions(operations, XY)


def test_a_session_reads_its_writes() -> None:
    mine = append(0, 1, 1, session="a")
    assert not check(mine, read_list(2, 3, [1], session="a"))
    assert kinds(check(mine, read_list(2, 3, [], session="a"))) == ["not causal: read your writes"]


def test_another_session_need_not_see_them_yet() -> None:
    assert not check(append(0, 1, 1, session="a"), read_list(2, 3, [], session="b"))


def test_reads_of_a_session_never_go_back() -> None:
    first = read_list(2, 3, [1, 2], session="a")
    assert not check(first, read_list(4, 5, [1, 2], session="a"))
    assert kinds(check(first, read_list(4, 5, [1], session="a"))) == ["not causal: monotonic reads"]


def test_writes_of_a_session_stand_in_their_order() -> None:
    assert not check(append(0, 1, 1, session="a"), append(2, 3, 2, session="a"))
    assert kinds(check(append(0, 1, 2, session="a"), append(2, 3, 1, session="a"))) == ["not causal: monotonic writes"]


def test_a_write_follows_what_its_session_read() -> None:
    assert not check(read_list(0, 1, [1], session="a"), append(2, 3, 2, session="a"))
    found = check(read_list(0, 1, [1, 2], session="a"), append(2, 3, 1, session="a"))
    assert kinds(found) == ["not causal: writes follow reads"]


def test_who_sees_a_later_write_of_a_session_sees_its_earlier_ones_elsewhere() -> None:
    writer = [append(0, 1, 1, session="a"), append(2, 3, 7, key="y", session="a")]
    seen = read_list(4, 5, [7], key="y", session="b")
    assert not check(*writer, seen, read_list(6, 7, [1], session="b"))
    assert kinds(check(*writer, seen, read_list(6, 7, [], session="b"))) == ["not causal: causality"]


def test_what_was_read_elsewhere_is_handed_on_by_a_write() -> None:
    chain = [
        append(0, 1, 1, session="a"),
        read_list(2, 3, [1], session="b"),
        append(4, 5, 7, key="y", session="b"),
        read_list(6, 7, [7], key="y", session="c"),
    ]
    assert not check(*chain, read_list(8, 9, [1], session="c"))
    assert kinds(check(*chain, read_list(8, 9, [], session="c"))) == ["not causal: causality"]


def test_sessions_with_weaker_concerns_are_not_judged() -> None:
    assert not check(append(0, 1, 1, session="a", w=1), read_list(2, 3, [], session="a"))
    assert not check(append(0, 1, 1, session="a"), read_list(2, 3, [], session="a", read_concern="local"))
