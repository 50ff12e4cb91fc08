"""Being primary: catching up, draining, committing, leaving (rules 7, 9, 10, 15).

A winner first asks every member how far its log goes and fetches what they have beyond it (they may hold w:1 writes
that only they saw), then lets its applier run dry, then writes the first entry of its term; only then it takes
writes. It commits by counting positions, and leaves when told, when a higher term appears, or when a majority has not
been heard of for an election timeout.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.replication import following, progress, reconfig
from docstore.replication.effects import BecomePrimary, Drain, Effects, Follow, Reply, Send, log
from docstore.replication.messages import (
    NO_MEMBER,
    AbortCatchUp,
    BecamePrimary,
    CatchUpEnded,
    Drained,
    Position,
    PositionReply,
    PositionUpdate,
    StepDown,
    StepUpRequest,
)
from docstore.replication.roles import NEVER, ElectionRecord, PendingStepDown
from docstore.replication.states import PrimaryState, Role
from docstore.replication.terms import refuse_unless_initiated, stop_being_primary

if TYPE_CHECKING:
    from docstore.replication.peers import Peer
    from docstore.replication.state import State

HEARTBEATS_OF_SILENCE = 2
"""After so many without an answer we no longer vouch for a primary."""
DOWN_PATIENCE_SECONDS = 0.1
"""How long a winner waits for members that it believes down: they may be up again since they were last asked."""
COMMIT_PUSH_SECONDS = 0.05
"""How long a new commit point waits for a natural message before heartbeats carry it to the others."""


def begin_primary(state: State, now: float, out: Effects) -> None:
    """The election is won: tell everyone by heartbeat and catch up."""
    config, me = state.config, state.me
    assert config is not None
    assert me is not None
    assert state.vote.candidate == me.id
    election = state.candidacy.won()
    out.append(log("ELECTION", "Election succeeded, assuming primary role", term=state.term))
    out.append(log("REPL", "Entering primary catch-up mode"))
    state.role = Role.LEADER
    state.primary_state, state.leadership.since = PrimaryState.CATCHING_UP, now
    state.leadership.count_silence_anew()
    state.primary_id = NO_MEMBER
    state.leadership.last_election = ElectionRecord(
        election.reason,
        state.term,
        now,
        state.commit_point,
        max((peer.applied for peer in state.peers.values()), default=state.applied),
        config.majority_votes,
        me.effective_priority,
    )
    for peer in state.peers.values():
        peer.ask_at(now)
        peer.may_not_know_beyond(state.commit_point)
    state.leadership.catch_up_awaits = set(state.peers)
    state.leadership.patient_until = now + DOWN_PATIENCE_SECONDS
    limit = config.settings.catch_up_timeout_millis
    state.leadership.catch_up_until = NEVER if limit < 0 else now + limit / 1000
    if state.sync_source.host is not None:
        state.sync_source.leave()
        out.append(Follow(source=None))
    advance(state, now, out)


def advance(state: State, now: float, out: Effects) -> None:
    """Something was learned by a primary: go as far as it allows."""
    if state.primary_state is PrimaryState.CATCHING_UP:
        _catch_up(state, now, out)
    _commit(state, now)
    if state.primary_state is PrimaryState.STEPPING_DOWN:
        _try_step_down(state, now, out)


def tick(state: State, now: float, out: Effects) -> None:
    """Time limits of a leader: hearing of a majority, catching up, stepping down, spreading the commit point."""
    if now >= state.leadership.heard_until:
        state.leadership.heard_until = _silence_ends(state)
    if now >= state.leadership.heard_until:
        stop_being_primary(state, now, out, "Can't see a majority of the set, relinquishing primary")
        return
    if state.primary_state is PrimaryState.CATCHING_UP:
        if now >= state.leadership.catch_up_until:
            _drain(state, out)
        elif now >= state.leadership.patient_until:
            _catch_up(state, now, out)
    if now >= state.leadership.commit_push_at:
        state.leadership.commit_push_at = NEVER
        for peer in state.peers.values():
            if peer.up and peer.told_commit < state.commit_point:
                peer.ask_at(now)
    if state.primary_state is PrimaryState.STEPPING_DOWN:
        _try_step_down(state, now, out)


def next_wakeup(state: State) -> float:
    """When `tick` has something to do, or may have."""
    waiting = state.leadership.step_down.until if state.leadership.step_down is not None else NEVER
    leadership = state.leadership
    return min(
        leadership.heard_until,
        waiting,
        leadership.catch_up_until,
        leadership.patient_until,
        leadership.commit_push_at,
    )


def positions(state: State) -> dict[int, Position]:
    """Every member's position as far as known, by member id; our own included."""
    known: dict[int, Position] = {}
    if state.config is not None:
        for member in state.config.members:
            peer = state.peers.get(member.host)
            if member.id == state.my_id:
                known[member.id] = Position(
                    member=member.id, host=member.host, applied=state.applied, durable=state.durable
                )
            elif peer is not None:
                known[member.id] = Position(
                    member=member.id, host=member.host, applied=peer.applied, durable=peer.durable
                )
    return known


def take_positions(state: State, update: PositionUpdate, now: float, out: Effects) -> None:
    """Progress from those that sync from us: count it, or pass it on upstream; the answer carries the commit point.

    What is no news waits for our next keep-alive: members that fetch from each other in a circle would tell each other
    the same for ever.
    """
    assert state.config is not None
    news = False
    for position in update.positions:
        member = state.config.member(position.member)
        # The sender's configuration may not be ours: the same id at another host is another member.
        peer = None if member is None or member.host != position.host else state.peers.get(member.host)
        if peer is not None:
            before = (peer.applied, peer.durable)
            peer.report(position.applied, position.durable, now)
            news = news or before != (peer.applied, peer.durable)
    if state.role is Role.LEADER:
        advance(state, now, out)
        sender = state.config.member(update.positions[0].member)
        if sender is not None and sender.host in state.peers:
            state.peers[sender.host].told(state.commit_point)
    elif news:
        following.progressed(state, now, out)
    reply = PositionReply(
        term=state.term,
        commit_point=state.commit_point,
        primary_id=state.my_id if state.role is Role.LEADER else _primary_seen(state, now),
        config=state.config_version,
    )
    out.append(Reply(token=update.token, result=reply))


def _primary_seen(state: State, now: float) -> int:
    """The primary, as long as it answers us: members that fetch from each other in a circle would go on assuring each
    other of one that is gone. One that is silent for some heartbeats may be gone, long before the timeout says so.
    """
    primary, config = state.primary, state.config
    if primary is None or config is None or not primary.up:
        return NO_MEMBER
    recent = now - primary.heard_at <= HEARTBEATS_OF_SILENCE * config.settings.heartbeat_interval
    return state.primary_id if recent else NO_MEMBER


def end_catch_up(state: State, event: CatchUpEnded, out: Effects) -> None:
    """There is nothing more to fetch for us."""
    if state.primary_state is PrimaryState.CATCHING_UP and event.term == state.term:
        _drain(state, out)


def abort_catch_up(state: State, event: AbortCatchUp, out: Effects) -> None:
    """The administrator gives up what others have beyond the new primary."""
    if state.primary_state is PrimaryState.CATCHING_UP:
        out.append(Reply(token=event.token, result=None))
        _drain(state, out)
    else:
        refusal = CommandError(Code.IllegalOperation, "The node is not in catch-up mode.")
        out.append(Reply(token=event.token, result=refusal))


def drained(state: State, event: Drained, out: Effects) -> None:
    """The applier has run dry."""
    if state.primary_state is PrimaryState.DRAINING and event.term == state.term:
        out.append(BecomePrimary(term=state.term))


def became_primary(state: State, event: BecamePrimary, now: float, out: Effects) -> None:
    """The first entry of the term is written: writes are accepted from here on."""
    if state.primary_state is not PrimaryState.DRAINING or event.term != state.term:
        return
    assert state.applied.term == state.term
    assert state.leadership.last_election is not None
    state.primary_state = PrimaryState.WRITABLE
    state.leadership.last_election.caught_up_at = now
    state.leadership.election_time = state.applied.timestamp
    reconfig.stamp_term(state, now, out)
    for peer in state.peers.values():
        peer.ask_at(now)
    advance(state, now, out)


def begin_step_down(state: State, event: StepDown, now: float, out: Effects) -> None:
    """`replSetStepDown`: stop taking writes, and leave as soon as somebody can take over (rule 9)."""
    try:
        refuse_unless_initiated(state)
        if state.role is not Role.LEADER:
            raise CommandError(Code.NotWritablePrimary, "not primary so can't step down")
        if state.primary_state is not PrimaryState.WRITABLE:
            raise CommandError(
                Code.ConflictingOperationInProgress,
                "This node is already in the process of stepping down"
                if state.primary_state is PrimaryState.STEPPING_DOWN
                else "This node is still becoming primary",
            )
    except CommandError as refusal:
        out.append(Reply(token=event.token, result=refusal))
        return
    state.primary_state = PrimaryState.STEPPING_DOWN
    wait = min(event.catch_up_seconds, event.seconds)
    until = now if event.force and not event.catch_up_seconds else now + wait
    state.leadership.step_down = PendingStepDown(
        token=event.token,
        until=until,
        frozen_until=now + event.seconds,
        forced=event.force,
        while_reachable=event.while_reachable,
    )
    _try_step_down(state, now, out)


def _catch_up(state: State, now: float, out: Effects) -> None:
    leadership = state.leadership
    leadership.catch_up_awaits &= set(state.peers)
    if now >= leadership.patient_until:
        leadership.patient_until = NEVER
    if leadership.patient_until == NEVER:
        leadership.catch_up_awaits &= {peer.host for peer in state.peers.values() if peer.up}
    if leadership.catch_up_awaits:
        return
    ahead = [peer.applied for peer in state.peers.values() if peer.up and peer.state.readable]
    if progress.newest(ahead, state.applied) <= state.applied:
        _drain(state, out)
    elif state.sync_source.host is None:
        following.review(state, now, out)


def _drain(state: State, out: Effects) -> None:
    out.append(log("REPL", "Exited primary catch-up mode", lastApplied=str(state.applied)))
    state.primary_state = PrimaryState.DRAINING
    state.leadership.end_catch_up()
    state.sync_source.leave()
    out.append(Drain(term=state.term))


def _commit(state: State, now: float) -> None:
    assert state.config is not None
    if state.applied <= state.commit_point:
        return
    reached = progress.commit_point(state.config, positions(state), state.term, state.commit_point)
    if reached > state.commit_point:
        state.commit_point = reached
        if state.peers:
            state.leadership.commit_push_at = min(state.leadership.commit_push_at, now + COMMIT_PUSH_SECONDS)


def _try_step_down(state: State, now: float, out: Effects) -> None:
    pending = state.leadership.step_down
    assert pending is not None
    hopeless = pending.while_reachable and not _successor_reachable(state)
    successor = _successor(state, any_configuration=hopeless or now >= pending.until)
    if successor is None and now < pending.until and not hopeless:
        return
    if successor is None and not pending.forced:
        state.primary_state = PrimaryState.WRITABLE
        state.leadership.step_down = None
        refusal = CommandError(
            Code.ExceededTimeLimit,
            "No electable secondaries caught up within secondaryCatchUpPeriodSecs. Please use the replSetStepDown "
            "command with the argument {force: true} to force node to step down.",
        )
        out.append(Reply(token=pending.token, result=refusal))
        return
    stop_being_primary(state, now, out, "it was asked to step down")
    if successor is not None and state.config is not None:
        timeout = state.config.settings.election_timeout
        out.append(Send(to=successor.host, request=StepUpRequest(), timeout=timeout))


def _successor(state: State, *, any_configuration: bool) -> Peer | None:
    """The electable member to hand over to, once a majority has everything we have (rule 9).

    With an older configuration than ours it would get no vote of those that have ours, and ours would reach it in the
    middle of its election: while there is time, such a member is no successor.
    """
    assert state.config is not None
    caught_up = {member.id for member in state.config.voters if member.id == state.my_id}
    electable: list[tuple[bool, float, OpTime, Peer]] = []
    for member in state.config.members:
        peer = state.peers.get(member.host)
        if peer is not None and peer.up and peer.applied >= state.applied:
            caught_up.add(member.id)
            if member.electable and peer.electable:
                current = peer.config == state.config_version
                if current or any_configuration:
                    electable.append((current, member.effective_priority, peer.durable, peer))
    if not electable or not progress.on_majority(state.config, caught_up):
        return None
    return max(electable, key=lambda entry: entry[:3])[3]


def _successor_reachable(state: State) -> bool:
    """Whether a majority is heard of, and in it somebody who could be primary sooner or later."""
    assert state.config is not None
    up = [member for member in state.config.members if member.host in state.peers and state.peers[member.host].up]
    if not progress.on_majority(state.config, [state.my_id, *(member.id for member in up)]):
        return False
    return any(member.priority > 0 and member.data_bearing for member in up)


def _majority_heard_at(state: State) -> float:
    """Since when a majority of the voters, we among them, has been heard of."""
    assert state.config is not None
    heard = sorted((peer.heard_at for peer in state.voting_peers()), reverse=True)
    others_needed = state.config.majority_votes - (state.me is not None and state.me.voter)
    if others_needed == 0:
        return NEVER
    return heard[others_needed - 1] if len(heard) >= others_needed else -math.inf


def _silence_ends(state: State) -> float:
    """When a leader that hears no more from a majority must go."""
    assert state.config is not None
    return max(_majority_heard_at(state), state.leadership.since) + state.config.settings.election_timeout
