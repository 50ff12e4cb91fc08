"""What hello says of each kind of member."""

from __future__ import annotations

from docstore.optime import NULL_OPTIME
from docstore.replicaset.hello import election_id, hello_fields, topology_seen
from docstore.replication.core import Core
from docstore.replication.states import MemberState
from tests.unit.replication.members import NOW, config_of, follower, hear, leader, op, with_member

THREE = config_of("a", "b", "c")


def fields(core: Core) -> dict[str, object]:
    return hello_fields(core.state, core.state.applied, core.state.commit_point)


def test_a_primary_tells_who_and_since_which_election() -> None:
    core = leader(THREE, op(0, 1))
    said = fields(core)
    assert list(said)[:8] == [
        "hosts", "setName", "setVersion", "isWritablePrimary", "secondary", "primary", "me", "electionId",
    ]  # fmt: skip
    assert (said["isWritablePrimary"], said["secondary"], said["primary"], said["me"]) == (True, False, "a:1", "a:1")
    assert str(said["electionId"]) == "7fffffff0000000000000001"


def test_election_ids_grow_with_the_term() -> None:
    ids = [str(election_id(term)) for term in (0, 1, 255, 256, 1 << 40)]
    assert ids == sorted(ids)


def test_a_secondary_tells_its_primary_and_no_election() -> None:
    core = follower(THREE, 1, op(1, 5))
    hear(core, "a:1", state=MemberState.PRIMARY, term=1)
    said = fields(core)
    assert (said["isWritablePrimary"], said["secondary"], said["primary"]) == (False, True, "a:1")
    assert "electionId" not in said


def test_a_winner_that_takes_no_writes_yet_calls_itself_secondary() -> None:
    core = follower(config_of("a"), 0, op(0, 1))
    core.tick(NOW)
    said = fields(core)
    assert (said["isWritablePrimary"], said["secondary"]) == (False, True)
    assert "primary" not in said


def test_hidden_passive_arbiter_and_tagged_members_are_listed_as_such() -> None:
    config = config_of("a", "b", "c", "d")
    config = with_member(config, 1, priority=0.0, tags={"dc": "east"})
    config = with_member(config, 2, priority=0.0, hidden=True, delay_seconds=60)
    config = with_member(config, 3, arbiter_only=True, priority=0.0)
    said = fields(follower(config, 1, op(1, 1)))
    assert (said["hosts"], said["passives"], said["arbiters"]) == (["a:1"], ["b:1"], ["d:1"])
    assert (said["passive"], said["tags"]) == (True, {"dc": "east"})
    hidden = fields(follower(config, 2, op(1, 1)))
    assert (hidden["hidden"], hidden["secondaryDelaySecs"]) == (True, 60)
    arbiter = fields(follower(config, 3))
    assert (arbiter["arbiterOnly"], arbiter["secondary"]) == (True, False)
    assert "lastWrite" not in arbiter


def test_who_has_no_place_in_a_set_says_only_that() -> None:
    core = Core("set", rng=lambda: 0.5, own_hosts=["a:1"], now=NOW)
    assert hello_fields(core.state, NULL_OPTIME, NULL_OPTIME)["isreplicaset"] is True


def test_only_what_hello_shows_is_news() -> None:
    core = leader(THREE, op(0, 1))
    before = topology_seen(core.state)
    hear(core, "b:1")
    assert topology_seen(core.state) == before
    hear(core, "b:1", term=9)
    assert topology_seen(core.state) != before
