"""The set's model holds its invariants in every order of steps, and shows what breaks where a rule is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from docstore.errors import CommandError
from docstore.optime import OpTime
from docstore.replication import progress, reconfig, votes
from docstore.replication.config import ReplicaSetConfig
from docstore.replication.messages import NO_MEMBER, Position, VoteRequest
from docstore.replication.state import State
from tests.model import replication
from tests.model.exploration import Explored, explore
from tests.model.replication import Member, Model, Scope, World

ELECTIONS = Scope(terms=3, entries=4)
RESTARTS = Scope(terms=2, entries=3, crashes=True)
RECONFIGS = Scope(terms=3, entries=2, versions=3, strangers=True)
FOUR_TERMS = Scope(terms=4, entries=3)

Plant = Callable[[pytest.MonkeyPatch], None]


def explored(scope: Scope) -> Explored[World]:
    model = Model(scope)
    return explore(model.initial(), model.successors, canonical=model.canonical, most=150_000)


@pytest.mark.parametrize(
    ("scope", "at_least"),
    [
        pytest.param(ELECTIONS, 30_000, id="elections and the commit point"),
        pytest.param(RESTARTS, 4_000, id="restarts"),
        pytest.param(RECONFIGS, 30_000, id="reconfigurations"),
    ],
)
def test_no_order_of_steps_breaks_an_invariant(scope: Scope, at_least: int) -> None:
    found = explored(scope)
    assert found.violation is None, str(found)
    assert found.states > at_least, "a model that cannot move proves nothing"


def commit_in_any_term(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit_point(config: ReplicaSetConfig, positions: Mapping[int, Position], term: int, current: OpTime) -> OpTime:
        reached = sorted((position.durable for position in positions.values()), reverse=True)
        needed = config.write_majority
        return max(current, reached[needed - 1]) if len(reached) >= needed else current

    monkeypatch.setattr(progress, "commit_point", commit_point)


def vote(blinded: Callable[[State, VoteRequest], VoteRequest]) -> Plant:
    """Votes are given as if the request said something else."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        shipping = votes.refusal
        monkeypatch.setattr(votes, "refusal", lambda state, request: shipping(state, blinded(state, request)))

    return plant


def without_log_check(state: State, request: VoteRequest) -> VoteRequest:
    return replace(request, last_op=max(request.last_op, state.applied))


def without_config_check(state: State, request: VoteRequest) -> VoteRequest:
    return replace(request, config=state.config_version)


def vote_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    shipping = votes.refusal

    def refusal(state: State, request: VoteRequest) -> str:
        reason = shipping(state, request)
        return "" if "already voted" in reason else reason

    monkeypatch.setattr(votes, "refusal", refusal)


def forget_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    def restarted(member: Member) -> Member:
        term = max(member.log, default=0)
        fresh = member._replace(term=term, vote_term=0, vote=NO_MEMBER, leads=False, crashed=True)
        return fresh._replace(commit=0, target=0)

    monkeypatch.setattr(replication, "_restarted", restarted)


def compare_ids_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(current: ReplicaSetConfig, config: ReplicaSetConfig, _my_id: int) -> None:
        before, after = ({m.id for m in each.members if m.votes} for each in (current, config))
        if len(before ^ after) > 1:
            raise CommandError(103, "more than one voter")

    monkeypatch.setattr(reconfig, "_check_one_voter", check)


def compare_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconfig, "_check_one_voter", lambda *_: None)


def never_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconfig, "unsettled", lambda _state: "")


@pytest.mark.parametrize(
    ("plant", "scope", "what"),
    [
        pytest.param(commit_in_any_term, FOUR_TERMS, "without", id="commit without the term check"),
        pytest.param(vote(without_log_check), ELECTIONS, "without", id="vote without the log check"),
        pytest.param(vote_twice, ELECTIONS, "two primaries", id="two votes a term"),
        pytest.param(forget_votes, RESTARTS, "two primaries", id="votes are not durable"),
        pytest.param(compare_ids_only, RECONFIGS, "do not overlap", id="configurations are compared by ids"),
        pytest.param(compare_nothing, RECONFIGS, "do not overlap", id="any number of voters changes"),
        pytest.param(never_wait, RECONFIGS, "without", id="a reconfig does not wait for the one before"),
        pytest.param(
            vote(without_config_check), RECONFIGS, "without", id="vote without the check of the configuration"
        ),
    ],
)
def test_a_rule_that_is_left_out_breaks_an_invariant(
    plant: Plant, scope: Scope, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = explored(scope)
    assert found.violation is not None
    assert what in found.violation, str(found)


def test_the_story_of_a_violation_is_the_steps_that_lead_there(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_ids_only(monkeypatch)
    found: Any = explored(RECONFIGS)
    assert found.story[-1] == found.violation
    assert "reconfigures to" in str(found)
