"""Members that are replaced under their ids: the set's majorities always overlap, and nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docstore.errors import Code, CommandError
from tests.harness.serving import run, until
from tests.unit.replicaset.in_memory_set import InMemorySet, in_memory_set


async def with_hosts(members: InMemorySet, hosts: dict[int, int]) -> dict[str, Any]:
    """The next configuration, in which these ids stand for these nodes."""
    config: dict[str, Any] = (await members[0].run({"replSetGetConfig": 1}, "admin"))["config"]
    config["version"] += 1
    for row in config["members"]:
        if row["_id"] in hosts:
            row["host"] = members[hosts[row["_id"]]].address
    return config


def test_hosts_are_replaced_one_at_a_time_and_vote_when_they_have_the_data(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 5) as members:
            await members.initiate(3)
            await members[0].insert("c", 1, w="majority")
            with pytest.raises(CommandError) as refused:
                await members[0].run({"replSetReconfig": await with_hosts(members, {1: 3, 2: 4})}, "admin")
            assert refused.value.code == Code.NewReplicaSetConfigurationIncompatible
            assert len(members[0].state.voting_peers()) == 2
            for number in (1, 2):
                await members[0].run({"replSetReconfig": await with_hosts(members, {number: number + 2})}, "admin")
                await until(lambda: len(members[0].state.voting_peers()) == 2, 10)
                assert [row["_id"] for row in await members[number + 2].find("c")] == [1]
            await members[0].insert("c", 2, w=3)
            await members.until_converged(0, 3, 4)

    run(scenario())


def test_a_member_says_which_field_nobody_may_give(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 1) as members:
            await members.initiate()
            config = await with_hosts(members, {})
            config["members"][0]["newlyAdded"] = True
            for force in (False, True):
                with pytest.raises(CommandError) as refused:
                    await members[0].run({"replSetReconfig": config, "force": force}, "admin")
                assert refused.value.code == Code.InvalidReplicaSetConfig
                assert refused.value.message == ("Cannot provide newlyAdded field to member config during reconfig.")

    run(scenario())
