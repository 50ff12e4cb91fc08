"""Members and owners that should be equal, and how long nothing could be written."""

from __future__ import annotations

from tests.checkers.availability import longest_unavailability
from tests.checkers.hand_made import kinds, read, write
from tests.checkers.members import (
    Description,
    check_catalogs,
    check_converged,
    check_counts,
    check_hashes,
    check_sessions_agree,
)


def test_members_have_converged_when_their_positions_are_equal() -> None:
    assert not check_converged({"a": (1, 5), "b": (1, 5)})
    assert kinds(check_converged({"a": (1, 5), "b": (1, 4)})) == ["not converged"]


def test_hashes_are_compared_collection_by_collection() -> None:
    assert not check_hashes({"a": {"t.x": "1"}, "b": {"t.x": "1"}})
    (found,) = check_hashes({"a": {"t.x": "1", "t.y": "3"}, "b": {"t.x": "2", "t.y": "3"}})
    assert found.kind == "data differ"
    assert "t.x" in found.text
    assert kinds(check_hashes({"a": {"t.x": "1"}, "b": {}})) == ["data differ"]


def test_sessions_are_compared_one_by_one() -> None:
    assert not check_sessions_agree({"a": {"s": "1"}, "b": {"s": "1"}})
    assert kinds(check_sessions_agree({"a": {"s": "1"}, "b": {"s": "2"}})) == ["sessions differ"]
    assert kinds(check_sessions_agree({"a": {"s": "1"}, "b": {}})) == ["sessions differ"]


def test_catalogs_differ_by_collection_by_option_or_by_index() -> None:
    plain = Description({}, {"_id_": {"_id": 1}})
    assert not check_catalogs({"a": {"t.x": plain}, "b": {"t.x": plain}})
    assert kinds(check_catalogs({"a": {"t.x": plain}, "b": {}})) == ["collection missing"]
    capped = Description({"capped": True}, plain.indexes)
    assert kinds(check_catalogs({"a": {"t.x": plain}, "b": {"t.x": capped}})) == ["options differ"]
    ttl = Description({}, {**plain.indexes, "t_1": {"t": 1, "expireAfterSeconds": 1}})
    assert kinds(check_catalogs({"a": {"t.x": plain}, "b": {"t.x": ttl}})) == ["indexes differ"]


def test_only_owners_need_a_collection_and_whoever_has_it_is_compared() -> None:
    plain, other = Description({}, {}), Description({}, {"t_1": {"t": 1}})
    owners = {"t.x": ["a"]}
    assert not check_catalogs({"a": {"t.x": plain}, "b": {}}, owners)
    assert kinds(check_catalogs({"a": {}, "b": {"t.x": plain}}, owners)) == ["collection missing"]
    assert kinds(check_catalogs({"a": {"t.x": plain}, "b": {"t.x": other}}, owners)) == ["indexes differ"]


def test_unavailability_is_the_longest_time_without_a_majority_write() -> None:
    operations = [write(0, 1, 1), write(1, 5, 2), write(5, 6, 3, w=1), read(6, 7, 3)]
    assert longest_unavailability(operations, 0, 8) == 4
    assert longest_unavailability([], 2, 8) == 6


def test_a_fast_count_is_that_of_the_documents() -> None:
    assert not check_counts({"test.a of m0": (3, 3)})
    assert kinds(check_counts({"test.a of m0": (3, 3), "test.a of m1": (4, 3)})) == ["miscounted"]
