"""The native protocol through two routers: one schema, one ring, statements and pages that either goes on with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from docstore.widecolumn.cql.plan.bindings import Bound
from docstore.widecolumn.protocol.opcodes import V4, V5
from docstore.widecolumn.protocol.requests import EventType, RegisterRequest
from scripts.deployment import Member
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until
from tests.unit.widecolumn.native.native_node import REPLICATION, NativeSocket
from tests.unit.widecolumn.protocol.client_frames import read_rows

pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class NativeRouters:
    cluster: Cluster
    routers: list[Member]
    ports: list[int]

    async def client(self, router: int, version: int = V5) -> NativeSocket:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[router])
        client = NativeSocket(reader, writer, version)
        await client.start()
        return client


def run(act: Callable[[NativeSocket, NativeSocket], Coroutine[Any, Any, None]], routers: NativeRouters) -> None:
    """Run a scenario with a client of each router."""

    async def scenario() -> None:
        clients = [await routers.client(number) for number in range(2)]
        await act(*clients)
        for client in clients:
            await client.close()

    asyncio.run(scenario())


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeRouters]:
    with routed_cluster(tmp_path_factory.mktemp("native")) as cluster:
        config = cluster.deployment.members["config-0"].address
        routers = [Member(f"cql-{number}", "mongos", ["--configdb", config, "--cqlPort", "0"]) for number in range(2)]
        cluster.deployment.start(*routers)
        ports = []
        for router in routers:
            log = cluster.deployment.output_of(router).read_text()
            port = re.search(r'"msg":"Listening for the native protocol of CQL".*?"port":(\d+)', log)
            assert port is not None
            ports.append(int(port[1]))
        pings = cluster.client.config.mongos
        wait_until(lambda: pings.count_documents({"cql": {"$exists": True}}) == 2, 20)
        yield NativeRouters(cluster, routers, ports)


def test_each_router_is_a_node_and_has_its_part_of_the_ring(routers: NativeRouters) -> None:
    async def act(one: NativeSocket, two: NativeSocket) -> None:
        found = []
        for client in (one, two):
            [local] = (await client.rows("SELECT host_id, rpc_port, tokens, schema_version FROM system.local")).rows
            [peer] = (
                await client.rows("SELECT host_id, native_port, tokens, schema_version FROM system.peers_v2")
            ).rows
            found.append((local, peer))
        assert found[0] == found[1][::-1]
        assert [int.from_bytes(local[1] or b"", "big") for local, _ in found] == routers.ports
        assert found[0][0][2] != found[0][1][2]
        assert (await one.rows("SELECT * FROM system.peers")).rows == []

    run(act, routers)


def test_what_one_router_prepares_another_executes(routers: NativeRouters) -> None:
    async def act(one: NativeSocket, two: NativeSocket) -> None:
        await two.ask(RegisterRequest(frozenset((EventType.SCHEMA_CHANGE,))))
        await one.query(f"CREATE KEYSPACE gyms WITH {REPLICATION}")
        await one.query("CREATE TABLE gyms.t (k int, c int, v text, PRIMARY KEY (k, c))")
        events = b"".join([(await two.receive(-1)).body for _ in range(2)])
        assert (events.count(b"CREATED"), events.count(b"TABLE")) == (2, 1)
        text = "INSERT INTO gyms.t (k, c, v) VALUES (?, ?, ?)"
        prepared = await one.prepare(text)
        assert (await two.prepare(text))[0] == prepared[0]

        async def insert(client: NativeSocket, *values: Bound) -> None:
            await client.execute(prepared, *values)

        for at in range(40):
            await insert((one, two)[at % 2], number(at % 5), number(at), b"v%d" % at)
        versions = {(await client.rows("SELECT schema_version FROM system.local")).rows[0][0] for client in (one, two)}
        assert len(versions) == 1
        seen: list[tuple[bytes | None, ...]] = []
        state = None
        for client in (one, two) * 20:
            page = await client.rows("SELECT k, c FROM gyms.t", page_size=4, paging_state=state)
            seen += page.rows
            state = page.paging_state
            if state is None:
                break
        assert sorted(seen) == sorted((number(at % 5), number(at)) for at in range(40))
        # The other router works by an old definition until a shard says so.
        await one.query("ALTER TABLE gyms.t ADD w int")
        await two.query("INSERT INTO gyms.t (k, c, w) VALUES (9, 9, 9)")
        select = await two.prepare("SELECT * FROM gyms.t WHERE k = ?")
        assert read_rows((await one_executes(one, two, select)).body).rows == [(number(9), number(9), None, number(9))]

    run(act, routers)


async def one_executes(one: NativeSocket, two: NativeSocket, select: Any) -> Any:
    await one.prepare("SELECT * FROM gyms.t WHERE k = ?")
    return await one.execute(select, number(9))


def number(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def test_the_driver_of_cassandra(routers: NativeRouters) -> None:
    """The client that users bring, where it is installed."""
    driver = pytest.importorskip("cassandra.cluster")
    for version in (None, V4, V5):
        chosen = {} if version is None else {"protocol_version": version}
        cluster = driver.Cluster(["127.0.0.1"], port=routers.ports[0], **chosen)
        try:
            session = cluster.connect()
            assert sorted(host.endpoint.port for host in cluster.metadata.all_hosts()) == sorted(routers.ports)
            session.execute(f"CREATE KEYSPACE IF NOT EXISTS driven WITH {REPLICATION}")
            session.set_keyspace("driven")
            session.execute(
                "CREATE TABLE t (a text, b int, c int, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC)"
            )
            insert = session.prepare("INSERT INTO t (a, b, c) VALUES (?, ?, ?)")
            assert insert.routing_key_indexes == [0, 1]
            for future in [session.execute_async(insert, ("x", at % 3, at)) for at in range(100)]:
                future.result()
            assert len(list(session.execute("SELECT * FROM t"))) == 100
            table = cluster.metadata.keyspaces["driven"].tables["t"]
            assert "CLUSTERING ORDER BY (c DESC)" in table.export_as_string()
            session.execute("DROP TABLE t")
            session.execute(table.export_as_string())
            session.execute("DROP TABLE t")
        finally:
            cluster.shutdown()


def test_a_router_that_has_died_is_no_node_for_its_clients(routers: NativeRouters) -> None:
    """Statements go on through the other one."""

    async def act(one: NativeSocket, two: NativeSocket) -> None:
        await one.query(f"CREATE KEYSPACE IF NOT EXISTS left WITH {REPLICATION}")
        await one.query("CREATE TABLE left.t (k int PRIMARY KEY)")
        for at in range(10):
            await one.query("INSERT INTO left.t (k) VALUES (?)", number(at))
        page = await two.rows("SELECT k FROM left.t", page_size=4)
        routers.cluster.deployment.kill(routers.routers[1].name)
        seen = [*page.rows]
        state = page.paging_state
        while state is not None:
            page = await one.rows("SELECT k FROM left.t", page_size=4, paging_state=state)
            seen += page.rows
            state = page.paging_state
        assert sorted(seen) == [(number(at),) for at in range(10)]
        assert await two.closed()

    run(act, routers)


def test_clients_connect_while_no_shard_and_no_config_server_answers(routers: NativeRouters) -> None:
    """What they read first is as it was."""

    async def first_requests(client: NativeSocket) -> list[Any]:
        await client.ask(RegisterRequest(frozenset(EventType)))
        tables = ("system.local", "system.peers_v2", "system_schema.keyspaces", "system_schema.tables")
        return [(await client.rows(f"SELECT * FROM {table}")).rows for table in tables]

    async def scenario() -> None:
        before = await first_requests(await routers.client(0))
        assert any(row[0] == b"gyms" for row in before[2])
        for name in ("one-0", "two-0", "config-0"):
            routers.cluster.deployment.kill(name)
        for _ in range(2):
            client = await routers.client(0)
            assert (await first_requests(client))[1:] == before[1:]
        await client.close()

    asyncio.run(scenario())
