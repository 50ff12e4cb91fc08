"""Terms, and the ends of roles with a term: primary, candidacy, knowledge of a primary (rule 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.replication.effects import Effects, Reply, SteppedDown
from docstore.replication.messages import NO_MEMBER, Term
from docstore.replication.states import PrimaryState, Role

if TYPE_CHECKING:
    from docstore.replication.state import State


def restart_election_timer(state: State, now: float) -> None:
    """Restart the election timer, after news of a primary or a step-down: run only after a full timeout of silence."""
    state.candidacy.wait_for_silence(state.config, state.me, now, state.rng)


def adopt_term(state: State, term: Term, now: float, out: Effects) -> bool:
    """Adopt a higher term, in which no primary is known yet (rule 6); return False if it is not higher."""
    if term <= state.term:
        return False
    state.term = term
    state.primary_id = NO_MEMBER
    state.candidacy.drop_takeover()
    if state.role is Role.LEADER:
        state.counts.step_down(catching_up=state.primary_state is PrimaryState.CATCHING_UP)
        stop_being_primary(state, now, out, f"Stepping down from primary, because a new term has begun: {term}")
    elif state.role is Role.CANDIDATE:
        abandon_election(state, now)
    return True


def abandon_election(state: State, now: float) -> None:
    state.role = Role.FOLLOWER
    state.candidacy.end_round()
    restart_election_timer(state, now)


def stop_being_primary(state: State, now: float, out: Effects, reason: str) -> None:
    """Change from leader to follower; a pending step-down command succeeds (rule 9)."""
    assert state.role is Role.LEADER
    state.role = Role.FOLLOWER
    state.primary_state = None
    pending = state.leadership.end()
    state.sync_source.search_at(now)
    out.append(SteppedDown(term=state.term, reason=reason))
    if pending is not None:
        state.candidacy.freeze_until(pending.frozen_until)
        out.append(Reply(token=pending.token, result=None))
    restart_election_timer(state, now)


def refuse_unless_initiated(state: State) -> None:
    """Reject commands before the first configuration. Errors: NotYetInitialized (94)."""
    if state.config is None:
        raise CommandError(Code.NotYetInitialized, "no replset config has been received")
