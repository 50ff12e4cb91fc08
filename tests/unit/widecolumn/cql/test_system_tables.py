"""The system keyspaces over an executor in memory, and the changes between two states of the schema."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.execution import Environment, Request, execute
from docstore.widecolumn.cql.run.prepare import prepare
from docstore.widecolumn.cql.run.results import Rows
from docstore.widecolumn.cql.system.changes import ClusterState, schema_changes, state_of
from docstore.widecolumn.cql.system.contents import schema_version
from docstore.widecolumn.cql.system.definitions import TABLES
from docstore.widecolumn.cql.system.executor import SystemExecutor, schema_of
from docstore.widecolumn.cql.system.topology import Node, Topology, host_id_of, with_tokens
from tests.unit.widecolumn.cql.running import Cql, shown

NODES = with_tokens(Node(host_id_of(f"router-{number}"), f"10.0.0.{number}", 9042) for number in range(3))


class System:
    """Statements over the executor of `cql`, with the system keyspaces."""

    def __init__(self) -> None:
        self.cql = Cql()

    def rows(self, text: str, **request: Any) -> list[tuple[Any, ...]]:
        return shown(self.page(text, **request))

    def page(self, text: str, **request: Any) -> Rows:
        async def topology() -> Topology:
            return Topology(NODES[0], NODES[1:])

        async def run() -> Rows:
            inner = self.cql.executor
            executor = SystemExecutor(inner, inner, inner, topology)
            environment = Environment(rng=random.Random(1).randbytes)
            result = await execute(executor, environment, await prepare(executor, text, "k"), Request(**request))
            assert isinstance(result, Rows)
            return result

        return asyncio.run(run())

    def state(self) -> ClusterState:
        return state_of(asyncio.run(schema_of(self.cql.executor)), NODES[1:])

    def version(self) -> Any:
        return schema_version(asyncio.run(schema_of(self.cql.executor)))


def test_every_system_table_can_be_read() -> None:
    system = System()
    for keyspace, table in TABLES:
        system.rows(f'SELECT * FROM {keyspace}."{table}"')
    assert len(system.rows("SELECT * FROM system.peers_v2")) == 2
    assert system.rows("SELECT peer_port FROM system.peers_v2 WHERE peer = '10.0.0.9'") == []


def test_the_ring_is_shared_evenly() -> None:
    tokens = [int(token) for node in NODES for token in node.tokens]
    assert len({len(node.tokens) for node in NODES}) == 1
    ordered = sorted(tokens)
    assert len(set(ordered)) == len(ordered)
    gaps = {after - before for before, after in itertools.pairwise(ordered)}
    assert max(gaps) - min(gaps) <= 1
    assert [node.host_id for node in with_tokens(reversed(NODES))] == [node.host_id for node in NODES]


def test_columns_are_described_with_their_order() -> None:
    system = System()
    system.cql.run(
        "CREATE TABLE t (a int, b text, c int, s text static, v blob, PRIMARY KEY ((a, b), c)) "
        "WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x' AND gc_grace_seconds = 5"
    )
    columns = "column_name, clustering_order, kind, position"
    assert system.rows(
        f"SELECT {columns} FROM system_schema.columns WHERE keyspace_name = 'k' AND table_name = 't'"
    ) == [
        ("a", "none", "partition_key", 0),
        ("b", "none", "partition_key", 1),
        ("c", "desc", "clustering", 0),
        ("s", "none", "static", -1),
        ("v", "none", "regular", -1),
    ]
    options = "comment, gc_grace_seconds, flags, caching"
    assert system.rows(f"SELECT {options} FROM system_schema.tables WHERE keyspace_name = 'k'") == [
        ("x", 5, ["compound"], {"keys": "ALL", "rows_per_partition": "NONE"})
    ]
    assert system.rows("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'k'") == [
        ({"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"},)
    ]


def test_pages_end_anywhere() -> None:
    system = System()
    whole = system.rows("SELECT keyspace_name, table_name, column_name FROM system_schema.columns")
    for size in (1, 7, 100):
        seen: list[tuple[Any, ...]] = []
        state: bytes | None = None
        while True:
            page = system.page(
                "SELECT keyspace_name, table_name, column_name FROM system_schema.columns",
                page_size=size,
                paging_state=state,
            )
            seen += shown(page)
            state = page.paging_state
            if state is None:
                break
        assert seen == whole
    newest = (
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system' ORDER BY table_name DESC LIMIT 2"
    )
    assert system.rows(newest) == [("size_estimates",), ("peers_v2",)]


def test_system_keyspaces_are_not_changed() -> None:
    system = System()
    for text in (
        "INSERT INTO system.local (key) VALUES ('x')",
        "DELETE FROM system_schema.tables WHERE keyspace_name = 'k'",
        "TRUNCATE system.peers",
        "DROP TABLE system.local",
        "ALTER TABLE system.local ADD x int",
        "CREATE TABLE system.mine (k int PRIMARY KEY)",
        "DROP KEYSPACE system_auth",
    ):
        with pytest.raises(CqlError) as refusal:
            system.rows(text)
        assert refusal.value.cql_code == 0x2100


def changes(before: ClusterState, after: ClusterState) -> Sequence[tuple[str, str, str | None]]:
    return [(change.change, change.keyspace, change.table) for change in schema_changes(before, after)]


def test_changes_are_told_and_change_the_version() -> None:
    system = System()
    states, versions = [system.state()], [system.version()]
    for text in (
        "CREATE TABLE t (k int PRIMARY KEY)",
        "ALTER TABLE t ADD v int",
        "ALTER KEYSPACE k WITH durable_writes = false",
        "CREATE KEYSPACE l WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ):
        system.cql.run(text)
        states.append(system.state())
        versions.append(system.version())
    assert [list(changes(*pair)) for pair in itertools.pairwise(states)] == [
        [("CREATED", "k", "t")],
        [("UPDATED", "k", "t")],
        [("UPDATED", "k", None)],
        [("CREATED", "l", None)],
    ]
    assert len(set(versions)) == len(versions)
    system.cql.run("DROP TABLE t")
    system.cql.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
    assert list(changes(states[-1], system.state())) == [("DROPPED", "k", "t"), ("CREATED", "k", "t")]
    before = system.state()
    system.cql.run("DROP KEYSPACE k")
    assert list(changes(before, system.state())) == [("DROPPED", "k", None)]
