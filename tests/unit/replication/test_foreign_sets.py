"""A member of another set of the same name: nothing that it says is counted, and it learns nothing from us."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docstore.errors import Code
from docstore.optime import NULL_OPTIME
from docstore.replication.config import ConfigVersion
from docstore.replication.core import Core
from docstore.replication.effects import Persist, Reply, Send
from docstore.replication.messages import (
    NO_CONFIG,
    HeartbeatRequest,
    Position,
    PositionUpdate,
    VoteRequest,
)
from docstore.replication.states import MemberState
from tests.unit.replication.members import (
    NOW,
    OURS,
    THEIRS,
    answer,
    config_of,
    every,
    follower,
    hear,
    leader,
    of_set,
    only,
    op,
    write,
)

THREE = of_set(config_of("a", "b", "c"), OURS)


def heartbeat(**fields: object) -> HeartbeatRequest:
    """Of a member 1 in term 9 with a newer configuration, of the other set."""
    request = {
        "set_name": "set",
        "sender": "b:1",
        "sender_id": 1,
        "config": ConfigVersion(9, 99),
        "term": 9,
        "commit_point": op(1, 999),
        "replica_set_id": THEIRS,
        "token": 5,
    }
    return HeartbeatRequest(**request | fields)  # type: ignore[arg-type]


def test_its_heartbeats_change_nothing_and_are_answered_with_our_id() -> None:
    core = follower(THREE, last=op(1, 10))
    effects = core.receive(heartbeat(), NOW)
    assert only(effects, Reply).result.replica_set_id == OURS
    assert only(effects, Reply).result.config_document is None
    assert not [send for send in every(effects, Send) if send.to == "b:1" and send.timeout == 2.0]
    assert (core.state.term, core.state.commit_point) == (1, NULL_OPTIME)
    assert core.state.peers["b:1"].config == NO_CONFIG


def test_its_configuration_never_replaces_ours() -> None:
    core = follower(THREE, last=op(1, 10))
    newer = of_set(replace(THREE, version=50, members=THREE.members[1:]), THEIRS)
    effects = hear(core, "b:1", config=newer.config_version, config_document=newer, replica_set_id=THEIRS)
    assert not every(effects, Persist)
    effects = hear(core, "b:1", config=newer.config_version, config_document=newer, replica_set_id=None)
    assert not every(effects, Persist)
    assert core.state.config == THREE


def test_it_is_shown_as_down_with_the_reason() -> None:
    core = follower(THREE, last=op(1, 10))
    hear(core, "b:1", replica_set_id=OURS)
    assert core.state.peers["b:1"].up
    hear(core, "b:1", term=9, replica_set_id=THEIRS, state=MemberState.PRIMARY, applied=op(9, 99))
    peer = core.state.peers["b:1"]
    assert (peer.up, peer.state, peer.applied) == (False, MemberState.DOWN, NULL_OPTIME)
    assert peer.message == f"replica set IDs do not match, ours: {OURS}; remote node's: {THEIRS}"
    assert (core.state.term, core.state.primary) == (1, None)


def test_it_is_never_a_sync_source() -> None:
    core = follower(THREE, last=op(1, 10))
    for host in ("b:1", "c:1"):
        hear(core, host, applied=op(1, 50), replica_set_id=THEIRS)
    core.tick(NOW + 2)
    assert core.state.sync_source.host is None


def test_it_gets_no_vote_and_its_term_is_no_news() -> None:
    core = leader(THREE, op(0, 1))
    request = VoteRequest(
        set_name="set",
        dry_run=False,
        term=9,
        candidate=1,
        config=ConfigVersion(9, 99),
        last_op=op(8, 99),
        replica_set_id=THEIRS,
        token=3,
    )
    for asks in (request, replace(request, set_name="other", replica_set_id=None)):
        reply = answer(core.receive(asks, NOW))
        assert not reply.granted
        assert reply.term == 9, "our term is no news to it"
        assert core.state.writable


@pytest.mark.parametrize("replica_set_id", [OURS, THEIRS])
def test_its_positions_never_commit(replica_set_id: object) -> None:
    core = leader(THREE, op(0, 1))
    last = write(core)
    update = PositionUpdate(
        term=core.state.term,
        config=core.state.config_version,
        positions=(Position(member=1, host="b:1", applied=last, durable=last),),
        replica_set_id=replica_set_id,  # type: ignore[arg-type]
        token=4,
    )
    result = answer(core.receive(update, NOW))
    if replica_set_id == OURS:
        assert core.state.commit_point == last
    else:
        assert result.code == Code.InvalidReplicaSetConfig
        assert core.state.commit_point < last


def test_a_member_without_configuration_joins_whoever_names_it() -> None:
    core = Core("set", rng=lambda: 0.5, own_hosts=["c:1"], now=NOW)
    effects = core.receive(heartbeat(), NOW)
    assert only(effects, Send).to == "b:1"
