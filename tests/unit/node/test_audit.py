"""What the audit log is told, in which shape: authentication, refusals, users, roles, the catalog."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import bson
from bson.binary import UUID_SUBTYPE, Binary

from docstore.collection.oplog.apply import apply_entry
from docstore.commands.audit.log import AuditLog
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from tests.unit.collection.building import entries
from tests.unit.collection.following import busy_leader
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

PROCESS = uuid.UUID(int=7)
CREATE_ROOT = {"createUser": "root", "pwd": "secret", "roles": ["root"], "mechanisms": ["SCRAM-SHA-1"]}
Story = Callable[[LocalNode, AuditLog], Awaitable[None]]


def told(story: Story, *, wanted: Predicate | None = None, replicated: bool = False) -> list[dict[str, Any]]:
    """The messages of a story, in order."""
    messages: list[dict[str, Any]] = []

    async def run() -> None:
        log = AuditLog(lambda raw: messages.append(bson.decode(raw)), lambda: 1000.0, PROCESS, predicate=wanted)
        await story(LocalNode(audit=log, replicated=replicated), log)

    loop(run())
    return messages


def brief(messages: list[dict[str, Any]]) -> list[tuple[str, Any, int]]:
    return [(each["atype"], each["param"], each["result"]) for each in messages]


def test_a_message_has_the_documented_fields() -> None:
    async def story(node: LocalNode, _log: AuditLog) -> None:
        await node.run(CREATE_ROOT, "admin")
        another_client(node)
        assert (await log_in(node, "root", "secret", mechanism="SCRAM-SHA-1"))["ok"]

    message = told(story)[-1]
    assert list(message) == ["atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"]
    assert message["ts"].isoformat() == "1970-01-01T00:16:40"
    assert message["uuid"] == Binary(uuid.uuid5(PROCESS, "2").bytes, UUID_SUBTYPE)
    assert message["local"] == {"ip": "127.0.0.1", "port": 1}
    assert message["remote"] == {"ip": "127.0.0.1", "port": 10}
    assert message["users"] == [{"user": "root", "db": "admin"}]
    assert {"role": "root", "db": "admin"} in message["roles"]
    assert message["param"] == {"user": "root", "db": "admin", "mechanism": "SCRAM-SHA-1"}
    assert message["result"] == 0


def test_a_login_that_fails_or_is_left_is_told_of() -> None:
    async def story(node: LocalNode, log: AuditLog) -> None:
        await node.run(CREATE_ROOT, "admin")
        await log_in(node, "root", "wrong", mechanism="SCRAM-SHA-1")
        await log_in(node, "nobody", "wrong", mechanism="SCRAM-SHA-1")
        start = {"saslStart": 1, "payload": Binary(b"n,,n=root,r=abcdefgh")}
        await node.reply({**start, "mechanism": "PLAIN"}, "admin")
        await node.reply({"authenticate": 1, "mechanism": "MONGODB-X509"}, "$external")
        await node.reply({**start, "mechanism": "SCRAM-SHA-1"}, "admin")
        log.disconnected(node.peer)

    root = {"user": "root", "db": "admin", "mechanism": "SCRAM-SHA-1"}
    assert brief(told(story))[-5:] == [
        ("authenticate", root, 18),
        ("authenticate", {**root, "user": "nobody"}, 18),
        ("authenticate", {**root, "mechanism": "PLAIN"}, 334),
        ("authenticate", {"user": "", "db": "$external", "mechanism": "MONGODB-X509"}, 18),
        ("authenticate", root, 337),
    ]


def test_a_logout_says_who_is_left() -> None:
    async def story(node: LocalNode, log: AuditLog) -> None:
        await node.run(CREATE_ROOT, "admin")
        await log_in(node, "root", "secret", mechanism="SCRAM-SHA-1")
        await node.run({"logout": 1}, "admin")
        await node.run({"logout": 1}, "admin")
        await log_in(node, "root", "secret", mechanism="SCRAM-SHA-1")
        log.disconnected(node.peer)

    root = [{"user": "root", "db": "admin"}]
    logouts = [param for kind, param, _ in brief(told(story)) if kind == "logout"]
    assert logouts == [
        {"reason": "Explicit logout from admin", "initialUsers": root, "updatedUsers": []},
        {"reason": "Implicit logout due to client connection closure", "initialUsers": root, "updatedUsers": []},
    ]


def test_what_is_refused_is_told_of_and_what_is_allowed_on_demand() -> None:
    async def story(node: LocalNode, log: AuditLog) -> None:
        await node.run({**CREATE_ROOT, "createUser": "reader", "roles": [{"role": "read", "db": "d"}]}, "admin")
        node.services.access.enabled = True
        assert not (await node.reply({"find": "c"}, "d"))["ok"]
        another_client(node)
        await log_in(node, "reader", "secret", mechanism="SCRAM-SHA-1")
        await node.run({"count": "c"}, "d")
        assert not (await node.reply({"createUser": "x", "pwd": "hidden", "roles": []}, "d"))["ok"]
        log.authorization_success = True
        await node.run({"count": "c"}, "d")
        await node.run({"ping": 1}, "d")

    found = brief([each for each in told(story) if each["atype"] == "authCheck"])
    assert [(param["command"], param["ns"], result) for _, param, result in found] == [
        ("find", "d.c", 13),
        ("createUser", "d", 13),
        ("count", "d.c", 0),
    ]
    assert found[1][1]["args"]["pwd"] == "xxx"


def test_changes_of_users_and_roles_are_told_of_without_passwords() -> None:
    grant = {"resource": {"db": "d", "collection": "c"}, "actions": ["find"]}

    async def story(node: LocalNode, _log: AuditLog) -> None:
        for command in (
            {"createRole": "r", "roles": ["read"], "privileges": [grant]},
            {"grantPrivilegesToRole": "r", "privileges": [grant]},
            {"createUser": "u", "pwd": "hidden1", "roles": ["r"], "customData": {"a": 1}},
            {"updateUser": "u", "pwd": "hidden2"},
            {"grantRolesToUser": "u", "roles": ["read"]},
            {"dropUser": "u"},
            {"dropAllRolesFromDatabase": 1},
        ):
            await node.run(command, "d")
        assert not (await node.reply({"dropUser": "u"}, "d"))["ok"]

    messages = told(story)
    events = brief(messages)
    role, user = {"role": "r", "db": "d"}, {"user": "u", "db": "d"}
    read = {"role": "read", "db": "d"}
    expected = [
        ("createRole", {**role, "roles": [read], "privileges": [grant]}),
        ("grantPrivilegesToRole", {**role, "privileges": [grant]}),
        ("createUser", {**user, "customData": {"a": 1}, "roles": [role]}),
        ("updateUser", {**user, "passwordChanged": True}),
        ("grantRolesToUser", {**user, "roles": [read]}),
        ("dropUser", user),
        ("dropAllRolesFromDatabase", {"db": "d"}),
    ]
    named = {kind for kind, _ in expected}
    assert [(kind, param) for kind, param, _ in events if kind in named] == expected
    assert "hidden" not in str(messages)


def test_changes_of_the_catalog_are_told_of_whatever_made_them() -> None:
    async def story(node: LocalNode, _log: AuditLog) -> None:
        await node.run({"insert": "c", "documents": [{"x": 1}, {"x": 1}]}, "d")
        await node.run({"createIndexes": "c", "indexes": [{"key": {"y": 1}, "name": "y_1"}]}, "d")
        await node.reply({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1", "unique": True}]}, "d")
        await node.run({"dropIndexes": "c", "index": "y_1"}, "d")
        await node.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"x": 1}}]}, "d")
        await node.run({"renameCollection": "d.c", "to": "d.e"}, "admin")
        await node.run({"drop": "v"}, "d")
        await node.reply({"drop": "nothing"}, "d")
        await node.run({"dropDatabase": 1}, "d")

    view = {"ns": "d.v", "viewOn": "d.c", "pipeline": [{"$match": {"x": 1}}]}

    def index(name: str, state: str, result: int = 0, **options: Any) -> tuple[str, Any, int]:
        key = name.removesuffix("_1")
        spec = {"v": 2, "key": {"_id" if name == "_id_" else key: 1}, "name": name, **options}
        return "createIndex", {"ns": "d.c", "indexName": name, "indexSpec": spec, "indexBuildState": state}, result

    expected = [
        ("createDatabase", {"ns": "d"}, 0),
        ("createCollection", {"ns": "d.c"}, 0),
        index("_id_", "IndexBuildStarted"),
        index("_id_", "IndexBuildSucceeded"),
        index("y_1", "IndexBuildStarted"),
        index("y_1", "IndexBuildSucceeded"),
        index("x_1", "IndexBuildStarted", unique=True),
        index("x_1", "IndexBuildAborted", 276, unique=True),
        ("dropIndex", {"ns": "d.c", "indexName": "y_1"}, 0),
        ("createCollection", view, 0),
        ("renameCollection", {"old": "d.c", "new": "d.e"}, 0),
        ("dropCollection", view, 0),
        ("dropCollection", {"ns": "d.nothing"}, 26),
        ("dropCollection", {"ns": "d.e"}, 0),
        ("dropDatabase", {"ns": "d"}, 0),
    ]
    for replicated in (False, True):
        assert brief(told(story, replicated=replicated)) == expected


def test_parameters_of_the_cluster_that_are_read_and_set_are_told_of() -> None:
    parameter = {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 100}}}

    async def story(node: LocalNode, _log: AuditLog) -> None:
        await node.run({"getClusterParameter": "changeStreamOptions"}, "admin")
        await node.run({"setClusterParameter": parameter}, "admin")

    events = brief(told(story, replicated=True))
    got, put = (param for kind, param, _ in events if kind in ("getClusterParameter", "setClusterParameter"))
    assert got == {"requestedClusterServerParameters": "changeStreamOptions"}
    before, after = (put[f"{when}Parameter"]["preAndPostImages"] for when in ("original", "updated"))
    assert [each["expireAfterSeconds"] for each in (before, after)] == ["off", 100]


def test_what_a_member_replicates_is_not_told_of_by_it() -> None:
    messages: list[dict[str, Any]] = []

    async def run() -> None:
        log = AuditLog(lambda raw: messages.append(bson.decode(raw)), lambda: 1000.0, PROCESS)
        node = LocalNode(audit=log, replicated=True)
        oplog = node.node.store.oplog
        assert oplog is not None
        oplog.writable = False
        for entry in entries(busy_leader()):
            apply_entry(node.node.store, entry)
        assert node.node.store.collection("db.c") is not None

    loop(run())
    assert messages == []


def test_users_that_are_written_as_documents_are_told_of_without_what_proves_them() -> None:
    async def story(node: LocalNode, _log: AuditLog) -> None:
        document = {"_id": "d.u", "user": "u", "db": "d", "roles": [], "credentials": {"SCRAM-SHA-1": {"salt": "s"}}}
        await node.run({"insert": "system.users", "documents": [document]}, "admin")
        await node.run({"delete": "system.users", "deletes": [{"q": {}, "limit": 0}]}, "admin")

    found = [each for each in brief(told(story)) if each[0] == "directAuthMutation"]
    shown = {"_id": "d.u", "user": "u", "db": "d", "roles": []}
    assert found == [
        ("directAuthMutation", {"document": shown, "ns": "admin.system.users", "operation": operation}, 0)
        for operation in ("insert", "delete")
    ]


def test_a_filter_chooses_messages_and_an_application_adds_its_own() -> None:
    async def story(node: LocalNode, _log: AuditLog) -> None:
        await node.run({"create": "c"}, "d")
        await node.run({"logApplicationMessage": "hello"}, "admin")

    wanted = compile_filter(parse_filter(bson.encode({"atype": {"$in": ["applicationMessage"]}})))
    assert brief(told(story, wanted=wanted)) == [("applicationMessage", {"msg": "hello"}, 0)]
