"""A primary whose port refuses: its process is gone, and nobody needs to wait for the election timeout.

A stopped process, a cut cable or a slow network look alike: silence, which proves nothing before the election timeout.
A refused or closed connection does not come by itself. Twice in a row, it lets this member run at once; but in the dry
run of that election (`VoteRequest.if_no_primary`) no voter says yes who hears the primary itself. Who says no for that
reason asks the primary at once, and the candidate tries again a little later, as long as the port refuses and until the
election timeout has come anyway. So a link that only this member has lost costs dry runs, and no term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.replication.messages import NO_MEMBER
from docstore.replication.states import Role

if TYPE_CHECKING:
    from docstore.replication.peers import Peer
    from docstore.replication.state import State

CONFIRM_SECONDS = 0.05
SPREAD_SECONDS = 0.25
"""Who sees the same refusal does not run at the same time."""
RETRY_SECONDS = 0.5


def heard(state: State, peer: Peer, now: float) -> None:
    """The member itself has said that it is primary."""
    assert state.config is not None
    state.primary_loss.heard(peer.host, now + state.config.settings.election_timeout)


def suspect(state: State, host: str, now: float) -> None:
    """Something else than a heartbeat has failed: ask at once, if it is the primary."""
    primary = state.primary
    if primary is not None and primary.host == host:
        primary.ask_at(now)


def refused(state: State, peer: Peer, now: float) -> None:
    """Its port has refused a heartbeat, or the connection was closed."""
    loss = state.primary_loss
    member = state.member_of(peer.host)
    if peer.host != loss.host or now >= loss.until or member is None or state.role is Role.LEADER:
        return
    if state.primary_id not in (NO_MEMBER, member.id):
        return
    if loss.refused():
        loss.run(now + SPREAD_SECONDS * state.rng())
    else:
        peer.ask_at(now + CONFIRM_SECONDS)


def due(state: State, now: float) -> bool:
    """Whether the time to run has come; it is gone then."""
    loss = state.primary_loss
    if now < loss.run_at:
        return False
    loss.settle()
    return state.primary_id == NO_MEMBER


def try_again(state: State, now: float) -> None:
    """The election was lost: ask the primary again before the next one."""
    peer = state.peers.get(state.primary_loss.host)
    if peer is not None and now < state.primary_loss.until:
        peer.ask_at(now + RETRY_SECONDS * (1 + state.rng()) / 2)


def hears_primary(state: State, candidate: int) -> bool:
    """Whether there is a primary besides the candidate: this member, or one whose last heartbeat it has answered."""
    if state.role is Role.LEADER:
        return True
    primary = state.primary
    return primary is not None and primary.up and state.primary_id != candidate
