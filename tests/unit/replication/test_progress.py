"""Commit point and write concerns as functions of positions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import ReplicaSetConfig, Settings
from docstore.replication.config_rules import validate
from docstore.replication.messages import Position
from docstore.replication.progress import Acknowledgement, check_satisfiable, commit_point, satisfied
from tests.unit.replication.members import config_of, op, with_member

THREE = config_of("a", "b", "c")


def at(*durable: OpTime, applied: tuple[OpTime, ...] = ()) -> dict[int, Position]:
    """Positions of members 0, 1, ...; applied as far as durable unless given."""
    return {
        number: Position(member=number, host="", applied=applied[number] if applied else optime, durable=optime)
        for number, optime in enumerate(durable)
    }


def met(w: int | str, optime: OpTime, positions: dict[int, Position], *, journal: bool = False,
        config: ReplicaSetConfig = THREE, committed: OpTime = NULL_OPTIME, term: int = 2) -> bool:  # fmt: skip
    return satisfied(
        Acknowledgement(w=w, journal=journal),
        optime,
        config=config,
        positions=positions,
        commit_point=committed,
        term=term,
    )


def test_the_commit_point_is_what_a_majority_has_on_disk() -> None:
    positions = at(op(2, 30), op(2, 10), op(2, 20), applied=(op(2, 30), op(2, 30), op(2, 30)))
    assert commit_point(THREE, positions, 2, NULL_OPTIME) == op(2, 20)


def test_without_the_journal_default_applied_is_enough() -> None:
    config = config_of("a", "b", "c", journal_default=False)
    positions = at(op(2, 30), op(2, 10), op(2, 10), applied=(op(2, 30), op(2, 25), op(2, 10)))
    assert commit_point(config, positions, 2, NULL_OPTIME) == op(2, 25)


def test_entries_of_older_terms_are_not_committed_by_counting() -> None:
    positions = at(op(1, 30), op(1, 30), op(1, 30))
    assert commit_point(THREE, positions, 2, NULL_OPTIME) == NULL_OPTIME
    assert commit_point(THREE, at(op(2, 31), op(2, 31), op(1, 30)), 2, NULL_OPTIME) == op(2, 31)


def test_the_commit_point_never_falls() -> None:
    assert commit_point(THREE, at(op(2, 30), op(2, 10), op(2, 10)), 2, op(2, 20)) == op(2, 20)


def test_arbiters_and_members_never_heard_of_commit_nothing() -> None:
    psa = with_member(THREE, 2, arbiter_only=True, priority=0.0)
    positions = {0: Position(member=0, host="", applied=op(2, 5), durable=op(2, 5))}
    assert commit_point(psa, positions, 2, NULL_OPTIME) == NULL_OPTIME
    assert commit_point(psa, at(op(2, 5), op(2, 4)), 2, NULL_OPTIME) == op(2, 4)


def test_a_number_counts_members_that_have_applied_or_with_j_flushed() -> None:
    positions = at(op(2, 20), op(2, 10), op(2, 10), applied=(op(2, 20), op(2, 20), op(2, 10)))
    assert met(2, op(2, 20), positions)
    assert not met(2, op(2, 20), positions, journal=True)
    assert not met(3, op(2, 20), positions)


def test_a_position_in_another_term_proves_nothing() -> None:
    """A member that followed a primary which we never heard of may hold something else at that place."""
    positions = at(op(3, 20), op(2, 90), op(1, 10))
    assert met(2, op(1, 10), positions, term=3)
    assert not met(3, op(1, 10), positions, term=3)


def test_majority_is_the_commit_point_and_nothing_else() -> None:
    everywhere = at(op(2, 20), op(2, 20), op(2, 20))
    assert not met("majority", op(2, 20), everywhere, committed=op(2, 19))
    assert met("majority", op(2, 20), {}, committed=op(2, 20))


def test_a_mode_counts_different_values_of_its_tags() -> None:
    config = config_of("a", "b", "c", settings=Settings(modes={"two": {"dc": 2}}))
    for number, dc in enumerate(("east", "east", "west")):
        config = with_member(config, number, tags={"dc": dc})
    assert not met("two", op(2, 5), at(op(2, 5), op(2, 5), op(2, 4)), config=config)
    assert met("two", op(2, 5), at(op(2, 5), op(2, 4), op(2, 5)), config=config)


@pytest.mark.parametrize(("w", "code"), [(4, Code.UnsatisfiableWriteConcern), ("x", Code.UnknownReplWriteConcern)])
def test_what_no_member_can_satisfy_is_refused(w: int | str, code: Code) -> None:
    with pytest.raises(CommandError) as refused:
        check_satisfiable(Acknowledgement(w=w, journal=False), THREE)
    assert refused.value.code == code


@pytest.mark.parametrize("w", [0, 3, "majority"])
def test_what_can_be_satisfied_is_not_refused(w: int | str) -> None:
    check_satisfiable(Acknowledgement(w=w, journal=False), THREE)


def tagged(*values: str | None) -> ReplicaSetConfig:
    """Members with these values of the tag `dc`, and a mode `two` that asks for two of them."""
    config = config_of(*"abc"[: len(values)])
    members = tuple(
        replace(member, tags={} if value is None else {"dc": value})
        for member, value in zip(config.members, values, strict=True)
    )
    return replace(config, members=members, settings=replace(config.settings, modes={"two": {"dc": 2}}))


def test_tags_are_counted_like_those_of_a_mode() -> None:
    config = tagged("x", "x", "y")
    one, two = at(op(1, 5), op(1, 5)), at(op(1, 5), op(1, 5), op(1, 5))
    for w in ("two", (("dc", 2),)):
        asked = Acknowledgement(w=w, journal=False)
        for positions, expected in ((one, False), (two, True)):
            reached = satisfied(asked, op(1, 5), config=config, positions=positions, commit_point=op(1, 5), term=1)
            assert reached is expected


def test_a_mode_that_cannot_be_met_now_may_be_configured_and_is_refused_when_asked_for() -> None:
    config = tagged("x", "x", None)
    validate(config)
    for w, code in (
        ("two", Code.UnsatisfiableWriteConcern),
        ((("dc", 2),), Code.UnsatisfiableWriteConcern),
        ((("rack", 1),), Code.NoSuchKey),
    ):
        with pytest.raises(CommandError) as refused:
            check_satisfiable(Acknowledgement(w=w, journal=False), config)
        assert refused.value.code == code
    check_satisfiable(Acknowledgement(w=(("dc", 1),), journal=False), config)
