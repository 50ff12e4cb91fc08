"""Two sets of one name meet: neither takes the other's configuration, data or acknowledgements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bson.objectid import ObjectId

from docstore.errors import Code, CommandError
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replication.reconfig import unsettled
from tests.harness.serving import run, until
from tests.unit.replicaset.in_memory_set import InMemorySet, in_memory_set


def lone(members: InMemorySet, number: int) -> dict[str, Any]:
    return {**members.config(), "members": [{"_id": number, "host": members[number].address}]}


async def two_sets(members: InMemorySet) -> None:
    for number in (0, 1):
        await members[number].run({"replSetInitiate": lone(members, number)}, "admin")
        await until(lambda number=number: members[number].state.writable)


async def with_other(members: InMemorySet, **fields: Any) -> dict[str, Any]:
    """The first set's next configuration, in which the other set's member stands too."""
    config: dict[str, Any] = (await members[0].run({"replSetGetConfig": 1}, "admin"))["config"]
    config["version"] += 1
    config["members"].append({"_id": 9, "host": members[1].address, **fields})
    return config


@pytest.mark.parametrize("fields", [{}, {"votes": 0, "priority": 0}])
def test_a_member_of_another_set_cannot_be_added(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await two_sets(members)
            command = {"replSetReconfig": await with_other(members, **fields)}
            with pytest.raises(CommandError) as refused:
                await members[0].run(command, "admin")
            ours, theirs = (members[number].state.replica_set_id for number in (0, 1))
            assert refused.value.code == Code.NewReplicaSetConfigurationIncompatible
            assert refused.value.message == (
                f"Our replica set ID did not match that of our request target, replSetId: {ours}, requestTarget: "
                f"{members[1].address}, requestTargetReplSetId: {theirs}"
            )

    run(scenario())


def test_a_member_of_another_set_that_was_forced_in_is_shown_as_down_and_never_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await two_sets(members)
            await members[1].insert("theirs", 1)
            config = members[1].state.config
            await members[0].run({"replSetReconfig": await with_other(members), "force": True}, "admin")
            peer = members[0].state.peers[members[1].address]
            await until(lambda: "replica set IDs do not match" in peer.message)
            reply = await members[0].run(
                {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": "majority", "wtimeout": 700}}
            )
            assert "writeConcernError" in reply
            status = await members[0].run({"replSetGetStatus": 1}, "admin")
            assert [row["stateStr"] for row in status["members"]][1] == "(not reachable/healthy)"
            assert members[1].state.config == config, "the other set goes on as it was"
            assert members[1].state.writable
            assert [row["_id"] for row in await members[1].find("theirs")] == [1]

    run(scenario())


def test_nothing_is_fetched_from_a_member_of_another_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await two_sets(members)
            pool, address = members[0].process.pool, members[1].address
            theirs = members[1].state.replica_set_id
            assert await RemoteMember(pool, address, timeout=5, replica_set_id=theirs).rollback_id()
            with pytest.raises(CommandError, match="replica set IDs do not match"):
                await RemoteMember(pool, address, timeout=5, replica_set_id=ObjectId()).rollback_id()

    run(scenario())


def test_initiating_with_a_member_of_another_set_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members[1].run({"replSetInitiate": lone(members, 1)}, "admin")
            with pytest.raises(CommandError) as refused:
                await members[0].run({"replSetInitiate": members.config()}, "admin")
            assert refused.value.code == Code.NewReplicaSetConfigurationIncompatible
            assert members[0].state.config is None

    run(scenario())


def test_a_change_that_a_majority_does_not_answer_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            config = (await members[0].run({"replSetGetConfig": 1}, "admin"))["config"]
            config["version"] += 1
            await until(lambda: not unsettled(members[0].state))
            members.isolate(0)
            with pytest.raises(CommandError) as refused:
                await members[0].run({"replSetReconfig": config}, "admin")
            assert refused.value.code == Code.NodeNotFound
            assert refused.value.message.startswith(
                "Quorum check failed because not enough voting nodes responded; required 2 but only the following 1 "
                f"voting nodes responded: {members[0].address}; the following nodes did not respond affirmatively: "
            )

    run(scenario())
