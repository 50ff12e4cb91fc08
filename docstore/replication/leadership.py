"""The primary: catch-up, drain, commit and step-down (rules 7, 9, 10, 15).

* A winner asks every member for its position and fetches entries beyond its own log (w:1 writes that only they have).
  Then it drains its applier and writes the first entry of its term; only then it accepts writes.
* It commits by counting positions.
* It steps down on request, on a higher term, and after an election timeout without a majority.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.replication import following, progress, reconfig
from docstore.replication.effects import BecomePrimary, Drain, Effects, Follow, Reply, Send, log
from docstore.replication.election_counts import CatchUpEnd
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
"""Missed heartbeat replies after which a member no longer vouches for a primary."""
DOWN_PATIENCE_SECONDS = 0.1
"""Time that a winner waits for members believed down: they may have come up since they were last asked."""
COMMIT_PUSH_SECONDS = 0.05
"""Time that a new commit point waits for a regular message before heartbeats carry it."""


def begin_primary(state: State, now: float, out: Effects) -> None:
    """Start as primary after a won election: inform all by heartbeat and catch up."""
    config, me = state.config, state.me
    assert config is not None
    assert me is not None
    assert state.vote.candidate == me.id
    election = state.candidacy.won()
    out.append(log("ELECTION", "Election succeeded, assuming primary role", term=state.term))
    out.append(log("REPL", "Entering primary catch-up mode"))
    state.role = Role.LEADER
    state.counts.win(election.reason)
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
    """Proceed as far as the latest news allows."""
    if state.primary_state is PrimaryState.CATCHING_UP:
        _catch_up(state, now, out)
    _commit(state, now)
    if state.primary_state is PrimaryState.STEPPING_DOWN:
        _try_step_down(state, now, out)


def tick(state: State, now: float, out: Effects) -> None:
    """Process a leader's time limits: contact with a majority, catch-up, step-down, spreading the commit point."""
    if now >= state.leadership.heard_until:
        state.leadership.heard_until = _silence_ends(state)
    if now >= state.leadership.heard_until:
        stop_being_primary(state, now, out, "Can't see a majority of the set, relinquishing primary")
        return
    if state.primary_state is PrimaryState.CATCHING_UP:
        if now >= state.leadership.catch_up_until:
            _drain(state, out, CatchUpEnd.TIMED_OUT)
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
    """Return the time of the next `tick`."""
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
    """Return the known positions of all members, including this one, by member id."""
    positions_by_id: dict[int, Position] = {}
    if state.config is not None:
        for member in state.config.members:
            peer = state.peers.get(member.host)
            if member.id == state.my_id:
                positions_by_id[member.id] = Position(
                    member=member.id, host=member.host, applied=state.applied, durable=state.durable
                )
            elif peer is not None:
                positions_by_id[member.id] = Position(
                    member=member.id, host=member.host, applied=peer.applied, durable=peer.durable
                )
    return positions_by_id


def take_positions(state: State, update: PositionUpdate, now: float, out: Effects) -> None:
    """Process positions of members that sync from this one: count them or pass them upstream.

    The reply has the commit point. Positions without news wait for the next keep-alive: members that fetch from each
    other in a cycle would otherwise repeat them forever.
    """
    assert state.config is not None
    news = False
    for position in update.positions:
        member = state.config.member(position.member)
        # The sender's configuration may differ: the same id at another host is another member.
        peer = None if member is None or member.host != position.host else state.peers.get(member.host)
        if peer is not None:
            before = (peer.applied, peer.durable)
            peer.report(position.applied, position.durable, now)
            news = news or before != (peer.applied, peer.durable)
    if state.role is Role.LEADER:
        advance(state, now, out)
        sender = state.config.member(update.positions[0].member)
        if sender is not None and sender.host in state.peers:
            state.peers[sender.host].record_commit_point(state.commit_point)
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
    """Return the primary's id while it answers this member; else NO_MEMBER.

    Otherwise members in a sync cycle would keep confirming a dead primary to each other. After some silent heartbeats
    it may be gone, long before the timeout.
    """
    primary, config = state.primary, state.config
    if primary is None or config is None or not primary.up:
        return NO_MEMBER
    recent = now - primary.heard_at <= HEARTBEATS_OF_SILENCE * config.settings.heartbeat_interval
    return state.primary_id if recent else NO_MEMBER


def end_catch_up(state: State, event: CatchUpEnded, out: Effects) -> None:
    """End catch-up: there is nothing more to fetch."""
    if state.primary_state is PrimaryState.CATCHING_UP and event.term == state.term:
        _drain(state, out, CatchUpEnd.FAILED)


def abort_catch_up(state: State, event: AbortCatchUp, out: Effects) -> None:
    """End catch-up by an administrator's request, abandoning entries that only others have."""
    if state.primary_state is PrimaryState.CATCHING_UP:
        out.append(Reply(token=event.token, result=None))
        _drain(state, out, CatchUpEnd.ABORTED)
    else:
        refusal = CommandError(Code.IllegalOperation, "The node is not in catch-up mode.")
        out.append(Reply(token=event.token, result=refusal))


def drained(state: State, event: Drained, out: Effects) -> None:
    """Continue after the applier has drained."""
    if state.primary_state is PrimaryState.DRAINING and event.term == state.term:
        out.append(BecomePrimary(term=state.term))


def became_primary(state: State, event: BecamePrimary, now: float, out: Effects) -> None:
    """Accept writes: the first entry of the term is written."""
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
    """Process `replSetStepDown`: stop accepting writes, and step down as soon as a successor is ready (rule 9)."""
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
    positions = [peer.applied for peer in state.peers.values() if peer.up and peer.state.readable]
    if progress.newest(positions, state.applied) <= state.applied:
        _drain(state, out, _caught_up(state))
        return
    if not leadership.catches_up:
        leadership.begin_catch_up()
        state.counts.catch_up()
    if state.sync_source.host is None:
        following.review(state, now, out)


def _caught_up(state: State) -> CatchUpEnd:
    if not state.peers:
        return CatchUpEnd.SKIPPED
    return CatchUpEnd.SUCCEEDED if state.leadership.catches_up else CatchUpEnd.ALREADY_CAUGHT_UP


def _drain(state: State, out: Effects, end: CatchUpEnd) -> None:
    state.counts.end_catch_up(end)
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
        election = state.leadership.last_election
        if election is not None and election.majority_at is None and reached.term == election.term:
            election.reached_majority(now)
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
    """Return the electable member to hand over to, once a majority has the whole log (rule 9); else None.

    A member with an older configuration would get no votes from those with the current one, and would receive that one
    during its election. Before the deadline it is no successor.
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
    """Return True if a majority is up, including a member that can eventually become primary."""
    assert state.config is not None
    up = [member for member in state.config.members if member.host in state.peers and state.peers[member.host].up]
    if not progress.on_majority(state.config, [state.my_id, *(member.id for member in up)]):
        return False
    return any(member.priority > 0 and member.data_bearing for member in up)


def _majority_heard_at(state: State) -> float:
    """Return since when a majority of the voters, including this one, has been in contact."""
    assert state.config is not None
    heard = sorted((peer.heard_at for peer in state.voting_peers()), reverse=True)
    others_needed = state.config.majority_votes - (state.me is not None and state.me.voter)
    if others_needed == 0:
        return NEVER
    return heard[others_needed - 1] if len(heard) >= others_needed else -math.inf


def _silence_ends(state: State) -> float:
    """Return the time at which a leader without contact to a majority must step down."""
    assert state.config is not None
    return max(_majority_heard_at(state), state.leadership.since) + state.config.settings.election_timeout
