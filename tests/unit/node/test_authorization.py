"""What users of a node may do where that is checked. All built-in roles are compared with the reference in
`tests/differential/test_permissions.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.commands.parameters import ParameterTable
from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

ROOT = {"createUser": "root", "pwd": "p", "roles": ["root"], "mechanisms": ["SCRAM-SHA-1"]}


async def checking(*users: dict[str, Any]) -> LocalNode:
    """A node that checks, with these users of the database own; nobody is logged in."""
    node = LocalNode()
    await node.run(ROOT, "admin")
    for user in users:
        await node.run({**user, "pwd": "p", "mechanisms": ["SCRAM-SHA-1"]}, "own")
    for name in ("own.c", "own.d", "other.c"):
        db, collection = name.split(".")
        await node.run({"insert": collection, "documents": [{"_id": number} for number in range(5)]}, db)
    node.services.access.enabled = True
    another_client(node)
    return node


async def enter(node: LocalNode, user: str, db: str = "own") -> None:
    another_client(node)
    assert (await log_in(node, user, "p", db, mechanism="SCRAM-SHA-1"))["ok"]


def user(name: str, *roles: Any) -> dict[str, Any]:
    return {"createUser": name, "roles": list(roles)}


def bulk(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"bulkWrite": 1, "ops": list(operations), "nsInfo": [{"ns": "own.c"}, {"ns": "other.c"}]}


MATRIX: list[tuple[str, dict[str, Any], set[str]]] = [
    ("own", {"find": "c"}, {"reader", "writer"}),
    ("other", {"find": "c"}, set()),
    ("own", {"insert": "c", "documents": [{}]}, {"writer"}),
    ("own", {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "upsert": True}]}, {"writer"}),
    ("own", {"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "as": "x", "pipeline": []}}], "cursor": {}},
     {"reader", "writer"}),
    ("own", {"aggregate": "c", "pipeline": [{"$out": "x"}], "cursor": {}}, {"writer"}),
    ("own", {"aggregate": "c", "pipeline": [{"$out": {"db": "other", "coll": "x"}}], "cursor": {}}, set()),
    ("admin", bulk({"insert": 0, "document": {}}), {"writer"}),
    ("admin", bulk({"insert": 0, "document": {}}, {"insert": 1, "document": {}}), set()),
    ("admin", bulk({"delete": 0, "filter": {}}, {"update": 0, "filter": {}, "updateMods": {}, "upsert": True}),
     {"writer"}),
    ("own", {"collMod": "c"}, {"admin"}),
    ("own", {"createUser": "x", "pwd": "p", "roles": []}, set()),
    ("admin", {"setParameter": 1, "x": 1}, set()),
    ("admin", {"usersInfo": 1}, set()),
    ("own", {"ping": 1}, {"reader", "writer", "admin"}),
]  # fmt: skip


def shown(each: Any) -> str:
    """As part of a test's name, which is the same in every process."""
    return str(sorted(each) if isinstance(each, set) else each)[:40]


@pytest.mark.parametrize(("db", "command", "allowed"), MATRIX, ids=shown)
def test_a_user_may_do_what_its_roles_say(db: str, command: dict[str, Any], allowed: set[str]) -> None:
    async def scenario() -> None:
        roles = {"reader": "read", "writer": "readWrite", "admin": "dbAdmin"}
        node = await checking(*(user(name, role) for name, role in roles.items()))
        for name in roles:
            await enter(node, name)
            for _ in range(2):
                reply = await node.reply(command, db)
                assert (reply.get("code") != 13) == (name in allowed), (name, reply)
        another_client(node)
        refused = await node.reply(command, db)
        assert (refused["ok"] == 1) == ("ping" in command)

    loop(scenario())


def test_who_is_not_authenticated_is_told_nothing_else() -> None:
    async def scenario() -> None:
        node = await checking()
        for command in ({"find": "c"}, {"find": "c", "bogus": 1}, {"createUser": 5}):
            reply = await node.reply(command, "own")
            assert reply["errmsg"] == f"command {next(iter(command))} requires authentication"
        assert (await node.reply({"nosuch": 1}))["code"] == 59

    loop(scenario())


def test_the_first_user_is_made_from_this_machine_alone() -> None:
    async def scenario() -> None:
        node = LocalNode()
        node.services.access.enabled = True
        another_client(node, "10.0.0.1:9")
        assert (await node.reply(ROOT, "admin"))["errmsg"] == "command createUser requires authentication"
        another_client(node)
        assert (await node.reply(ROOT, "own"))["errmsg"].startswith("not authorized on own to execute command")
        await node.run(ROOT, "admin")
        assert (await node.reply(ROOT, "admin"))["errmsg"] == "command createUser requires authentication"

    loop(scenario())


def test_before_the_first_user_a_client_of_this_machine_makes_it_and_does_nothing_else() -> None:
    async def scenario() -> None:
        node = LocalNode()
        node.services.access.enabled = True
        another_client(node)
        role = {"createRole": "r", "privileges": [], "roles": []}
        own = [
            {"aggregate": 1, "pipeline": [{stage: {}}], "cursor": {}} for stage in ("$currentOp", "$listLocalSessions")
        ]
        own += [{"currentOp": 1, "$ownOps": True}, {"startSession": 1}, {"endSessions": []}, {"refreshSessions": []}]
        for command in (role, {"find": "c"}, {"hostInfo": 1}, {"setParameter": 1, "logLevel": 0}, *own):
            assert (await node.reply(command, "admin"))["code"] == Code.Unauthorized, command
        assert (await node.reply({"listDatabases": 1}, "admin"))["databases"] == []
        assert (await node.reply(ROOT, "admin"))["ok"]

    loop(scenario())


def test_without_the_localhost_exception_nobody_makes_the_first_user() -> None:
    async def scenario() -> None:
        node = LocalNode()
        parameters = ParameterTable(node.services.access.parameters())
        parameters.assign("enableLocalhostAuthBypass", "false", starting=True)
        node.services.access.enabled = True
        another_client(node)
        assert (await node.reply(ROOT, "admin"))["code"] == Code.Unauthorized

    loop(scenario())


def test_what_is_granted_and_revoked_holds_at_once() -> None:
    async def scenario() -> None:
        node = await checking(user("ann"))
        await enter(node, "ann")
        ann = node.peer
        assert (await node.reply({"find": "c"}, "own"))["code"] == 13
        for command, expected in (({"grantRolesToUser": "ann"}, 1.0), ({"revokeRolesFromUser": "ann"}, 0.0)):
            await enter(node, "root", "admin")
            await node.run({**command, "roles": ["read"]}, "own")
            node.peer = ann
            assert (await node.reply({"find": "c"}, "own"))["ok"] == expected

    loop(scenario())


@pytest.mark.parametrize(
    ("granted", "killed"), [(["read"], False), (["dbOwner"], False), (["any"], True), (["hostManager"], True)]
)
def test_cursors_of_others_are_ended_by_who_may_end_any(granted: list[str], killed: bool) -> None:
    """Not by the action of that command's name, which every reader has."""

    async def scenario() -> None:
        node = await checking(user("ann", "read"), user("bob"))
        await enter(node, "root", "admin")
        resource = {"db": "own", "collection": "c"}
        privileges = [{"resource": resource, "actions": ["killAnyCursor"]}]
        await node.run({"createRole": "any", "privileges": privileges, "roles": []}, "own")
        roles = [{"role": each, "db": "admin" if each == "hostManager" else "own"} for each in granted]
        await node.run({"grantRolesToUser": "bob", "roles": roles}, "own")
        await enter(node, "ann")
        cursor = {"cursors": [Int64((await node.run({"find": "c", "batchSize": 1}, "own"))["cursor"]["id"])]}
        ann = node.peer
        await enter(node, "bob")
        assert (await node.reply({"killCursors": "c", **cursor}, "own")).get("code", 0) == (0 if killed else 13)
        node.peer = ann
        reply = await node.run({"killCursors": "c", **cursor}, "own")
        assert len(reply["cursorsKilled"]) == (0 if killed else 1)

    loop(scenario())


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, 0),
        ({"validator": {"x": 1}}, 0),
        ({"capped": True, "size": 4096}, 13),
        ({"viewOn": "c", "pipeline": []}, 13),
    ],
    ids=str,
)
def test_who_may_insert_may_create_what_an_insert_would(more: dict[str, Any], code: int) -> None:
    """As on a real server: not a view, and a capped collection by the right to that alone."""

    async def scenario() -> None:
        node = await checking(user("bob"))
        await enter(node, "root", "admin")
        privileges = [{"resource": {"db": "own", "collection": "made"}, "actions": ["insert"]}]
        await node.run({"createRole": "any", "privileges": privileges, "roles": []}, "own")
        await node.run({"grantRolesToUser": "bob", "roles": ["any"]}, "own")
        await enter(node, "bob")
        assert (await node.reply({"create": "made", **more}, "own")).get("code", 0) == code

    loop(scenario())


@pytest.mark.parametrize("others", ["own.d", "other.c"])
def test_the_right_to_end_cursors_is_that_on_their_collections(others: str) -> None:
    """Not on the collection that the request names; one's own end whatever it names, as on a real server."""
    db, name = others.split(".")

    async def scenario() -> None:
        node = await checking(user("bob", "read"))
        await enter(node, "root", "admin")
        await node.run({"insert": name, "documents": [{}, {}]}, db)
        privileges = [{"resource": {"db": "own", "collection": "c"}, "actions": ["killAnyCursor"]}]
        await node.run({"createRole": "any", "privileges": privileges, "roles": []}, "own")
        await node.run({"grantRolesToUser": "bob", "roles": ["any"]}, "own")
        cursor = Int64((await node.run({"find": name, "batchSize": 1}, db))["cursor"]["id"])
        root = node.peer
        await enter(node, "bob")
        assert (await node.reply({"killCursors": "c", "cursors": [cursor]}, "own")).get("code") == 13
        node.peer = root
        assert (await node.run({"killCursors": "c", "cursors": [cursor]}, "own"))["cursorsKilled"] == [cursor]

    loop(scenario())


def test_cursors_and_sessions_are_their_users() -> None:
    async def scenario() -> None:
        node = await checking(user("ann", "read"), user("bob", "read"))
        await enter(node, "ann")
        lsid = {"id": Binary(bytes(16), 4)}
        opened = await node.run({"find": "c", "batchSize": 1}, "own")
        number = Int64(opened["cursor"]["id"])
        await node.run({"ping": 1, "lsid": lsid}, "own")
        await enter(node, "bob")
        for collection in ("c", "another"):
            taken = await node.reply({"getMore": number, "collection": collection}, "own")
            assert taken["errmsg"] == f"cursor id {number} was not created by the authenticated user"
        shown = await node.run({"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}}, "own")
        assert shown["cursor"]["firstBatch"] == []

    loop(scenario())


def test_lists_show_what_may_be_seen() -> None:
    async def scenario() -> None:
        one = {"resource": {"db": "own", "collection": "c"}, "actions": ["find"]}
        node = await checking()
        node.services.access.enabled = False
        await node.run({"createRole": "one", "privileges": [one], "roles": []}, "own")
        await node.run({**user("ann", "one"), "pwd": "p", "mechanisms": ["SCRAM-SHA-1"]}, "own")
        node.services.access.enabled = True
        await enter(node, "ann")
        databases = (await node.run({"listDatabases": 1}, "admin"))["databases"]
        assert [each["name"] for each in databases] == ["own"]
        assert (await node.reply({"listCollections": 1}, "own"))["code"] == 13
        listed = await node.run({"listCollections": 1, "nameOnly": True, "authorizedCollections": True}, "own")
        assert [each["name"] for each in listed["cursor"]["firstBatch"]] == ["c"]

    loop(scenario())
