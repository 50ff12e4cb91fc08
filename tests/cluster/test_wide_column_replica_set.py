"""Column families on a replica set of three: what a quorum has acknowledged is read by every quorum, whoever dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo import ReadPreference
from pymongo.errors import OperationFailure, PyMongoError

from tests.cluster.replica_set_processes import Client, Processes, running_set
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
KEYSPACE = {"createKeyspace": "ks", "replication": {"replicationFactor": 3}}


@pytest.fixture(scope="module")
def rs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running_set(tmp_path_factory.mktemp("wide"), 3) as processes:
        primary = processes[processes.wait_primary()]
        primary.admin.command(KEYSPACE)
        primary.ks.command({"createColumnFamily": "F", "compareWith": "LongType"})
        wait_until(lambda: all("F" in names(processes[number]) for number in range(3)), 10)
        yield processes


def names(client: Client) -> list[str]:
    try:
        described = client.ks.command({"describeKeyspace": 1}, read_preference=ReadPreference.NEAREST)
    except OperationFailure:
        return []
    return [family["name"] for family in described["columnFamilies"]]


def insert(client: Client, name: int, value: str, level: str, timestamp: int) -> dict[str, Any]:
    command = {
        "wcInsert": "F",
        "key": "k",
        "column": Int64(name),
        "value": value,
        "timestamp": Int64(timestamp),
        "consistency": level,
    }
    return client.ks.command(command)


def read(client: Client, level: str, key: str = "k") -> dict[int, bytes]:
    command = {
        "wcGetSlice": "F",
        "key": key,
        "predicate": {"sliceRange": {"count": 100_000}},
        "consistency": level,
    }
    reply = client.ks.command(command, read_preference=ReadPreference.NEAREST)
    return {int(column["name"]): bytes(column["value"]) for column in reply["columns"]}


def refusal(act: Any) -> dict[str, Any]:
    with pytest.raises(OperationFailure) as refused:
        act()
    details = refused.value.details
    assert details is not None
    return dict(details)


def write_somewhere(rs: Processes, name: int, value: str, timestamp: int) -> bool:
    """Whether a quorum has acknowledged the write, on whoever is primary."""
    number = rs.primary()
    if number is None:
        return False
    try:
        insert(rs[number], name, value, "QUORUM", timestamp)
    except PyMongoError:
        return False
    return True


def test_a_quorum_reads_what_a_quorum_has_acknowledged(rs: Processes) -> None:
    primary = rs.wait_primary()
    other = next(number for number in range(3) if number != primary)
    for number in range(20):
        insert(rs[primary], number, f"v{number}", "QUORUM", 1)
        assert read(rs[other], "QUORUM")[number] == f"v{number}".encode()
    insert(rs[primary], 100, "all", "ALL", 1)
    for number in range(3):
        assert read(rs[number], "ONE")[100] == b"all"
    page = rs[other].ks.command(
        {
            "wcGetSlice": "F",
            "key": "k",
            "predicate": {"sliceRange": {"count": 3, "reversed": True}},
            "consistency": "ALL",
        },
        read_preference=ReadPreference.NEAREST,
    )
    assert [column["name"] for column in page["columns"]] == [100, 19, 18]
    rows = rs[other].ks.command(
        {"wcGetRangeSlices": "F", "predicate": {"sliceRange": {"count": 1}}, "consistency": "QUORUM"},
        read_preference=ReadPreference.NEAREST,
    )
    assert [row["key"] for row in rows["rows"]] == ["k"]


def test_no_acknowledged_column_is_lost_when_primaries_are_killed(rs: Processes) -> None:
    rs.wait_primary()
    acknowledged: dict[int, int] = {}
    seen: dict[int, int] = {}
    timestamp = 1000
    for _ in range(2):
        for number in range(30):
            timestamp += 1
            if write_somewhere(rs, number, str(timestamp), timestamp):
                acknowledged[number] = timestamp
        victim = rs.wait_primary()
        rs.kill(victim)
        for number in range(30):
            timestamp += 1
            if write_somewhere(rs, number, str(timestamp), timestamp):
                acknowledged[number] = timestamp
        left = [number for number in range(3) if number != victim]
        rs.wait_primary(left)
        found = {name: int(value) for name, value in read(rs[left[0]], "QUORUM").items() if name < 30}
        for name, stamp in acknowledged.items():
            assert found[name] >= stamp
        for name, stamp in seen.items():
            assert found[name] >= stamp
        seen = found
        rs.restart(victim)
        wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
    assert len(acknowledged) == 30
    wait_until(lambda: len(rs.hashes([0, 1, 2], "ks")) == 1, 20)
    for number in range(3):
        report = rs[number].ks.command({"validate": "F"}, read_preference=ReadPreference.NEAREST)
        assert report["errors"] == []


def test_levels_that_members_who_are_down_make_impossible(rs: Processes) -> None:
    primary = rs.wait_primary()
    others = [number for number in range(3) if number != primary]
    rs.kill(others[0])
    wait_until(
        lambda: refusal(lambda: insert(rs[primary], 500, "x", "ALL", 1)).get("wcException") == "UnavailableException",
        15,
    )
    assert refusal(lambda: insert(rs[primary], 500, "x", "ALL", 1))["code"] == 100
    assert refusal(lambda: read(rs[primary], "ALL"))["code"] == 133
    insert(rs[primary], 501, "x", "QUORUM", 1)
    assert read(rs[primary], "QUORUM")[501] == b"x"
    rs.restart(others[0])
    wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)


def test_a_new_member_copies_the_rows(rs: Processes) -> None:
    primary = rs.wait_primary()
    mutations = [
        {"key": f"row{row}", "columnFamily": "F", "insert": {"name": Int64(name), "value": "v"}}
        for row in range(20)
        for name in range(250)
    ]
    rs[primary].ks.command({"wcBatchMutate": 1, "mutations": mutations, "consistency": "QUORUM"})
    number = rs.add_member("rs-late")
    config = rs[primary].admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"].append({"_id": 9, "host": rs.members[number].address, "priority": 0, "votes": 0})
    rs[primary].admin.command("replSetReconfig", config)
    wait_until(lambda: rs.state(number) == "SECONDARY", 30)
    wait_until(lambda: len(rs.hashes([primary, number], "ks")) == 1, 20)
    assert len(read(rs[number], "ONE", "row7")) == 250
    report = rs[number].ks.command({"validate": "F"}, read_preference=ReadPreference.NEAREST)
    assert report["errors"] == []
