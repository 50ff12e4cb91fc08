"""Cores for unit tests: a configured set of hosts, time that stands still, random numbers that are always a half."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from bson.objectid import ObjectId

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import MemberConfig, ReplicaSetConfig, Settings
from docstore.replication.core import Core
from docstore.replication.effects import Effect, Reply
from docstore.replication.messages import (
    NO_MEMBER,
    Answered,
    BecamePrimary,
    Drained,
    FollowerState,
    HeartbeatReply,
    HeartbeatRequest,
    LastVote,
    Position,
    PositionUpdate,
    Progress,
    VoteReply,
    VoteRequest,
)
from docstore.replication.states import MemberState

NOW = 1000.0
SETTINGS = Settings(heartbeat_interval_millis=200, election_timeout_millis=1000)
E = TypeVar("E")
OURS, THEIRS = ObjectId("0" * 24), ObjectId("f" * 24)
"""The ids of two sets of one name."""


def op(term: int, timestamp: int) -> OpTime:
    return OpTime(term, timestamp)


def config_of(*hosts: str, **fields: Any) -> ReplicaSetConfig:
    """Members with ids from 0 on; `fields` of the configuration."""
    members = tuple(MemberConfig(id=number, host=f"{host}:1") for number, host in enumerate(hosts))
    return ReplicaSetConfig(
        **{"set_name": "set", "version": 1, "term": 0, "members": members, "settings": SETTINGS} | fields
    )


def of_set(config: ReplicaSetConfig, replica_set_id: ObjectId) -> ReplicaSetConfig:
    """The configuration in one of all the sets of its name."""
    return replace(config, settings=replace(config.settings, replica_set_id=replica_set_id))


def with_member(config: ReplicaSetConfig, member_id: int, **changes: Any) -> ReplicaSetConfig:
    """The configuration with one member changed."""
    members = tuple(replace(m, **changes) if m.id == member_id else m for m in config.members)
    return replace(config, members=members)


def follower(config: ReplicaSetConfig, me: int = 0, last: OpTime = NULL_OPTIME, vote: LastVote | None = None) -> Core:
    """A secondary that has just started."""
    host = next(member.host for member in config.members if member.id == me)
    core = Core(
        "set",
        rng=lambda: 0.5,
        own_hosts=[host],
        config=config,
        vote=vote or LastVote(term=0, candidate=NO_MEMBER),
        last_op=last,
        now=NOW,
    )
    core.receive(FollowerState(state=MemberState.SECONDARY), NOW)
    return core


def leader(config: ReplicaSetConfig, last: OpTime = NULL_OPTIME) -> Core:
    """Member 0, elected by all and writable, all others up, with its configuration and at its log's end before."""
    core = follower(config, 0, last)
    for member in config.members[1:]:
        hear(core, member.host, applied=last)
    core.state.candidacy.election_at = NOW
    core.tick(NOW)
    for _ in range(2):
        for member in config.members[1:]:
            election = core.state.candidacy.election
            if election is not None:
                request = vote_request(core, dry_run=election.dry_run)
                core.receive(
                    Answered(peer=member.host, request=request, reply=VoteReply(term=election.term, granted=True)), NOW
                )
    for member in config.members[1:]:
        hear(core, member.host, applied=last)
    term = core.state.term
    core.receive(Drained(term=term), NOW)
    write(core)
    core.receive(BecamePrimary(term=term), NOW)
    for member in config.members[1:]:
        hear(core, member.host, applied=last)
    assert core.state.writable
    return core


def vote_request(core: Core, *, dry_run: bool) -> VoteRequest:
    """The request that the core has out in its present round."""
    state = core.state
    return VoteRequest(
        set_name="set",
        dry_run=dry_run,
        term=state.term,
        candidate=state.my_id,
        config=state.config_version,
        last_op=state.applied,
    )


def write(core: Core, *, durable: bool = True) -> OpTime:
    """One more entry in the leader's log."""
    state = core.state
    last = OpTime(state.term, state.applied.timestamp + 1)
    core.receive(Progress(applied=last, durable=last if durable else state.durable), NOW)
    return last


def hear(core: Core, host: str, now: float = NOW, **fields: Any) -> list[Effect]:
    """A heartbeat reply from `host`: a healthy secondary unless `fields` say otherwise."""
    state = core.state
    applied = fields.pop("applied", state.applied)
    reply = HeartbeatReply(
        **{
            "set_name": "set",
            "state": MemberState.SECONDARY,
            "term": state.term,
            "config": state.config_version,
            "applied": applied,
            "durable": fields.pop("durable", applied),
            "commit_point": NULL_OPTIME,
            "electable": True,
        }
        | fields
    )
    request = HeartbeatRequest(set_name="set", sender="", sender_id=0, config=state.config_version, term=state.term)
    return core.receive(Answered(peer=host, request=request, reply=reply, round_trip=0.001), now)


def lose(core: Core, host: str, now: float = NOW, *, refused: bool = False) -> list[Effect]:
    """A heartbeat to `host` that failed."""
    state = core.state
    request = HeartbeatRequest(set_name="set", sender="", sender_id=0, config=state.config_version, term=state.term)
    return core.receive(Answered(peer=host, request=request, reply=None, error="failed", refused=refused), now)


def report(
    core: Core, member: int, applied: OpTime, durable: OpTime | None = None, term: int | None = None
) -> list[Effect]:
    """A member behind us tells how far it is."""
    assert core.state.config is not None
    host = next(each.host for each in core.state.config.members if each.id == member)
    durable = applied if durable is None else durable
    return core.receive(
        PositionUpdate(
            term=core.state.term if term is None else term,
            config=core.state.config_version,
            positions=(Position(member=member, host=host, applied=applied, durable=durable),),
            token=9,
        ),
        NOW,
    )


def only(effects: Iterable[Effect], kind: type[E]) -> E:
    """The one effect of that kind."""
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, found
    return found[0]


def every(effects: Iterable[Effect], kind: type[E]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def answer(effects: Iterable[Effect]) -> Any:
    """The result of the one reply."""
    return only(effects, Reply).result
