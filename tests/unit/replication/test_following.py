"""Sync sources, progress upstream, and whose word on the commit point is taken."""

from __future__ import annotations

from dataclasses import replace

from docstore.errors import Code
from docstore.optime import NULL_OPTIME
from docstore.replication.config import Settings
from docstore.replication.core import Core
from docstore.replication.effects import Follow, Reply, Send
from docstore.replication.following import copy_counts
from docstore.replication.messages import (
    NO_MEMBER,
    Answered,
    FollowerState,
    PositionReply,
    PositionUpdate,
    Progress,
    SourceFailed,
    SyncFrom,
)
from docstore.replication.states import MemberState
from tests.unit.replication.members import (
    NOW,
    SETTINGS,
    answer,
    config_of,
    every,
    follower,
    hear,
    lose,
    only,
    op,
    report,
    with_member,
)

THREE = config_of("a", "b", "c")


def with_primary(core: Core, host: str = "b:1", last=op(1, 10)) -> Core:  # type: ignore[no-untyped-def]  # noqa: B008
    core.state.term = max(core.state.term, 1)
    hear(core, host, state=MemberState.PRIMARY, term=core.state.term, applied=last)
    return core


def ping(core: Core, host: str, seconds: float) -> None:
    core.state.peers[host].ping = seconds


def test_the_primary_is_followed_when_all_are_equally_near() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "c:1")
    with_primary(core)
    core.receive(SourceFailed(peer="c:1", seconds=0.0, reason="try again"), NOW)
    assert core.state.sync_source.host == "b:1"


def test_a_nearer_secondary_is_preferred_to_a_far_primary() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    hear(core, "c:1")
    ping(core, "b:1", 0.1)
    ping(core, "c:1", 0.001)
    core.receive(SourceFailed(peer="b:1", seconds=0.0, reason="try again"), NOW)
    assert core.state.sync_source.host == "c:1"


def test_without_chaining_only_the_primary_is_followed() -> None:
    config = replace(THREE, settings=replace(SETTINGS, chaining_allowed=False))
    core = follower(config, last=op(1, 10))
    assert not every(hear(core, "c:1"), Follow)
    assert core.state.sync_source.host is None
    with_primary(core)
    assert core.state.sync_source.host == "b:1"


def test_nobody_behind_or_in_no_state_to_serve_is_followed() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "b:1", applied=op(1, 9))
    hear(core, "c:1", state=MemberState.RECOVERING)
    assert core.state.sync_source.host is None


def test_hidden_and_delayed_members_are_followed_only_for_want_of_others() -> None:
    config = with_member(with_member(THREE, 1, hidden=True, priority=0.0), 2, delay_seconds=60, priority=0.0)
    config = replace(config, members=(*config.members, replace(config.members[0], id=3, host="d:1")))
    core = follower(config, last=op(1, 10))
    hear(core, "b:1")
    hear(core, "d:1")
    core.receive(SourceFailed(peer="b:1", seconds=0.0, reason="try again"), NOW)
    assert core.state.sync_source.host == "d:1"


def test_a_member_that_follows_us_is_not_followed() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "c:1", sync_source="a:1")
    assert core.state.sync_source.host is None


def test_a_source_that_goes_down_is_replaced_at_once() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    hear(core, "c:1")
    assert only(lose(core, "b:1"), Follow).source == "c:1"


def test_a_source_that_failed_is_avoided_for_a_while() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    effects = core.receive(SourceFailed(peer="b:1", seconds=5.0, reason="no route"), NOW)
    assert only(effects, Follow).source is None
    assert core.state.sync_source.reason == "no route"
    for peer in core.state.peers.values():
        peer.heartbeat_at = NOW + 100
    assert not every(core.tick(NOW + 1.5), Follow)
    assert only(core.tick(NOW + 5.5), Follow).source == "b:1"


def test_what_failed_as_a_source_is_one_again_when_it_has_come_up_or_become_primary() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    core.receive(SourceFailed(peer="b:1", seconds=5.0, reason="it died"), NOW)
    lose(core, "b:1")
    assert core.state.sync_source.host is None
    hear(core, "b:1", state=MemberState.SECONDARY)
    assert core.state.sync_source.host == "b:1"
    core.receive(SourceFailed(peer="b:1", seconds=5.0, reason="it was slow"), NOW)
    hear(core, "b:1", state=MemberState.SECONDARY)
    assert core.state.sync_source.host is None
    hear(core, "b:1", state=MemberState.PRIMARY, applied=op(1, 20))
    assert core.state.sync_source.host == "b:1"


def test_a_source_with_nothing_new_is_left_when_the_primary_has_more() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "c:1")
    assert core.state.sync_source.host == "c:1"
    core.state.term = 1
    effects = hear(core, "b:1", state=MemberState.PRIMARY, term=1, applied=op(1, 20))
    assert only(effects, Follow).source == "b:1"


def test_sync_from_is_obeyed_once_and_checked() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    hear(core, "c:1")
    effects = core.receive(SyncFrom(host="c:1", token=1), NOW)
    assert answer(effects) == "b:1"
    assert only(effects, Follow).source == "c:1"
    for host, code in (("nosuch:1", Code.NodeNotFound), ("a:1", Code.InvalidOptions)):
        assert only(core.receive(SyncFrom(host=host, token=2), NOW), Reply).result.code == code


def test_progress_goes_upstream_one_update_at_a_time() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    core.tick(NOW)
    first = core.receive(Progress(applied=op(1, 11), durable=op(1, 10)), NOW)
    assert not [send for send in every(first, Send) if isinstance(send.request, PositionUpdate)]
    update = PositionUpdate(term=1, config=core.state.config_version, positions=())
    reply = PositionReply(term=1, commit_point=NULL_OPTIME, primary_id=1, config=core.state.config_version)
    then = core.receive(Answered(peer="b:1", request=update, reply=reply), NOW)
    sent = only(then, Send).request
    assert isinstance(sent, PositionUpdate)
    assert [(p.member, p.applied, p.durable) for p in sent.positions] == [(0, op(1, 11), op(1, 10))]


def test_the_positions_of_those_behind_us_go_upstream_with_ours() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    core.state.sync_source.position_in_flight = False
    effects = report(core, 2, op(1, 9))
    sent = next(send.request for send in every(effects, Send) if isinstance(send.request, PositionUpdate))
    assert {p.member: p.applied for p in sent.positions} == {0: op(1, 10), 2: op(1, 9)}


def test_the_sources_answer_is_proof_that_the_primary_lives() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)))
    update = PositionUpdate(term=1, config=core.state.config_version, positions=())
    reply = PositionReply(term=1, commit_point=NULL_OPTIME, primary_id=1, config=core.state.config_version)
    core.receive(Answered(peer="b:1", request=update, reply=reply), NOW + 0.9)
    assert core.state.candidacy.election_at > NOW + 1.9


def test_a_source_does_not_vouch_for_a_primary_that_has_fallen_silent() -> None:
    """Its process may have stopped: who hears of it only from us would wait a whole timeout more."""
    core = with_primary(follower(THREE, last=op(1, 10)))
    core.state.peers["b:1"].heard_at = NOW - 0.5
    assert core.state.peers["b:1"].up
    assert only(report(core, 2, op(1, 9)), Reply).result.primary_id == NO_MEMBER


def test_a_source_vouches_for_the_primary_only_while_the_primary_answers_it() -> None:
    """Else members that fetch from each other in a circle keep each other from ever electing another."""
    core = with_primary(follower(THREE, last=op(1, 10)))
    assert only(report(core, 2, op(1, 9)), Reply).result.primary_id == 1
    lose(core, "b:1")
    update = PositionUpdate(term=1, config=core.state.config_version, positions=())
    reply = PositionReply(term=1, commit_point=NULL_OPTIME, primary_id=1, config=core.state.config_version)
    core.receive(Answered(peer="c:1", request=update, reply=reply), NOW)
    assert core.state.primary_id == 1
    assert only(report(core, 2, op(1, 10)), Reply).result.primary_id == NO_MEMBER


def test_a_commit_point_of_our_own_last_term_is_believed_and_no_other() -> None:
    """In another term our last entries may be the ones that will be rolled back (rule 15)."""
    core = follower(THREE, last=op(1, 10))
    hear(core, "b:1", commit_point=op(2, 15), term=2)
    assert core.state.commit_point == NULL_OPTIME
    core.receive(Progress(applied=op(2, 12), durable=op(1, 10)), NOW)
    hear(core, "b:1", commit_point=op(2, 15), term=2)
    assert core.state.commit_point == op(2, 15)


def test_a_member_in_initial_sync_reports_no_position() -> None:
    core = follower(THREE)
    core.receive(FollowerState(state=MemberState.STARTUP2), NOW)
    effects = hear(core, "b:1", applied=op(1, 10)) + core.tick(NOW)
    assert core.state.sync_source.host == "b:1"
    assert not [send for send in every(effects, Send) if isinstance(send.request, PositionUpdate)]


def test_heartbeat_timeouts_never_outlive_the_election_timeout() -> None:
    assert Settings(election_timeout_millis=1000).heartbeat_timeout == 1.0
    assert Settings().heartbeat_timeout == 10.0


def test_nobody_fetches_in_a_circle_of_three() -> None:
    core = follower(config_of("a", "b", "c", "d"), last=op(1, 10))
    hear(core, "b:1", applied=op(1, 10))
    assert core.state.sync_source.host == "b:1"
    hear(core, "c:1", applied=op(1, 10), sync_source="a:1")
    hear(core, "b:1", applied=op(1, 10), sync_source="c:1")
    assert core.state.sync_source.host not in ("b:1", "c:1")
    hear(core, "d:1", applied=op(1, 10), sync_source="c:1")
    core.tick(NOW + 2)
    assert core.state.sync_source.host is None
    hear(core, "c:1", applied=op(1, 10), sync_source="e:1")
    core.tick(NOW + 4)
    assert core.state.sync_source.host is not None


def test_nobody_fetches_from_a_circle_of_others() -> None:
    core = follower(config_of("a", "b", "c", "d"), last=op(1, 10))
    hear(core, "c:1", applied=op(1, 10), sync_source="b:1")
    core.receive(SourceFailed(peer="c:1", seconds=0.0, reason="try again"), NOW)
    hear(core, "b:1", applied=op(1, 10), sync_source="c:1")
    assert core.state.sync_source.host is None
    hear(core, "b:1", applied=op(1, 10), sync_source="d:1")
    core.tick(NOW + 2)
    assert core.state.sync_source.host is not None


def test_a_copy_from_nothing_is_not_given_up_for_a_better_source_or_an_outage() -> None:
    core = follower(THREE)
    core.receive(FollowerState(state=MemberState.STARTUP2), NOW)
    hear(core, "b:1", applied=op(1, 10))
    assert core.state.sync_source.host == "b:1"
    ping(core, "b:1", 1.0)
    with_primary(core, "c:1", op(1, 20))
    lose(core, "b:1")
    hear(core, "c:1", state=MemberState.PRIMARY, term=1, applied=op(1, 30))
    assert core.state.sync_source.host == "b:1"
    core.receive(SourceFailed(peer="b:1", seconds=1.0, reason="it has failed"), NOW)
    assert core.state.sync_source.host == "c:1"


def test_a_voters_copy_counts_when_it_holds_what_the_primary_does() -> None:
    core = follower(THREE)
    core.receive(FollowerState(state=MemberState.STARTUP2), NOW)
    hear(core, "c:1", applied=op(1, 10))
    assert copy_counts(core.state, op(0, 1))
    assert not copy_counts(core.state, op(1, 10))
    with_primary(core, "b:1", op(1, 12))
    assert not copy_counts(core.state, op(1, 10))
    assert copy_counts(core.state, op(1, 12))
    lose(core, "b:1")
    assert not copy_counts(core.state, op(1, 12))


def test_a_copy_of_one_who_does_not_vote_counts_wherever_it_ends() -> None:
    core = follower(with_member(THREE, 0, newly_added=True))
    with_primary(core, "b:1", op(1, 12))
    assert copy_counts(core.state, op(1, 10))


def test_a_source_is_not_left_for_a_primary_that_is_avoided() -> None:
    core = with_primary(follower(THREE, last=op(1, 10)), last=op(1, 20))
    hear(core, "c:1", applied=op(1, 10))
    core.receive(SourceFailed(peer="b:1", seconds=1.0, reason="no reply"), NOW)
    assert core.state.sync_source.host == "c:1"
    hear(core, "c:1", applied=op(1, 10))
    assert core.state.sync_source.host == "c:1"
    core.receive(SourceFailed(peer="b:1", seconds=0.0, reason="no reply"), NOW)
    hear(core, "c:1", applied=op(1, 10))
    assert core.state.sync_source.host == "b:1"
