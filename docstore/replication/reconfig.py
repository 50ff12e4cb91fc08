"""Configuration changes (rules 19 and 21): initiation, reconfiguration, and configurations from heartbeats.

A safe change runs on the writable primary only, one at a time:

* The version grows. At most one voter is added or removed, so old and new majorities overlap. A voter is an id and a
  host: another host is another member, under any id.
* The current configuration is on a majority of its voters, and entries committed before it are on a majority of it.
* A new voter is stored as `newly_added` and does not count until it has caught up, so adding an empty member never
  costs the majority. The primary then promotes it by a further change.

A forced change may run on any member and skips these checks; its term is -1 and its version jumps, so that it wins. A
configuration of another set (`replica_set_id`) is never adopted.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.replication.config import MemberConfig, ReplicaSetConfig, is_foreign
from docstore.replication.config_rules import check_next, validate
from docstore.replication.effects import Effects, Persist, Reply, log
from docstore.replication.messages import NO_MEMBER, Initiate, Recognized, Reconfigure
from docstore.replication.peers import picture
from docstore.replication.primary_loss import SPREAD_SECONDS
from docstore.replication.progress import on_majority
from docstore.replication.states import MemberState, PrimaryState, Role
from docstore.replication.terms import (
    abandon_election,
    adopt_term,
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
    """Validate a first configuration for the member that installs it.

    Errors: InvalidReplicaSetConfig, NewReplicaSetConfigurationIncompatible.
    """
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
    _check_electable(_find_me(config, own_hosts), config)


def reconfigure(state: State, event: Reconfigure, now: float, out: Effects) -> None:
    """Process `replSetReconfig`: validate, complete and install the next configuration."""
    try:
        config = proposed(state, event.config, force=event.force, concern_is_set=event.concern_is_set)
    except CommandError as refusal:
        out.append(Reply(token=event.token, result=refusal))
        return
    install(state, config, now, out)
    out.append(Reply(token=event.token, result=config.config_version))


def proposed(state: State, config: ReplicaSetConfig, *, force: bool, concern_is_set: bool = False) -> ReplicaSetConfig:
    """Return the configuration as it would be installed now.

    Errors: a CommandError with the reason if it is invalid.
    """
    refuse_unless_initiated(state)
    successor = _next_forced(state, config) if force else _next_safe(state, config)
    if not concern_is_set:
        assert state.config is not None
        _check_default_write_concern(state.config, successor)
    return successor


def install(state: State, config: ReplicaSetConfig, now: float, out: Effects) -> None:
    """Install a configuration, durably first.

    * A primary that it removes or makes unelectable steps down.
    * A candidate's round ends, because votes under the former configuration no longer count. If it ran because there is
      no primary, it runs again soon. Otherwise the set would wait for an election timeout.
    """
    out.append(Persist(config=config))
    out.append(log("REPL", "New replica set config in use", config=config.to_document(stored=True)))
    state.config_target = state.commit_point
    before, my_id = state.config, state.my_id
    adopt(state, config, now)
    if state.me is None:
        out.append(log("REPL", "Cannot find self in new replica set configuration; I must be removed"))
    elif before is None or state.my_id != my_id:
        out.append(log("REPL", "Found self in config", hostAndPort=state.me.host))
    if state.role is Role.LEADER and (state.me is None or not state.me.electable or state.me.id != my_id):
        stop_being_primary(state, now, out, "the new configuration does not let this member be primary")
    round_ended = None
    if state.role is Role.CANDIDATE:
        round_ended = state.candidacy.election
        abandon_election(state, now)
    if state.role is not Role.LEADER and before is not None and _moved(before, config, state.vote.candidate):
        # The vote of this term is given; a member that has that id now did not get it.
        state.vote = replace(state.vote, candidate=NO_MEMBER)
        out.append(Persist(vote=state.vote))
    if state.role is not Role.LEADER:
        await_primary(state, config, now)
        if round_ended is not None and round_ended.for_want_of_primary and config.term <= state.term:
            state.candidacy.run_before_timeout(now + SPREAD_SECONDS * state.rng())


def adopt(state: State, config: ReplicaSetConfig, now: float) -> None:
    """Make `config`, which is or will be on disk, the current one."""
    assert state.config is None or config.config_version.newer_than(state.config.config_version)
    if state.config is not None and _moved(state.config, config, state.primary_id):
        state.primary_id = NO_MEMBER
    state.config = config
    _find_place(state, config, now)


def await_primary(state: State, config: ReplicaSetConfig, now: float) -> None:
    """Start waiting for news of a primary; a member whose own vote suffices runs at once."""
    restart_election_timer(state, now)
    if config.majority_votes == 1 and state.me is not None and state.me.electable:
        state.candidacy.run_by(now)


def recognize(state: State, event: Recognized, now: float, out: Effects) -> None:
    """Add own addresses: a configuration that did not seem to name this member may do so."""
    state.own_hosts |= event.hosts
    config = state.config
    if config is None or state.me is not None:
        return
    _find_place(state, config, now)
    if state.me is not None:
        out.append(log("REPL", "Found self in config", hostAndPort=state.me.host))
        await_primary(state, config, now)


def _find_place(state: State, config: ReplicaSetConfig, now: float) -> None:
    state.me = next((member for member in config.members if member.host in state.own_hosts), None)
    state.peers = picture(config, state.me, state.peers, now)
    state.leadership.count_silence_anew()


def _moved(before: ReplicaSetConfig, after: ReplicaSetConfig, member_id: int) -> bool:
    """Return True if the member with this id was removed, or moved to another host."""
    old, new = before.member(member_id), after.member(member_id)
    return old is not None and (new is None or new.host != old.host)


def heard_of(state: State, config: ReplicaSetConfig, now: float, out: Effects) -> None:
    """Adopt a newer configuration of this set from a heartbeat reply (rule 21).

    A newly eligible member cannot run in the configuration's term, whose votes were given under other ids.
    """
    if config.set_name != state.set_name or not config.config_version.newer_than(state.config_version):
        return
    if is_foreign(state.replica_set_id, config.settings.replica_set_id):
        return
    install(state, config, now, out)
    adopt_term(state, config.term, now, out)


def stamp_term(state: State, now: float, out: Effects) -> None:
    """Install the configuration with the new primary's term, so that it outranks those of a lost primary.

    A forced one, without term, gets a term with the next safe change; until then only versions are compared.
    """
    assert state.config is not None
    if 0 <= state.config.term < state.term:
        install(state, replace(state.config, term=state.term), now, out)


def promote_newly_added(state: State, now: float, out: Effects) -> None:
    """Promote a new voter once it is SECONDARY and has the entries committed before the last change (rule 19).

    That change must be settled. It also happens during a step-down, since the new voter may be the successor. A member
    that was in the set before and was away for long is SECONDARY at first, then finds that it cannot follow.
    """
    config = state.config
    in_office = state.primary_state in (PrimaryState.WRITABLE, PrimaryState.STEPPING_DOWN)
    if config is None or not in_office or not any(member.newly_added for member in config.members):
        return
    if unsettled(state):
        return
    for member in config.members:
        peer = state.peers.get(member.host)
        if peer is None or not peer.up or peer.state is not MemberState.SECONDARY:
            continue
        if member.newly_added and peer.applied >= state.config_target:
            message = "Beginning automatic reconfig to remove 'newlyAdded' field"
            out.append(log("REPL", message, memberId=member.id, hostAndPort=member.host))
            members = tuple(replace(m, newly_added=False) if m.id == member.id else m for m in config.members)
            install(state, replace(config, members=members, version=config.version + 1), now, out)
            return


def unsettled(state: State) -> str:
    """Return the reason why the next safe change must wait; empty if it need not."""
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


def _find_me(
    config: ReplicaSetConfig, own_hosts: Set[str], *, absent: Code = Code.InvalidReplicaSetConfig
) -> MemberConfig:
    mine = [member for member in config.members if member.host in own_hosts]
    if len(mine) != 1:
        subject = "No host described" if not mine else f"{len(mine)} hosts described"
        raise CommandError(
            Code.InvalidReplicaSetConfig if mine else absent,
            f"{subject} in new configuration with {config.config_version} for replica set {config.set_name} "
            f"map{'s' if len(mine) < 2 else ''} to this node",
        )
    return mine[0]


def _check_electable(me: MemberConfig, config: ReplicaSetConfig) -> None:
    if not me.electable:
        raise CommandError(
            Code.NodeNotElectable,
            f"This node, {me.host}, with _id MemberId({me.id}) is not electable under the new configuration with "
            f"{config.config_version} for replica set {config.set_name}",
        )


def _next_forced(state: State, config: ReplicaSetConfig) -> ReplicaSetConfig:
    assert state.config is not None
    _check_pair(state.config, config)
    version = max(config.version, state.config.version) + FORCED_VERSION_JUMP + int(state.rng() * FORCED_VERSION_JUMP)
    members = tuple(replace(member, newly_added=False) for member in config.members)
    config = replace(_of_this_set(state.config, config), version=version, term=-1, members=members)
    check_next(config)
    _find_me(config, state.own_hosts, absent=Code.NodeNotFound)
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
    check_next(config)
    me = _find_me(config, state.own_hosts, absent=Code.NodeNotFound)
    config = _mark_newly_added(current, config, state.my_id, me)
    _check_electable(_find_me(config, state.own_hosts), config)
    _check_one_voter(current, config, state.my_id)
    why = unsettled(state)
    if why:
        raise CommandError(CONFIG_NOT_COMMITTED, f"Cannot run replSetReconfig because {why}")
    return config


def _check_pair(current: ReplicaSetConfig, config: ReplicaSetConfig) -> None:
    """Reject changes that even a forced reconfiguration may not make.

    Errors: InvalidReplicaSetConfig for the set name, NewReplicaSetConfigurationIncompatible.
    """

    def refuse(message: str) -> CommandError:
        return CommandError(Code.NewReplicaSetConfigurationIncompatible, message)

    if config.set_name != current.set_name:
        raise CommandError(
            Code.InvalidReplicaSetConfig,
            "Rejecting reconfig where new config set name differs from command line set name, new config set name: "
            f"{config.set_name}, old config set name: {current.set_name}",
        )
    new_id, old_id = config.settings.replica_set_id, current.settings.replica_set_id
    if is_foreign(new_id, old_id):
        raise refuse(f"New and old configurations differ in replica set ID; old was {old_id}, and new is {new_id}")
    if config.config_server != current.config_server:
        raise refuse("New and old configurations differ in the setting of the 'configsvr' field")
    for member in config.members:
        old = current.member_at(member.host)
        if old is not None and old.id != member.id:
            raise refuse(
                f"New and old configurations both have members with host of {member.host} but in the new configuration "
                f"the _id field is MemberId({member.id}) and in the old configuration it is MemberId({old.id}) for "
                f"replica set {current.set_name}"
            )
        if old is not None and old.arbiter_only != member.arbiter_only:
            raise refuse(
                "New and old configurations differ in the setting of the arbiterOnly field for member "
                f"{member.host}; to make this change, remove then re-add the member"
            )


def _check_default_write_concern(current: ReplicaSetConfig, config: ReplicaSetConfig) -> None:
    if config.defaults_to_majority != current.defaults_to_majority:
        raise CommandError(
            Code.NewReplicaSetConfigurationIncompatible,
            "Reconfig attempted to install a config that would change the implicit default write concern. Use the "
            "setDefaultRWConcern command to set a cluster-wide write concern and try the reconfig again.",
        )


def _check_one_voter(current: ReplicaSetConfig, config: ReplicaSetConfig, my_id: int) -> None:
    """Check that the effective voters differ in one at most, so majorities overlap; this member counts as unchanged."""
    before, after = (
        {member.identity if member.id != my_id else (my_id, "") for member in voters}
        for voters in (current.voters, config.voters)
    )
    if len(before ^ after) > 1:
        raise CommandError(
            Code.NewReplicaSetConfigurationIncompatible,
            "Non force replica set reconfig can only add or remove at most 1 voting member.",
        )


def _mark_newly_added(
    current: ReplicaSetConfig, config: ReplicaSetConfig, my_id: int, me: MemberConfig
) -> ReplicaSetConfig:
    """Mark new voters as `newly_added`: those that were not members at that host; this member is never new."""
    members = []
    for member in config.members:
        old = current.member_at(member.host)
        fresh = member.votes == 1 and not member.arbiter_only and (old is None or old.newly_added)
        members.append(replace(member, newly_added=fresh and not (member is me and member.id == my_id)))
    return replace(_of_this_set(current, config), members=tuple(members))


def _of_this_set(current: ReplicaSetConfig, config: ReplicaSetConfig) -> ReplicaSetConfig:
    """Return the configuration with the set's id filled in."""
    if config.settings.replica_set_id is not None:
        return config
    return replace(config, settings=replace(config.settings, replica_set_id=current.settings.replica_set_id))
