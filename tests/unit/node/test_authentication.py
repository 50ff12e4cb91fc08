"""Logging in to a node: conversations over commands, with users as their documents have them."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from bson.binary import Binary

from docstore.security.cluster_keys import ClusterKeys
from docstore.security.scram import MECHANISMS, SALT_BYTES, SHA_1, SHA_256
from docstore.security.scram_client import conversation
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, continue_login, log_in, user_document, who


async def node_with(*users: dict[str, Any]) -> LocalNode:
    node = LocalNode()
    await node.run({"insert": "system.users", "documents": list(users)}, "admin")
    return node


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("short", [True, False])
def test_a_user_logs_in_and_out(mechanism: str, short: bool) -> None:
    async def scenario() -> None:
        node = await node_with(user_document("ann", "secret"))
        assert await who(node) == []
        reply = await log_in(node, "ann", "secret", mechanism=mechanism, short=short)
        assert (reply["conversationId"], reply["done"], reply["ok"]) == (1, True, 1.0)
        assert bytes(reply["payload"]).startswith(b"v=") == short
        assert await who(node) == [{"user": "ann", "db": "admin"}]
        await node.run({"logout": 1}, "test")
        assert await who(node) != [], "of another database"
        await node.run({"logout": 1}, "admin")
        assert await who(node) == []

    loop(scenario())


@pytest.mark.parametrize(
    ("user", "password", "db"), [("ann", "wrong", "admin"), ("bob", "secret", "admin"), ("ann", "secret", "shop")]
)
def test_a_login_fails_always_in_the_same_way(user: str, password: str, db: str) -> None:
    async def scenario() -> None:
        node = await node_with(user_document("ann", "secret"))
        reply = await log_in(node, user, password, db)
        expected = {"ok": 0.0, "errmsg": "Authentication failed.", "code": 18, "codeName": "AuthenticationFailed"}
        assert reply == expected
        assert await who(node) == []
        again = await node.reply({"saslContinue": 1, "conversationId": 1, "payload": Binary(b"")})
        assert (again["code"], again["errmsg"]) == (17, "No SASL session state found")

    loop(scenario())


def test_who_fails_often_waits_and_is_let_in_by_the_right_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.commands.access.attempts.PER_SECOND", 1e-9)
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async def scenario() -> None:
        node = await node_with(user_document("ann", "secret"), user_document("bob", "secret"))
        access = node.services.access
        access.attempts.allowed, access.pause = 3, pause
        for _ in range(3):
            assert (await log_in(node, "ann", "wrong", "admin"))["code"] == 18
        assert waits == []
        assert (await log_in(node, "bob", "secret", "admin"))["ok"] == 1
        another_client(node, "10.0.0.9:1")
        assert (await log_in(node, "ann", "secret", "admin"))["ok"] == 1
        assert waits == [], "neither another user nor another address waits"
        another_client(node)
        assert (await log_in(node, "ann", "secret", "admin"))["ok"] == 1
        assert waits == [5.0]

    loop(scenario())


def test_messages_that_name_nobody_hold_nobody_up() -> None:
    """Neither users nor the processes of the cluster."""
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async def scenario() -> None:
        node = await node_with(user_document("ann", "secret"))
        access = node.services.access
        access.attempts.allowed, access.pause, access.keys = (
            2,
            pause,
            ClusterKeys(["a" * 12], bytes(SALT_BYTES[SHA_256])),
        )
        start = {"saslStart": 1, "mechanism": SHA_256}
        for _ in range(5):
            assert (await node.reply({**start, "payload": Binary(b"garbage")}, "admin"))["code"] == 18
            member = await log_in(node, "__system", "wrong", "local")
            assert member["code"] == 18
        assert (await log_in(node, "ann", "secret", "admin"))["ok"] == 1
        another_client(node)
        assert (await log_in(node, "__system", "a" * 12, "local"))["ok"] == 1
        assert waits == []

    loop(scenario())


def test_a_user_who_does_not_exist_is_challenged_like_any_other() -> None:
    async def scenario() -> None:
        node = await node_with(user_document("ann", "secret"))
        challenges = []
        for user in ("ann", "bob", "bob"):
            first = Binary(f"n,,n={user},r=nonce".encode())
            reply = await node.run({"saslStart": 1, "mechanism": SHA_256, "payload": first}, "admin")
            fields = dict(part.split("=", 1) for part in bytes(reply["payload"]).decode().split(","))
            assert fields["r"].startswith("nonce")
            challenges.append((len(fields["s"]), fields["s"]))
        assert challenges[0][0] == challenges[1][0]
        assert challenges[1] == challenges[2]
        mechanisms = [
            (await node.run({"hello": 1, "saslSupportedMechs": f"admin.{user}"}))["saslSupportedMechs"]
            for user in ("ann", "bob")
        ]
        assert mechanisms == [[SHA_1, SHA_256]] * 2

    loop(scenario())


def test_a_connection_is_authenticated_once() -> None:
    async def scenario() -> None:
        node = await node_with(user_document("ann", "a"), user_document("bob", "b"), user_document("cid", "c", "shop"))
        await log_in(node, "ann", "a")
        assert (await log_in(node, "ann", "a"))["ok"] == 1.0
        assert (await log_in(node, "bob", "b"))["code"] == 5626702
        assert (await log_in(node, "cid", "c", "shop"))["code"] == 5626701
        assert (await log_in(node, "ann", "wrong"))["code"] == 18
        assert await who(node) == [{"user": "ann", "db": "admin"}]
        another_client(node)
        assert await who(node) == []

    loop(scenario())


def test_a_user_that_changes_changes_on_open_connections() -> None:
    async def scenario() -> None:
        node = await node_with(user_document("ann", "a"))
        await log_in(node, "ann", "a")
        grant = {"q": {"_id": "admin.ann"}, "u": {"$set": {"roles": [{"role": "read", "db": "shop"}]}}}
        await node.run({"update": "system.users", "updates": [grant]}, "admin")
        shown = (await node.run({"connectionStatus": 1, "showPrivileges": True}))["authInfo"]
        assert shown["authenticatedUserRoles"] == [{"role": "read", "db": "shop"}]
        assert {each["resource"]["collection"] for each in shown["authenticatedUserPrivileges"]} == {"", "system.js"}
        await node.run({"delete": "system.users", "deletes": [{"q": {}, "limit": 0}]}, "admin")
        assert await who(node) == []
        await node.run({"insert": "system.users", "documents": [user_document("ann", "a")]}, "admin")
        assert await who(node) == [], "another user of that name"

    loop(scenario())


def test_a_document_that_is_no_users_is_nobody() -> None:
    async def scenario() -> None:
        broken = {"roles": [{"role": "read"}]}, {"credentials": {}}, {"credentials": 5}, {"db": 7}, {"user": "x"}
        users = [{**user_document(f"u{at}", "p"), **fields} for at, fields in enumerate(broken)]
        node = await node_with({"_id": "foo"}, *users)
        for at in range(len(users)):
            assert (await log_in(node, f"u{at}", "p"))["code"] == 18

    loop(scenario())


def test_a_user_logs_in_from_where_it_may() -> None:
    async def scenario() -> None:
        home = {"authenticationRestrictions": [{"clientSource": ["127.0.0.0/8"], "serverAddress": ["127.0.0.1"]}]}
        node = await node_with(user_document("ann", "a", **home))
        another_client(node, "192.168.0.1:9")
        assert (await log_in(node, "ann", "a"))["code"] == 18
        another_client(node, "127.0.0.9:9")
        assert (await log_in(node, "ann", "a"))["ok"] == 1.0

    loop(scenario())


def test_hello_begins_no_conversation_by_a_mechanism_that_the_user_has_not() -> None:
    """A driver that tries the better one goes on with the one that it is told of."""

    async def scenario() -> None:
        document = user_document("ann", "a")
        del document["credentials"][SHA_256]
        node = await node_with(document)
        # A name that is nobody's seems to have what the only user has.
        for user in ("ann", "nobody"):
            payload = Binary(next(conversation(SHA_256, user, "a", os.urandom(24))))
            begin = {"saslStart": 1, "mechanism": SHA_256, "payload": payload, "db": "admin"}
            asked = {"saslSupportedMechs": f"admin.{user}", "speculativeAuthenticate": begin}
            assert "speculativeAuthenticate" not in await node.run({"hello": 1, **asked})
        assert (await log_in(node, "ann", "a", mechanism=SHA_1))["ok"] == 1.0

    loop(scenario())


def test_hello_begins_a_conversation() -> None:
    async def scenario() -> None:
        node = await node_with(user_document("ann", "a"))
        messages = conversation(SHA_256, "ann", "a", os.urandom(24))
        begin: dict[str, Any] = {
            "saslStart": 1, "mechanism": SHA_256, "payload": Binary(next(messages)), "db": "admin",
            "options": {"skipEmptyExchange": True},
        }  # fmt: skip
        reply = await node.run({"hello": 1, "saslSupportedMechs": "admin.ann", "speculativeAuthenticate": begin})
        assert reply["saslSupportedMechs"] == [SHA_1, SHA_256]
        done = await continue_login(node, messages, {**reply["speculativeAuthenticate"], "ok": 1.0})
        assert done["done"]
        assert await who(node) == [{"user": "ann", "db": "admin"}]
        for useless in ({**begin, "mechanism": "FOO"}, {"authenticate": 1}, {"saslStart": 1}):
            reply = await node.run({"isMaster": 1, "speculativeAuthenticate": useless})
            assert "speculativeAuthenticate" not in reply

    loop(scenario())


SASL_START = {"saslStart": 1, "mechanism": SHA_256, "payload": Binary(b"")}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({**SASL_START, "mechanism": "PLAIN"}, 334),
        ({**SASL_START, "mechanism": "MONGODB-CR"}, 334),
        (SASL_START, 18),
        ({**SASL_START, "payload": 5}, 2),
        ({**SASL_START, "payload": "***"}, 2),
        ({"saslStart": 1, "mechanism": SHA_256}, 40414),
        ({"saslStart": 1, "payload": Binary(b"")}, 40414),
        ({"saslContinue": 1, "conversationId": 1, "payload": Binary(b"")}, 17),
        ({"authenticate": 1, "mechanism": "MONGODB-X509"}, 18),
        ({"authenticate": 1, "mechanism": "MONGODB-CR", "nonce": ""}, 40415),
        ({"hello": 1, "saslSupportedMechs": "ann"}, 2),
        ({"hello": 1, "saslSupportedMechs": {"user": "ann"}}, 2),
        ({"hello": 1, "saslSupportedMechs": 5}, 14),
        ({"hello": 1, "speculativeAuthenticate": {"foo": 1}}, 51769),
        ({"hello": 1, "speculativeAuthenticate": 5}, 14),
    ],
)
def test_what_is_no_conversation_is_refused(request_: dict[str, Any], code: int) -> None:
    async def scenario() -> None:
        assert (await LocalNode().reply(request_, "admin"))["code"] == code

    loop(scenario())


def test_a_message_may_be_base64() -> None:
    async def scenario() -> None:
        reply = await LocalNode().run({**SASL_START, "payload": "biwsbj11c2VyLHI9YWJj"}, "admin")
        assert bytes(reply["payload"]).startswith(b"r=abc")
        wrong = await LocalNode().reply({"saslContinue": 1, "conversationId": 7, "payload": Binary(b"")}, "admin")
        assert wrong["code"] == 17

    loop(scenario())


def test_restrictions_hold_for_who_is_logged_in_already() -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
        await node.run({"createRole": "role", "privileges": [], "roles": ["readAnyDatabase"]}, "admin")
        await node.run({"createUser": "ann", "pwd": "p", "roles": ["role"]}, "admin")
        root = node.peer
        node.services.access.enabled = True
        assert (await log_in(node, "root", "p"))["ok"]
        ann = another_client(node, "10.0.0.9:1")
        elsewhere, here = ([{"clientSource": [address]}] for address in ("10.0.0.8", "10.0.0.0/24"))
        for command in ({"updateUser": "ann"}, {"updateRole": "role"}):
            assert (await log_in(node, "ann", "p"))["ok"]
            await node.run({"find": "c"})
            for restrictions, code in ((here, None), (elsewhere, 13)):
                node.peer = root
                await node.run({**command, "authenticationRestrictions": restrictions}, "admin")
                node.peer = ann
                assert (await node.reply({"find": "c"})).get("code") == code
            assert (await log_in(node, "ann", "p"))["code"] == 18
            node.peer = root
            await node.run({**command, "authenticationRestrictions": []}, "admin")
            node.peer = ann

    loop(scenario())


async def shown_of(node: LocalNode, user: str) -> tuple[Any, ...]:
    """What a stranger learns of a name: mechanisms, iteration counts, and whether a login may begin with hello."""
    named = await node.run({"hello": 1, "saslSupportedMechs": f"admin.{user}"})
    told: list[Any] = [tuple(named["saslSupportedMechs"])]
    for mechanism in MECHANISMS:
        start = {"saslStart": 1, "mechanism": mechanism, "payload": Binary(f"n,,n={user},r=nonce".encode())}
        reply = await node.run(start, "admin")
        told.append(bytes(reply["payload"]).decode().rpartition("i=")[2])
        hello = await node.run({"hello": 1, "speculativeAuthenticate": {**start, "db": "admin"}})
        told.append("speculativeAuthenticate" in hello)
    return tuple(told)


def test_names_are_not_told_by_mechanisms_and_iteration_counts() -> None:
    """What is shown of names that are nobody's is shown as often as of users, and stays."""

    async def scenario() -> None:
        node = LocalNode()
        access = node.services.access
        # The secret gives each user a share of all names, which by chance may have none of the 120 below.
        access.secret = bytes(32)
        for number in range(12):
            mechanisms = [[SHA_1], [SHA_256], [SHA_1, SHA_256]][number % 3]
            access.iterations = dict.fromkeys(MECHANISMS, 5000 + number % 2)
            await node.run({"createUser": f"u{number}", "pwd": "p", "roles": [], "mechanisms": mechanisms}, "admin")
        access.iterations = dict.fromkeys(MECHANISMS, 6000)
        of_users = Counter([await shown_of(node, f"u{number}") for number in range(12)])
        of_others = Counter([await shown_of(node, f"nobody {number}") for number in range(120)])
        assert set(of_others) == set(of_users)
        assert of_others == Counter([await shown_of(node, f"nobody {number}") for number in range(120)])
        before = {number: await shown_of(node, f"nobody {number}") for number in range(120)}
        await node.run({"dropUser": "u0"}, "admin")
        after = {number: await shown_of(node, f"nobody {number}") for number in range(120)}
        assert sum(before[number] != after[number] for number in before) < 60

    loop(scenario())
