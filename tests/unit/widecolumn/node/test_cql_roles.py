"""CQL's roles: statements that make, change, grant and list them, and what those who have them may do."""

from __future__ import annotations

import json
from typing import Any

import bson
import pytest
from bson import json_util

from docstore import log
from docstore.commands.audit.log import AuditLog
from docstore.errors import Code
from tests.unit.node.logging_in import another_client, log_in
from tests.unit.node.test_audit import PROCESS
from tests.unit.node.test_secrets import logged
from tests.unit.widecolumn.node.test_cql import CqlNode, story

__all__ = ["logged"]
INVALID, SYNTAX = 8704, 8192


async def begun(**options: Any) -> CqlNode:
    node = CqlNode(**options)
    await node.begin_tables()
    await node.cql("CREATE TABLE u (a text PRIMARY KEY, v text)")
    return node


async def refused(node: CqlNode, text: str, db: str = "ks") -> tuple[int, str]:
    """(code of CQL, text) of a refusal."""
    reply = await node.reply({"cql": text}, db)
    assert reply["ok"] == 0, reply
    return reply["cqlCode"], reply["errmsg"]


async def become(node: CqlNode, user: str, password: str) -> None:
    another_client(node)
    assert (await log_in(node, user, password))["ok"]


def test_roles_are_made_changed_granted_and_listed() -> None:
    async def told() -> None:
        node = await begun()
        assert await node.cql("CREATE ROLE reading") == {"ok": 1.0}
        await node.cql("CREATE ROLE IF NOT EXISTS reading WITH LOGIN = false")
        await node.cql("CREATE ROLE 'Ann' WITH PASSWORD = 'x' AND LOGIN = true AND SUPERUSER = false")
        await node.cql("create user bob with password 'y' superuser;")
        await node.cql("GRANT reading TO 'Ann'")
        await node.cql("GRANT SELECT ON KEYSPACE ks TO reading")
        await node.cql('GRANT SELECT, MODIFY ON t TO "Ann"')
        await node.cql("GRANT ALTER ON ALL KEYSPACES TO reading")
        assert await node.rows("LIST ROLES") == [["Ann", False, True], ["bob", True, True], ["reading", False, False]]
        assert await node.rows("LIST ROLES OF 'Ann' NORECURSIVE") == [["Ann", False, True], ["reading", False, False]]
        assert await node.rows("LIST USERS") == [["Ann", False], ["bob", True]]
        every = [
            ["Ann", "Ann", "<table ks.t>", "SELECT"],
            ["Ann", "Ann", "<table ks.t>", "MODIFY"],
            ["reading", "reading", "<keyspace ks>", "SELECT"],
            ["reading", "reading", "<all keyspaces>", "ALTER"],
        ]
        assert await node.rows("LIST ALL PERMISSIONS OF 'Ann'") == every
        assert await node.rows("LIST SELECT ON KEYSPACE ks") == [every[2]]
        assert await node.rows("LIST MODIFY OF reading") == []
        await node.cql("REVOKE MODIFY ON ks.t FROM 'Ann'")
        await node.cql("REVOKE reading FROM 'Ann'")
        assert await node.rows("LIST ALL OF 'Ann'") == [every[0]]
        await node.cql("ALTER ROLE bob WITH SUPERUSER = false AND LOGIN = false")
        await node.cql("ALTER USER 'Ann' WITH PASSWORD 'z' SUPERUSER")
        assert await node.rows("LIST ROLES") == [["Ann", True, True], ["bob", False, False], ["reading", False, False]]
        for name in ("'Ann'", "bob", "reading"):
            await node.cql(f"DROP ROLE {name}")
        await node.cql("DROP USER IF EXISTS bob")
        assert await node.rows("LIST ROLES") == []
        assert (await node.run({"usersInfo": 1}, "admin"))["users"] == []

    story(told())


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("CREATE ROLE a", INVALID, "a already exists"),
        ("DROP ROLE nobody", INVALID, "nobody doesn't exist"),
        ("ALTER ROLE nobody WITH LOGIN = true", INVALID, "nobody doesn't exist"),
        ("GRANT a TO nobody", INVALID, "nobody doesn't exist"),
        ("GRANT SELECT ON KEYSPACE ks TO nobody", INVALID, "nobody doesn't exist"),
        ("GRANT b TO a", INVALID, "b is a member of a"),
        ("LIST ROLES OF nobody", INVALID, "nobody doesn't exist"),
        ("CREATE ROLE c WITH LOGIN = true", INVALID, "a role that may log in needs a PASSWORD"),
        ("CREATE ROLE c WITH PASSWORD = 'hidden'", INVALID, "a PASSWORD is for a role that may log in"),
        ("CREATE ROLE c WITH OPTIONS = {}", INVALID, "Other options of roles"),
        ("GRANT SELECT ON ALL ROLES TO a", INVALID, "Permissions on other resources"),
        ("CREATE ROLE c WITH PASSWORD 'hidden'", SYNTAX, "line 1:28 no viable alternative at input '<string>'"),
        ("CREATE ROLE c WITH LOGIN = true AND LOGIN = true", SYNTAX, "line 1:48 LOGIN is given twice"),
        ("GRANT a b TO c", SYNTAX, "line 1:8 no viable"),
        ("LIST NOTHING", SYNTAX, "line 1:5 no viable"),
    ],
)
def test_what_cannot_be_done_is_refused(text: str, code: int, message: str) -> None:
    async def told() -> None:
        node = await begun()
        await node.cql("CREATE ROLE a")
        await node.cql("CREATE ROLE b")
        await node.cql("GRANT a TO b")
        found = await refused(node, text)
        assert found[0] == code
        assert found[1].startswith(message)
        assert "hidden" not in found[1]

    story(told())


def test_permissions_on_tables_are_held_against_the_tables_of_statements() -> None:
    async def told() -> None:
        node = await begun()
        await node.cql("CREATE USER boss WITH PASSWORD 'r' SUPERUSER")
        await node.cql("CREATE USER ann WITH PASSWORD 'x'")
        await node.cql("GRANT SELECT ON t TO ann")
        await node.cql("GRANT MODIFY ON ks.u TO ann")
        node.services.access.enabled = True
        await become(node, "ann", "x")
        allowed = ("SELECT * FROM t", "INSERT INTO u (a, v) VALUES ('1', '2')", "TRUNCATE u", "SELECT * FROM ks.t")
        for text in allowed:
            await node.cql(text)
        await node.run({"cql": "SELECT * FROM ks.t"}, "elsewhere")
        for text in (
            "SELECT * FROM u",
            "UPDATE t SET v = 'x' WHERE a = 'a' AND b = 1",
            "BEGIN BATCH INSERT INTO u (a) VALUES ('1'); INSERT INTO t (a, b) VALUES ('1', 1); APPLY BATCH",
            "TRUNCATE t",
            "DROP TABLE u",
            "ALTER TABLE u ADD w text",
            "CREATE TABLE w (a text PRIMARY KEY)",
            "CREATE ROLE mine",
            "ALTER ROLE ann WITH SUPERUSER = true",
            "GRANT ALL ON KEYSPACE ks TO ann",
            "LIST ROLES",
        ):
            assert (await node.reply({"cql": text}, "ks"))["code"] == Code.Unauthorized, text
        await become(node, "boss", "r")
        await node.cql("GRANT CREATE, ALTER, DROP ON KEYSPACE ks TO ann")
        await become(node, "ann", "x")
        for text in ("CREATE TABLE w (a text PRIMARY KEY)", "ALTER TABLE w ADD v text", "DROP TABLE w"):
            await node.cql(text)

    story(told())


def test_a_conditional_write_needs_what_a_select_needs() -> None:
    """It shows the values that stand against it."""

    async def told() -> None:
        node = await begun()
        await node.cql("INSERT INTO u (a, v) VALUES ('1', 'secret')")
        await node.cql("CREATE USER boss WITH PASSWORD 'r' SUPERUSER")
        await node.cql("CREATE USER ann WITH PASSWORD 'x'")
        await node.cql("GRANT MODIFY ON u TO ann")
        node.services.access.enabled = True
        conditional = (
            "UPDATE u SET v = 'x' WHERE a = '1' IF v = 'guess'",
            "DELETE FROM u WHERE a = '1' IF v = 'guess'",
            "INSERT INTO u (a, v) VALUES ('1', 'x') IF NOT EXISTS",
        )
        await become(node, "ann", "x")
        for text in conditional:
            reply = await node.reply({"cql": text}, "ks")
            assert reply["code"] == Code.Unauthorized, text
            assert "secret" not in json.dumps(reply, default=json_util.default)
        await become(node, "boss", "r")
        await node.cql("GRANT SELECT ON u TO ann")
        await become(node, "ann", "x")
        for text in conditional:
            assert (await node.rows(text))[0][0] is False

    story(told())


def test_the_schema_is_told_as_far_as_the_user_has_privileges() -> None:
    async def told() -> None:
        node = await begun()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        await node.run({"cql": f"CREATE KEYSPACE hidden WITH replication = {replication}"}, "admin")
        await node.run({"cql": "CREATE TABLE hidden.secrets (a text PRIMARY KEY)"}, "admin")
        await node.cql("CREATE USER boss WITH PASSWORD 'r' SUPERUSER")
        await node.cql("CREATE USER ann WITH PASSWORD 'x'")
        await node.cql("GRANT SELECT ON KEYSPACE ks TO ann")
        node.services.access.enabled = True
        await become(node, "ann", "x")
        assert await node.rows("DESCRIBE KEYSPACES") == [["ks", "keyspace", "ks"]]
        for text in ("DESCRIBE TABLES", "DESCRIBE SCHEMA", "DESCRIBE CLUSTER"):
            assert "hidden" not in str(await node.rows(text)), text
        for text in ("DESCRIBE KEYSPACE hidden", "DESCRIBE hidden", "USE hidden"):
            reply, absent = [
                await node.reply({"cql": text.replace("hidden", name)}, "ks") for name in ("hidden", "nope")
            ]
            assert reply["ok"] == 0, text
            assert reply["errmsg"] == absent["errmsg"].replace("nope", "hidden")
        await become(node, "boss", "r")
        assert ["hidden", "keyspace", "hidden"] in await node.rows("DESCRIBE KEYSPACES")

    story(told())


def test_a_word_that_hides_in_a_literal_opens_no_table() -> None:
    async def told() -> None:
        node = await begun()
        await node.cql("CREATE USER ann WITH PASSWORD 'x'")
        await node.cql("GRANT SELECT, MODIFY ON u TO ann")
        node.services.access.enabled = True
        await become(node, "ann", "x")
        first, second = "UPDATE u SET v = 'x' WHERE a = 'a'", "UPDATE t SET v = 'x' WHERE a = 'a' AND b = 1"
        for between in ("", "; ", "/* */ "):
            reply = await node.reply({"cql": f"BEGIN BATCH {first} {between}{second} APPLY BATCH"}, "ks")
            assert reply["code"] in (Code.Unauthorized, Code.FailedToParse), reply

    story(told())


@pytest.mark.parametrize(
    "text",
    [
        "DROP {}EYSPACE other",
        "ALTER {}EYSPACE other WITH durable_writes = false",
        "CREATE {}EYSPACE new WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
    ],
)
@pytest.mark.parametrize("letter", ["k", "K", "\u212a"], ids=["small", "large", "kelvin"])
def test_statements_about_keyspaces_need_privileges_on_all_databases(text: str, letter: str) -> None:
    """Case is that of ASCII: a letter that only Unicode takes for a k makes no keyword."""

    async def told() -> None:
        node = await begun()
        await node.cql("CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        await node.cql("CREATE USER ann WITH PASSWORD 'x'")
        await node.cql("GRANT CREATE, ALTER, DROP, SELECT, MODIFY ON KEYSPACE ks TO ann")
        node.services.access.enabled = True
        await become(node, "ann", "x")
        reply = await node.reply({"cql": text.format(letter)}, "ks")
        assert reply["ok"] == 0
        assert reply["code"] == Code.Unauthorized or reply["cqlCode"] == SYNTAX, reply
        node.services.access.enabled = False
        assert "other" in str(await node.cql("DESCRIBE KEYSPACES"))
        assert "new" not in str(await node.cql("DESCRIBE KEYSPACES"))

    story(told())


def test_no_password_of_a_statement_is_shown_and_the_audit_log_tells_of_it(logged: log.RecentLines) -> None:
    messages: list[dict[str, Any]] = []

    async def told() -> None:
        audit = AuditLog(lambda raw: messages.append(bson.decode(raw)), lambda: 1000.0, PROCESS)
        node = await begun(audit=audit)
        node.dispatcher.services.switches.slow_ms = 0
        await node.cql("CREATE USER ann WITH PASSWORD 'hidden-word'")
        await node.cql("ALTER USER ann WITH PASSWORD 'hidden-word'")
        node.services.access.enabled = True
        await become(node, "ann", "hidden-word")
        reply = await node.reply({"cql": "CREATE USER bob WITH PASSWORD 'hidden-word'"}, "ks")
        assert reply["code"] == Code.Unauthorized
        shown = json.dumps([reply, messages], default=json_util.default) + "".join(logged.lines)
        assert "hidden-word" not in shown

    story(told())
    kinds = [(each["atype"], each["result"]) for each in messages]
    for kind in (("createRole", 0), ("createUser", 0), ("updateUser", 0), ("authCheck", 13)):
        assert kind in kinds


STATEMENTS = (
    "SELECT * FROM {0}", "SELECT nothing FROM {0}", "INSERT INTO {0} (a, v) VALUES ('x', 'y')",
    "DELETE FROM {0} WHERE a = 'x'", "INSERT INTO {0} (a, v) VALUES ('x', 'y') IF NOT EXISTS", "TRUNCATE {0}",
    "DROP TABLE {0}", "DROP TABLE IF EXISTS {0}", "ALTER TABLE {0} ADD w int",
    "BEGIN BATCH INSERT INTO {0} (a, v) VALUES ('x', 'y'); APPLY BATCH",
)  # fmt: skip


def test_who_may_not_use_a_table_does_not_learn_whether_it_exists() -> None:
    async def told() -> None:
        node = await begun()
        await node.cql("CREATE ROLE ann WITH PASSWORD = 'x' AND LOGIN = true")
        await node.cql("GRANT SELECT ON t TO ann")
        node.services.access.enabled = True
        await become(node, "ann", "x")
        for statement in STATEMENTS:
            for table in ("ks.u", "ks.absent", "absent.t", "u", "absent"):
                reply = await node.reply({"cql": statement.format(table)}, "ks")
                assert reply["code"] == Code.Unauthorized, (statement, table, reply)
        # Of the table that she may read she learns what is wrong.
        assert (await node.reply({"cql": "SELECT nothing FROM t"}, "ks"))["code"] != Code.Unauthorized

    story(told())


def test_who_may_authorize_hands_on_its_own_permissions_and_no_more() -> None:
    """Not a role of the server either, `root` first of all."""

    async def told() -> None:
        node = await begun()
        await node.cql("CREATE USER boss WITH PASSWORD 'r' SUPERUSER")
        await node.cql("CREATE USER app WITH PASSWORD 'x'")
        await node.cql("CREATE ROLE team")
        await node.cql("GRANT team TO app")
        await node.cql("GRANT ALL PERMISSIONS ON ALL KEYSPACES TO app")
        node.services.access.enabled = True
        await become(node, "app", "x")
        await node.cql("GRANT SELECT, MODIFY ON KEYSPACE ks TO team")
        await node.cql("REVOKE MODIFY ON KEYSPACE ks FROM team")
        for text in ("ALTER ROLE app WITH SUPERUSER = true", "CREATE ROLE more WITH SUPERUSER = true"):
            assert (await node.reply({"cql": text}, "ks"))["code"] == Code.Unauthorized, text
        for command in (
            {"grantRolesToUser": "app", "roles": ["root"]},
            {"grantRolesToRole": "team", "roles": ["root"]},
            {"find": "system.users"},
        ):
            assert (await node.reply(command, "admin"))["code"] == Code.Unauthorized, command
        await become(node, "boss", "r")
        await node.cql("REVOKE ALL PERMISSIONS ON ALL KEYSPACES FROM app")
        await node.cql("REVOKE SELECT ON KEYSPACE ks FROM team")
        await node.cql("GRANT AUTHORIZE ON KEYSPACE ks TO app")
        await node.cql("GRANT SELECT ON t TO app")
        await become(node, "app", "x")
        for text, code in (
            ("GRANT SELECT ON KEYSPACE ks TO app", Code.Unauthorized),
            ("GRANT SELECT ON u TO app", Code.Unauthorized),
            ("GRANT MODIFY ON t TO team", Code.Unauthorized),
            ("GRANT SELECT ON t TO team", 0),
        ):
            assert (await node.reply({"cql": text}, "ks")).get("code", 0) == code, text

    story(told())


@pytest.mark.parametrize(
    "text",
    [
        "CREATE USER u2 'hidden'",
        "CREATE /* a comment */ ROLE u2 IDENTIFIED BY 'hidden'",
        "alter role u2 WITH OPTIONS = {'pw': 'hidden'}",
    ],
)
def test_misspelt_statements_about_roles_are_not_logged(text: str, logged: log.RecentLines) -> None:
    async def told() -> None:
        node = await begun()
        node.dispatcher.services.switches.slow_ms = 0
        await refused(node, text)
        assert any("Slow query" in line for line in logged.lines)
        assert "hidden" not in "".join(logged.lines)

    story(told())
