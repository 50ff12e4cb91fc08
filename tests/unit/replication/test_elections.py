"""Votes, rounds and takeovers, by the rules of the protocol. Whole elections are told in the transcripts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME
from docstore.replication.config import ConfigVersion
from docstore.replication.effects import BecomePrimary, Persist, Reply, Send, SteppedDown
from docstore.replication.messages import (
    Answered,
    Drained,
    FollowerState,
    Freeze,
    LastVote,
    StepUpRequest,
    VoteReply,
    VoteRequest,
)
from docstore.replication.primary_loss import SPREAD_SECONDS
from docstore.replication.states import MemberState, Role
from tests.unit.replication.members import (
    NOW,
    answer,
    config_of,
    every,
    follower,
    hear,
    leader,
    only,
    op,
    vote_request,
    with_member,
)

THREE = config_of("a", "b", "c")


def asking(**fields: object) -> VoteRequest:
    """Member 1 asks in term 2 with a log that ends at (1, 10)."""
    request = {
        "set_name": "set",
        "dry_run": False,
        "term": 2,
        "candidate": 1,
        "config": ConfigVersion(0, 1),
        "last_op": op(1, 10),
        "token": 7,
    }
    return VoteRequest(**request | fields)  # type: ignore[arg-type]


def test_a_vote_is_on_disk_before_it_is_given() -> None:
    effects = follower(THREE, last=op(1, 10)).receive(asking(), NOW)
    persist, reply = only(effects, Persist), only(effects, Reply)
    assert persist.vote == LastVote(term=2, candidate=1)
    assert effects.index(persist) < effects.index(reply)
    assert reply.result == VoteReply(term=2, granted=True)


def test_a_candidate_votes_for_itself_on_disk_before_it_asks() -> None:
    core = follower(THREE, last=op(1, 10))
    effects = core.receive(StepUpRequest(token=1), NOW)
    persist = only(effects, Persist)
    assert persist.vote == LastVote(term=2, candidate=0)
    asked = [send for send in every(effects, Send) if isinstance(send.request, VoteRequest)]
    assert [send.to for send in asked] == ["b:1", "c:1"]
    assert all(effects.index(persist) < effects.index(send) for send in asked)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"set_name": "other"}, "set name"),
        ({"term": 0}, "lower than mine"),
        ({"config": ConfigVersion(0, 0)}, "older than mine"),
        ({"last_op": op(1, 9)}, "staler than mine"),
        ({"last_op": op(0, 99)}, "staler than mine"),
    ],
)
def test_a_vote_is_refused_by_the_rules(fields: dict[str, object], reason: str) -> None:
    core = follower(THREE, last=op(1, 10))
    effects = core.receive(asking(**fields), NOW)
    assert not every(effects, Persist)
    reply = answer(effects)
    assert not reply.granted
    assert reason in reply.reason


@pytest.mark.parametrize("state", [MemberState.STARTUP, MemberState.STARTUP2, MemberState.SECONDARY])
def test_a_member_without_its_data_never_votes_yes(state: MemberState) -> None:
    core = follower(THREE, last=NULL_OPTIME if state is MemberState.SECONDARY else op(1, 5))
    core.state.follower_state = state
    for dry_run in (True, False):
        effects = core.receive(asking(dry_run=dry_run), NOW)
        assert "no complete copy" in answer(effects).reason
        assert not every(effects, Persist)


def test_an_arbiter_votes_although_it_has_no_data() -> None:
    core = follower(with_member(THREE, 0, arbiter_only=True, priority=0.0))
    assert answer(core.receive(asking(), NOW)).granted


def test_a_member_without_data_does_not_run() -> None:
    core = follower(THREE)
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    assert core.state.role is Role.FOLLOWER


def test_one_vote_a_term_but_the_same_one_again() -> None:
    core = follower(THREE, last=op(1, 10), vote=LastVote(term=2, candidate=2))
    assert "already voted" in answer(core.receive(asking(), NOW)).reason
    again = core.receive(asking(candidate=2), NOW)
    assert answer(again).granted
    assert not every(again, Persist)


def test_a_dry_run_binds_nobody() -> None:
    core = follower(THREE, last=op(1, 10))
    effects = core.receive(asking(dry_run=True, term=1), NOW)
    assert answer(effects).granted
    assert not every(effects, Persist)
    assert core.state.vote.term == 0


def test_a_dry_run_is_followed_by_the_real_round_and_that_by_office() -> None:
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    assert core.state.term == 1
    dry = core.receive(
        Answered(peer="b:1", request=vote_request(core, dry_run=True), reply=VoteReply(term=1, granted=True)), NOW
    )
    assert only(dry, Persist).vote == LastVote(term=2, candidate=0)
    core.receive(
        Answered(peer="b:1", request=vote_request(core, dry_run=False), reply=VoteReply(term=2, granted=True)), NOW
    )
    assert core.state.role is Role.LEADER
    assert not core.state.writable
    assert core.state.member_state is MemberState.PRIMARY


def test_answers_of_an_earlier_round_do_not_count() -> None:
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    late = vote_request(core, dry_run=True)
    core.receive(Answered(peer="b:1", request=late, reply=VoteReply(term=1, granted=True)), NOW)
    core.receive(Answered(peer="c:1", request=late, reply=VoteReply(term=1, granted=True)), NOW)
    assert core.state.role is Role.CANDIDATE


def test_a_lost_round_is_tried_again_later() -> None:
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    request = vote_request(core, dry_run=True)
    for peer in ("b:1", "c:1"):
        core.receive(Answered(peer=peer, request=request, reply=None), NOW)
    assert core.state.role is Role.FOLLOWER
    assert NOW + 0.5 <= core.state.candidacy.election_at <= NOW + 1.0


def test_a_round_lost_for_want_of_voters_is_run_anew_when_a_majority_is_back() -> None:
    core = follower(config_of("a", "b", "c", "d", "e"), last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    request = vote_request(core, dry_run=True)
    for peer in ("b:1", "c:1", "d:1", "e:1"):
        core.receive(Answered(peer=peer, request=request, reply=None), NOW)
    hear(core, "b:1", now=NOW + 0.1, term=1)
    assert core.state.candidacy.election_at >= NOW + 0.5
    hear(core, "c:1", now=NOW + 0.1, term=1)
    assert core.state.candidacy.election_at <= NOW + 0.1 + SPREAD_SECONDS


def test_a_round_that_voters_have_refused_is_not_run_anew_at_once() -> None:
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    request = vote_request(core, dry_run=True)
    core.receive(Answered(peer="b:1", request=request, reply=VoteReply(term=1, granted=False, reason="no")), NOW)
    core.receive(Answered(peer="c:1", request=request, reply=None), NOW)
    for peer in ("b:1", "c:1"):
        hear(core, peer, now=NOW + 0.1, term=1)
    assert core.state.candidacy.election_at >= NOW + 0.5


def test_a_voter_that_is_heard_again_is_asked_again_in_the_same_round() -> None:
    """The request that was sent first may be stuck in a connection that a cut has made slow."""
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    request = vote_request(core, dry_run=True)
    sent = every(hear(core, "b:1", term=1), Send)
    assert [each.request for each in sent if isinstance(each.request, VoteRequest)] == [request]
    core.receive(Answered(peer="b:1", request=request, reply=VoteReply(term=1, granted=False, reason="no")), NOW)
    sent = every(hear(core, "b:1", term=1), Send)
    assert not [each for each in sent if isinstance(each.request, VoteRequest)]


def test_a_candidate_whom_a_configuration_reaches_soon_runs_again_under_it() -> None:
    """The one that hands over may know of it already, and nobody else is about to run."""
    core = follower(THREE, last=op(1, 10))
    core.receive(StepUpRequest(token=1), NOW)
    hear(core, "b:1", config_document=replace(THREE, version=2, term=1))
    assert core.state.role is Role.FOLLOWER
    assert core.state.candidacy.election_at <= NOW + SPREAD_SECONDS
    effects = core.tick(NOW + SPREAD_SECONDS)
    assert {send.request.config for send in every(effects, Send) if isinstance(send.request, VoteRequest)} == {
        ConfigVersion(1, 2)
    }


def test_a_candidate_waits_under_a_configuration_of_a_later_primary_or_without_it() -> None:
    for config in (replace(THREE, version=2, term=5), with_member(replace(THREE, version=2, term=1), 0, priority=0.0)):
        core = follower(THREE, last=op(1, 10))
        core.receive(StepUpRequest(token=1), NOW)
        hear(core, "b:1", config_document=config)
        assert core.state.role is Role.FOLLOWER
        assert core.state.candidacy.election_at >= NOW + 1


def test_a_higher_term_in_an_answer_ends_the_round() -> None:
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    refused = VoteReply(term=5, granted=False, reason="lower")
    core.receive(Answered(peer="b:1", request=vote_request(core, dry_run=True), reply=refused), NOW)
    assert (core.state.role, core.state.term) == (Role.FOLLOWER, 5)


def test_the_only_voter_is_elected_at_once() -> None:
    core = follower(config_of("a"), last=op(0, 1))
    core.tick(NOW)
    assert core.state.role is Role.LEADER
    assert every(core.receive(Drained(term=1), NOW), BecomePrimary)


@pytest.mark.parametrize("state", [MemberState.STARTUP2, MemberState.RECOVERING, MemberState.ROLLBACK])
def test_only_a_secondary_runs(state: MemberState) -> None:
    core = follower(THREE, last=op(1, 10))
    core.receive(FollowerState(state=state), NOW)
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    assert core.state.role is Role.FOLLOWER
    result = answer(core.receive(StepUpRequest(token=1), NOW))
    assert isinstance(result, CommandError)


def test_seeing_a_primary_puts_the_election_off() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "b:1", now=NOW + 0.9, state=MemberState.PRIMARY, term=1)
    assert core.state.candidacy.election_at > NOW + 1.9


def test_a_primary_of_an_older_term_does_not() -> None:
    core = follower(THREE, last=op(1, 10))
    core.receive(asking(term=3, last_op=op(0, 0)), NOW)
    before = core.state.candidacy.election_at
    hear(core, "b:1", now=NOW + 0.5, state=MemberState.PRIMARY, term=1)
    assert core.state.candidacy.election_at == before


def test_a_member_of_higher_priority_plans_a_takeover_and_drops_it_when_the_primary_changes() -> None:
    core = follower(with_member(THREE, 0, priority=2.0), last=op(1, 10))
    hear(core, "b:1", state=MemberState.PRIMARY, term=1)
    assert NOW + 1.0 <= core.state.candidacy.takeover_at <= NOW + 1.2
    hear(core, "b:1", state=MemberState.SECONDARY, term=1)
    assert core.state.candidacy.takeover_at > NOW + 1e6


def test_a_stuck_primary_is_taken_over_by_a_fresher_member() -> None:
    core = follower(THREE, last=op(1, 50))
    core.receive(asking(term=2), NOW)
    hear(core, "b:1", state=MemberState.PRIMARY, term=2, applied=op(1, 10))
    assert core.state.candidacy.takeover_at > NOW + 29
    hear(core, "b:1", state=MemberState.PRIMARY, term=2, applied=op(2, 51))
    assert core.state.candidacy.takeover_at > NOW + 1e6


def test_a_leader_that_is_asked_for_a_vote_in_a_later_term_leaves_office() -> None:
    core = leader(THREE, op(0, 1))
    effects = core.receive(asking(term=9, last_op=op(1, 99), config=core.state.config_version), NOW)
    assert only(effects, SteppedDown)
    assert answer(effects).granted


def test_freezing_is_for_secondaries() -> None:
    refused = answer(leader(THREE, op(0, 1)).receive(Freeze(seconds=5, token=1), NOW))
    assert refused.code == Code.NotSecondary
    core = follower(THREE, last=op(1, 10))
    core.receive(Freeze(seconds=5, token=1), NOW)
    core.state.candidacy.election_at = NOW + 1
    core.tick(NOW + 1)
    assert core.state.role is Role.FOLLOWER
