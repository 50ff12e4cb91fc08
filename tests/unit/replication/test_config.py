"""The configuration document: defaults, refusals, what counts."""

from __future__ import annotations

from typing import Any

import pytest
from bson.objectid import ObjectId

from docstore.errors import Code, CommandError
from docstore.replication.config import CUSTOMIZED_DEFAULTS, ConfigVersion, ReplicaSetConfig, parse_config
from docstore.replication.config_rules import check_initial, check_next, validate
from tests.unit.replication.members import config_of, with_member


def document(**fields: Any) -> dict[str, Any]:
    return {"_id": "set", "version": 1, "members": [{"_id": 0, "host": "a:1"}, {"_id": 1, "host": "b:1"}]} | fields


def parsed(**fields: Any) -> ReplicaSetConfig:
    config = parse_config(document(**fields))
    validate(config)
    return config


def refusal(**fields: Any) -> str:
    with pytest.raises(CommandError) as refused:
        parsed(**fields)
    assert refused.value.code == Code.InvalidReplicaSetConfig
    return refused.value.message


def test_every_default_is_spelled_out_as_the_real_server_does() -> None:
    set_id = ObjectId()
    shown = parsed(settings={"replicaSetId": set_id}, term=1).to_document()
    assert shown == {
        "_id": "set",
        "version": 1,
        "term": 1,
        "members": [
            {
                "_id": number,
                "host": host,
                "arbiterOnly": False,
                "buildIndexes": True,
                "hidden": False,
                "priority": 1.0,
                "tags": {},
                "secondaryDelaySecs": 0,
                "votes": 1,
            }
            for number, host in enumerate(("a:1", "b:1"))
        ],
        "protocolVersion": 1,
        "writeConcernMajorityJournalDefault": True,
        "settings": {
            "chainingAllowed": True,
            "heartbeatIntervalMillis": 2000,
            "heartbeatTimeoutSecs": 10,
            "electionTimeoutMillis": 10000,
            "catchUpTimeoutMillis": -1,
            "catchUpTakeoverDelayMillis": 30000,
            "getLastErrorModes": {},
            "getLastErrorDefaults": {"w": 1, "wtimeout": 0},
            "replicaSetId": set_id,
        },
    }
    assert parse_config(shown).to_document() == shown


def test_a_newly_added_member_is_stored_but_not_shown() -> None:
    config = with_member(config_of("a", "b"), 1, newly_added=True)
    assert "newlyAdded" not in config.to_document()["members"][1]
    assert parse_config(config.to_document(stored=True)) == config


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"members": []}, "contains 0 members"),
        ({"version": 0}, "'version' value must be > 0"),
        ({"protocolVersion": 0}, "protocolVersion"),
        ({"nosuch": 1}, "'ReplSetConfig.nosuch' is an unknown field"),
        ({"members": [{"_id": 0, "host": "a:1", "foo": 1}]}, "'MemberConfig.foo' is an unknown field"),
        ({"members": [{"_id": 0}]}, "'MemberConfig.host' is missing"),
        ({"members": [{"_id": 0.5, "host": "a:1"}]}, "whole number"),
        ({"members": [{"_id": 0, "host": "a:1"}, {"_id": 0, "host": "b:1"}]}, "same _id field"),
        ({"members": [{"_id": 0, "host": "a:1"}, {"_id": 1, "host": "A:1"}]}, "same host field"),
        ({"members": [{"_id": 0, "host": "a:x"}]}, "not of the form name:port"),
        ({"members": [{"_id": 0, "host": "a:1", "priority": 0}]}, "at least one non-arbiter member with priority"),
        ({"members": [{"_id": 0, "host": "a:1", "votes": 2}]}, "'votes' value must be <= 1"),
        ({"members": [{"_id": 0, "host": "a:1", "votes": 0}]}, "priority must be 0"),
        ({"members": [{"_id": 0, "host": "a:1", "hidden": True}]}, "priority must be 0"),
        ({"members": [{"_id": 0, "host": "a:1", "buildIndexes": False}]}, "not supported"),
        ({"settings": {"electionTimeoutMillis": 0}}, "electionTimeoutMillis"),
        ({"settings": {"getLastErrorDefaults": {"w": 0, "wtimeout": 0}}}, "at least 1 member"),
        ({"settings": {"getLastErrorModes": {"two": {"dc": 2}}}}, "No replica set tag key dc"),
        ({"settings": {"nosuch": 1}}, "'ReplSetConfigSettings.nosuch'"),
        ({"members": [{"_id": n, "host": f"h{n}:1"} for n in range(8)]}, "8 voting members"),
        ({"members": [{"_id": n, "host": f"h{n}:1", "votes": 0, "priority": 0} for n in range(51)]}, "51 members"),
    ],
)  # fmt: skip
def test_a_wrong_document_is_refused_with_its_reason(fields: dict[str, Any], part: str) -> None:
    assert part in refusal(**fields)


@pytest.mark.parametrize("number", [255, 256, 2**31 - 1])
def test_members_may_have_any_id_of_31_bits(number: int) -> None:
    members = [{"_id": 0, "host": "a:1"}, {"_id": number, "host": "b:1"}]
    config = parsed(members=members)
    assert config.members[1].id == number
    assert config.to_document()["members"][1]["_id"] == number


def test_arbiters_and_newly_added_members_do_not_count_towards_what_they_cannot_do() -> None:
    config = with_member(config_of("a", "b", "c", "d"), 3, arbiter_only=True, priority=0.0)
    assert (config.majority_votes, config.writable_voters, config.write_majority) == (3, 3, 3)
    config = with_member(config, 2, newly_added=True)
    assert (config.majority_votes, config.writable_voters, config.write_majority) == (2, 2, 2)
    assert not config.members[2].electable


def test_the_implicit_write_concern_is_majority_unless_arbiters_leave_too_few() -> None:
    assert config_of("a", "b", "c").defaults_to_majority
    assert not with_member(config_of("a", "b", "c"), 2, arbiter_only=True, priority=0.0).defaults_to_majority


@pytest.mark.parametrize(
    ("newer", "older"),
    [((1, 1), (0, 9)), ((1, 2), (1, 1)), ((-1, 5), (3, 4)), ((3, 5), (-1, 4)), ((0, 1), (-1, -2))],
)
def test_configurations_are_ordered_by_term_then_version_and_by_version_alone_when_forced(
    newer: tuple[int, int], older: tuple[int, int]
) -> None:
    assert ConfigVersion(*newer).newer_than(ConfigVersion(*older))
    assert not ConfigVersion(*older).newer_than(ConfigVersion(*newer))


def test_a_host_without_a_port_means_the_default_one() -> None:
    assert parsed(members=[{"_id": 0, "host": "a"}]).members[0].host == "a:27017"


WRONG_BY_ITSELF: list[dict[str, Any]] = [
    *({"votes": votes} for votes in (3, -1)),
    *({"priority": priority} for priority in (-1, 1001)),
    {"votes": 0},
    {"hidden": True},
    *({"secondaryDelaySecs": seconds} for seconds in (5, -1, 366 * 24 * 3600 + 1)),
    {"arbiterOnly": True, "votes": 0},
    {"arbiterOnly": True, "tags": {"a": "b"}},
    *({"_id": number} for number in (-1, 2**31)),
    *({"host": host} for host in ("", "b:x", "b:0", "b:70000")),
    {"newlyAdded": False},
]


@pytest.mark.parametrize("wrong", WRONG_BY_ITSELF)
def test_a_member_that_is_wrong_by_itself_makes_the_next_configuration_invalid(wrong: dict[str, Any]) -> None:
    assert refused_as_next(members=[{"_id": 0, "host": "a:1"}, {"_id": 1, "host": "b:1", **wrong}]) == 93


@pytest.mark.parametrize(
    "wrong",
    [
        *({"version": version} for version in (0, -1, 2**31)),
        {"term": -2},
        {"_id": ""},
        {"configsvr": 1},
        *({"settings": {name: 0}} for name in ("heartbeatIntervalMillis", "heartbeatTimeoutSecs")),
        {"settings": {"electionTimeoutMillis": 0}},
        *({"settings": {name: -2}} for name in ("catchUpTimeoutMillis", "catchUpTakeoverDelayMillis")),
        {"settings": {"getLastErrorModes": {"m": {"dc": 2}}}},
    ],
)
def test_a_field_that_is_wrong_by_itself_makes_the_next_configuration_invalid(wrong: dict[str, Any]) -> None:
    assert refused_as_next(**wrong) == 93


@pytest.mark.parametrize(
    "members",
    [
        [],
        [{"_id": 0, "host": "a:1"}, {"_id": 0, "host": "b:1"}],
        [{"_id": 0, "host": "a:1"}, {"_id": 1, "host": "a:1"}],
        [{"_id": 0, "host": "a:1", "votes": 0, "priority": 0}],
        [{"_id": 0, "host": "a:1", "priority": 0}],
        [{"_id": n, "host": f"h{n}:1", "votes": 0, "priority": 0} for n in range(51)],
    ],
)
def test_a_next_configuration_that_is_wrong_as_a_whole_does_not_fit(members: list[dict[str, Any]]) -> None:
    assert refused_as_next(members=members) == 103


def refused_as_next(**fields: Any) -> int:
    with pytest.raises(CommandError) as refused:
        check_next(parse_config(document(**fields)))
    return refused.value.code


def test_a_first_configuration_names_no_set_and_no_new_members() -> None:
    for wrong in (document(settings={"replicaSetId": ObjectId()}), document(members=[{"_id": 0, "newlyAdded": True}])):
        with pytest.raises(CommandError) as refused:
            check_initial(wrong)
        assert refused.value.code == Code.InvalidReplicaSetConfig


def test_defaults_of_write_concern_in_a_configuration_are_refused_by_their_own_code() -> None:
    with pytest.raises(CommandError) as refused:
        parsed(settings={"getLastErrorDefaults": {"w": 2, "wtimeout": 0}})
    assert refused.value.code == CUSTOMIZED_DEFAULTS
