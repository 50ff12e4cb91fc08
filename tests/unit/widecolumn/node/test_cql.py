"""The command `cql` on a data node: statements over real storage, values as BSON, errors with both kinds of code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import bson
from bson.binary import Binary
from bson.int64 import Int64

from docstore.commands.dispatch import Pending
from docstore.errors import Code
from docstore.wire.message import Message
from tests.unit.widecolumn.node.wide_columns import WideNode

TABLE = """CREATE TABLE t (a text, b int, v text, n bigint, s text static, PRIMARY KEY (a, b))
    WITH CLUSTERING ORDER BY (b DESC)"""


def story(told: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(told, 60))


class CqlNode(WideNode):
    """With the table `ks.t`."""

    async def begin_tables(self) -> None:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        await self.run({"cql": f"CREATE KEYSPACE ks WITH replication = {replication}"}, "admin")
        await self.cql(TABLE)

    async def cql(self, text: str, *params: Any, **fields: Any) -> dict[str, Any]:
        return await self.wide({"cql": text, "params": list(params), **fields})

    async def rows(self, text: str, *params: Any, **fields: Any) -> list[list[Any]]:
        found: list[list[Any]] = (await self.cql(text, *params, **fields))["rows"]
        return found


def test_rows_come_back_as_they_were_written() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        for b in range(5):
            await node.cql("INSERT INTO t (a, b, v, n) VALUES (?, ?, ?, ?)", "x", b, f"v{b}", Int64(b << 40))
        await node.cql("UPDATE t SET s = 'shared' WHERE a = 'x'")
        reply = await node.cql("SELECT * FROM t WHERE a = ? AND b >= ?", "x", 3)
        assert [(column["name"], column["type"]) for column in reply["columns"]] == [
            ("a", "text"), ("b", "int"), ("s", "text"), ("n", "bigint"), ("v", "text"),
        ]  # fmt: skip
        assert reply["rows"] == [["x", 4, "shared", 4 << 40, "v4"], ["x", 3, "shared", 3 << 40, "v3"]]
        assert await node.rows("SELECT b FROM t WHERE a = 'x' ORDER BY b ASC LIMIT 2") == [[0], [1]]
        await node.cql("DELETE FROM t WHERE a = 'x' AND b < 3")
        assert await node.rows("SELECT b FROM t") == [[4], [3]]
        await node.cql("DELETE FROM t WHERE a = 'x'")
        assert await node.rows("SELECT b FROM t") == []

    story(told())


def test_pages_together_are_all_rows() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        for i in range(60):
            await node.cql("INSERT INTO t (a, b, v) VALUES (?, ?, 'x')", f"p{i % 7}", i)
        whole = await node.rows("SELECT a, b FROM t")
        assert len(whole) == 60
        for text in ("SELECT a, b FROM t", "SELECT a, b FROM t WHERE a IN ('p1', 'p2')"):
            paged: list[list[Any]] = []
            fields: dict[str, Any] = {"pageSize": 7}
            while True:
                reply = await node.cql(text, **fields)
                paged += reply["rows"]
                if "pagingState" not in reply:
                    break
                assert len(reply["rows"]) == 7
                fields["pagingState"] = reply["pagingState"]
            assert paged == await node.rows(text)
        refused = {"cql": "SELECT a, b FROM t", "pagingState": Binary(b"nonsense")}
        assert await node.refused(refused) == (Code.BadValue, "Invalid value for the paging state")

    story(told())


def test_refusals_have_both_codes() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        for text, code, cql_code, message in (
            ("SELEC", Code.FailedToParse, 0x2000, "line 1:0 no viable alternative at input 'SELEC'"),
            ("SELECT * FROM nope", Code.NamespaceNotFound, 0x2200, "table nope does not exist"),
            (TABLE, Code.NamespaceExists, 0x2400, 'Cannot add already existing table "t" to keyspace "ks"'),
            ("INSERT INTO t (a) VALUES ('x')", Code.BadValue, 0x2200, "Some clustering keys are missing: b"),
            ("CREATE INDEX ON t (v)", Code.NotImplemented, 0x2200, "Secondary indexes are not supported"),
        ):
            reply = await node.reply({"cql": text}, "ks")
            assert (reply["ok"], reply["code"], reply["cqlCode"], reply["errmsg"]) == (0, code, cql_code, message)
        code, message = await node.refused({"cql": "SELECT * FROM t"}, "admin")
        assert message.startswith("No keyspace has been specified.")
        _, message = await node.refused({"cql": "SELECT * FROM t WHERE a = ?", "params": [5]})
        assert message == 'Invalid int value for "a" of type text'
        _, message = await node.refused({"cql": "SELECT * FROM t WHERE a = ?", "params": []})
        assert message == "Invalid amount of bind variables"

    story(told())


def test_tables_and_column_families_do_not_see_each_other() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        await node.wide({"createColumnFamily": "F", "compareWith": "UTF8Type"})
        code, _ = await node.refused({"wcGet": "t", "key": "x", "column": "y"})
        assert code == Code.CommandNotSupported
        _, message = await node.refused({"cql": "SELECT * FROM F"})
        assert message == "table f does not exist"
        _, message = await node.refused({"cql": 'SELECT * FROM "F"'})
        assert "is a column family of the column model" in message

    story(told())


def test_definitions_change_and_go() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        await node.cql("INSERT INTO t (a, b, v) VALUES ('x', 1, 'old')")
        await node.cql("ALTER TABLE t DROP v")
        await node.cql("ALTER TABLE t ADD v text")
        assert await node.rows("SELECT a, b, v FROM t") == [["x", 1, None]]
        await node.cql("TRUNCATE t")
        assert await node.rows("SELECT * FROM t") == []
        reply = await node.cql("DROP TABLE t")
        assert reply["schemaChange"] == {"change": "DROPPED", "keyspace": "ks", "table": "t"}
        assert (await node.cql("USE ks"))["keyspace"] == "ks"
        await node.cql("DROP KEYSPACE ks")
        _, message = await node.refused({"cql": "USE ks"})
        assert message == "Keyspace 'ks' does not exist"

    story(told())


def test_values_can_be_given_by_name() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        text = "INSERT INTO t (a, b, v) VALUES (:key, :b, :key)"
        await node.wide({"cql": text, "params": {"key": "x", "b": 1}})
        assert await node.rows("SELECT a, b, v FROM t") == [["x", 1, "x"]]
        _, message = await node.refused({"cql": text, "params": {"key": "x"}})
        assert message == "Invalid amount of bind variables"

    story(told())


def test_what_may_wait_for_others_is_a_task_and_rows_need_none() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()

        async def handled(text: str) -> Any:
            """What the transport gets, which is no task."""
            got: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            body = bson.encode({"cql": text, "$db": "ks"})

            def handle() -> None:
                got.set_result(node.dispatcher.handle(Message(1, 0, body, {}), node.peer))

            asyncio.get_running_loop().call_soon(handle)
            return await got

        for text in (
            "INSERT INTO t (a, b) VALUES ('x', 1)",
            "SELECT * FROM t",
            "UPDATE t SET v = 'v' WHERE a = 'x' AND b = 1",
        ):
            assert isinstance(await handled(text), bytes)
        for text in (
            "INSERT INTO t (a, b) VALUES ('x', 1) IF NOT EXISTS",
            "CREATE TABLE u (a int PRIMARY KEY)",
            "USE ks",
        ):
            outcome = await handled(text)
            assert isinstance(outcome, Pending)
            assert bson.decode(await outcome.finish())["ok"] == 1

    story(told())


def test_keyspaces_may_differ_in_upper_and_lower_case() -> None:
    async def told() -> None:
        node = CqlNode()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        for name in ("foo", '"Foo"'):
            await node.run({"cql": f"CREATE KEYSPACE {name} WITH replication = {replication}"}, "admin")
        reply = await node.reply({"create": "c"}, "FOO")
        assert reply["code"] == 13297

    story(told())


def test_a_change_of_the_schema_that_may_be_lost_is_not_acknowledged() -> None:
    async def told() -> None:
        node = CqlNode(replicated=True)
        await node.begin_tables()

        async def wait_write(*_: Any) -> Any:
            return {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out"}

        node.node.replication.wait_write = wait_write  # type: ignore[method-assign]
        for text in ("TRUNCATE t", "ALTER TABLE t ADD w text", "CREATE TABLE u (a int PRIMARY KEY)", "DROP TABLE t"):
            reply = await node.reply({"cql": text}, "ks")
            assert (reply["ok"], reply.get("wcException")) == (0, "TimedOutException"), text

    story(told())


def test_collections_come_back_by_their_elements() -> None:
    async def told() -> None:
        node = CqlNode()
        await node.begin_tables()
        await node.cql("CREATE TABLE c (a int PRIMARY KEY, s set<text>, l list<int>, m map<text, int>)")
        await node.cql("INSERT INTO c (a, s, l, m) VALUES (1, ?, ?, ?)", ["y", "x", "y"], [3, 1], {"k": 1})
        await node.cql("UPDATE c SET s = s + ?, l = ? + l, m[?] = ? WHERE a = 1", ["z"], [9], "n", 2)
        await node.cql("UPDATE c SET l[1] = 4 WHERE a = 1")
        reply = await node.cql("SELECT * FROM c")
        assert [column["type"] for column in reply["columns"]] == ["int", "list<int>", "map<text, int>", "set<text>"]
        assert reply["rows"] == [[1, [9, 4, 1], [["k", 1], ["n", 2]], ["x", "y", "z"]]]
        await node.cql("DELETE m['k'], l[0] FROM c WHERE a = 1")
        assert await node.rows("SELECT l, m FROM c") == [[[4, 1], [["n", 2]]]]
        described = await node.rows("DESCRIBE TABLE c")
        assert "m map<text, int>" in described[0][3]

    story(told())
