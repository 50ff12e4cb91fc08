"""Fields that processes send each other are unknown to clients: parameters, and the marks of the halves of stages."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.commands.client_connection import PROCESS_DRIVER
from docstore.commands.declaration import INTERNAL
from docstore.errors import Code
from tests.layout.test_declarations import TABLES
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

UNKNOWN_FIELD = 40415
FIELDS = sorted(
    (table, command.name, parameter.name)
    for table in TABLES
    for command in TABLES[table]
    if command.privilege != INTERNAL
    for parameter in command.parameters
    if parameter.internal
)
GROUP = {"_id": "$x", "n": {"$sum": 1}}
BUCKET = {"groupBy": "$x", "boundaries": [0, 10]}
MARKED: dict[str, tuple[dict[str, Any], int]] = {
    "group to be merged": ({"$group": GROUP | {"$willBeMerged": True}}, 40234),
    "group of states": ({"$group": GROUP | {"$doingMerge": True}}, 40234),
    "sample to be merged": ({"$sample": {"size": 1, "$willBeMerged": True}}, 28748),
    "sample of numbered": ({"$sample": {"size": 1, "$doingMerge": True}}, 28748),
    "unsorted bucket": ({"$bucket": BUCKET | {"$unsorted": True}}, 40197),
    "bucket to be merged": ({"$bucket": BUCKET | {"$willBeMerged": True}}, 40197),
}
"""Stages with the error that a real server gives, where it knows no such mark."""


def placed(stage: dict[str, Any]) -> list[dict[str, Any]]:
    """Requests with the stage wherever a pipeline may stand."""
    run = {"aggregate": "c", "pipeline": [stage], "cursor": {}}
    return [
        run,
        {"explain": run},
        run | {"pipeline": [{"$match": {"x": 1}}, stage]},
        run | {"pipeline": [{"$facet": {"a": [stage]}}]},
        run | {"pipeline": [{"$unionWith": {"coll": "d", "pipeline": [stage]}}]},
        run | {"pipeline": [{"$lookup": {"from": "d", "pipeline": [stage], "as": "y"}}]},
        {"create": "v", "viewOn": "c", "pipeline": [stage]},
    ]


@pytest.mark.parametrize("name", MARKED)
def test_a_mark_is_an_unknown_field_of_the_stage(name: str) -> None:
    stage, code = MARKED[name]

    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "x": 1})
        another_client(node)
        for request in placed(stage):
            assert (await node.reply(request))["code"] == code, request
        # Nor is it known to a process that does not say that it has written the stages.
        node.peer.greets_as_process = True
        for request in placed(stage):
            assert (await node.reply(request))["code"] == code, request

    loop(story())


def test_a_router_says_that_it_has_written_the_stages() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "x": 1})
        stage, _ = MARKED["group to be merged"]
        run = {"aggregate": "c", "pipeline": [stage], "cursor": {}, "fromMongos": True}
        assert (await node.run(run))["cursor"]["firstBatch"]
        await node.run({"explain": run})
        another_client(node)
        for request in (run, {"explain": run}):
            assert (await node.reply(request))["code"] == UNKNOWN_FIELD

    loop(story())


@pytest.mark.parametrize(("command", "parameter"), sorted({each[1:] for each in FIELDS if each[0] == "node"}))
def test_a_parameter_of_processes_is_an_unknown_field(command: str, parameter: str) -> None:
    async def story() -> None:
        node = LocalNode(extra=[each for each in TABLES["node"] if each.name == command and each.name not in OWN])
        another_client(node)
        found = await node.reply({command: "c", parameter: 1}, "admin")
        assert found["code"] == UNKNOWN_FIELD, found

    loop(story())


OWN = {command.name for command in LocalNode().services.table}


def test_with_access_control_the_privilege_decides_and_not_the_greeting() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
        await node.run({"createUser": "process", "pwd": "p", "roles": ["__system"]}, "admin")
        node.services.access.enabled = True
        request = {"find": "c", "batchBytes": 1000}
        another_client(node, "10.0.0.1:9")
        await node.run({"hello": 1, "client": {"driver": {"name": PROCESS_DRIVER, "version": "1"}, "os": {"type": ""}}})
        assert node.peer.greets_as_process
        assert (await node.reply(request))["code"] == Code.Unauthorized
        assert (await log_in(node, "root", "p"))["ok"]
        assert (await node.reply(request))["code"] == UNKNOWN_FIELD
        another_client(node)
        assert (await log_in(node, "process", "p"))["ok"]
        await node.run(request)

    loop(story())
