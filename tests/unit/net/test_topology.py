"""What a client makes of hello replies, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId

from docstore.commands.concerns import ReadMode, ReadPreference
from docstore.net.topology import Kind, Member, Topology, member_from_hello, with_round_trip

HOSTS = ["a:1", "b:1", "c:1"]


def election(term: int) -> ObjectId:
    return ObjectId(f"7fffffff{term:016x}")


def primary(address: str, term: int = 1, version: int = 1, hosts: list[str] = HOSTS, **fields: Any) -> Member:
    reply = {
        "isWritablePrimary": True, "setName": "s", "hosts": hosts, "me": address, "electionId": election(term),
        "setVersion": version, **fields,
    }  # fmt: skip
    return member_from_hello(address, reply, 0.001)


def secondary(address: str, hosts: list[str] = HOSTS, **fields: Any) -> Member:
    reply = {"isWritablePrimary": False, "secondary": True, "setName": "s", "hosts": hosts, "me": address, **fields}
    return member_from_hello(address, reply, fields.get("round_trip", 0.001))


def kinds(topology: Topology) -> dict[str, str]:
    return {address: member.kind.value for address, member in topology.members.items()}


def test_a_primary_names_the_members() -> None:
    topology = Topology(["a:1", "gone:1"], "s")
    assert topology.update(primary("a:1"))
    assert kinds(topology) == {"a:1": "primary", "b:1": "unknown", "c:1": "unknown"}


def test_a_secondary_adds_members_but_removes_none() -> None:
    topology = Topology(["a:1", "other:1"], "s")
    topology.update(secondary("a:1"))
    assert sorted(topology.members) == ["a:1", "b:1", "c:1", "other:1"]


def test_a_new_primary_takes_the_place_of_the_old_one() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(primary("a:1", 1))
    topology.update(primary("b:1", 2))
    assert kinds(topology) == {"a:1": "unknown", "b:1": "primary", "c:1": "unknown"}


def test_a_primary_of_an_older_election_is_not_believed() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(primary("b:1", 2))
    topology.update(primary("a:1", 1, version=9))
    assert kinds(topology)["b:1"] == "primary"
    assert kinds(topology)["a:1"] == "unknown"


def test_a_reconfiguration_changes_the_members() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(primary("a:1"))
    topology.update(primary("a:1", version=2, hosts=["a:1", "d:1"]))
    assert sorted(topology.members) == ["a:1", "d:1"]


def test_a_member_of_another_set_is_none_of_this_one() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(secondary("b:1", setName="t"))
    assert sorted(topology.members) == ["a:1", "c:1"]


def test_without_a_name_the_first_members_set_is_taken() -> None:
    topology = Topology(["a:1"])
    topology.update(secondary("a:1"))
    assert topology.set_name == "s"


def test_a_single_standalone_serves_everything() -> None:
    topology = Topology(["a:1"])
    topology.update(member_from_hello("a:1", {"isWritablePrimary": True}, 0.001))
    assert [member.address for member in topology.suitable(ReadPreference())] == ["a:1"]


def test_a_standalone_is_no_member_of_a_named_set() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(member_from_hello("a:1", {"isWritablePrimary": True}, 0.001))
    assert "a:1" not in topology.members


def test_a_member_known_by_another_name_is_watched_under_its_own() -> None:
    topology = Topology(["localhost:1"], "s")
    topology.update(secondary("localhost:1", me="a:1"))
    assert sorted(topology.members) == HOSTS


def test_members_that_are_not_initiated_or_cannot_serve_are_kept_and_not_used() -> None:
    topology = Topology(["a:1", "b:1"], "s")
    topology.update(member_from_hello("a:1", {"isreplicaset": True, "isWritablePrimary": False}, 0.001))
    topology.update(member_from_hello("b:1", {"setName": "s", "hosts": ["a:1", "b:1"], "arbiterOnly": True}, 0.001))
    assert topology.suitable(ReadPreference(ReadMode.NEAREST)) == []
    assert sorted(topology.members) == ["a:1", "b:1"]


def test_a_suspect_is_unknown_until_it_is_heard_again() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(primary("a:1"))
    assert topology.suspect("A:1")
    assert topology.primary is None
    assert not topology.suspect("a:1")
    topology.update(primary("a:1"))
    assert topology.primary is not None


def test_what_changed_nothing_says_so() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(primary("a:1"))
    assert not topology.update(primary("a:1"))
    assert not topology.update(Member("stranger:1", Kind.SECONDARY, "s"))


def full() -> Topology:
    topology = Topology(HOSTS, "s")
    topology.update(primary("a:1", tags={"dc": "x"}))
    topology.update(secondary("b:1", tags={"dc": "x"}, round_trip=0.005))
    topology.update(secondary("c:1", tags={"dc": "y"}, round_trip=0.002))
    return topology


def choice(mode: ReadMode, *tag_sets: tuple[tuple[str, str], ...], topology: Topology | None = None) -> list[str]:
    return [member.address for member in (topology or full()).suitable(ReadPreference(mode, tag_sets))]


def test_read_preferences_choose_members_nearest_first() -> None:
    assert choice(ReadMode.PRIMARY) == ["a:1"]
    assert choice(ReadMode.PRIMARY_PREFERRED) == ["a:1"]
    assert choice(ReadMode.SECONDARY) == ["c:1", "b:1"]
    assert choice(ReadMode.SECONDARY_PREFERRED) == ["c:1", "b:1"]
    assert choice(ReadMode.NEAREST) == ["a:1", "c:1", "b:1"]


def test_the_first_tag_set_that_anyone_has_decides() -> None:
    assert choice(ReadMode.SECONDARY, (("dc", "z"),), (("dc", "x"),), ()) == ["b:1"]
    assert choice(ReadMode.SECONDARY, (("dc", "z"),)) == []
    assert choice(ReadMode.SECONDARY_PREFERRED, (("dc", "z"),)) == ["a:1"]


def test_without_a_primary_only_the_modes_that_allow_it_find_a_member() -> None:
    topology = full()
    topology.suspect("a:1")
    assert choice(ReadMode.PRIMARY, topology=topology) == []
    assert choice(ReadMode.PRIMARY_PREFERRED, topology=topology) == ["c:1", "b:1"]


def test_round_trips_are_smoothed_and_held_replies_are_no_measurement() -> None:
    earlier = Member("a:1", round_trip=0.010)
    assert abs(with_round_trip(Member("a:1", round_trip=0.020), earlier).round_trip - 0.012) < 1e-9
    assert with_round_trip(Member("a:1"), earlier).round_trip == 0.010


def heard(member: Member, at: float, last_write: float) -> Member:
    return replace(member, heard=at, last_write=last_write)


def test_secondaries_that_are_too_far_behind_are_left_out() -> None:
    topology = Topology(HOSTS, "s")
    topology.update(heard(primary("a:1"), 100.0, 5000.0))
    topology.update(heard(secondary("b:1"), 100.0, 4950.0))
    topology.update(heard(secondary("c:1"), 100.0, 4850.0))

    def fresh() -> list[str]:
        preference = ReadPreference(ReadMode.SECONDARY, (), 90)
        return [member.address for member in topology.suitable(preference)]

    assert fresh() == ["b:1"]
    topology.suspect("a:1")
    topology.update(heard(secondary("a:1"), 110.0, 5005.0))
    assert fresh() == ["a:1", "b:1"]


def test_a_members_last_write_is_read_from_hello() -> None:
    hello = {"setName": "s", "secondary": True, "lastWrite": {"lastWriteDate": DatetimeMS(86_400_000)}}
    assert member_from_hello("a:1", hello, 0.001, 7.0).last_write == 86400.0


def test_members_are_told_with_their_states_and_how_far_they_are_behind() -> None:
    topology = Topology(["a:1", "b:1", "c:1"], "rs")
    hosts = ("a:1", "b:1", "c:1")
    topology.update(
        Member("a:1", Kind.PRIMARY, "rs", hosts, round_trip=0.002, heard=50.0, last_write=1000.0, election=(b"", 1))
    )
    # Heard of two seconds later, and its newest write is one second older: three seconds behind.
    tags = frozenset({("dc", "x")})
    topology.update(Member("b:1", Kind.SECONDARY, "rs", hosts, tags=tags, heard=52.0, last_write=999.0))
    first, second, third = topology.document()
    assert first == {
        "addr": "a:1", "ok": True, "ismaster": True, "hidden": False, "secondary": False, "pingTimeMillis": 2,
        "lastWriteDate": DatetimeMS(1_000_000), "lagSeconds": 0.0,
    }  # fmt: skip
    assert (second["secondary"], second["tags"], second["lagSeconds"]) == (True, {"dc": "x"}, 3.0)
    assert (third["ok"], "lagSeconds" in third) == (False, False)
