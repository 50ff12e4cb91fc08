"""Statements over the native protocol."""

from __future__ import annotations

import asyncio
import struct

import bson
import pytest

from docstore.widecolumn.cql import parser
from docstore.widecolumn.cql.plan.bindings import UNSET
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.statements import BatchKind, Statement
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.opcodes import V4, V5, EnvelopeFlag, Opcode
from docstore.widecolumn.protocol.requests import (
    BatchMember,
    BatchRequest,
    EventType,
    ExecuteRequest,
    QueryParameters,
    QueryRequest,
    RegisterRequest,
)
from tests.harness.serving import run
from tests.unit.node.logging_in import log_in
from tests.unit.widecolumn.native.native_node import (
    REPLICATION,
    VERSIONS,
    NativeSocket,
    Refusal,
    native_server,
    refusal_in,
)
from tests.unit.widecolumn.protocol.client_frames import read_columns, read_rows

TABLE = "CREATE TABLE ks.t (a text, b int, c int, v text, PRIMARY KEY ((a, b), c))"
ONE = QueryParameters(level=Level.ONE)


def number(value: int) -> bytes:
    return struct.pack(">i", value)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_is_made_written_and_read(version: int) -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client(version)
            created = await client.query(TABLE)
            assert created.body == b"\0\0\0\5\0\7CREATED\0\5TABLE\0\2ks\0\1t"
            assert (await client.query("USE ks")).body == b"\0\0\0\3\0\2ks"
            insert = "INSERT INTO t (a, b, c, v) VALUES (?, ?, ?, ?)"
            assert (await client.query(insert, b"x", number(1), number(2), b"one")).body == b"\0\0\0\1"
            await client.query(insert, b"x", number(1), number(1), None)
            found = await client.rows("SELECT * FROM t WHERE a = ? AND b = ?", b"x", number(1))
            assert found.columns == [
                ("ks", "t", "a", 0x0D), ("ks", "t", "b", 9), ("ks", "t", "c", 9), ("ks", "t", "v", 0x0D),
            ]  # fmt: skip
            assert found.rows == [(b"x", number(1), number(1), None), (b"x", number(1), number(2), b"one")]
            assert (await client.rows("SELECT c FROM t", skip_metadata=True)).columns == []
            named = await client.rows("SELECT c FROM t WHERE a = :p AND b = :q", number(1), b"x", names=("q", "p"))
            assert named.rows == [(number(1),), (number(2),)]
            await client.close()

    run(scenario())


@pytest.mark.parametrize("version", VERSIONS)
def test_prepared_statements_name_their_markers(version: int) -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client(version)
            await client.query(TABLE)
            insert = await client.prepare("INSERT INTO ks.t (b, a, c, v) VALUES (?, ?, ?, ?)")
            reader = insert[2]
            flags, count, keys = reader.unsigned(), reader.integer(), reader.integer()
            assert (count, [reader.short() for _ in range(keys)]) == (4, [1, 0])
            assert [column[2] for column in read_columns(reader, flags, count)] == ["b", "a", "c", "v"]
            assert (reader.unsigned(), reader.integer()) == (4, 0)
            reader.end()
            for value in range(7):
                await client.execute(insert, number(1), b"x", number(value), UNSET)
            select = await client.prepare("SELECT c, v FROM ks.t WHERE a = ? AND b = 1 LIMIT ?")
            reader = select[2]
            flags, count, keys = reader.unsigned(), reader.integer(), reader.integer()
            assert (count, keys) == (2, 0)
            assert [column[2] for column in read_columns(reader, flags, count)] == ["a", "[limit]"]
            found = read_rows((await client.execute(select, b"x", number(5))).body)
            assert found.rows == [(number(value), None) for value in range(5)]
            other = await server.client(version)
            assert len(read_rows((await other.execute(select, b"x", number(9))).body).rows) == 7
            batch = await client.prepare(
                "BEGIN BATCH INSERT INTO ks.t (a, b, c) VALUES (?, 1, 1); DELETE FROM ks.t WHERE a = ? AND b = 2 "
                "APPLY BATCH"
            )
            reader = batch[2]
            assert (reader.unsigned(), reader.integer(), reader.integer()) == (1, 2, 0)

    run(scenario())


def test_pages_go_on_at_another_connection() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            insert = await client.prepare("INSERT INTO ks.t (a, b, c) VALUES ('x', ?, ?)")
            for value in range(21):
                await client.execute(insert, number(value % 3), number(value))
            state, sizes, seen = None, [], set()
            while True:
                page = await (await server.client()).rows("SELECT c FROM ks.t", page_size=4, paging_state=state)
                sizes.append(len(page.rows))
                seen |= set(page.rows)
                state = page.paging_state
                if state is None:
                    break
            assert sizes == [4, 4, 4, 4, 4, 1]
            assert len(seen) == 21
            for broken in (b"", b"x", b"\1" * 40):
                refusal = await client.refused("SELECT c FROM ks.t", page_size=4, paging_state=broken)
                assert (refusal.code, refusal.text) == (0x000A, "Invalid value for the paging state")

    run(scenario())


def test_results_follow_a_changed_table() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client, old = await server.client(V5), await server.client(V4)
            await client.query(TABLE)
            text = "SELECT * FROM ks.t"
            select, old_select = await client.prepare(text), await old.prepare(text)
            known = read_rows((await client.execute(select, skip_metadata=True)).body)
            assert (known.columns, known.changed_id) == ([], None)
            await client.query("ALTER TABLE ks.t ADD w int")
            changed = read_rows((await client.execute(select, skip_metadata=True)).body)
            assert [column[2] for column in changed.columns] == ["a", "b", "c", "v", "w"]
            assert changed.changed_id not in (None, select[1])
            again = read_rows((await client.execute((select[0], changed.changed_id, select[2]))).body)
            assert again.changed_id is None
            assert select[0] == old_select[0]
            await old.execute(old_select)

    run(scenario())


def test_conditional_writes_give_their_rows() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            text = "INSERT INTO ks.t (a, b, c, v) VALUES ('x', 1, 1, ?) IF NOT EXISTS"
            first = await client.rows(text, b"one", timestamp=5, level=Level.QUORUM)
            assert (first.columns[0][2:], first.rows) == (("[applied]", 4), [(b"\1",)])
            statement = await client.prepare(text)
            second = read_rows((await client.execute(statement, b"two", skip_metadata=True)).body)
            assert [column[2] for column in second.columns] == ["[applied]", "a", "b", "c", "v"]
            assert second.rows[0][::4] == (b"\0", b"one")
            assert second.changed_id is None

    run(scenario())


def test_the_clients_timestamp_and_second_count() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            text = "INSERT INTO ks.t (a, b, c, v) VALUES ('x', 1, 1, ?)"
            await client.query(text, b"later", timestamp=2000)
            await client.query(text, b"earlier", timestamp=1000)
            found = await client.rows("SELECT v, writetime(v) FROM ks.t")
            assert found.rows == [(b"later", struct.pack(">q", 2000))]
            await client.query(text + " USING TTL 100", b"gone", now_in_seconds=1_000_000)
            assert (await client.rows("SELECT v FROM ks.t", now_in_seconds=1_000_099)).rows == [(b"gone",)]
            assert (await client.rows("SELECT v FROM ks.t", now_in_seconds=1_000_100)).rows == []

    run(scenario())


def test_a_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long one by itself, and short ones once for all of their shape."""
    parsed: list[str] = []
    parse = parser._parsed

    def counted(text: str) -> Statement:
        parsed.append(text)
        return parse(text)

    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
            monkeypatch.setattr(parser, "_parsed", counted)
            parser._parse_cached.cache_clear()
            for size in (5_000, 100_000):
                parsed.clear()
                await client.query(f"INSERT INTO ks.t (k, v) VALUES (1, '{'x' * size}')")
                assert len(parsed) == 1
                parsed.clear()
                statement = await client.prepare(
                    f"SELECT k FROM ks.t WHERE k = ? AND v = '{'x' * size}' ALLOW FILTERING"
                )
                assert read_rows((await client.execute(statement, number(1))).body).rows == [(number(1),)]
                assert len(parsed) == 1
            parsed.clear()
            for key in range(5):
                await client.query(f"INSERT INTO ks.t (k, v) VALUES ({key}, 'v{key}')")
            assert parsed == ["INSERT INTO ks.t (k, v) VALUES (?, ?)"]

    run(scenario())


def test_a_batch_of_texts_and_prepared_statements() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            statement_id, _, _ = await client.prepare("INSERT INTO ks.t (a, b, c, v) VALUES (?, 1, 1, ?)")
            members = (
                BatchMember(statement_id, (b"x", b"one")),
                BatchMember("INSERT INTO ks.t (a, b, c, v) VALUES (?, 1, 1, 'two')", (b"y",)),
                BatchMember("DELETE v FROM ks.t WHERE a = 'z' AND b = 1 AND c = 1", ()),
            )
            for kind in (BatchKind.LOGGED, BatchKind.UNLOGGED):
                reply = await client.ask(BatchRequest(kind, members, ONE))
                assert reply.body == b"\0\0\0\1"
            assert len((await client.rows("SELECT * FROM ks.t")).rows) == 2
            broken = [
                (BatchMember("SELECT * FROM ks.t", ()), 0x2200, "Invalid statement in batch"),
                (BatchMember("INSERT INTO ks.t (a, b, c) VALUES ('x', 1, 1) IF NOT EXISTS", ()), 0x2200, "Conditional"),
                (BatchMember(b"unknown", ()), 0x2500, "Prepared query with ID"),
                (BatchMember("INSERT INTO ks.t (a, b, c) VALUES (?, 1, 1)", ()), 0x2200, "Invalid amount of bind"),
            ]
            for member, code, text in broken:
                with pytest.raises(Refusal) as refusal:
                    await client.ask(BatchRequest(BatchKind.LOGGED, (member,), ONE))
                assert refusal.value.code == code
                assert refusal.value.text.startswith(text)
            with pytest.raises(Refusal, match="Cannot include non-counter statement in a counter batch"):
                await client.ask(BatchRequest(BatchKind.COUNTER, members, ONE))
            big = tuple(
                BatchMember("INSERT INTO ks.t (a, b, c, v) VALUES (?, 1, 1, ?)", (b"%d" % at, b"x" * 3000))
                for at in range(2)
            )
            assert (
                "exceeding specified threshold"
                in (await client.ask(BatchRequest(BatchKind.UNLOGGED, big, ONE))).warnings[0]
            )

    run(scenario())


def test_errors_carry_what_clients_read() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            exists = await client.refused(TABLE)
            assert (exists.code, exists.details) == (0x2400, b"\0\2ks\0\1t")
            assert (await client.refused(f"CREATE KEYSPACE ks WITH {REPLICATION}")).details == b"\0\2ks\0\0"
            assert (await client.refused("SELEC")).code == 0x2000
            assert (await client.refused("CREATE KEYSPACE x WITH durable_writes = true")).code == 0x2300
            unavailable = await client.refused("INSERT INTO ks.t (a, b, c) VALUES ('x', 1, 1)", level=Level.THREE)
            assert (unavailable.code, unavailable.text) == (0x1000, "Cannot achieve consistency level THREE")
            assert unavailable.details == b"\0\3" + number(3) + number(1)
            unknown = await client.refused("INSERT INTO system.local (key) VALUES ('x')")
            assert (unknown.code, unknown.text) == (0x2100, "system keyspace is not user-modifiable.")
            with pytest.raises(Refusal) as refusal:
                await client.ask(ExecuteRequest(b"0123456789abcdef", b"", ONE))
            assert (refusal.value.code, refusal.value.details) == (0x2500, b"\0\x100123456789abcdef")
            wrong = await client.refused("SELECT * FROM ks.t WHERE a = ? AND b = ?", b"x", b"123")
            assert (wrong.code, wrong.text) == (0x2200, "Expected 4 or 0 byte int (3)")
            with pytest.raises(Refusal, match="Tracing is not supported"):
                await client.ask(QueryRequest("SELECT * FROM ks.t", ONE), EnvelopeFlag.TRACING)
            assert await client.is_alive()

    run(scenario())


def test_many_requests_run_side_by_side() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            insert = await client.prepare("INSERT INTO ks.t (a, b, c, v) VALUES ('x', ?, 1, ?)")
            select = await client.prepare("SELECT v FROM ks.t WHERE a = 'x' AND b = ?")

            def execute(statement: tuple[bytes, bytes | None, object], *values: bytes) -> int:
                return client.send(ExecuteRequest(statement[0], statement[1], QueryParameters(
                    level=Level.ONE, values=values
                )))  # fmt: skip

            for at in range(1000):
                execute(insert, number(at), b"%d" % at)
            assert {(await client.receive()).opcode for _ in range(1000)} == {Opcode.RESULT}
            asked = {execute(select, number(at)): b"%d" % at for at in range(1000)}
            for _ in range(1000):
                reply = await client.receive()
                assert read_rows(reply.body).rows == [(asked.pop(reply.stream),)]

    run(scenario())


def test_clients_hear_of_changes() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            listening, deaf, client = [await server.client() for _ in range(3)]
            await listening.ask(RegisterRequest(frozenset(EventType)))
            await deaf.ask(RegisterRequest(frozenset((EventType.STATUS_CHANGE,))))
            await client.query(TABLE)
            event = await listening.receive(-1)
            assert event.body == b"\0\x0dSCHEMA_CHANGE\0\7CREATED\0\5TABLE\0\2ks\0\1t"
            # By a command, through another connection.
            await server.node.run({"cql": "ALTER TABLE t ADD w int"}, "ks")
            assert b"UPDATED" in (await listening.receive(-1)).body
            await server.node.run({"cql": "DROP KEYSPACE ks"}, "ks")
            assert (await listening.receive(-1)).body == b"\0\x0dSCHEMA_CHANGE\0\7DROPPED\0\x08KEYSPACE\0\2ks"
            assert await deaf.is_alive()
            assert deaf.replies == []

    run(scenario())


def test_clients_hear_only_of_what_their_users_may_see() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            run_command = server.node.run
            await run_command({"createUser": "ann", "pwd": "a", "roles": [{"role": "read", "db": "hers"}]}, "admin")
            await run_command({"createUser": "gone", "pwd": "g", "roles": ["root"]}, "admin")
            await run_command({"createUser": "root", "pwd": "r", "roles": ["root"]}, "admin")
            server.node.services.access.enabled = True
            await log_in(server.node, "root", "r")
            ann, gone, root = [await server.client() for _ in range(3)]
            for client, user in ((ann, "ann"), (gone, "gone"), (root, "root")):
                await client.log_in(user, user[0])
                await client.ask(RegisterRequest(frozenset(EventType)))
            await run_command({"dropUser": "gone"}, "admin")
            await root.query(TABLE)
            await root.query(f"CREATE KEYSPACE hers WITH {REPLICATION}")
            assert b"hers" in (await ann.receive(-1)).body
            while b"hers" not in (await root.receive(-1)).body:
                pass
            assert ann.replies == []
            assert gone.replies == []

    run(scenario())


async def one_row(client: NativeSocket, text: str) -> dict[str, bytes | None]:
    found = await client.rows(text)
    [row] = found.rows
    return dict(zip((column[2] for column in found.columns), row, strict=True))


def test_system_tables_are_read_like_others() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            local = await one_row(client, "SELECT * FROM system.local WHERE key = 'local'")
            assert local["release_version"] == b"5.0.0"
            assert local["rpc_address"] == bytes((127, 0, 0, 1))
            assert local["rpc_port"] == number(server.port)
            assert local["schema_version"] is not None
            assert (await client.rows("SELECT * FROM system.peers_v2")).rows == []
            found = await client.rows(
                "SELECT column_name, kind, position, type FROM system_schema.columns "
                "WHERE keyspace_name = 'ks' AND table_name = 't'"
            )
            assert found.rows == [
                (b"a", b"partition_key", number(0), b"text"),
                (b"b", b"partition_key", number(1), b"int"),
                (b"c", b"clustering", number(0), b"int"),
                (b"v", b"regular", number(-1), b"text"),
            ]
            counted = await client.rows("SELECT count(*) FROM system_schema.columns")
            names: set[tuple[bytes | None, ...]] = set()
            state = None
            while True:
                page = await client.rows("SELECT * FROM system_schema.columns", page_size=50, paging_state=state)
                names |= {row[:3] for row in page.rows}
                state = page.paging_state
                if state is None:
                    break
            assert counted.rows == [(struct.pack(">q", len(names)),)]
            where = "WHERE keyspace_name = 'ks'"
            limited = await client.rows(f"SELECT table_name FROM system_schema.tables {where} LIMIT 1")
            assert limited.rows == [(b"t",)]
            await client.query("USE system_schema")
            assert (await client.rows(f"SELECT keyspace_name FROM keyspaces {where}")).rows == [(b"ks",)]
            for table in ("functions", "aggregates", "types", "triggers", "indexes", "views"):
                assert (await client.rows(f"SELECT * FROM {table} {where}")).rows == []
            assert (await client.refused("SELECT * FROM nope")).code == 0x2200
            await client.query("ALTER TABLE ks.t ADD w int")
            changed = await one_row(client, "SELECT schema_version FROM system.local")
            assert changed["schema_version"] != local["schema_version"]

    run(scenario())


def test_a_request_is_an_operation_that_can_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            held = asyncio.Event()

            async def hold() -> None:
                held.set()
                await asyncio.Event().wait()

            environment = Environment(rng=bytes, pause=hold)
            monkeypatch.setattr("mongod.widecolumn.native.surroundings_of", lambda _context: environment)
            member = BatchMember("INSERT INTO ks.t (a, b, c) VALUES ('x', 1, 1)", ())
            stream = client.send(BatchRequest(BatchKind.UNLOGGED, (member,) * 200, ONE))
            await held.wait()
            [operation] = [one for one in server.node.services.operations if one.context.command.name == "cql"]
            shown = bson.decode(operation.context.redacted_request)
            assert shown["cql"] == "BEGIN UNLOGGED BATCH -- of 200 statements"
            # Others of the connection go on meanwhile.
            assert (await client.rows("SELECT * FROM ks.t")).rows == []
            await server.node.run({"killOp": 1, "op": operation.id}, "admin")
            refusal = refusal_in(await client.receive(stream))
            assert (refusal.code, refusal.details[-16:]) == (0x1100, b"\0\x0eUNLOGGED_BATCH")

    run(scenario())


def test_passwords_are_not_shown() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            shown: list[bytes] = []
            server.node.services.observers.append(lambda context, _body: shown.append(context.redacted_request))
            await client.query("CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true")
            await client.query("SELECT * FROM system.local")
            listed = await client.rows("LIST ROLES")
            assert [column[2] for column in listed.columns] == ["role", "super", "login"]
            assert listed.rows == [(b"ann", b"\0", b"\1")]
            assert len(shown) >= 3
            assert not any(b"secret" in one for one in shown)
            with pytest.raises(Refusal, match="Preparing statements about roles is not supported"):
                await client.prepare("LIST ROLES")

    run(scenario())
