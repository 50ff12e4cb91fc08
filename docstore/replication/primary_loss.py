"""Early detection of a dead primary by refused connections, without waiting for the election timeout.

* A stopped process, a cut cable and a slow network all look like silence, which proves nothing before the election
  timeout. A refused or closed connection is evidence.
* Two refusals in a row let this member run at once. In the dry run of that election (`VoteRequest.if_no_primary`) no
  voter agrees that is in contact with the primary. A voter that refuses for this reason checks the primary at once.
* The candidate retries a little later, while the port refuses and until the election timeout takes over. So a link that
  only this member has lost costs dry runs, but no term.
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
"""Spread of the start times of members that see the same refusal."""
RETRY_SECONDS = 0.5


def heard(state: State, peer: Peer, now: float) -> None:
    """Record that the member itself reports to be primary."""
    assert state.config is not None
    state.primary_loss.heard(peer.host, now + state.config.settings.election_timeout)


def suspect(state: State, host: str, now: float) -> None:
    """Check the primary at once after another request to `host` has failed, if that is the primary."""
    primary = state.primary
    if primary is not None and primary.host == host:
        primary.ask_at(now)


def refused(state: State, peer: Peer, now: float) -> None:
    """Record that its port refused a heartbeat, or that the connection was closed."""
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
    """Return True once when the time to run has come."""
    loss = state.primary_loss
    if now < loss.run_at:
        return False
    loss.settle()
    return state.primary_id == NO_MEMBER


def try_again(state: State, now: float) -> None:
    """Check the primary again after a lost election, before the next one."""
    peer = state.peers.get(state.primary_loss.host)
    if peer is not None and now < state.primary_loss.until:
        peer.ask_at(now + RETRY_SECONDS * (1 + state.rng()) / 2)


def hears_primary(state: State, candidate: int) -> bool:
    """Return True if there is a primary besides the candidate: this member, or one that answers heartbeats."""
    if state.role is Role.LEADER:
        return True
    primary = state.primary
    return primary is not None and primary.up and state.primary_id != candidate
