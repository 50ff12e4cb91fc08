"""No password and nothing made of one is in what a node shows: profiler, currentOp, error texts, logs."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest
from bson import json_util

from docstore import log
from docstore.commands.audit.log import AuditLog
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
        node.dispatcher.services.switches.slow_ms = 0
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


WRAPPED = {"explain": USER}
OTHERS: dict[str, tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]] = {
    "an explained command": (WRAPPED, {}),
    "an explained explain": ({"explain": WRAPPED}, {}),
    "an explained statement of CQL": ({"explain": {"cql": f"CREATE ROLE r WITH PASSWORD = '{PASSWORD}'"}}, {}),
    "an explained login": ({"explain": {"saslStart": 1, "mechanism": "PLAIN", "payload": PASSWORD}}, {}),
    "an explained unknown command": ({"explain": {"creatUser": "ann", "pwd": PASSWORD}}, {}),
    "an explained update of users": (
        {"explain": {"update": "system.users", "updates": [{"q": {}, "u": {"$set": {"credentials": PASSWORD}}}]}}, {},
    ),
    "operations on users": (
        {
            "bulkWrite": 1, "nsInfo": [{"ns": "admin.system.users"}], "cursor": {"batchSize": 0},
            "ops": [{"insert": 0, "document": {"_id": "x.y", "credentials": PASSWORD}}],
        },
        {},
    ),
    "operations on users beside the request": (
        {"bulkWrite": 1, "ops": [{"insert": 0, "document": {"_id": "x.y", "credentials": PASSWORD}}]},
        {"nsInfo": [{"ns": "admin.system.users"}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("user", [None, "root", "nobody"])
@pytest.mark.parametrize("case", OTHERS)
def test_a_secret_in_a_command_of_another_name_is_not_shown_either(
    logged: log.RecentLines, case: str, user: str | None
) -> None:
    command, sequences = OTHERS[case]
    shown: list[Any] = []

    async def story() -> None:
        audit = AuditLog(lambda message: written.append(bson.decode(message)), lambda: 0.0, uuid.UUID(int=1))
        node = LocalNode(audit=audit)
        node.dispatcher.services.switches.slow_ms = 0
        audit.authorization_success = True
        await node.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
        await node.run({"createUser": "nobody", "pwd": "p", "roles": []}, "admin")
        await node.run({"profile": 2}, "admin")
        if user is not None:
            node.services.access.enabled = True
            another_client(node)
            assert (await log_in(node, user, "p"))["ok"]
        beside = {name: list(map(bson.encode, documents)) for name, documents in sequences.items()}
        reply = await node.reply(command, "admin", sequences=beside)
        shown.append(reply if not reply["ok"] else {})
        node.services.access.enabled = False
        shown.append(await node.run({"currentOp": 1, "$all": True}, "admin"))
        idle = {"aggregate": 1, "pipeline": [{"$currentOp": {"idleCursors": True}}], "cursor": {}}
        shown.append(await node.run(idle, "admin"))
        shown.append(await node.run({"find": "system.profile"}, "admin"))

    written: list[Any] = []
    loop(story())
    assert any("authCheck" in str(each) for each in written) or user is None
    texts = [json.dumps(each, default=json_util.default) for each in (*shown, *written)] + list(logged.lines)
    assert not [text for text in texts if PASSWORD in text]
