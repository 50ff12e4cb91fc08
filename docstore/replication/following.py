"""Choice of the sync source (rule 13), and propagation of positions up the sync tree (rule 15).

* A source is another data-bearing member in PRIMARY or SECONDARY that is not behind this one.
* The nearest by ping is chosen, in classes of 5 ms; within a class first the primary, then the furthest ahead.
  Difference from MongoDB, which strictly prefers the nearest: on one machine all are equally near, and a third member
  in between only adds a hop to every majority write.
* `settings.chainingAllowed: false` allows only the primary.
* A member that syncs from this one, directly or through others, is never its source.
* An initial sync (STARTUP2) never changes to a better source, because it would start over. It handles outages itself
  and reports failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication import primary_loss
from docstore.replication.effects import Effects, Follow, Reply, Send, log
from docstore.replication.messages import (
    Answered,
    Position,
    PositionReply,
    PositionUpdate,
    SourceFailed,
    SyncFrom,
)
from docstore.replication.roles import NEVER
from docstore.replication.states import MemberState, PrimaryState, Role

if TYPE_CHECKING:
    from docstore.replication.peers import Peer
    from docstore.replication.state import State

RETRY_SECONDS = 1.0
PING_CLASS_SECONDS = 0.005
MAX_LAG_SECONDS = 30


def follows(state: State) -> bool:
    """Return True if this member needs a sync source."""
    if state.me is None or not state.me.data_bearing:
        return False
    if state.role is Role.LEADER:
        return state.primary_state is PrimaryState.CATCHING_UP
    return state.follower_state in (MemberState.SECONDARY, MemberState.RECOVERING, MemberState.STARTUP2)


def review(state: State, now: float, out: Effects) -> None:
    """Leave a source that is no longer suitable; choose one if there is none."""
    if not follows(state):
        # A rollback continues with the source from which it found itself diverged.
        if state.sync_source.host is not None and state.follower_state is not MemberState.ROLLBACK:
            _follow(state, None, now, out)
        return
    if state.sync_source.host is not None:
        copying = state.follower_state is MemberState.STARTUP2
        host = state.sync_source.host
        why = _no_source(state, host) if copying else _unfit(state, host, now)
        if not why:
            return
        state.sync_source.reason = why
        _follow(state, _choose(state, now), now, out)
        return
    source = _choose(state, now)
    if source is None:
        state.sync_source.retry_at = now + RETRY_SECONDS
        state.sync_source.reason = "Could not find member to sync from"
    else:
        _follow(state, source, now, out)


def abandon(state: State, event: SourceFailed, now: float, out: Effects) -> None:
    """Avoid a source that the driver could not use, for a while, and choose again."""
    peer = state.peers.get(event.peer)
    if peer is not None:
        peer.avoid(now + event.seconds)
        primary_loss.suspect(state, peer.host, now)
    if state.sync_source.host == event.peer:
        state.sync_source.reason = event.reason
        _follow(state, _choose(state, now) if follows(state) else None, now, out)


def sync_from(state: State, event: SyncFrom, now: float, out: Effects) -> None:
    """Process `replSetSyncFrom`: use this source once; the reply names the previous one."""
    try:
        peer = _checked_target(state, event.host)
    except CommandError as refusal:
        out.append(Reply(token=event.token, result=refusal))
        return
    previous = state.sync_source.host or ""
    peer.avoid(now)
    state.sync_source.forced = event.host
    out.append(Reply(token=event.token, result=previous))
    if state.sync_source.host != event.host:
        _follow(state, _choose(state, now), now, out)


def copy_counts(state: State, last: OpTime) -> bool:
    """Return True if an initial sync ending at `last` makes this a full member, with a log that counts and votes.

    A voter may have lost its disk. The current primary's log has all that it acknowledged before, because it has
    elected nobody since; the log it copied may lack some. Before the first primary nothing was acknowledged.
    """
    if state.me is None or not state.me.voter:
        return True
    if state.primary is None or not state.primary.up:
        return last.term <= 0
    return last >= state.primary.applied


def progressed(state: State, now: float, out: Effects) -> None:
    """Report a new position, of this member or of one behind it, to the source; one update is in flight at a time."""
    if state.sync_source.host is None or state.role is Role.LEADER or state.follower_state is MemberState.STARTUP2:
        return
    if state.sync_source.position_in_flight:
        state.sync_source.position_dirty = True
        return
    state.sync_source.position_in_flight = True
    state.sync_source.position_dirty = False
    assert state.config is not None
    state.sync_source.position_at = now + state.config.settings.election_timeout / 2
    out.append(
        Send(to=state.sync_source.host, request=_update(state, now), timeout=state.config.settings.heartbeat_timeout)
    )


def answered(state: State, event: Answered, now: float, out: Effects) -> None:
    """Process the source's reply to a position update; after a failure the next update or keep-alive repeats it."""
    if event.peer != state.sync_source.host:
        return
    state.sync_source.position_in_flight = False
    if isinstance(event.reply, PositionReply) and state.sync_source.position_dirty:
        progressed(state, now, out)
    elif state.sync_source.host is not None and state.config is not None:
        state.sync_source.position_at = min(
            state.sync_source.position_at, now + state.config.settings.election_timeout / 2
        )


def next_wakeup(state: State) -> float:
    """Return the time of the next `tick`."""
    source = state.sync_source
    if source.host is not None:
        return source.position_at
    return source.retry_at if follows(state) else NEVER


def tick(state: State, now: float, out: Effects) -> None:
    """Retry the search for a source; refresh the position upstream (rule 10)."""
    if state.sync_source.host is None and now >= state.sync_source.retry_at and follows(state):
        review(state, now, out)
    if state.sync_source.host is not None and now >= state.sync_source.position_at:
        state.sync_source.position_at = NEVER
        progressed(state, now, out)


def learn_commit_point(state: State, commit_point: OpTime) -> None:
    """Adopt a reported commit point if it is of the term of the newest own entry (rule 15).

    Then it is valid even if it is ahead: the whole own log is a prefix of what that term's primary wrote. In another
    term the last own entries may have to be rolled back. Arbiters have no log that could diverge.
    """
    if state.role is Role.LEADER:
        return
    arbiter = state.me is not None and state.me.arbiter_only
    if arbiter or state.applied.term == commit_point.term:
        state.commit_point = max(state.commit_point, commit_point)


def _follow(state: State, source: str | None, now: float, out: Effects) -> None:
    if source is None and state.sync_source.host is None:
        return
    if source is None:
        state.sync_source.retry_at = now + RETRY_SECONDS
    out.append(
        log(
            "REPL",
            "Changed sync source",
            oldSyncSource=state.sync_source.host or "empty",
            newSyncSource=source or "empty",
            reason=state.sync_source.reason if state.sync_source.host is not None else "",
        )
    )
    state.sync_source.host = source
    state.sync_source.position_in_flight = False
    state.sync_source.position_at = NEVER if source is None else now
    out.append(Follow(source=source))


def _choose(state: State, now: float) -> str | None:
    assert state.config is not None
    if state.sync_source.forced is not None:
        forced, state.sync_source.forced = state.sync_source.forced, None
        if forced in state.peers:
            return forced
    fit = [peer for peer in state.peers.values() if peer.avoid_until <= now and not _unfit(state, peer.host, now)]
    if state.role is Role.LEADER:
        fit = [peer for peer in fit if peer.applied > state.applied]
        return max(fit, key=lambda peer: peer.applied).host if fit else None
    if not fit:
        return None
    strict = [peer for peer in fit if not _discouraged(state, peer)] or fit
    return min(strict, key=lambda peer: _preference(state, peer)).host


def _preference(state: State, peer: Peer) -> tuple[int, bool, int, int]:
    return (
        int(peer.ping / PING_CLASS_SECONDS),
        peer is not state.primary,
        -peer.applied.term,
        -peer.applied.timestamp,
    )


def _discouraged(state: State, peer: Peer) -> bool:
    """Return True for a source that is hidden or more delayed, unlike this member: it serves only its like."""
    member = state.member_of(peer.host)
    assert member is not None
    assert state.me is not None
    return (member.hidden and not state.me.hidden) or member.delay_seconds > state.me.delay_seconds


def _no_source(state: State, host: str) -> str:
    member = state.member_of(host)
    if host not in state.peers or member is None or not member.data_bearing:
        return "sync source is no data-bearing member of the set"
    return ""


def _unfit(state: State, host: str, now: float) -> str:
    """Return the reason why `host` cannot be the source; empty if it can."""
    if why := _no_source(state, host):
        return why
    peer = state.peers[host]
    if not peer.up:
        return "sync source is down"
    if not peer.state.readable:
        return "sync source is not primary or secondary"
    if peer.applied == NULL_OPTIME:
        return "sync source has no data"
    primary = state.primary
    if state.role is not Role.LEADER:
        assert state.config is not None
        if not state.config.settings.chaining_allowed and peer is not primary:
            return "chaining is not allowed and the sync source is not primary"
    if peer is primary:
        return ""
    if peer.applied < state.applied:
        return "sync source is behind"
    if state.role is not Role.LEADER and _fetches_from_us(state, peer):
        # A new primary in catch-up fetches from members that are ahead, although they already follow it.
        return "sync source syncs from us"
    if primary is not None and primary.up and primary.avoid_until <= now:
        if primary.applied.seconds - peer.applied.seconds > MAX_LAG_SECONDS:
            return "sync source lags too far behind the primary"
        if host == state.sync_source.host and peer.applied <= state.applied < primary.applied:
            return "sync source is not ahead of us while the primary is"
        if host == state.sync_source.host and peer.ping - primary.ping >= PING_CLASS_SECONDS:
            return "the primary is closer"
    return ""


def _fetches_from_us(state: State, peer: Peer) -> bool:
    """Return True if the entries that `peer` fetches come from this member, or from a cycle of other members.

    A link through a member that is down is about to change, and a primary fetches from no one.
    """
    visited_hosts: set[str] = set()
    while peer.up and peer.state is not MemberState.PRIMARY and peer.sync_source:
        if peer.sync_source in state.own_hosts or peer.sync_source in visited_hosts:
            return True
        visited_hosts.add(peer.sync_source)
        source = state.peers.get(peer.sync_source)
        if source is None:
            return False
        peer = source
    return False


def _checked_target(state: State, host: str) -> Peer:
    if state.role is Role.LEADER:
        raise CommandError(Code.NotSecondary, "primaries don't sync")
    if state.me is None or state.me.arbiter_only:
        raise CommandError(Code.NotSecondary, "arbiters don't sync")
    if host in state.own_hosts:
        raise CommandError(Code.InvalidOptions, "I cannot sync from myself")
    peer = state.peers.get(host)
    member = state.member_of(host)
    if peer is None or member is None:
        raise CommandError(Code.NodeNotFound, f'Could not find member "{host}" in replica set')
    if member.arbiter_only:
        raise CommandError(Code.InvalidOptions, f'Cannot sync from "{host}" because it is an arbiter')
    if not peer.up:
        raise CommandError(Code.HostUnreachable, f"I cannot reach the requested member: {host}")
    return peer


def _update(state: State, now: float) -> PositionUpdate:
    assert state.me is not None
    assert state.config is not None
    mine = Position(member=state.me.id, host=state.me.host, applied=state.applied, durable=state.durable)
    fresh = now - state.config.settings.election_timeout
    peer_positions = tuple(
        Position(member=member.id, host=member.host, applied=peer.applied, durable=peer.durable)
        for member in state.config.members
        if (peer := state.peers.get(member.host)) is not None and peer.reported_at >= fresh
    )
    return PositionUpdate(
        term=state.term,
        config=state.config_version,
        positions=(mine, *peer_positions),
        replica_set_id=state.replica_set_id,
    )
