"""Terms, and what ends with one: office, candidacy, knowledge of a primary (rule 6); the election timer (rule 3)."""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.replication.effects import Reply, SteppedDown
from docstore.replication.messages import NO_MEMBER, Term
from docstore.replication.state import NEVER, Effects, State
from docstore.replication.states import Role

TIMEOUT_SPREAD = 0.15
"""Random part of the election timeout, as a fraction of it."""
RETRY_FRACTION = 0.5
"""After a lost election: wait between this fraction of the timeout and all of it."""


def restart_election_timer(state: State, now: float) -> None:
    """A primary was heard of, or office was left: run only after a whole timeout of silence."""
    state.election_at = NEVER
    if state.config is not None and state.me is not None and state.me.electable:
        timeout = state.config.settings.election_timeout
        state.election_at = now + timeout * (1 + TIMEOUT_SPREAD * state.rng())


def retry_election_later(state: State, now: float) -> None:
    """The round was lost: the same two candidates should not meet again."""
    assert state.config is not None
    timeout = state.config.settings.election_timeout
    state.election_at = now + timeout * (RETRY_FRACTION + (1 - RETRY_FRACTION) * state.rng())


def adopt_term(state: State, term: Term, now: float, out: Effects) -> bool:
    """Any higher term heard of becomes ours; in it, nobody is primary yet as far as we know (rule 6)."""
    if term <= state.term:
        return False
    state.term = term
    state.primary_id = NO_MEMBER
    state.takeover_at = NEVER
    if state.role is Role.LEADER:
        stop_being_primary(state, now, out, f"a higher term was heard of: {term}")
    elif state.role is Role.CANDIDATE:
        abandon_election(state, now)
    return True


def abandon_election(state: State, now: float) -> None:
    state.role = Role.FOLLOWER
    state.election = None
    restart_election_timer(state, now)


def stop_being_primary(state: State, now: float, out: Effects, reason: str) -> None:
    """From leader to follower. An unconditional reason answers a pending step-down command with its success (rule
    9)."""
    assert state.role is Role.LEADER
    state.role = Role.FOLLOWER
    state.primary_state = None
    state.catch_up_awaits = set()
    state.catch_up_until = NEVER
    state.commit_push_at = NEVER
    state.source_retry_at = now
    out.append(SteppedDown(term=state.term, reason=reason))
    if state.step_down is not None:
        pending, state.step_down = state.step_down, None
        state.frozen_until = max(state.frozen_until, pending.frozen_until)
        out.append(Reply(token=pending.token, result=None))
    restart_election_timer(state, now)


def refuse_unless_initiated(state: State) -> None:
    """NotYetInitialized (94) before the first configuration."""
    if state.config is None:
        raise CommandError(Code.NotYetInitialized, "no replset config has been received")
