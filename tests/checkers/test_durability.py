"""Acknowledged writes that are gone, counted twice, or came back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.durability import check_counters, check_inserts, check_rollback_files
from tests.checkers.hand_made import append, done, failed, kinds, unknown
from tests.checkers.history import Kind, Operation


def insert(id_: str, **fields: Any) -> Operation:
    return done(Kind.INSERT, 0, 1, key=id_, **fields)


def delete(id_: str, **fields: Any) -> Operation:
    return done(Kind.DELETE, 2, 3, key=id_, result=1, **fields)


@pytest.mark.parametrize(
    ("operations", "final"),
    [
        pytest.param([insert("a")], {"a"}, id="there"),
        pytest.param([insert("a", w=1)], set(), id="rolled back"),
        pytest.param([unknown(Kind.INSERT, 0, key="a")], set(), id="an unknown insert did not happen"),
        pytest.param([unknown(Kind.INSERT, 0, key="a")], {"a"}, id="an unknown insert happened"),
        pytest.param([insert("a"), delete("a")], set(), id="deleted"),
        pytest.param([insert("a"), unknown(Kind.DELETE, 2, key="a")], set(), id="an unknown delete happened"),
        pytest.param(
            [unknown(Kind.INSERT, 0, key="a"), delete("a")], {"a"}, id="an unknown insert came after the delete"
        ),
        pytest.param([insert("a"), delete("a", w=1)], {"a"}, id="the delete was rolled back"),
    ],
)
def test_good_ends_pass(operations: list[Operation], final: set[str]) -> None:
    assert not check_inserts(operations, final)


@pytest.mark.parametrize(
    ("operations", "final", "kind"),
    [
        pytest.param([insert("a")], set(), "lost write", id="gone"),
        pytest.param([insert("a"), failed(Kind.DELETE, 2, 3, key="a")], set(), "lost write", id="by a failed delete"),
        pytest.param([insert("a"), delete("a")], {"a"}, "lost delete", id="back"),
        pytest.param([failed(Kind.INSERT, 0, 1, key="a")], {"a"}, "phantom", id="a failed insert happened"),
        pytest.param([], {"a"}, "phantom", id="nobody's"),
    ],
)
def test_bad_ends_are_found(operations: list[Operation], final: set[str], kind: str) -> None:
    assert kinds(check_inserts(operations, final)) == [kind]


def add(invoked: float, ended: float, **fields: Any) -> Operation:
    return done(Kind.ADD, invoked, ended, 1, **fields)


def count(invoked: float, ended: float, number: int, **fields: Any) -> Operation:
    return done(Kind.READ_COUNTER, invoked, ended, None, number, **fields)


@pytest.mark.parametrize(
    ("operations", "final"),
    [
        pytest.param([add(0, 1), add(2, 3), count(4, 5, 2)], 2, id="counted"),
        pytest.param([add(0, 1), add(2, 3, w=1)], 1, id="rolled back"),
        pytest.param([add(0, 1), unknown(Kind.ADD, 2, 1)], 2, id="an unknown one happened"),
        pytest.param([add(0, 1), failed(Kind.ADD, 2, 3, 1)], 1, id="a failed one"),
        pytest.param([add(0, 1, w=1), count(2, 3, 1, read_concern="local")], 0, id="a dirty read"),
    ],
)
def test_good_counters_pass(operations: list[Operation], final: int) -> None:
    assert not check_counters(operations, {"x": final})


@pytest.mark.parametrize(
    ("operations", "final", "kind"),
    [
        pytest.param([add(0, 1), add(2, 3)], 1, "lost increment", id="lost"),
        pytest.param([add(0, 1), unknown(Kind.ADD, 2, 1)], 3, "counted twice", id="retried and counted twice"),
        pytest.param([add(0, 1), failed(Kind.ADD, 2, 3, 1)], 2, "counted twice", id="a failed one happened"),
        pytest.param([add(0, 1), add(2, 3), count(4, 5, 1)], 2, "stale read", id="stale"),
        pytest.param([add(0, 1), count(2, 3, 2), add(4, 5)], 2, "counted twice", id="read before it was asked"),
        pytest.param(
            [add(0, 1, w=1), count(2, 3, 1, read_concern="majority")],
            0,
            "lost increment",
            id="a majority read is undone",
        ),
    ],
)
def test_bad_counters_are_found(operations: list[Operation], final: int, kind: str) -> None:
    assert kinds(check_counters(operations, {"x": final})) == [kind]


def kept(operations: list[Operation], **found: Any) -> list[str]:
    nothing: dict[str, Any] = {"final_ids": (), "final_lists": {}, "kept_ids": (), "kept_elements": ()}
    return kinds(check_rollback_files(operations, **{**nothing, **found}))


def test_an_acknowledged_document_is_there_or_in_a_rollback_file() -> None:
    lost = [insert("a", w=1)]
    assert kept(lost) == ["lost without a trace"]
    assert not kept(lost, final_ids={"a"})
    assert not kept(lost, kept_ids={"a"})
    assert not kept([*lost, unknown(Kind.DELETE, 2, key="a")])
    assert not kept([unknown(Kind.INSERT, 0, key="a"), failed(Kind.INSERT, 0, 1, key="b")])


def test_an_acknowledged_element_is_there_or_in_a_rollback_file() -> None:
    lost = [append(0, 1, 1, w=1)]
    assert kept(lost, final_lists={"x": [2]}) == ["lost without a trace"]
    assert not kept(lost, final_lists={"x": [1]})
    assert not kept(lost, kept_elements={("x", 1)})
