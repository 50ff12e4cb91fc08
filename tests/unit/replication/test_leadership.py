"""As primary: catching up, committing, stepping down."""

from __future__ import annotations

from dataclasses import replace

from docstore.errors import Code
from docstore.optime import NULL_OPTIME
from docstore.replication.config import ConfigVersion
from docstore.replication.effects import BecomePrimary, Drain, Effect, Reply, Send, SteppedDown
from docstore.replication.election_counts import CatchUpEnd
from docstore.replication.leadership import DOWN_PATIENCE_SECONDS
from docstore.replication.messages import (
    AbortCatchUp,
    Answered,
    CatchUpEnded,
    Drained,
    HeartbeatRequest,
    Progress,
    Reconfigure,
    StepDown,
    StepUpRequest,
    VoteReply,
)
from docstore.replication.roles import BY_STEP_UP
from docstore.replication.states import MemberState, PrimaryState, Role
from tests.unit.replication.members import (
    NOW,
    answer,
    config_of,
    every,
    follower,
    hear,
    leader,
    lose,
    only,
    op,
    report,
    vote_request,
    with_member,
    write,
)

THREE = config_of("a", "b", "c")
FIVE = config_of("a", "b", "c", "d", "e")


def winner(last_of_e: int, *, down: str = ""):  # type: ignore[no-untyped-def]
    """Member 0 of five, just elected by b and c; e's log ends at (1, last_of_e), and it knows all others but those of
    `down` to be up."""
    core = follower(FIVE, last=op(1, 10))
    for host in "bcd":
        hear(core, f"{host}:1")
    hear(core, "e:1", applied=op(1, last_of_e))
    for host in down:
        lose(core, f"{host}:1")
    core.receive(StepUpRequest(token=1), NOW)
    request = vote_request(core, dry_run=False)
    effects = []
    for host in "bc":
        effects += core.receive(Answered(peer=f"{host}:1", request=request, reply=VoteReply(term=2, granted=True)), NOW)
    return core, effects


def test_a_winner_tells_everyone_at_once() -> None:
    _, effects = winner(10)
    told = {send.to for send in every(effects, Send) if isinstance(send.request, HeartbeatRequest)}
    assert told == {"b:1", "c:1", "d:1", "e:1"}


def test_a_winner_waits_for_those_that_were_up_before_it_decides_what_is_newest() -> None:
    core, _ = winner(10)
    for host in "bcd":
        assert not every(hear(core, f"{host}:1", term=2), Drain)
    assert core.state.primary_state is PrimaryState.CATCHING_UP
    assert only(hear(core, "e:1", term=2), Drain).term == 2


def test_a_winner_does_not_wait_for_one_that_has_gone() -> None:
    core, _ = winner(10)
    for host in "bcd":
        hear(core, f"{host}:1", term=2)
    assert only(lose(core, "e:1"), Drain)
    assert core.state.primary_state is PrimaryState.DRAINING


def test_a_winner_asks_also_those_that_it_believes_down() -> None:
    core, _ = winner(10, down="e")
    for host in "bcd":
        assert not every(hear(core, f"{host}:1", term=2), Drain)
    assert not every(hear(core, "e:1", term=2, applied=op(1, 15)), Drain)
    assert core.state.sync_source.host == "e:1"


def test_a_winner_waits_a_moment_only_for_those_that_it_believes_down() -> None:
    core, _ = winner(10, down="e")
    for host in "bcd":
        hear(core, f"{host}:1", term=2)
    assert core.next_wakeup() <= NOW + DOWN_PATIENCE_SECONDS
    assert not every(core.tick(NOW + DOWN_PATIENCE_SECONDS / 2), Drain)
    assert every(core.tick(NOW + DOWN_PATIENCE_SECONDS), Drain)


def test_what_was_asked_before_the_election_tells_a_winner_nothing() -> None:
    """The answer may have been under way since before the member took what only it has."""
    core, _ = winner(10)
    for host in "bcd":
        hear(core, f"{host}:1", term=2)
    before = HeartbeatRequest(set_name="set", sender="", sender_id=0, config=core.state.config_version, term=1)
    assert not every(core.receive(Answered(peer="e:1", request=before, reply=None, error="failed"), NOW), Drain)
    assert core.state.leadership.catch_up_awaits == {"e:1"}


def test_a_winner_fetches_from_the_newest_and_drains_when_it_is_there() -> None:
    core, _ = winner(15)
    for host in "bcd":
        hear(core, f"{host}:1", term=2)
    hear(core, "e:1", term=2, applied=op(1, 15))
    assert core.state.sync_source.host == "e:1"
    assert not every(core.receive(Progress(applied=op(1, 14), durable=op(1, 10)), NOW), Drain)
    assert every(core.receive(Progress(applied=op(1, 15), durable=op(1, 10)), NOW), Drain)


def test_catch_ups_are_counted_by_their_end() -> None:
    core, _ = winner(15)
    for host in "bcd":
        hear(core, f"{host}:1", term=2)
    hear(core, "e:1", term=2, applied=op(1, 15))
    counts = core.state.counts
    assert (counts.catch_ups, counts.catch_up_ends) == (1, {})
    core.receive(Progress(applied=op(1, 15), durable=op(1, 10)), NOW)
    assert (counts.called, counts.won) == ({BY_STEP_UP: 1}, {BY_STEP_UP: 1})
    assert counts.catch_up_ends == {CatchUpEnd.SUCCEEDED: 1}
    alone = leader(config_of("a"), op(0, 1)).state
    assert alone.counts.catch_up_ends == {CatchUpEnd.SKIPPED: 1}
    equal = leader(THREE, op(0, 1)).state
    assert equal.counts.catch_up_ends == {CatchUpEnd.ALREADY_CAUGHT_UP: 1}
    late, _ = winner(15)
    hear(late, "e:1", term=3)
    assert late.state.counts.catch_up_ends == {CatchUpEnd.NEW_TERM: 1}
    assert late.state.counts.step_downs_by_higher_term == 1


def test_the_first_majority_of_the_term_has_its_time() -> None:
    core = leader(THREE, op(0, 1))
    election = core.state.leadership.last_election
    assert election is not None
    assert election.majority_at is None
    report(core, 1, core.state.applied)
    assert election.majority_at == NOW


def test_catching_up_ends_when_the_driver_says_so() -> None:
    core, _ = winner(15)
    for host in "bcde":
        hear(core, f"{host}:1", term=2, applied=op(1, 15) if host == "e" else op(1, 10))
    assert not every(core.receive(CatchUpEnded(term=1), NOW), Drain)
    assert every(core.receive(CatchUpEnded(term=2), NOW), Drain)


def test_an_administrator_ends_the_catch_up() -> None:
    core, _ = winner(15)
    assert every(core.receive(AbortCatchUp(token=1), NOW), Drain)
    assert answer(core.receive(AbortCatchUp(token=1), NOW)).code == Code.IllegalOperation


def test_positions_move_the_commit_point_and_the_answer_carries_it() -> None:
    core = leader(THREE, op(0, 1))
    last = write(core)
    reply = answer(report(core, 1, last))
    assert reply.commit_point == last == core.state.commit_point
    assert reply.primary_id == 0


def test_a_write_that_is_nowhere_on_disk_is_not_committed() -> None:
    core = leader(THREE, op(0, 1))
    before = core.state.commit_point
    last = write(core, durable=False)
    report(core, 1, last, durable=NULL_OPTIME)
    report(core, 2, last, durable=NULL_OPTIME)
    assert core.state.commit_point == before


def test_positions_of_a_later_term_depose_instead_of_counting() -> None:
    core = leader(THREE, op(0, 1))
    effects = report(core, 1, op(9, 99), term=9)
    assert only(effects, SteppedDown)
    assert core.state.commit_point < op(9, 0)


def test_a_member_in_initial_sync_has_nothing_whatever_it_had_before() -> None:
    core = leader(THREE, op(0, 1))
    report(core, 1, core.state.applied)
    hear(core, "b:1", state=MemberState.STARTUP2, applied=NULL_OPTIME)
    assert core.state.peers["b:1"].applied == NULL_OPTIME


def test_a_new_commit_point_reaches_those_that_say_nothing_by_a_heartbeat() -> None:
    core = leader(THREE, op(0, 1))
    report(core, 1, write(core))
    for peer in core.state.peers.values():
        peer.in_flight = False
    pushed = core.tick(NOW + 0.06)
    asked = [send for send in every(pushed, Send) if isinstance(send.request, HeartbeatRequest)]
    assert "c:1" in [send.to for send in asked]
    assert asked[0].request.commit_point == core.state.commit_point


def test_stepping_down_hands_over_to_the_electable_member_of_highest_priority() -> None:
    core = leader(with_member(FIVE, 3, priority=5.0), op(0, 1))
    for member in (1, 2, 3, 4):
        report(core, member, core.state.applied)
    effects = core.receive(StepDown(seconds=10, catch_up_seconds=5, token=3), NOW)
    assert answer(effects) is None
    assert handed_to(effects) == ["d:1"]
    assert core.state.role is Role.FOLLOWER
    assert core.state.candidacy.frozen_until == NOW + 10


def test_stepping_down_takes_no_writes_while_it_waits_and_goes_when_a_majority_is_there() -> None:
    core = leader(THREE, op(0, 1))
    last = write(core)
    assert not every(core.receive(StepDown(seconds=10, catch_up_seconds=5, token=3), NOW), SteppedDown)
    assert not core.state.writable
    effects = report(core, 1, last)
    assert only(effects, SteppedDown)


def test_stepping_down_gives_up_and_takes_writes_again() -> None:
    core = leader(THREE, op(0, 1))
    write(core)
    core.receive(StepDown(seconds=10, catch_up_seconds=0.5, token=3), NOW)
    refused = answer(core.tick(NOW + 0.5))
    assert refused.code == Code.ExceededTimeLimit
    assert core.state.writable


def test_a_higher_term_ends_a_waiting_step_down_with_success() -> None:
    core = leader(THREE, op(0, 1))
    write(core)
    core.receive(StepDown(seconds=10, catch_up_seconds=5, token=3), NOW)
    effects = hear(core, "b:1", term=7)
    assert answer(effects) is None
    assert only(effects, SteppedDown)


def test_only_a_writable_primary_steps_down() -> None:
    assert answer(follower(THREE).receive(StepDown(seconds=1, catch_up_seconds=0, token=1), NOW)).code == 10107
    core = leader(THREE, op(0, 1))
    write(core)
    core.receive(StepDown(seconds=10, catch_up_seconds=5, token=3), NOW)
    again = core.receive(StepDown(seconds=10, catch_up_seconds=5, token=4), NOW)
    assert answer(again).code == Code.ConflictingOperationInProgress


def test_silence_of_a_majority_for_an_election_timeout_ends_office() -> None:
    core = leader(THREE, op(0, 1))
    hear(core, "b:1", now=NOW + 0.5)
    assert not every(core.tick(NOW + 1.2), SteppedDown)
    assert every(core.tick(NOW + 1.5), SteppedDown)


def test_silence_is_counted_anew_under_another_configuration() -> None:
    """What was reckoned before, of other voters and for another time, does not hold any more."""
    core = leader(THREE, op(0, 1))
    write(core)
    hear(core, "c:1", now=NOW + 0.6)
    hear(core, "b:1", now=NOW + 0.9)
    core.tick(NOW + 1.0)
    fewer = replace(with_member(THREE, 1, votes=0, priority=0.0), version=2)
    core.receive(Reconfigure(config=fewer, force=True, token=1), NOW + 1.5)
    assert core.state.role is Role.LEADER
    assert every(core.tick(NOW + 1.6), SteppedDown)


def test_members_heard_of_through_others_count_as_heard_of() -> None:
    core = leader(FIVE, op(0, 1))
    core.state.peers["b:1"].heard_at = NOW + 0.9
    report(core, 3, core.state.applied)
    core.state.peers["d:1"].heard_at = NOW + 0.9
    assert not every(core.tick(NOW + 1.5), SteppedDown)


def handed_to(effects: list[Effect]) -> list[str]:
    return [send.to for send in every(effects, Send) if isinstance(send.request, StepUpRequest)]


def test_a_successor_with_the_newest_configuration_comes_first() -> None:
    core = leader(with_member(THREE, 1, priority=5.0), op(0, 1))
    for number, host in ((1, "b:1"), (2, "c:1")):
        report(core, number, core.state.applied)
        hear(core, host, config=ConfigVersion(0, 1) if number == 1 else core.state.config_version)
    assert handed_to(core.receive(StepDown(seconds=60, catch_up_seconds=10, token=1), NOW)) == ["c:1"]


def test_a_successor_gets_the_configuration_first_while_there_is_time() -> None:
    old = ConfigVersion(0, 1)
    for installs in (True, False):
        core = leader(THREE, op(0, 1))
        report(core, 1, core.state.applied)
        hear(core, "b:1", config=old)
        hear(core, "c:1", config=old)
        assert handed_to(core.receive(StepDown(seconds=60, catch_up_seconds=0.5, token=1), NOW)) == []
        ends = hear(core, "b:1") if installs else core.tick(NOW + 0.5)
        assert handed_to(ends) == ["b:1"]


def test_a_newly_added_member_gets_its_vote_while_the_primary_waits_for_a_successor() -> None:
    core = leader(with_member(config_of("a", "b"), 1, newly_added=True), op(0, 1))
    report(core, 1, core.state.applied)
    assert not every(core.receive(StepDown(seconds=60, catch_up_seconds=10, token=3), NOW), SteppedDown)
    hear(core, "b:1", electable=False)
    assert core.state.config is not None
    assert core.state.config.members[1].voter
    hear(core, "b:1", electable=False, config=ConfigVersion(1, 1))
    assert core.state.primary_state is PrimaryState.STEPPING_DOWN
    assert only(hear(core, "b:1"), SteppedDown)


def test_who_has_installed_our_configuration_is_asked_at_once() -> None:
    core = leader(THREE, op(0, 1))
    peer = core.state.peers["b:1"]
    hear(core, "b:1", config=ConfigVersion(0, 1))
    peer.in_flight = False
    request = HeartbeatRequest(
        set_name="set", sender="b:1", sender_id=1, config=core.state.config_version, term=core.state.term, token=4
    )
    for expected in (1, 0):
        effects = core.receive(request, NOW)
        assert sum(send.to == "b:1" for send in every(effects, Send)) == expected
        peer.in_flight = False


def test_a_primary_that_ends_waits_for_a_successor_only_while_one_is_heard_of() -> None:
    core = leader(THREE, op(0, 1))
    write(core)
    core.receive(StepDown(seconds=60, catch_up_seconds=15, while_reachable=True, token=3), NOW)
    assert not every(lose(core, "b:1", NOW + 0.2), Reply)
    effects = lose(core, "c:1", NOW + 0.3)
    assert answer(effects).code == Code.ExceededTimeLimit
    assert core.state.writable


def test_a_primary_that_ends_does_not_wait_for_members_that_never_run() -> None:
    core = leader(with_member(with_member(THREE, 1, priority=0.0), 2, priority=0.0), op(0, 1))
    write(core)
    effects = core.receive(StepDown(seconds=60, catch_up_seconds=15, while_reachable=True, token=3), NOW)
    assert answer(effects).code == Code.ExceededTimeLimit


def test_a_leader_that_fetches_entries_of_a_later_term_leaves_office() -> None:
    core, _ = winner(99)
    effects = core.receive(Progress(applied=op(3, 99), durable=op(1, 10)), NOW)
    assert only(effects, SteppedDown)
    assert (core.state.term, core.state.role) == (3, Role.FOLLOWER)
    assert not every(core.receive(Drained(term=2), NOW), BecomePrimary)


def test_a_follower_takes_the_term_of_what_it_fetches() -> None:
    core = follower(THREE, last=op(1, 10))
    core.receive(Progress(applied=op(4, 11), durable=op(1, 10)), NOW)
    assert core.state.term == 4
