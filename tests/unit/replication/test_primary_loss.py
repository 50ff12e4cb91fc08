"""A primary whose process is gone is replaced at once; one that is only silent after the election timeout."""

from __future__ import annotations

from dataclasses import replace

from docstore.replication.config import Settings
from docstore.replication.core import Core
from docstore.replication.effects import Effect, Persist, Send
from docstore.replication.messages import (
    Answered,
    HeartbeatRequest,
    SourceFailed,
    VoteReply,
    VoteRequest,
)
from docstore.replication.states import MemberState, Role
from tests.unit.replication.members import (
    NOW,
    answer,
    config_of,
    every,
    follower,
    hear,
    leader,
    lose,
    op,
)

THREE = replace(config_of("a", "b", "c"), settings=Settings())
"""With the default timings: heartbeats every 2 s, an election timeout of 10 s."""


def following() -> Core:
    """Member 0; b is primary, c a secondary."""
    core = follower(THREE, last=op(1, 10))
    hear(core, "b:1", state=MemberState.PRIMARY)
    hear(core, "c:1")
    return core


def refuse(core: Core, now: float, host: str = "b:1") -> list[Effect]:
    """A heartbeat that the port refused."""
    return lose(core, host, now, refused=True)


def asked(effects: list[Effect]) -> list[VoteRequest]:
    return [send.request for send in every(effects, Send) if isinstance(send.request, VoteRequest)]


def heartbeats_to(effects: list[Effect], host: str) -> int:
    return sum(send.to == host and isinstance(send.request, HeartbeatRequest) for send in every(effects, Send))


def voted(core: Core, request: VoteRequest, now: float, *, granted: bool) -> list[Effect]:
    reply = VoteReply(term=request.term, granted=granted, reason="" if granted else "I hear the primary")
    return core.receive(Answered(peer="c:1", request=request, reply=reply), now)


def dry_run(core: Core, now: float = NOW) -> VoteRequest:
    """The request of a core that has just seen the port refuse twice."""
    refuse(core, now)
    refuse(core, now + 0.05)
    return asked(core.tick(now + 0.31))[0]


def test_the_second_refusal_lets_a_member_run_at_once() -> None:
    core = following()
    assert not asked(refuse(core, NOW + 1))
    assert heartbeats_to(core.tick(NOW + 1.06), "b:1") == 1, "asked again at once"
    refuse(core, NOW + 1.06)
    assert core.next_wakeup() <= NOW + 1.4
    requests = asked(core.tick(NOW + 1.4))
    assert requests
    assert all(request.dry_run and request.if_no_primary for request in requests)
    won = voted(core, requests[0], NOW + 1.4, granted=True)
    (real, _) = asked(won)
    assert not real.dry_run
    assert not real.if_no_primary
    voted(core, real, NOW + 1.5, granted=True)
    assert core.state.role is Role.LEADER


def test_silence_waits_for_the_election_timeout() -> None:
    core = following()
    for number in range(1, 9):
        lose(core, "b:1", NOW + number)
        assert not asked(core.tick(NOW + number + 0.5))
    assert asked(core.tick(NOW + 11.5))


def test_a_port_that_answers_between_two_refusals_is_no_evidence() -> None:
    core = following()
    refuse(core, NOW + 1)
    hear(core, "b:1", now=NOW + 1.05, state=MemberState.PRIMARY)
    refuse(core, NOW + 3)
    assert not asked(core.tick(NOW + 4))
    assert core.state.primary_loss.refusals == 1


def test_a_voter_that_hears_the_primary_says_no_and_asks_it_at_once() -> None:
    request = dry_run(following())
    voter = following()
    # Its own heartbeats to the primary have been answered.
    effects = voter.receive(replace(request, token=5), NOW + 0.5)
    assert answer(effects).reason == "I hear the primary"
    assert heartbeats_to(effects, "b:1") == 1
    refuse(voter, NOW + 0.51)
    assert answer(voter.receive(replace(request, candidate=2, token=6), NOW + 0.6)).granted


def test_the_primary_itself_says_no() -> None:
    core = leader(config_of("a", "b", "c"), op(0, 1))
    request = VoteRequest(
        set_name="set",
        dry_run=True,
        term=core.state.term,
        candidate=1,
        config=core.state.config_version,
        last_op=core.state.applied,
        if_no_primary=True,
        token=4,
    )
    assert not answer(core.receive(request, NOW)).granted
    assert core.state.writable


def test_a_link_that_only_one_has_lost_costs_dry_runs_and_no_term() -> None:
    core = following()
    election_at = core.state.candidacy.election_at
    rounds, now = 0, NOW
    while now < NOW + 12 and core.state.candidacy.election_at == election_at:
        now += 0.1
        effects = core.tick(now)
        if core.state.candidacy.election is not None and core.state.candidacy.election.reason != "electionTimeout":
            rounds += 1
            voted(core, asked(effects)[0], now, granted=False)
            core.receive(Answered(peer="b:1", request=asked(effects)[0], reply=None, refused=True), now)
        if heartbeats_to(effects, "b:1"):
            refuse(core, now)
        assert not every(effects, Persist)
    assert 3 <= rounds <= 40
    assert core.state.term == 1
    assert now >= election_at - 0.2, "the election timeout goes on meanwhile"


def test_where_nobody_answers_there_is_nobody_to_try_again_with() -> None:
    core = following()
    request = dry_run(core)
    for host in ("b:1", "c:1"):
        core.receive(Answered(peer=host, request=request, reply=None, refused=True), NOW + 0.4)
    assert core.state.role is Role.FOLLOWER
    assert not asked(core.tick(NOW + 1.5))


def test_a_log_that_ends_in_mid_fetch_is_looked_into_at_once() -> None:
    core = following()
    for peer in core.state.peers.values():
        peer.in_flight = False
    effects = core.receive(SourceFailed(peer="b:1", seconds=1.0, reason="connection closed"), NOW + 0.5)
    assert heartbeats_to(effects, "b:1") == 1
    assert not heartbeats_to(core.receive(SourceFailed(peer="c:1", seconds=1.0, reason="slow"), NOW + 0.6), "c:1")


def test_who_has_voted_for_another_does_not_run_against_it() -> None:
    core = following()
    refuse(core, NOW)
    refuse(core, NOW + 0.05)
    real = VoteRequest(
        set_name="set", dry_run=False, term=2, candidate=2, config=THREE.config_version, last_op=op(1, 10), token=3
    )
    assert answer(core.receive(real, NOW + 0.06)).granted
    assert not asked(core.tick(NOW + 0.5))


def test_a_secondary_whose_port_refuses_is_no_reason_to_run() -> None:
    core = following()
    refuse(core, NOW, "c:1")
    refuse(core, NOW + 0.1, "c:1")
    assert not asked(core.tick(NOW + 1))
