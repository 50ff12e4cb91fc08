"""Changing the configuration (rules 19 and 21): the first one, the next one, one heard of by heartbeat.

A safe change happens on the writable primary only, one at a time:

* the version grows; at most one voter is added or removed, so the majorities of the old and the new one overlap;
* the current configuration is on a majority of its own voters, and what was committed before it is on a majority of it;
* a new voter is stored as `newly_added` and does not count until it has caught up, so that adding an empty member never
  takes the majority away; the primary then promotes it by a change of its own.

A forced change may run on any member and skips all of that; its term is -1 and its version jumps, so that it wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.replication.config import MemberConfig, ReplicaSetConfig, validate
from docstore.replication.effects import Effects, Persist, Reply
from docstore.replication.messages import NO_MEMBER, Initiate, Reconfigure
from docstore.replication.peers import picture
from docstore.replication.progress import on_majority
from docstore.replication.states import MemberState, PrimaryState, Role
from docstore.replication.terms import (
    abandon_election,
    refuse_unless_initiated,
    restart_election_timer,
    stop_being_primary,
)

if TYPE_CHECKING:
    from docstore.replication.state import State

CONFIG_NOT_COMMITTED = 308
"""MongoDB's code CurrentConfigNotCommittedYet."""
FORCED_VERSION_JUMP = 10000


def initiate(state: State, event: Initiate, now: float, out: Effects) -> None:
    """Install the first configuration; this member will be the first primary."""
    try:
        if state.config is not None:
            raise CommandError(Code.AlreadyInitialized, "already initialized")
        check_first(event.config, state.set_name, state.own_hosts)
    except CommandError as refusal:
        out.append(Reply(token=event.token, result=refusal))
        return
    install(state, event.config, now, out)
    state.candidacy.run_eagerly(now, now + event.config.settings.election_timeout)
    out.append(Reply(token=event.token, result=None))


def check_first(config: ReplicaSetConfig, set_name: str, own_hosts: Set[str]) -> None:
    """What a first configuration must be, seen from the member that is asked to install it."""
    validate(config)
    if config.set_name != set_name:
        raise CommandError(
            Code.InvalidReplicaSetConfig,
            "Rejecting initiate with a set name that differs from command line set name, "
            f"initiate set name: {config.set_name}, command line set name: {set_name}",
        )
    if config.version != 1:
        raise CommandError(
            Code.NewReplicaSetConfigurationIncompatible,
            f"Configuration used to initiate a replica set must have version 1, but found {config.version}",
        )
    _find_electable_me(config, own_hosts)


def reconfigure(state: State, event: Reconfigure, now: float, out: Effects) -> None:
    """`replSetReconfig`: check, complete and install the next configuration."""
    try:
        refuse_unless_initiated(state)
        config = _next_forced(state, event.config) if event.force else _next_safe(state, event.config)
    except CommandError as refusal:
        out.append(Reply(token=event.token, result=refusal))
        return
    install(state, config, now, out)
    out.append(Reply(token=event.token, result=config.config_version))


def install(state: State, config: ReplicaSetConfig, now: float, out: Effects) -> None:
    """Make a configuration ours, durably first. A primary that it leaves out or makes unelectable steps down."""
    out.append(Persist(config=config))
    state.config_target = state.commit_point
    adopt(state, config, now)
    if state.role is Role.LEADER and (state.me is None or not state.me.electable):
        stop_being_primary(state, now, out, "the new configuration does not let this member be primary")
    elif state.role is Role.CANDIDATE:
        abandon_election(state, now)
    if state.role is not Role.LEADER:
        restart_election_timer(state, now)
        if state.me is not None and config.majority_votes == 1 and state.me.voter:
            state.candidacy.run_by(now)


def adopt(state: State, config: ReplicaSetConfig, now: float) -> None:
    """Make `config`, which is on disk or on its way there, the current one."""
    assert state.config is None or config.config_version.newer_than(state.config.config_version)
    state.config = config
    state.me = next((member for member in config.members if member.host in state.own_hosts), None)
    state.peers = picture(config, state.me, state.peers, now)
    if config.member(state.primary_id) is None:
        state.primary_id = NO_MEMBER


def heard_of(state: State, config: ReplicaSetConfig, now: float, out: Effects) -> None:
    """A newer configuration came with a heartbeat reply (rule 21)."""
    if config.set_name == state.set_name and config.config_version.newer_than(state.config_version):
        install(state, config, now, out)


def stamp_term(state: State, now: float, out: Effects) -> None:
    """A new primary gives the configuration its own term, so that it outranks what a lost primary may still install.

    A forced one, which has no term, gets it with the next safe change: until then versions alone decide.
    """
    assert state.config is not None
    if 0 <= state.config.term < state.term:
        install(state, replace(state.config, term=state.term), now, out)


def promote_newly_added(state: State, now: float, out: Effects) -> None:
    """Let a new voter count once it is SECONDARY and the last change has settled (rule 19)."""
    config = state.config
    if config is None or not state.writable or not any(member.newly_added for member in config.members):
        return
    if unsettled(state):
        return
    for member in config.members:
        peer = state.peers.get(member.host)
        if member.newly_added and peer is not None and peer.up and peer.state is MemberState.SECONDARY:
            members = tuple(replace(m, newly_added=False) if m.id == member.id else m for m in config.members)
            install(state, replace(config, members=members, version=config.version + 1), now, out)
            return


def unsettled(state: State) -> str:
    """Why the next safe change has to wait; empty when it need not."""
    config = state.config
    assert config is not None
    if not on_majority(config, _members_with_config(state, config)):
        return f"the current config {config.config_version} is not yet on a majority of its voting members"
    if state.commit_point.term != state.term:
        return "the primary has not committed an entry in its own term yet"
    target = state.config_target
    reached = [m.id for m in config.members if m.id == state.my_id and state.applied >= target] + [
        member.id
        for member in config.members
        if (peer := state.peers.get(member.host)) is not None and (member.arbiter_only or peer.applied >= target)
    ]
    if not on_majority(config, reached):
        return "entries committed under the previous config are not yet on a majority of the current one"
    return ""


def _members_with_config(state: State, config: ReplicaSetConfig) -> Iterable[int]:
    for member in config.members:
        peer = state.peers.get(member.host)
        if member.id == state.my_id or (peer is not None and peer.config == config.config_version):
            yield member.id


def _find_me(config: ReplicaSetConfig, own_hosts: Set[str]) -> MemberConfig:
    mine = [member for member in config.members if member.host in own_hosts]
    if len(mine) != 1:
        what = "No host described" if not mine else f"{len(mine)} hosts described"
        raise CommandError(
            Code.InvalidReplicaSetConfig,
            f"{what} in new configuration with {config.config_version} for replica set {config.set_name} "
            f"map{'s' if len(mine) < 2 else ''} to this node",
        )
    return mine[0]


def _find_electable_me(config: ReplicaSetConfig, own_hosts: Set[str]) -> None:
    me = _find_me(config, own_hosts)
    if not me.electable:
        raise CommandError(
            Code.NodeNotElectable,
            f"This node, {me.host}, with _id {me.id} is not electable under the new configuration",
        )


def _next_forced(state: State, config: ReplicaSetConfig) -> ReplicaSetConfig:
    assert state.config is not None
    _check_pair(state.config, config)
    version = max(config.version, state.config.version) + FORCED_VERSION_JUMP + int(state.rng() * FORCED_VERSION_JUMP)
    config = replace(config, version=version, term=-1)
    validate(config)
    _find_me(config, state.own_hosts)
    return config


def _next_safe(state: State, config: ReplicaSetConfig) -> ReplicaSetConfig:
    current = state.config
    assert current is not None
    if state.primary_state is not PrimaryState.WRITABLE:
        raise CommandError(
            Code.NotWritablePrimary,
            "New config is rejected :: caused by :: replSetReconfig should only be run on a writable PRIMARY. "
            f"Current state {state.member_state.label};",
        )
    config = replace(config, term=state.term)
    _check_pair(current, config)
    if not config.config_version.newer_than(current.config_version):
        raise CommandError(
            Code.NewReplicaSetConfigurationIncompatible,
            "New replica set configuration version and term must be greater than old, but "
            f"{config.config_version} is not greater than {current.config_version} for replica set {current.set_name}",
        )
    validate(config)
    _find_electable_me(config, state.own_hosts)
    _check_one_voter(current, config)
    if config.defaults_to_majority != current.defaults_to_majority:
        raise CommandError(
            Code.NewReplicaSetConfigurationIncompatible,
            "Reconfig attempted to install a config that would change the implicit default write concern: with these "
            "arbiters, a majority of the voters could no longer be reached by data-bearing members alone",
        )
    why = unsettled(state)
    if why:
        raise CommandError(CONFIG_NOT_COMMITTED, f"Cannot run replSetReconfig because {why}")
    return _mark_newly_added(current, config)


def _check_pair(current: ReplicaSetConfig, config: ReplicaSetConfig) -> None:
    """What even a forced change may not do."""

    def refuse(message: str) -> CommandError:
        return CommandError(Code.NewReplicaSetConfigurationIncompatible, message)

    if config.set_name != current.set_name:
        raise refuse(
            f"New and old configurations differ in replica set name; old was {current.set_name}, "
            f"and new is {config.set_name}"
        )
    new_id, old_id = config.settings.replica_set_id, current.settings.replica_set_id
    if new_id is not None and old_id is not None and new_id != old_id:
        raise refuse(f"New and old configurations differ in replica set ID; old was {old_id}, and new is {new_id}")
    if config.config_server != current.config_server:
        raise refuse("New and old configurations differ in the setting of the 'configsvr' field")
    for member in config.members:
        old = next((other for other in current.members if other.host == member.host), None)
        if old is not None and old.arbiter_only != member.arbiter_only:
            raise refuse(f"New and old configurations differ in the setting of the arbiterOnly field for {member.host}")
        if old is not None and old.id != member.id:
            raise refuse(f"New and old configurations both have {member.host}, but with different _id fields")


def _check_one_voter(current: ReplicaSetConfig, config: ReplicaSetConfig) -> None:
    before = {member.id for member in current.members if member.votes}
    after = {member.id for member in config.members if member.votes}
    if len(before ^ after) > 1:
        raise CommandError(
            Code.InvalidReplicaSetConfig,
            "Non force replica set reconfig can only add or remove at most 1 voting member.",
        )


def _mark_newly_added(current: ReplicaSetConfig, config: ReplicaSetConfig) -> ReplicaSetConfig:
    settings = config.settings
    if settings.replica_set_id is None:
        settings = replace(settings, replica_set_id=current.settings.replica_set_id)
    members = []
    for member in config.members:
        old = current.member_at(member.host)
        fresh = member.votes == 1 and not member.arbiter_only and (old is None or old.newly_added)
        members.append(replace(member, newly_added=fresh))
    return replace(config, settings=settings, members=tuple(members))
