"""First and next configurations: what is refused, what is completed, how they spread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME
from docstore.replication.config import ConfigVersion, MemberConfig, ReplicaSetConfig
from docstore.replication.core import Core
from docstore.replication.effects import Persist, Reply, Send, SteppedDown
from docstore.replication.messages import (
    NO_CONFIG,
    NO_MEMBER,
    Answered,
    FollowerState,
    HeartbeatReply,
    HeartbeatRequest,
    Initiate,
    LastVote,
    Position,
    PositionUpdate,
    Progress,
    Recognized,
    Reconfigure,
    VoteRequest,
)
from docstore.replication.reconfig import CONFIG_NOT_COMMITTED
from docstore.replication.states import MemberState, Role
from tests.unit.replication.members import (
    NOW,
    OURS,
    answer,
    config_of,
    every,
    follower,
    hear,
    leader,
    of_set,
    only,
    op,
    report,
    with_member,
    write,
)

THREE = config_of("a", "b", "c")


def fresh(*hosts: str) -> Core:
    return Core("set", rng=lambda: 0.5, own_hosts=[f"{host}:1" for host in hosts or ("a",)], now=NOW)


def settled() -> Core:
    """A leader whose configuration and first entry are on everyone."""
    core = leader(THREE, op(0, 1))
    for number, host in enumerate("abc"):
        if number:
            report(core, number, core.state.applied)
            hear(core, f"{host}:1")
    return core


def next_of(core: Core, *members: MemberConfig) -> ReplicaSetConfig:
    assert core.state.config is not None
    return replace(core.state.config, version=core.state.config.version + 1, members=members)


def changed(
    core: Core, config: ReplicaSetConfig, *, force: bool = False, concern_is_set: bool = False
) -> CommandError | ConfigVersion:
    event = Reconfigure(config=config, force=force, concern_is_set=concern_is_set, token=1)
    return answer(core.receive(event, NOW))  # type: ignore[no-any-return]


def test_initiating_persists_the_configuration_and_runs_as_soon_as_a_majority_has_it() -> None:
    core = fresh()
    core.receive(Progress(applied=op(0, 1), durable=op(0, 1)), NOW)
    core.receive(FollowerState(state=MemberState.SECONDARY), NOW)
    effects = core.receive(Initiate(config=THREE, token=1), NOW)
    assert only(effects, Persist).config == THREE
    assert answer(effects) is None
    assert core.state.role is Role.FOLLOWER
    hear(core, "b:1", NOW, applied=op(0, 1))
    core.tick(NOW + 0.06)
    assert core.state.role is Role.CANDIDATE


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (config_of("a", set_name="other"), Code.InvalidReplicaSetConfig),
        (config_of("b"), Code.InvalidReplicaSetConfig),
        (config_of("a", "b", version=2), Code.NewReplicaSetConfigurationIncompatible),
        (with_member(config_of("a", "b"), 0, priority=0.0), Code.NodeNotElectable),
    ],
)
def test_a_first_configuration_is_refused(config: ReplicaSetConfig, code: Code) -> None:
    assert answer(fresh().receive(Initiate(config=config, token=1), NOW)).code == code


def test_a_configuration_that_names_us_twice_is_refused() -> None:
    assert answer(fresh("a", "b").receive(Initiate(config=THREE, token=1), NOW)).code == Code.InvalidReplicaSetConfig


def test_initiating_twice_is_refused() -> None:
    assert answer(follower(THREE).receive(Initiate(config=THREE, token=1), NOW)).code == Code.AlreadyInitialized


def test_a_new_voter_is_stored_as_newly_added_and_promoted_once_it_is_secondary() -> None:
    core = settled()
    assert core.state.config is not None
    added = next_of(core, *core.state.config.members, MemberConfig(id=3, host="d:1"))
    assert isinstance(changed(core, added), ConfigVersion)
    assert core.state.config.members[3].newly_added
    assert core.state.config.majority_votes == 2
    for host in "bc":
        hear(core, f"{host}:1")
    hear(core, "d:1", state=MemberState.STARTUP2)
    assert core.state.config.members[3].newly_added
    effects = hear(core, "d:1")
    promoted = only(effects, Persist).config
    assert promoted is not None
    assert (promoted.members[3].newly_added, promoted.version) == (False, 3)


def test_a_new_voter_whose_log_ends_too_early_does_not_count() -> None:
    """It was in the set before and was away for long: perhaps nobody has what follows its last entry."""
    core = settled()
    assert core.state.config is not None
    changed(core, next_of(core, *core.state.config.members, MemberConfig(id=3, host="d:1")))
    for host in "bc":
        hear(core, f"{host}:1")
    hear(core, "d:1", applied=op(0, 1))
    assert core.state.config.members[3].newly_added
    hear(core, "d:1", applied=core.state.commit_point)
    assert not core.state.config.members[3].newly_added


def test_a_change_is_refused_until_the_one_before_is_on_a_majority() -> None:
    core = settled()
    assert core.state.config is not None
    members = core.state.config.members
    assert isinstance(changed(core, next_of(core, *members[:2])), ConfigVersion)
    refused = changed(core, next_of(core, *members[:1]))
    assert isinstance(refused, CommandError)
    assert refused.code == CONFIG_NOT_COMMITTED
    hear(core, "b:1")
    assert isinstance(changed(core, next_of(core, *members[:1])), ConfigVersion)


def test_what_a_smaller_majority_has_is_committed_when_the_set_becomes_smaller() -> None:
    core = settled()
    assert core.state.config is not None
    members = core.state.config.members
    assert isinstance(changed(core, next_of(core, *members[:2])), ConfigVersion)
    hear(core, "b:1")
    alone = write(core)
    assert core.state.commit_point < alone
    assert isinstance(changed(core, next_of(core, *members[:1])), ConfigVersion)
    assert core.state.commit_point == alone


def test_a_change_is_refused_until_an_entry_of_the_own_term_is_committed() -> None:
    core = leader(THREE, op(0, 1))
    for host in "bc":
        hear(core, f"{host}:1", applied=op(0, 1))
    assert core.state.config is not None
    refused = changed(core, next_of(core, *core.state.config.members[:2]))
    assert isinstance(refused, CommandError)
    assert "in its own term" in refused.message


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda c: replace(c, set_name="x", version=9), Code.InvalidReplicaSetConfig),
        (lambda c: c, Code.NewReplicaSetConfigurationIncompatible),
        (lambda c: replace(c, version=9, members=c.members[:1]), Code.NewReplicaSetConfigurationIncompatible),
        (lambda c: replace(c, version=9, members=c.members[1:]), Code.NodeNotFound),
        (lambda c: replace(c, version=9, members=()), Code.NewReplicaSetConfigurationIncompatible),
        (lambda c: replace(with_member(c, 0, priority=0.0), version=9), Code.NodeNotElectable),
        (lambda c: replace(with_member(c, 1, id=7), version=9), Code.NewReplicaSetConfigurationIncompatible),
        (lambda c: replace(c, version=9, config_server=True), Code.NewReplicaSetConfigurationIncompatible),
    ],
)  # fmt: skip
def test_an_unsafe_change_is_refused(make, code: Code) -> None:  # type: ignore[no-untyped-def]
    core = settled()
    refused = changed(core, make(core.state.config))
    assert isinstance(refused, CommandError)
    assert refused.code == code


def test_an_arbiter_that_would_change_the_implicit_write_concern_is_refused() -> None:
    core = settled()
    assert core.state.config is not None
    arbiter = MemberConfig(id=3, host="d:1", arbiter_only=True, priority=0.0)
    following = next_of(core, *core.state.config.members, arbiter)
    assert isinstance(changed(core, following), CommandError)
    assert not isinstance(changed(core, following, concern_is_set=True), CommandError)


def test_only_the_primary_changes_the_configuration_unless_forced() -> None:
    core = follower(THREE, last=op(1, 10))
    config = replace(THREE, version=2, members=THREE.members[:1])
    refused = changed(core, config)
    assert isinstance(refused, CommandError)
    assert refused.code == Code.NotWritablePrimary
    version = changed(core, config, force=True)
    assert isinstance(version, ConfigVersion)
    assert version.term == -1
    assert version.version > 10000


def test_a_new_primary_stamps_its_term_on_the_configuration() -> None:
    assert leader(THREE, op(0, 1)).state.config_version == ConfigVersion(1, 1)


def test_a_newer_configuration_comes_with_a_heartbeat_and_is_persisted() -> None:
    core = follower(THREE, last=op(1, 10))
    newer = replace(THREE, version=5, members=THREE.members[:2])
    effects = hear(core, "b:1", config=newer.config_version, config_document=newer)
    assert only(effects, Persist).config == newer
    assert set(core.state.peers) == {"b:1"}
    older = replace(THREE, version=4)
    assert not every(hear(core, "b:1", config=newer.config_version, config_document=older), Persist)


def test_a_primary_that_is_left_out_leaves_office() -> None:
    core = settled()
    without = replace(THREE, version=9, term=5, members=THREE.members[1:])
    effects = hear(core, "b:1", config=without.config_version, config_document=without)
    assert only(effects, SteppedDown)
    assert core.state.member_state is MemberState.REMOVED


def test_a_member_that_learns_its_name_late_takes_its_place_and_may_lead() -> None:
    config = config_of("alias")
    core = Core("set", rng=lambda: 0.5, own_hosts=["a:1"], config=config, last_op=op(1, 10), now=NOW)
    core.receive(FollowerState(state=MemberState.SECONDARY), NOW)
    assert core.state.member_state is MemberState.REMOVED
    core.receive(Recognized(hosts=frozenset(["other:1"])), NOW)
    assert core.state.member_state is MemberState.REMOVED
    core.receive(Recognized(hosts=frozenset(["alias:1"])), NOW)
    assert (core.state.my_id, core.state.peers) == (0, {})
    assert core.state.member_state is MemberState.PRIMARY
    core.check()


def test_a_member_without_configuration_asks_whoever_has_one() -> None:
    core = fresh("c")
    asking = HeartbeatRequest(set_name="set", sender="a:1", sender_id=0, config=THREE.config_version, term=3, token=4)
    effects = core.receive(asking, NOW)
    reply = only(effects, Reply).result
    assert (reply.state, reply.config) == (MemberState.STARTUP, NO_CONFIG)
    assert only(effects, Send).to == "a:1"
    answered = HeartbeatReply(
        set_name="set",
        state=MemberState.SECONDARY,
        term=3,
        config=THREE.config_version,
        applied=op(1, 1),
        durable=op(1, 1),
        commit_point=op(1, 1),
        config_document=THREE,
    )
    request = HeartbeatRequest(set_name="set", sender="", sender_id=-1, config=NO_CONFIG, term=0)
    core.receive(Answered(peer="a:1", request=request, reply=answered), NOW)
    assert core.state.config == THREE
    assert core.state.my_id == 2


def test_a_heartbeat_of_another_set_is_refused() -> None:
    asking = HeartbeatRequest(set_name="other", sender="x:1", sender_id=0, config=THREE.config_version, term=3, token=4)
    core = follower(THREE)
    assert answer(core.receive(asking, NOW)).code == Code.InconsistentReplicaSetNames
    assert core.state.term == 0


def test_a_member_at_another_host_is_another_voter_under_the_same_id() -> None:
    core = settled()
    config = core.state.config
    assert config is not None
    two = tuple(replace(m, host=f"{m.host[0]}{m.host[0]}:1") if m.id else m for m in config.members)
    refused = changed(core, next_of(core, *two))
    assert isinstance(refused, CommandError)
    assert refused.code == Code.NewReplicaSetConfigurationIncompatible
    assert isinstance(changed(core, next_of(core, *two[:2], config.members[2])), ConfigVersion)
    assert core.state.config is not None
    assert [m.identity for m in core.state.config.voters] == [(0, "a:1"), (2, "c:1")]
    assert core.state.config.members[1].newly_added
    assert core.state.peers["bb:1"].applied == NULL_OPTIME


def test_several_members_may_be_added_at_once_as_none_of_them_counts_yet() -> None:
    core = settled()
    assert core.state.config is not None
    more = [MemberConfig(id=number, host=f"{number}:1") for number in (3, 4)]
    assert isinstance(changed(core, next_of(core, *core.state.config.members, *more)), ConfigVersion)
    assert core.state.config.majority_votes == 2


def test_hosts_are_not_exchanged_between_ids() -> None:
    core = settled()
    assert core.state.config is not None
    a, b, c = core.state.config.members
    refused = changed(core, next_of(core, a, replace(b, host=c.host), replace(c, host=b.host)))
    assert isinstance(refused, CommandError)
    assert "both have members with host of c:1" in refused.message


def test_a_primary_may_be_called_by_another_of_its_names() -> None:
    core = settled()
    core.receive(Recognized(hosts=frozenset(["alias:1"])), NOW)
    assert core.state.config is not None
    a, b, c = core.state.config.members
    assert isinstance(changed(core, next_of(core, replace(a, host="alias:1"), b, c)), ConfigVersion)
    assert core.state.writable
    assert len(core.state.config.voters) == 3


def test_a_primary_that_becomes_another_member_leaves_office() -> None:
    core = settled()
    core.receive(Recognized(hosts=frozenset(["alias:1"])), NOW)
    assert core.state.config is not None
    _, b, c = core.state.config.members
    forced = next_of(core, MemberConfig(id=7, host="alias:1"), b, c)
    assert isinstance(changed(core, forced, force=True), ConfigVersion)
    assert core.state.role is Role.FOLLOWER
    core.check()


def test_a_forced_change_keeps_the_id_of_the_set_and_marks_nobody() -> None:
    core = follower(of_set(THREE, OURS), last=op(1, 10))
    bare = replace(THREE, version=2, members=(*THREE.members[:2], MemberConfig(id=8, host="x:1", newly_added=True)))
    assert isinstance(changed(core, bare, force=True), ConfigVersion)
    assert core.state.replica_set_id == OURS
    assert core.state.config is not None
    assert not any(member.newly_added for member in core.state.config.members)


def test_positions_count_for_the_member_at_that_host_only() -> None:
    core = settled()
    write(core)
    moved = Position(member=1, host="bb:1", applied=core.state.applied, durable=core.state.applied)
    update = PositionUpdate(term=core.state.term, config=core.state.config_version, positions=(moved,), token=9)
    core.receive(update, NOW)
    assert core.state.commit_point < core.state.applied


def test_who_gets_the_id_of_a_candidate_does_not_get_its_vote() -> None:
    core = follower(THREE, last=op(1, 10), vote=LastVote(term=2, candidate=1))
    moved = replace(with_member(THREE, 1, host="bb:1"), version=10_000, term=-1)
    effects = hear(core, "c:1", config=moved.config_version, config_document=moved)
    assert [persist.vote for persist in every(effects, Persist)] == [None, LastVote(term=2, candidate=NO_MEMBER)]
    asks = VoteRequest(
        set_name="set", dry_run=False, term=2, candidate=1, config=moved.config_version, last_op=op(1, 10), token=7
    )
    assert "already voted" in answer(core.receive(asks, NOW)).reason


def test_a_configuration_brings_its_term() -> None:
    core = follower(THREE, last=op(1, 10))
    newer = replace(THREE, version=5, term=4)
    hear(core, "b:1", term=1, config=newer.config_version, config_document=newer)
    assert core.state.term == 4


def test_a_primary_whose_host_changes_is_not_known_as_primary_any_more() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "b:1", state=MemberState.PRIMARY)
    assert core.state.primary_id == 1
    newer = replace(with_member(THREE, 1, host="bb:1"), version=5)
    hear(core, "c:1", config=newer.config_version, config_document=newer)
    assert core.state.primary_id == NO_MEMBER
