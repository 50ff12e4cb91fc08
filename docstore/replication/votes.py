"""Voting (rule 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.optime import NULL_OPTIME
from docstore.replication import primary_loss
from docstore.replication.config import different_sets, is_foreign
from docstore.replication.effects import Effects, Log, Persist, Reply, log
from docstore.replication.messages import LastVote, VoteReply, VoteRequest
from docstore.replication.states import MemberState
from docstore.replication.terms import adopt_term, restart_election_timer

if TYPE_CHECKING:
    from docstore.replication.state import State

_WITHOUT_DATA = (MemberState.STARTUP, MemberState.STARTUP2)


def vote(state: State, request: VoteRequest, now: float, out: Effects) -> None:
    """Reply to a candidate; a real vote is durable before the reply (rule 5)."""
    if _of_another_set(state, request):
        # Terms of another set mean nothing here, nor ours there.
        reply = VoteReply(term=request.term, granted=False, reason=refusal(state, request))
        out.append(_responding(request, reply.reason))
        out.append(Reply(token=request.token, result=reply))
        return
    if state.config is not None:
        adopt_term(state, request.term, now, out)
    reason = refusal(state, request)
    if not reason and request.if_no_primary and primary_loss.hears_primary(state, request.candidate):
        reason = "I hear the primary"
        if state.primary is not None:
            primary_loss.suspect(state, state.primary.host, now)
    if not reason and not request.dry_run:
        cast = LastVote(term=request.term, candidate=request.candidate)
        if state.vote != cast:
            state.vote = cast
            out.append(Persist(vote=cast))
        restart_election_timer(state, now)
        state.primary_loss.settle()
    out.append(_responding(request, reason))
    out.append(Reply(token=request.token, result=VoteReply(term=state.term, granted=not reason, reason=reason)))


def _responding(request: VoteRequest, reason: str) -> Log:
    return log(
        "ELECTION",
        "Responding to vote request",
        candidate=request.candidate,
        term=request.term,
        dryRun=request.dry_run,
        voteGranted=not reason,
        reason=reason,
    )


def refusal(state: State, request: VoteRequest) -> str:
    """Return the reason not to vote for the candidate; empty to grant the vote (rule 5)."""
    if request.set_name != state.set_name:
        return f"candidate's set name ({request.set_name}) differs from mine ({state.set_name})"
    if _of_another_set(state, request):
        return different_sets(state.replica_set_id, request.replica_set_id)
    config = state.config
    if config is None or state.me is None:
        return "I have no configuration that names me"
    if state.me.data_bearing and (state.applied == NULL_OPTIME or state.follower_state in _WITHOUT_DATA):
        # This member lost the record of what it acknowledged, so it cannot confirm that the candidate has it.
        return "I have no complete copy of the data"
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


def _of_another_set(state: State, request: VoteRequest) -> bool:
    return request.set_name != state.set_name or is_foreign(state.replica_set_id, request.replica_set_id)
