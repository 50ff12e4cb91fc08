"""No password and nothing made of one is in what a node shows: profiler, currentOp, error texts, logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bson import json_util

from docstore import log
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

PASSWORD, OTHER = "first-hidden-word", "second-hidden-word"
USER = {"createUser": "ann", "pwd": PASSWORD, "roles": ["read"], "mechanisms": ["SCRAM-SHA-1"]}


@pytest.fixture
def logged() -> Iterator[log.RecentLines]:
    lines = log.RecentLines()
    root = logging.getLogger()
    level = logging.getLogger("docstore").level
    root.addHandler(lines)
    logging.getLogger("docstore").setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(lines)
    logging.getLogger("docstore").setLevel(level)


def secrets_of(document: dict[str, Any]) -> list[str]:
    """What a user's document holds that nobody else is to see."""
    credentials = document["credentials"].values()
    return [value for each in credentials for name, value in each.items() if name != "iterationCount"]


def test_nothing_that_a_node_shows_holds_a_secret(logged: log.RecentLines) -> None:
    shown: list[Any] = []

    async def story() -> list[str]:
        node = LocalNode()
        node.dispatcher.slow_seconds = 0.0
        await node.run({"profile": 2}, "admin")
        await node.run({"profile": 2}, "test")
        access = node.services.access

        async def aside(work: Callable[[], Any]) -> Any:
            shown.append(await node.run({"currentOp": 1, "$all": True}, "admin"))
            return work()

        access.aside = aside
        await node.run(USER, "test")
        await node.run({"updateUser": "ann", "pwd": OTHER, "mechanisms": ["SCRAM-SHA-1"]}, "test")
        (document,) = (await node.run({"find": "system.users"}, "admin"))["cursor"]["firstBatch"]
        copy = {**document, "_id": "test.bob", "user": "bob"}
        await node.run({"insert": "system.users", "documents": [copy]}, "admin")
        shown.append(await node.reply({"insert": "system.users", "documents": [copy]}, "admin"))
        update = {"q": {"_id": "test.bob"}, "u": copy}
        await node.run({"update": "system.users", "updates": [update]}, "admin")
        for command in (
            {**USER, "nonsense": 1},
            {**USER, "pwd": {"x": PASSWORD}},
            {**USER, "roles": ""},
            USER,
        ):
            shown.append(await node.reply(command, "test"))
        access.enabled = True
        another_client(node)
        shown.append(await log_in(node, "ann", PASSWORD, "test", mechanism="SCRAM-SHA-1"))
        shown.append(await node.reply(USER, "test"))
        assert (await log_in(node, "ann", OTHER, "test", mechanism="SCRAM-SHA-1"))["ok"]
        shown.append(await node.reply(USER, "test"))
        access.enabled = False
        for db in ("admin", "test"):
            shown.append([await node.run({"find": "system.profile"}, db)])
        return [PASSWORD, OTHER, *secrets_of(document)]

    secrets = loop(story())
    assert any("createUser" in json.dumps(each, default=json_util.default) for each in shown)
    texts = [json.dumps(each, default=json_util.default) for each in shown] + list(logged.lines)
    assert any("Slow query" in text and "createUser" in text for text in texts)
    for secret in secrets:
        assert not [text for text in texts if secret in text]
