"""The complete protocol of one member: events in, effects out.

The driver calls `receive(event, now)` for each event and `tick(now)` at `next_wakeup()`, and performs the effects in
order: a `Persist` is on disk before anything after it leaves the process. `now` is a monotonic clock in seconds. This
package reads no clock, makes no random numbers and does no I/O.

    election        heartbeats fall silent -> tick -> VoteRequest (dry run) -> VoteRequest -> Drain -> BecomePrimary
    write           Progress -> PositionUpdate from the others -> commit point
    configuration   Initiate or Reconfigure -> Persist -> heartbeats carry it

Sources: rules 1-21 of the replication protocol (MongoDB's protocol version 1), cited by number; Raft (Ongaro and
Ousterhout, 2014) for the arguments. Differences are listed in their modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication import elections, following, heartbeats, leadership, primary_loss, reconfig, votes
from docstore.replication.config import ReplicaSetConfig, different_sets, is_foreign
from docstore.replication.effects import Effects, Reply
from docstore.replication.messages import (
    NO_VOTE,
    AbortCatchUp,
    Answered,
    BecamePrimary,
    CatchUpEnded,
    Drained,
    Event,
    FollowerState,
    Freeze,
    HeartbeatRequest,
    Initiate,
    LastVote,
    Maintenance,
    PositionReply,
    PositionUpdate,
    Progress,
    Recognized,
    Reconfigure,
    SourceFailed,
    StepDown,
    StepUpRequest,
    SyncFrom,
    VoteRequest,
)
from docstore.replication.roles import NEVER
from docstore.replication.state import State
from docstore.replication.states import MemberState, Role
from docstore.replication.terms import adopt_term


class Core:
    """One member of a replica set, without a network, a disk or a clock."""

    def __init__(
        self,
        set_name: str,
        *,
        rng: Callable[[], float],
        own_hosts: Iterable[str],
        config: ReplicaSetConfig | None = None,
        vote: LastVote = NO_VOTE,
        last_op: OpTime = NULL_OPTIME,
        now: float,
    ) -> None:
        """`config`, `vote` and `last_op` are restored from disk; the term is the highest of theirs (rule 6)."""
        self.state = State(set_name, rng, set(own_hosts))
        self.state.vote = vote
        self.state.term = max(vote.term, last_op.term, 0)
        self.state.applied = self.state.durable = last_op
        if config is not None:
            reconfig.adopt(self.state, config, now)
            reconfig.await_primary(self.state, config, now)

    def receive(self, event: Event, now: float) -> Effects:
        """Process one event; return its effects in order."""
        out: Effects = []
        match event:
            case Progress():
                self._progress(event, now, out)
            case PositionUpdate():
                self._positions(event, now, out)
            case HeartbeatRequest():
                heartbeats.answer_heartbeat(self.state, event, now, out)
            case Answered():
                self._answered(event, now, out)
            case VoteRequest():
                votes.vote(self.state, event, now, out)
            case FollowerState():
                self._follower_state(event, now, out)
            case SourceFailed():
                following.abandon(self.state, event, now, out)
            case CatchUpEnded():
                leadership.end_catch_up(self.state, event, out)
            case Drained():
                leadership.drained(self.state, event, out)
            case Recognized():
                reconfig.recognize(self.state, event, now, out)
            case BecamePrimary():
                leadership.became_primary(self.state, event, now, out)
            case _:
                self._command(event, now, out)
        self._tick(now, out)
        return out

    def tick(self, now: float) -> Effects:
        """Process what is due at `now`; return the effects."""
        out: Effects = []
        self._tick(now, out)
        return out

    def next_wakeup(self) -> float:
        """Return the latest time for the next `tick`, on the clock of `now`; infinity for never."""
        state = self.state
        if state.config is None:
            return NEVER
        leading = leadership.next_wakeup(state) if state.role is Role.LEADER else NEVER
        return min(leading, elections.next_wakeup(state), following.next_wakeup(state), heartbeats.next_wakeup(state))

    def check(self) -> None:
        """Assert the invariants of the state."""
        self.state.check()

    def _tick(self, now: float, out: Effects) -> None:
        state = self.state
        if state.config is None:
            return
        if state.role is Role.LEADER:
            leadership.tick(state, now, out)
        elections.tick(state, now, out)
        following.tick(state, now, out)
        heartbeats.tick(state, now, out)

    def _progress(self, event: Progress, now: float, out: Effects) -> None:
        state = self.state
        state.applied, state.durable = event.applied, event.durable
        if state.config is None:
            return
        # Fetched entries carry terms too: terms in a log never fall, so a leader may not write after an entry of a
        # later term.
        adopt_term(state, event.applied.term, now, out)
        if state.role is Role.LEADER:
            leadership.advance(state, now, out)
        else:
            following.progressed(state, now, out)

    def _positions(self, event: PositionUpdate, now: float, out: Effects) -> None:
        state = self.state
        if state.config is None or state.me is None:
            refusal = CommandError(Code.NotYetInitialized, "no replset config has been received")
            out.append(Reply(token=event.token, result=refusal))
            return
        if is_foreign(state.replica_set_id, event.replica_set_id):
            refusal = CommandError(
                Code.InvalidReplicaSetConfig, different_sets(state.replica_set_id, event.replica_set_id)
            )
            out.append(Reply(token=event.token, result=refusal))
            return
        adopt_term(state, event.term, now, out)
        leadership.take_positions(state, event, now, out)

    def _answered(self, event: Answered, now: float, out: Effects) -> None:
        state = self.state
        match event.request:
            case HeartbeatRequest():
                heartbeats.answered(state, event, now, out)
                if state.config is not None:
                    following.review(state, now, out)
            case VoteRequest():
                elections.counted(state, event, now, out)
            case PositionUpdate():
                if isinstance(event.reply, PositionReply):
                    adopt_term(state, event.reply.term, now, out)
                    if event.reply.config == state.config_version:
                        # Otherwise its member ids may mean other members.
                        heartbeats.note_living_primary(state, event.reply.primary_id, event.reply.term, now)
                    following.learn_commit_point(state, event.reply.commit_point)
                elif event.refused:
                    primary_loss.suspect(state, event.peer, now)
                following.answered(state, event, now, out)
            case StepUpRequest():
                pass  # The successor's election is its own affair.

    def _follower_state(self, event: FollowerState, now: float, out: Effects) -> None:
        state = self.state
        assert event.state in (
            MemberState.STARTUP2,
            MemberState.RECOVERING,
            MemberState.ROLLBACK,
            MemberState.SECONDARY,
        )
        state.follower_state = event.state
        if state.config is not None:
            following.review(state, now, out)

    def _command(self, event: Event, now: float, out: Effects) -> None:
        match event:
            case StepDown():
                leadership.begin_step_down(self.state, event, now, out)
            case Reconfigure():
                reconfig.reconfigure(self.state, event, now, out)
                if self.state.role is Role.LEADER:
                    # The majority may be smaller now, and no other event may follow.
                    leadership.advance(self.state, now, out)
            case Initiate():
                reconfig.initiate(self.state, event, now, out)
            case Freeze():
                elections.freeze(self.state, event, now, out)
            case SyncFrom():
                following.sync_from(self.state, event, now, out)
            case Maintenance():
                elections.maintain(self.state, event, out)
            case AbortCatchUp():
                leadership.abort_catch_up(self.state, event, out)
            case StepUpRequest():
                elections.step_up(self.state, event, now, out)
            case _:
                raise AssertionError(f"no such event: {event!r}")
