"""Heartbeats: every member requests them from every other (rule 2); requests and replies both carry news.

* Both carry the configuration's version. A member that learns of a newer one requests it from the holder; a replier
  with a newer one includes it. So a configuration spreads in two exchanges (rule 21).
* Only replies count as proof of life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.replication import elections, following, leadership, primary_loss, reconfig
from docstore.replication.config import different_sets, is_foreign
from docstore.replication.effects import Effects, Reply, Send, log
from docstore.replication.messages import NO_MEMBER, Answered, HeartbeatReply, HeartbeatRequest
from docstore.replication.roles import BY_REFUSED_PORT, BY_TIMEOUT
from docstore.replication.states import MemberState, Role
from docstore.replication.terms import abandon_election, adopt_term, restart_election_timer

if TYPE_CHECKING:
    from docstore.replication.peers import Peer
    from docstore.replication.state import State

UNKNOWN_HOST_TIMEOUT = 2.0
_OF_SILENCE = (BY_TIMEOUT, BY_REFUSED_PORT)
"""Reasons of elections that news of a primary cancels."""
PING_WEIGHT = 0.2
"""Weight of the newest measurement in the moving average."""


def tick(state: State, now: float, out: Effects) -> None:
    """Send the heartbeats that are due; one per member is in flight at a time."""
    if state.config is None:
        return
    for peer in state.peers.values():
        if not peer.in_flight and now >= peer.heartbeat_at:
            peer.in_flight = True
            peer.heartbeat_at = now + state.config.settings.heartbeat_interval
            if state.role is Role.LEADER:
                peer.record_commit_point(state.commit_point)
            out.append(Send(to=peer.host, request=_request(state), timeout=state.config.settings.heartbeat_timeout))


def next_wakeup(state: State) -> float:
    return min((peer.heartbeat_at for peer in state.peers.values() if not peer.in_flight), default=float("inf"))


def answer_heartbeat(state: State, request: HeartbeatRequest, now: float, out: Effects) -> None:
    """Reply to a heartbeat, and request the configuration if the sender has a newer one."""
    if request.set_name != state.set_name:
        refusal = CommandError(
            Code.InconsistentReplicaSetNames,
            f"Our set name of {state.set_name} does not match name {request.set_name} reported by remote node",
        )
        out.append(Reply(token=request.token, result=refusal))
        return
    if is_foreign(state.replica_set_id, request.replica_set_id):
        # The sender sees by the set id that this member is of another set. Its news means nothing here.
        out.append(Reply(token=request.token, result=_reply(state, now, with_config=False)))
        return
    peer = state.peers.get(request.sender)
    if state.config is not None:
        adopt_term(state, request.term, now, out)
        following.learn_commit_point(state, request.commit_point)
    if peer is not None:
        peer.request_at = now
        if peer.config != request.config == state.config_version:
            # With this configuration the member may have become electable, or a voter.
            peer.ask_at(now)
        peer.config = request.config
    newer_here = state.config is not None and state.config_version.newer_than(request.config)
    out.append(Reply(token=request.token, result=_reply(state, now, with_config=newer_here)))
    if request.config.newer_than(state.config_version):
        _ask_for_config(state, request.sender, peer, now, out)


def answered(state: State, event: Answered, now: float, out: Effects) -> None:
    """Process the outcome of an own heartbeat."""
    peer = state.peers.get(event.peer)
    if peer is not None:
        peer.in_flight = False
    reply = event.reply
    if not isinstance(reply, HeartbeatReply):
        if peer is not None:
            _lost(state, peer, event.error, out)
            if event.refused:
                primary_loss.refused(state, peer, now)
            _advance(state, peer, event, now, out)
        return
    if is_foreign(state.replica_set_id, reply.replica_set_id):
        if peer is not None:
            peer.has_nothing()
            _lost(state, peer, different_sets(state.replica_set_id, reply.replica_set_id), out)
            _advance(state, peer, event, now, out)
        return
    if state.config is not None:
        adopt_term(state, reply.term, now, out)
    if reply.config_document is not None:
        reconfig.heard_of(state, reply.config_document, now, out)
        peer = state.peers.get(event.peer)
    if peer is None:
        return
    _learn(state, peer, reply, event.round_trip, now, out)
    _note_primary(state, peer, reply, now)
    following.learn_commit_point(state, reply.commit_point)
    _advance(state, peer, event, now, out)
    if state.role is Role.LEADER:
        reconfig.promote_newly_added(state, now, out)
    else:
        elections.reached(state, peer, now, out)
        elections.consider_takeover(state, now, out)


def _advance(state: State, peer: Peer, event: Answered, now: float, out: Effects) -> None:
    """Let a leader proceed after the outcome of a heartbeat.

    Only heartbeats sent since its election tell what the member holds now.
    """
    if state.role is not Role.LEADER:
        return
    if isinstance(event.request, HeartbeatRequest) and event.request.term == state.term:
        state.leadership.heard_of(peer.host)
    leadership.advance(state, now, out)


def note_living_primary(state: State, member_id: int, term: int, now: float) -> None:
    """Restart the election timer on news of a living primary in the current term (rule 3)."""
    if term != state.term or member_id == NO_MEMBER or member_id == state.my_id or state.role is Role.LEADER:
        return
    state.primary_id = member_id
    restart_election_timer(state, now)
    state.candidacy.end_eagerness(now)
    if state.candidacy.election is not None and state.candidacy.election.reason in _OF_SILENCE:
        abandon_election(state, now)


def _note_primary(state: State, peer: Peer, reply: HeartbeatReply, now: float) -> None:
    member = state.member_of(peer.host)
    if member is None:
        return
    if reply.state is MemberState.PRIMARY:
        if reply.term == state.term:
            primary_loss.heard(state, peer, now)
        note_living_primary(state, member.id, reply.term, now)
    elif state.primary_id == member.id:
        state.primary_id = NO_MEMBER


def _learn(state: State, peer: Peer, reply: HeartbeatReply, round_trip: float, now: float, out: Effects) -> None:
    if peer.state is not reply.state:
        out.append(log("REPL", "Member is in new state", hostAndPort=peer.host, newState=reply.state.name))
    if not peer.up or (reply.state is MemberState.PRIMARY and peer.state is not MemberState.PRIMARY):
        # It failed as a source in another state.
        peer.avoid(now)
    if not peer.up:
        peer.up_since = now
        peer.ping = round_trip
    peer.up = True
    peer.heard_at = now
    peer.message = ""
    peer.ping += PING_WEIGHT * (round_trip - peer.ping)
    peer.state = reply.state
    peer.config = reply.config
    if reply.state in (MemberState.STARTUP, MemberState.STARTUP2):
        # A member that starts from nothing has lost what it had before (SERVER-47852).
        peer.has_nothing()
    else:
        peer.advance(reply.applied, reply.durable)
    peer.primary_id = reply.primary_id
    peer.sync_source = reply.sync_source
    peer.electable = reply.electable
    peer.election_time = reply.election_time
    if state.config is not None:
        peer.heartbeat_at = min(peer.heartbeat_at, now + state.config.settings.heartbeat_interval)


def _lost(state: State, peer: Peer, error: str, out: Effects) -> None:
    if peer.state is not MemberState.DOWN:
        out.append(log("REPL", "Member is now in state DOWN", hostAndPort=peer.host, heartbeatMessage=error))
    peer.up = False
    peer.state = MemberState.DOWN
    peer.message = error
    peer.electable = False
    member = state.member_of(peer.host)
    if member is not None and state.primary_id == member.id:
        state.primary_id = NO_MEMBER


def _ask_for_config(state: State, sender: str, peer: Peer | None, now: float, out: Effects) -> None:
    if peer is not None:
        if not peer.in_flight:
            peer.heartbeat_at = now
        return
    out.append(Send(to=sender, request=_request(state), timeout=UNKNOWN_HOST_TIMEOUT))


def _request(state: State) -> HeartbeatRequest:
    return HeartbeatRequest(
        set_name=state.set_name,
        sender="" if state.me is None else state.me.host,
        sender_id=state.my_id,
        config=state.config_version,
        term=state.term,
        commit_point=state.commit_point,
        replica_set_id=state.replica_set_id,
    )


def _reply(state: State, now: float, *, with_config: bool) -> HeartbeatReply:
    return HeartbeatReply(
        set_name=state.set_name,
        state=state.member_state,
        term=state.term,
        config=state.config_version,
        applied=state.applied,
        durable=state.durable,
        commit_point=state.commit_point,
        primary_id=state.my_id if state.role is Role.LEADER else state.primary_id,
        sync_source=state.sync_source.host or "",
        electable=not elections.unelectable(state, now),
        election_time=state.leadership.election_time if state.role is Role.LEADER else 0,
        replica_set_id=state.replica_set_id,
        config_document=state.config if with_config else None,
    )
