"""Running for primary and voting (rules 3, 4, 5, 8).

A round: a dry run that asks whether votes would be given, without raising the term; then the real one: term + 1, own
vote durable, then the others are asked. Taking over from a primary of lower priority, or from one that is stuck
behind us in catch-up, goes the same way. A hand-over by a leaving primary skips the dry run.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.replication.effects import Persist, Reply, Send
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
from docstore.replication.state import NEVER, Effects, Election, State
from docstore.replication.states import MemberState, Role
from docstore.replication.terms import (
    adopt_term,
    refuse_unless_initiated,
    restart_election_timer,
    retry_election_later,
)

BY_TIMEOUT = "electionTimeout"
BY_PRIORITY = "priorityTakeover"
BY_CATCH_UP = "catchUpTakeover"
BY_STEP_UP = "stepUpRequestSkipDryRun"
FRESHNESS_SECONDS = 2
"""How far behind the newest member a priority takeover may start."""
EAGER_RETRY_SECONDS = 0.05


def unelectable(state: State, now: float) -> str:
    """Why this member may not run now; empty when it may."""
    if state.config is None or state.me is None:
        return "the configuration does not name this member"
    if not state.me.electable:
        return "it is an arbiter" if state.me.arbiter_only else "its priority is 0"
    if state.follower_state is not MemberState.SECONDARY:
        return f"it is in state {state.follower_state.label}"
    if state.maintenance:
        return "it is in maintenance mode"
    if state.frozen_until > now:
        return "it is frozen or has stepped down"
    return ""


def tick(state: State, now: float, out: Effects) -> None:
    """Start a round whose time has come."""
    if state.role is not Role.FOLLOWER or state.config is None:
        return
    if now >= state.takeover_at:
        reason, state.takeover_at = state.takeover_reason, NEVER
        if _takeover_reason(state) == reason and not unelectable(state, now) and _fresh_enough(state, reason):
            start(state, now, out, reason)
            return
    if now >= state.election_at:
        if unelectable(state, now):
            restart_election_timer(state, now)
            if state.frozen_until > now:
                state.election_at = min(state.election_at, state.frozen_until)
        elif state.eager_until > now and not _majority_has_config(state):
            state.election_at = now + EAGER_RETRY_SECONDS
        else:
            start(state, now, out, BY_TIMEOUT)


def start(state: State, now: float, out: Effects, reason: str, *, dry_run: bool = True) -> None:
    """Begin a round; the caller has checked that this member may run."""
    assert state.role is Role.FOLLOWER
    assert state.me is not None
    state.role = Role.CANDIDATE
    state.election_at = state.takeover_at = NEVER
    if dry_run:
        state.election = Election(state.term, True, reason, now, granted={state.me.id})
        _canvass(state, now, out)
    else:
        _run(state, now, out, reason)


def consider_takeover(state: State, now: float) -> None:
    """After news of the primary: plan to take over from it, or drop the plan (rule 8)."""
    reason = _takeover_reason(state)
    if reason == state.takeover_reason and (state.takeover_at != NEVER) == bool(reason):
        return
    state.takeover_reason = reason
    state.takeover_at = NEVER
    if reason and state.config is not None and state.me is not None:
        settings = state.config.settings
        if reason == BY_PRIORITY:
            delay = settings.election_timeout * (state.config.priority_rank(state.me) + 1)
        else:
            delay = settings.catch_up_takeover_delay_millis / 1000
        state.takeover_at = now + delay + settings.election_timeout * 0.15 * state.rng()


def vote(state: State, request: VoteRequest, now: float, out: Effects) -> None:
    """Answer a candidate; a real vote is durable before the answer (rule 5)."""
    if request.set_name == state.set_name and state.config is not None:
        adopt_term(state, request.term, now, out)
    reason = refusal(state, request)
    if not reason and not request.dry_run:
        cast = LastVote(term=request.term, candidate=request.candidate)
        if state.vote != cast:
            state.vote = cast
            out.append(Persist(vote=cast))
        restart_election_timer(state, now)
    out.append(Reply(token=request.token, result=VoteReply(term=state.term, granted=not reason, reason=reason)))


def refusal(state: State, request: VoteRequest) -> str:
    """Why not to vote for the candidate; empty for yes (rule 5)."""
    if request.set_name != state.set_name:
        return f"candidate's set name ({request.set_name}) differs from mine ({state.set_name})"
    config = state.config
    if config is None or state.me is None:
        return "I have no configuration that names me"
    if request.term < state.term:
        return f"candidate's term ({request.term}) is lower than mine ({state.term})"
    if config.config_version.newer_than(request.config):
        return f"candidate's config with {request.config} is older than mine with {config.config_version}"
    if request.last_op < state.applied:
        return "candidate's data is staler than mine"
    if not request.dry_run and state.vote.term == request.term and state.vote.candidate != request.candidate:
        return f"already voted for another candidate ({state.vote.candidate}) this term ({state.vote.term})"
    if state.me.arbiter_only and state.primary is not None and state.primary.up:
        primary = config.member(state.primary_id)
        candidate = config.member(request.candidate)
        assert primary is not None
        if candidate is None or (
            primary.id != candidate.id and primary.effective_priority >= candidate.effective_priority
        ):
            return "can see a healthy primary of equal or greater priority"
    return ""


def counted(state: State, event: Answered, now: float, out: Effects) -> None:
    """An answer to our request for a vote, or its failure."""
    request, reply = event.request, event.reply
    assert isinstance(request, VoteRequest)
    if isinstance(reply, VoteReply) and adopt_term(state, reply.term, now, out):
        return
    election = state.election
    member = state.member_of(event.peer)
    if election is None or member is None or (election.term, election.dry_run) != (request.term, request.dry_run):
        return
    granted = isinstance(reply, VoteReply) and reply.granted
    (election.granted if granted else election.refused).add(member.id)
    _conclude(state, now, out)


def step_up(state: State, request: StepUpRequest, now: float, out: Effects) -> None:
    """The leaving primary hands over: run at once."""
    why = "it is already running or primary" if state.role is not Role.FOLLOWER else unelectable(state, now)
    if why:
        out.append(
            Reply(token=request.token, result=CommandError(Code.CommandFailed, f"Election failed: not started, {why}"))
        )
        return
    out.append(Reply(token=request.token, result=None))
    start(state, now, out, BY_STEP_UP, dry_run=False)


def freeze(state: State, event: Freeze, now: float, out: Effects) -> None:
    """`replSetFreeze`."""
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
    state.frozen_until = now + event.seconds
    if event.seconds == 0 and state.config is not None and state.config.majority_votes == 1:
        state.election_at = min(state.election_at, now)
    out.append(Reply(token=event.token, result=None))


def maintain(state: State, event: Maintenance, out: Effects) -> None:
    """`replSetMaintenance`."""
    try:
        refuse_unless_initiated(state)
        if state.role is Role.LEADER:
            raise CommandError(Code.NotSecondary, "primaries can't modify maintenance mode")
        if state.role is Role.CANDIDATE:
            raise CommandError(Code.NotSecondary, "currently running for election")
        if not event.on and not state.maintenance:
            raise CommandError(Code.OperationFailed, "already out of maintenance mode")
    except CommandError as refused:
        out.append(Reply(token=event.token, result=refused))
        return
    state.maintenance += 1 if event.on else -1
    out.append(Reply(token=event.token, result=None))


def _canvass(state: State, now: float, out: Effects) -> None:
    """Ask every voter of the round, then see whether our own vote is enough already."""
    election, config = state.election, state.config
    assert election is not None
    assert config is not None
    request = VoteRequest(
        set_name=state.set_name,
        dry_run=election.dry_run,
        term=election.term,
        candidate=state.my_id,
        config=config.config_version,
        last_op=state.applied,
    )
    for peer in state.voting_peers():
        out.append(Send(to=peer.host, request=request, timeout=config.settings.election_timeout))
    _conclude(state, now, out)


def _run(state: State, now: float, out: Effects, reason: str) -> None:
    """The real round: the new term and our vote for ourselves in it are durable before anybody is asked (rule 4)."""
    state.term += 1
    state.primary_id = NO_MEMBER
    state.vote = LastVote(term=state.term, candidate=state.my_id)
    state.election = Election(state.term, False, reason, now, granted={state.my_id})
    out.append(Persist(vote=state.vote))
    _canvass(state, now, out)


def _conclude(state: State, now: float, out: Effects) -> None:
    election, config = state.election, state.config
    if election is None or config is None:
        return
    if on_majority(config, election.granted):
        if election.dry_run:
            _run(state, now, out, election.reason)
        else:
            begin_primary(state, now, out)
    elif len(config.voters) - sum(m.id in election.refused for m in config.voters) < config.majority_votes:
        state.role = Role.FOLLOWER
        state.election = None
        retry_election_later(state, now)


def _majority_has_config(state: State) -> bool:
    assert state.config is not None
    ours = state.config.config_version
    installed = [m.id for m in state.config.voters if m.host in state.peers and state.peers[m.host].config == ours]
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
