"""Users and roles on a node: what is stored, and what they can log in with. Replies are compared with the reference in
`tests/differential/test_users.py`.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from bson.binary import Binary

from docstore.security.scram import SHA_1, SHA_256
from docstore.security.scram_client import conversation
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, continue_login, log_in, who

USER = {"createUser": "ann", "pwd": "secret", "roles": ["read", {"role": "readWrite", "db": "shop"}]}


def test_a_user_is_stored_as_mongodb_stores_it() -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run({**USER, "customData": {"n": 1}}, "db")
        (stored,) = (await node.run({"find": "system.users"}, "admin"))["cursor"]["firstBatch"]
        assert list(stored) == ["_id", "userId", "user", "db", "credentials", "customData", "roles"]
        assert stored["_id"] == "db.ann"
        assert stored["userId"].subtype == 4
        shape = {name: (each["iterationCount"], list(each)[1:]) for name, each in stored["credentials"].items()}
        keys = ["salt", "storedKey", "serverKey"]
        assert shape == {SHA_1: (10_000, keys), SHA_256: (15_000, keys)}
        assert stored["roles"] == [{"role": "read", "db": "db"}, {"role": "readWrite", "db": "shop"}]
        indexes = (await node.run({"listIndexes": "system.users"}, "admin"))["cursor"]["firstBatch"]
        assert [index["name"] for index in indexes] == ["_id_", "user_1_db_1"]
        version = (await node.run({"find": "system.version"}, "admin"))["cursor"]["firstBatch"]
        assert version == [{"_id": "authSchema", "currentVersion": 5}]

    loop(scenario())


@pytest.mark.parametrize(
    ("change", "works", "fails"),
    [
        ({"pwd": "new"}, [(SHA_1, "new"), (SHA_256, "new")], [(SHA_256, "secret")]),
        ({"mechanisms": [SHA_1]}, [(SHA_1, "secret")], [(SHA_256, "secret")]),
        ({"pwd": "new", "mechanisms": [SHA_256]}, [(SHA_256, "new")], [(SHA_1, "new")]),
        ({"roles": []}, [(SHA_256, "secret")], []),
    ],
)
def test_a_user_logs_in_with_what_it_has_now(
    change: dict[str, Any], works: list[tuple[str, str]], fails: list[tuple[str, str]]
) -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run(USER, "db")
        await node.run({"updateUser": "ann", **change}, "db")
        for expected, tries in ((1.0, works), (0.0, fails)):
            for mechanism, password in tries:
                another_client(node)
                assert (await log_in(node, "ann", password, "db", mechanism=mechanism))["ok"] == expected

    loop(scenario())


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("a" + "\u0316" * 16_000, "the password has more than 30 combining marks in a row"),
        ("\u00fc" * 20_000, "the password has more than 16384 characters, and not all are ASCII"),
    ],
)
def test_a_password_that_would_take_long_to_normalize_is_refused(password: str, reason: str) -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run(USER, "db")
        for command in ({**USER, "createUser": "other"}, {"updateUser": "ann"}):
            reply = await node.reply({**command, "pwd": password}, "db")
            assert (reply["code"], reply["errmsg"]) == (50692, f"Error preflighting normalization: {reason}")

    loop(scenario())


def test_a_password_may_come_digested() -> None:
    async def scenario() -> None:
        node = LocalNode()
        digest = "d7b4b5cf1d7d6ae6e9ad8a1f6f5a2d1f"
        await node.run(
            {"createUser": "ann", "pwd": digest, "digestPassword": False, "mechanisms": [SHA_1], "roles": []}
        )
        stored = (await node.run({"usersInfo": "ann", "showCredentials": True}))["users"][0]["credentials"]
        assert list(stored) == [SHA_1]

    loop(scenario())


def test_a_dropped_user_is_gone_from_open_connections() -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run(USER, "db")
        await log_in(node, "ann", "secret", "db")
        await node.run({"dropUser": "ann"}, "db")
        assert await who(node) == []

    loop(scenario())


def test_roles_change_on_open_connections() -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run({"createRole": "inner", "privileges": [], "roles": []}, "db")
        await node.run({"createRole": "outer", "privileges": [], "roles": ["inner"]}, "db")
        await node.run({"createUser": "ann", "pwd": "p", "roles": ["outer"]}, "db")
        await log_in(node, "ann", "p", "db")

        async def roles() -> list[str]:
            shown = (await node.run({"connectionStatus": 1}))["authInfo"]["authenticatedUserRoles"]
            return [each["role"] for each in shown]

        assert await roles() == ["inner", "outer"]
        await node.run({"grantRolesToRole": "inner", "roles": ["read"]}, "db")
        assert await roles() == ["inner", "outer", "read"]
        await node.run({"dropRole": "inner"}, "db")
        assert await roles() == ["outer"]

    loop(scenario())


def test_iterations_are_a_parameter() -> None:
    async def scenario() -> None:
        node = LocalNode()
        node.node.parameters.add(node.services.access.parameters())
        await node.run({"setParameter": 1, "scramSHA256IterationCount": 5_000}, "admin")
        for value in (4_999, "x", 1e12):
            refused = await node.reply({"setParameter": 1, "scramSHA256IterationCount": value}, "admin")
            assert refused["code"] == 2
        await node.run(USER, "db")
        shown = (await node.run({"usersInfo": "ann", "showCredentials": True}, "db"))["users"][0]["credentials"]
        assert [each["iterationCount"] for each in shown.values()] == [10_000, 5_000]

    loop(scenario())


def test_no_password_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("docstore").propagate = True
    caplog.set_level(logging.DEBUG, "docstore")

    async def scenario() -> None:
        node = LocalNode()
        node.dispatcher.services.switches.slow_ms = 0
        await node.run({**USER, "pwd": "veryverysecret"}, "db")
        await node.run({"updateUser": "ann", "pwd": "veryverysecret"}, "db")
        await log_in(node, "ann", "veryverysecret", "db")
        everything = repr([vars(record) for record in caplog.records])
        assert "Slow query" in everything
        assert "veryverysecret" not in everything
        assert everything.count("'pwd': 'xxx'") == 2
        assert everything.count("'payload': 'xxx'") == 2

    loop(scenario())


def test_roles_that_are_dropped_together_are_taken_from_users_too() -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run({"createRole": "r", "privileges": [], "roles": []}, "d")
        await node.run({"createUser": "ann", "pwd": "p", "roles": ["r", "read"]}, "d")
        await node.run({"dropAllRolesFromDatabase": 1}, "d")
        (ann,) = (await node.run({"usersInfo": "ann"}, "d"))["users"]
        assert ann["roles"] == [{"role": "read", "db": "d"}]

    loop(scenario())


def test_credentials_of_others_are_changed_by_those_alone_who_may_change_passwords() -> None:
    async def scenario() -> None:
        node = LocalNode()
        for user, roles in (("root", ["root"]), ("ann", [])):
            await node.run({"createUser": user, "pwd": "secret", "roles": roles}, "admin")
        node.services.access.enabled = True
        another_client(node)
        assert (await log_in(node, "ann", "secret", "admin"))["ok"]
        for user in ("root", "ann", "nobody"):
            refused = await node.reply({"updateUser": user, "mechanisms": [SHA_1]}, "admin")
            assert refused["codeName"] == "Unauthorized"
        another_client(node)
        assert (await log_in(node, "root", "secret", "admin"))["ok"]
        await node.run({"updateUser": "ann", "mechanisms": [SHA_1]}, "admin")

    loop(scenario())


def test_credentials_are_made_for_mechanisms_that_are_enabled() -> None:
    """As the reference makes them."""

    async def scenario() -> None:
        node = LocalNode()
        node.services.access.mechanisms = (SHA_256,)
        await node.run(USER, "db")
        (stored,) = (await node.run({"find": "system.users"}, "admin"))["cursor"]["firstBatch"]
        assert list(stored["credentials"]) == [SHA_256]
        for command in (
            {**USER, "createUser": "bob", "mechanisms": [SHA_1, SHA_256]},
            {"updateUser": "ann", "pwd": "new", "mechanisms": [SHA_1]},
        ):
            refused = await node.reply(command, "db")
            assert (refused["codeName"], refused["errmsg"]) == (
                "BadValue",
                "SCRAM-SHA-1 not supported in authMechanisms",
            )

    loop(scenario())


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("recreated", [False, True])
def test_an_old_password_is_refused_although_the_login_began_before_the_change(short: bool, recreated: bool) -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run(USER, "db")
        messages = conversation(SHA_256, "ann", "secret", bytes(24))
        start = {
            "saslStart": 1, "mechanism": SHA_256, "payload": Binary(next(messages)),
            "options": {"skipEmptyExchange": short},
        }  # fmt: skip
        another_client(node)
        reply = await node.reply(start, "db")
        client = node.peer
        another_client(node)
        if recreated:
            await node.run({"dropUser": "ann"}, "db")
            await node.run({**USER, "pwd": "new"}, "db")
        else:
            await node.run({"updateUser": "ann", "pwd": "new"}, "db")
        node.peer = client
        assert (await continue_login(node, messages, reply, "db"))["codeName"] == "AuthenticationFailed"
        assert await who(node) == []

    loop(scenario())
