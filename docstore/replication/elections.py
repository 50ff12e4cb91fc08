"""Elections (rules 3, 4, 8).

A round starts with a dry run, which asks for votes without raising the term. The real one follows: raise the term, make
the own vote durable, then request votes. A takeover from a primary of lower priority, or from one that lags in
catch-up, works the same way. A hand-over by a primary that steps down skips the dry run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME
from docstore.replication import primary_loss
from docstore.replication.config import ReplicaSetConfig
from docstore.replication.effects import Effects, Log, Persist, Reply, Send, log
from docstore.replication.leadership import begin_primary
from docstore.replication.messages import (
    NO_MEMBER,
    Answered,
    Freeze,
    LastVote,
    Maintenance,
    StepUpRequest,
    VoteReply,
    VoteRequest,
)
from docstore.replication.progress import on_majority
from docstore.replication.roles import (
    BY_CATCH_UP,
    BY_PRIORITY,
    BY_REFUSED_PORT,
    BY_STEP_UP,
    BY_TIMEOUT,
    NEVER,
    Election,
)
from docstore.replication.states import MemberState, Role
from docstore.replication.terms import adopt_term, refuse_unless_initiated, restart_election_timer

if TYPE_CHECKING:
    from docstore.replication.peers import Peer
    from docstore.replication.state import State

_KIND = {BY_PRIORITY: "priority takeover", BY_CATCH_UP: "catchup takeover"}
_WHY = {
    BY_PRIORITY: "Starting an election for a priority takeover",
    BY_CATCH_UP: "Starting an election for a catchup takeover",
    BY_STEP_UP: "Starting an election due to step up request",
}
FRESHNESS_SECONDS = 2
"""Maximum lag in seconds behind the newest member for a priority takeover."""
EAGER_RETRY_SECONDS = 0.05


def unelectable(state: State, now: float) -> str:
    """Return the reason why this member may not run now; empty if it may."""
    if state.config is None or state.me is None:
        return "the configuration does not name this member"
    if not state.me.electable:
        return "it is an arbiter" if state.me.arbiter_only else "its priority is 0"
    if state.follower_state is not MemberState.SECONDARY:
        return f"it is in state {state.follower_state.label}"
    if state.applied == NULL_OPTIME:
        return "it has no data"
    if state.candidacy.maintenance:
        return "it is in maintenance mode"
    if state.candidacy.frozen_until > now:
        return "it is frozen or has stepped down"
    return ""


def next_wakeup(state: State) -> float:
    """Return the time of the next `tick`."""
    candidacy = state.candidacy
    if state.role is not Role.FOLLOWER:
        return NEVER
    return min(candidacy.election_at, candidacy.takeover_at, state.primary_loss.run_at)


def tick(state: State, now: float, out: Effects) -> None:
    """Start a round that is due."""
    if state.role is not Role.FOLLOWER or state.config is None:
        return
    if now >= state.candidacy.takeover_at:
        reason, state.candidacy.takeover_at = state.candidacy.takeover_reason, NEVER
        if _takeover_reason(state) == reason and not unelectable(state, now) and _fresh_enough(state, reason):
            start(state, now, out, reason)
            return
    if primary_loss.due(state, now) and not unelectable(state, now):
        start(state, now, out, BY_REFUSED_PORT)
        return
    if now >= state.candidacy.election_at:
        if why := unelectable(state, now):
            out.append(log("ELECTION", "Not starting an election, since we are not electable", reason=why))
            restart_election_timer(state, now)
            if state.candidacy.frozen_until > now:
                state.candidacy.run_by(state.candidacy.frozen_until)
        elif state.candidacy.eager_until > now and not _majority_has_config(state):
            state.candidacy.election_at = now + EAGER_RETRY_SECONDS
        else:
            start(state, now, out, BY_TIMEOUT)


def start(state: State, now: float, out: Effects, reason: str, *, dry_run: bool = True) -> None:
    """Begin a round; the caller has checked that this member may run."""
    assert state.role is Role.FOLLOWER
    assert state.me is not None
    state.role = Role.CANDIDATE
    state.counts.call(reason)
    state.candidacy.takeover_at = NEVER
    out.append(_why(state, reason))
    if reason != BY_REFUSED_PORT:
        # Otherwise the election timeout continues: only this member may have lost the primary.
        state.candidacy.election_at = NEVER
    if dry_run:
        out.append(
            log("ELECTION", "Conducting a dry run election to see if we could be elected", currentTerm=state.term)
        )
        state.candidacy.election = Election(state.term, True, reason, granted={state.me.id})
        _canvass(state, now, out)
    else:
        _run(state, now, out, reason)


def _why(state: State, reason: str) -> Log:
    assert state.config is not None
    if reason == BY_TIMEOUT:
        return log(
            "ELECTION",
            "Starting an election, since we've seen no PRIMARY in election timeout period",
            electionTimeoutPeriodMillis=state.config.settings.election_timeout_millis,
        )
    if reason == BY_REFUSED_PORT:
        message = "Starting an election, since the port of the primary refuses connections"
        return log("ELECTION", message, hostAndPort=state.primary_loss.host)
    return log("ELECTION", _WHY[reason])


def consider_takeover(state: State, now: float, out: Effects) -> None:
    """Plan a takeover after news of the primary, or cancel the plan (rule 8)."""
    reason = _takeover_reason(state)
    if reason == state.candidacy.takeover_reason and (state.candidacy.takeover_at != NEVER) == bool(reason):
        return
    if state.candidacy.takeover_at != NEVER:
        out.append(log("REPL", f"Canceling {_KIND[state.candidacy.takeover_reason]} callback"))
    state.candidacy.takeover_reason = reason
    state.candidacy.takeover_at = NEVER
    if reason and state.config is not None and state.me is not None:
        settings = state.config.settings
        if reason == BY_PRIORITY:
            delay = settings.election_timeout * (state.config.priority_rank(state.me) + 1)
        else:
            delay = settings.catch_up_takeover_delay_millis / 1000
        delay += settings.election_timeout * 0.15 * state.rng()
        state.candidacy.takeover_at = now + delay
        out.append(log("ELECTION", f"Scheduling {_KIND[reason]}", inSeconds=round(delay, 3)))


def counted(state: State, event: Answered, now: float, out: Effects) -> None:
    """Process the reply to a vote request, or its failure."""
    request, reply = event.request, event.reply
    assert isinstance(request, VoteRequest)
    election = state.candidacy.election
    if isinstance(reply, VoteReply) and adopt_term(state, reply.term, now, out):
        if election is not None:
            superseded = "Not becoming primary, we have been superseded already"
            out.append(log("ELECTION", superseded, term=election.term, newTerm=reply.term, hostAndPort=event.peer))
        return
    member = state.member_of(event.peer)
    if election is None or member is None or (election.term, election.dry_run) != (request.term, request.dry_run):
        return
    granted = isinstance(reply, VoteReply) and reply.granted
    if isinstance(reply, VoteReply):
        election.heard.add(member.id)
    out.append(_counted(event, request))
    (election.granted if granted else election.refused).add(member.id)
    _conclude(state, now, out)


def _counted(event: Answered, request: VoteRequest) -> Log:
    about: dict[str, Any] = {"term": request.term, "dryRun": request.dry_run, "from": event.peer}
    if not isinstance(event.reply, VoteReply):
        about.update(failReason="failed to receive response", error=event.error)
    else:
        about.update(vote="yes" if event.reply.granted else "no", reason=event.reply.reason)
    return Log(component="ELECTION", message="VoteRequester processResponse", attributes=about)


def step_up(state: State, request: StepUpRequest, now: float, out: Effects) -> None:
    """Run at once: the primary that steps down hands over."""
    why = "it is already running or primary" if state.role is not Role.FOLLOWER else unelectable(state, now)
    if why:
        out.append(
            Reply(token=request.token, result=CommandError(Code.CommandFailed, f"Election failed: not started, {why}"))
        )
        return
    out.append(Reply(token=request.token, result=None))
    start(state, now, out, BY_STEP_UP, dry_run=False)


def freeze(state: State, event: Freeze, now: float, out: Effects) -> None:
    """Process `replSetFreeze`."""
    try:
        refuse_unless_initiated(state)
        if state.role is not Role.FOLLOWER:
            raise CommandError(
                Code.NotSecondary,
                "Cannot freeze node when primary or running for election, state: "
                + ("Primary" if state.role is Role.LEADER else "Candidate"),
            )
    except CommandError as refused:
        out.append(Reply(token=event.token, result=refused))
        return
    state.candidacy.frozen_until = now + event.seconds
    if event.seconds == 0 and state.config is not None and state.config.majority_votes == 1:
        state.candidacy.run_by(now)
    out.append(Reply(token=event.token, result=None))


def maintain(state: State, event: Maintenance, out: Effects) -> None:
    """Process `replSetMaintenance`."""
    try:
        refuse_unless_initiated(state)
        if state.role is Role.LEADER:
            raise CommandError(Code.NotSecondary, "primaries can't modify maintenance mode")
        if state.role is Role.CANDIDATE:
            raise CommandError(Code.NotSecondary, "currently running for election")
        if not event.on and not state.candidacy.maintenance:
            raise CommandError(Code.OperationFailed, "already out of maintenance mode")
    except CommandError as refused:
        out.append(Reply(token=event.token, result=refused))
        return
    state.candidacy.maintenance += 1 if event.on else -1
    out.append(Reply(token=event.token, result=None))


def _canvass(state: State, now: float, out: Effects) -> None:
    """Request the vote of every voter, then check if the own vote is enough."""
    election, config = state.candidacy.election, state.config
    assert election is not None
    assert config is not None
    request = _request(state, election, config)
    for peer in state.voting_peers():
        out.append(Send(to=peer.host, request=request, timeout=config.settings.election_timeout))
    _conclude(state, now, out)


def _request(state: State, election: Election, config: ReplicaSetConfig) -> VoteRequest:
    return VoteRequest(
        set_name=state.set_name,
        dry_run=election.dry_run,
        term=election.term,
        candidate=state.my_id,
        config=config.config_version,
        last_op=state.applied,
        if_no_primary=election.dry_run and election.reason == BY_REFUSED_PORT,
        replica_set_id=state.replica_set_id,
    )


def reached(state: State, peer: Peer, now: float, out: Effects) -> None:
    """Handle a member that answers heartbeats again, so that a recovered network does not have to wait for timeouts.

    A pending vote request to it is sent again. A round that failed because too few voters were reachable is repeated.
    """
    candidacy, config = state.candidacy, state.config
    election, member = candidacy.election, state.member_of(peer.host)
    if config is None or member is None:
        return
    if election is not None:
        if member in config.voters and member.id not in election.granted | election.refused:
            request = _request(state, election, config)
            out.append(Send(to=peer.host, request=request, timeout=config.settings.election_timeout))
    elif candidacy.out_of_reach and state.primary_id == NO_MEMBER and _majority_up(state, config):
        candidacy.out_of_reach = False
        candidacy.run_by(now + primary_loss.SPREAD_SECONDS * state.rng())


def _majority_up(state: State, config: ReplicaSetConfig) -> bool:
    up = [member.id for member in config.voters if (peer := state.peers.get(member.host)) is not None and peer.up]
    return on_majority(config, [state.my_id, *up])


def _run(state: State, now: float, out: Effects, reason: str) -> None:
    """Start the real round: the new term and the own vote are durable before any request (rule 4)."""
    dry_run = state.candidacy.election is not None
    state.term += 1
    done = "Dry election run succeeded" if dry_run else "Skipping dry run"
    out.append(log("ELECTION", f"{done}, running for election", newTerm=state.term))
    state.primary_id = NO_MEMBER
    state.vote = LastVote(term=state.term, candidate=state.my_id)
    state.candidacy.election = Election(state.term, False, reason, granted={state.my_id})
    out.append(Persist(vote=state.vote))
    _canvass(state, now, out)


def _conclude(state: State, now: float, out: Effects) -> None:
    election, config = state.candidacy.election, state.config
    if election is None or config is None:
        return
    if on_majority(config, election.granted):
        if election.dry_run:
            _run(state, now, out, election.reason)
        else:
            begin_primary(state, now, out)
    elif len(config.voters) - sum(m.id in election.refused for m in config.voters) < config.majority_votes:
        goal = "running for" if election.dry_run else "becoming"
        out.append(log("ELECTION", f"Not {goal} primary, we received insufficient votes", term=election.term))
        state.role = Role.FOLLOWER
        state.candidacy.out_of_reach = not on_majority(config, {state.my_id, *election.heard})
        if election.reason != BY_REFUSED_PORT:
            state.candidacy.retry_later(config.settings.election_timeout, now, state.rng)
            return
        state.candidacy.end_round()
        if election.heard:
            primary_loss.try_again(state, now)


def _majority_has_config(state: State) -> bool:
    assert state.config is not None
    ours = state.config.config_version
    installed = [
        member.id
        for member in state.config.voters
        if (peer := state.peers.get(member.host)) is not None
        and peer.config == ours
        and (member.arbiter_only or peer.applied != NULL_OPTIME)
    ]
    return on_majority(state.config, [state.my_id, *installed])


def _takeover_reason(state: State) -> str:
    primary, me, config = state.primary, state.me, state.config
    if primary is None or me is None or config is None or not primary.up or not me.electable:
        return ""
    if state.role is not Role.FOLLOWER:
        return ""
    member = config.member(state.primary_id)
    assert member is not None
    stuck = primary.applied.term < state.term and state.applied > primary.applied
    if me.effective_priority > member.effective_priority:
        return BY_PRIORITY
    if stuck and config.settings.catch_up_takeover_delay_millis >= 0:
        return BY_CATCH_UP
    return ""


def _fresh_enough(state: State, reason: str) -> bool:
    if reason != BY_PRIORITY:
        return True
    newest = max((peer.applied.seconds for peer in state.peers.values()), default=0)
    return state.applied.seconds >= newest - FRESHNESS_SECONDS
