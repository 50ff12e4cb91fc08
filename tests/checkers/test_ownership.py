"""Documents with two owners or none, chunk maps with holes, statements that miss or meet twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.hand_made import done, failed, kinds, unknown
from tests.checkers.history import Kind, Operation
from tests.checkers.many import check_many
from tests.checkers.ownership import OwnedRange, Stored, check_chunk_map, check_ownership

HALVES = [OwnedRange(0, 50, "a"), OwnedRange(50, 100, "b")]


def test_a_chunk_map_has_neither_gaps_nor_overlaps() -> None:
    assert not check_chunk_map(HALVES, 0, 100)
    assert kinds(check_chunk_map(HALVES[:1], 0, 100)) == ["gap in the chunk map"]
    assert kinds(check_chunk_map(HALVES[1:], 0, 100)) == ["gap in the chunk map"]
    assert kinds(check_chunk_map([*HALVES, OwnedRange(40, 50, "b")], 0, 100)) == ["overlap in the chunk map"]


@pytest.mark.parametrize(
    ("stored", "visible", "kind"),
    [
        pytest.param({"a": [Stored("x", 1)], "b": [Stored("y", 60)]}, ["x", "y"], None, id="good"),
        pytest.param({"a": [Stored("x", 1)], "b": [Stored("x", 60)]}, ["x"], "owned twice", id="owned twice"),
        pytest.param({"a": [], "b": []}, [], "owned by nobody", id="lost"),
        pytest.param({"b": [Stored("x", 1)]}, [], "owned by nobody", id="only an orphan is left"),
        pytest.param({"a": [Stored("x", 1)], "b": [Stored("x", 1)]}, ["x"], "orphan", id="an orphan remained"),
        pytest.param({"a": [Stored("x", 1)]}, ["x", "x"], "visible twice", id="visible twice"),
        pytest.param({"a": [Stored("x", 1)]}, [], "invisible", id="invisible"),
        pytest.param({"a": [Stored("x", 1)]}, ["x", "z"], "visible without an owner", id="visible without an owner"),
    ],
)
def test_each_document_has_one_owner_and_is_visible_once(
    stored: dict[str, list[Stored]], visible: list[str], kind: str | None
) -> None:
    found = kinds(check_ownership(HALVES, stored, visible=visible, expected={"x"}))
    assert kind in found if kind else not found


def test_orphans_may_remain_while_ranges_are_being_deleted() -> None:
    stored = {"a": [Stored("x", 1)], "b": [Stored("x", 1)]}
    assert not check_ownership(HALVES, stored, visible=["x"], orphans_remain=True)


def insert(id_: str, ended: float = 1) -> Operation:
    return done(Kind.INSERT, 0, ended, key=id_)


def update_many(tag: str = "t", **fields: Any) -> Operation:
    return done(Kind.UPDATE_MANY, 4, 6, tag, 1, key="c", **fields)


@pytest.mark.parametrize(
    ("operations", "tags", "kind"),
    [
        pytest.param([update_many()], ["t"], None, id="met once"),
        pytest.param([update_many()], [], "not updated", id="missed"),
        pytest.param([update_many()], ["t", "t"], "updated twice", id="met twice"),
        pytest.param([failed(Kind.UPDATE_MANY, 4, 6, "t")], [], None, id="failed and missed it"),
        pytest.param([failed(Kind.UPDATE_MANY, 4, 6, "t")], ["t"], None, id="failed halfway"),
        pytest.param([failed(Kind.UPDATE_MANY, 4, 6, "t")], ["t", "t"], "updated twice", id="failed and met it twice"),
        pytest.param([unknown(Kind.UPDATE_MANY, 4, "t")], ["t", "t"], "updated twice", id="unknown and met it twice"),
        pytest.param([update_many(w=1)], [], None, id="rolled back"),
        pytest.param([done(Kind.UPDATE_BY_ID, 4, 6, "t", 1, key="a")], ["t"], None, id="by id"),
        pytest.param([done(Kind.UPDATE_BY_ID, 4, 6, "t", 0, key="a")], [], "not found by id", id="by id, not found"),
        pytest.param([done(Kind.UPDATE_BY_ID, 4, 6, "t", 1, key="a")], [], "not updated", id="by id, found and lost"),
        pytest.param([failed(Kind.UPDATE_BY_ID, 4, 6, "t", key="a")], ["t"], "failed and happened", id="by id, failed"),
        pytest.param([done(Kind.UPDATE_BY_ID, 4, 6, "t", 1, key="a")], ["t", "t"], "updated twice", id="by id, twice"),
        pytest.param([done(Kind.FIND_ALL, 4, 6, None, ["a"], key="c")], [], None, id="found"),
        pytest.param([done(Kind.FIND_ALL, 4, 6, None, [], key="c")], [], "not shown", id="not found"),
        pytest.param([done(Kind.FIND_ALL, 4, 6, None, ["a", "a"], key="c")], [], "shown twice", id="found twice"),
    ],
)
def test_statements_over_many_meet_each_document_once(
    operations: list[Operation], tags: list[str], kind: str | None
) -> None:
    found = kinds(check_many([insert("a"), *operations], {"a": tags}))
    assert found == ([kind] if kind else [])


def test_documents_that_come_or_go_meanwhile_may_be_missed() -> None:
    late, early = insert("a", ended=5), done(Kind.DELETE, 5, 7, key="b", result=0)
    assert not check_many([late, insert("b"), early, update_many()], {"a": [], "b": []})
    assert not check_many([insert("a"), update_many()], {"a": []}, concerns=lambda _operation, id_: id_ != "a")
