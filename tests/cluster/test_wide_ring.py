"""Column families spread over shards answer as on one node, whatever moves meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bson
import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from scripts.deployment import Member
from tests.cluster.routed import Cluster, routed_cluster

pytestmark = pytest.mark.cluster

KEYS = [f"row {number}" for number in range(40)]
SLICE = {"sliceRange": {}}
PARTITIONERS = ("Murmur3Partitioner", "RandomPartitioner", "OrderPreservingPartitioner")


@dataclass(frozen=True)
class Both:
    """The cluster and one node beside it, asked the same."""

    cluster: Cluster
    node: pymongo.MongoClient[dict[str, Any]]

    def run(self, database: str, command: dict[str, Any], *, router: int = 0) -> Any:
        """The answer, which both give."""
        expected = answer(self.node, database, command)
        found = answer(self.cluster.clients[router], database, command)
        assert found == expected, command
        return found


def answer(client: pymongo.MongoClient[dict[str, Any]], database: str, command: dict[str, Any]) -> Any:
    """The reply, or how it was refused."""
    try:
        reply = client[database].command(command)
    except OperationFailure as refusal:
        details = refusal.details or {}
        return details.get("code"), details.get("errmsg"), details.get("wcException"), details.get("cqlCode")
    return {name: value for name, value in reply.items() if not name.startswith("$") and name != "operationTime"}


@contextmanager
def both(directory: Path) -> Iterator[Both]:
    with routed_cluster(directory) as cluster:
        cluster.deployment.start(Member("alone", "mongod", []))
        with pymongo.MongoClient(cluster.deployment.members["alone"].address, directConnection=True) as node:
            yield Both(cluster, node)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with both(tmp_path_factory.mktemp("ring")) as sides:
        yield sides


def commands() -> Iterator[dict[str, Any]]:
    """Every command of the column model on families `F` and `S`."""
    for number, key in enumerate(KEYS):
        stamp = {"timestamp": Int64(number + 1)}
        yield {"wcInsert": "F", "key": key, "column": Int64(number), "value": f"v{number}", **stamp}
        yield {"wcInsert": "F", "key": key, "column": Int64(-1), "value": "x", **stamp}
        yield {"wcInsert": "S", "key": key, "superColumn": "s", "column": "c", "value": "y", **stamp}
    yield {"wcRemove": "F", "key": KEYS[3], "timestamp": Int64(100)}
    yield {"wcRemove": "F", "key": KEYS[5], "column": Int64(-1), "timestamp": Int64(100)}
    mutations = [
        {"key": key, "columnFamily": family, "insert": {"name": Int64(7), "value": "b", "timestamp": Int64(9)}}
        for key in KEYS[:10]
        for family in ("F", "G")
    ]
    yield {"wcBatchMutate": 1, "mutations": mutations}
    broken = {"key": "zz", "columnFamily": "F", "insert": {"name": "no number", "value": ""}}
    fresh = {"key": "fresh", "columnFamily": "F", "insert": {"name": Int64(1), "value": "", "timestamp": Int64(1)}}
    yield {"wcBatchMutate": 1, "mutations": [fresh, *mutations, broken]}
    yield {"wcBatchMutate": 1, "mutations": [{**fresh, "columnFamily": "nope"}]}
    yield {"wcGetSlice": "F", "key": "fresh", "predicate": SLICE}
    yield {"wcGet": "F", "key": KEYS[1], "column": Int64(1)}
    yield {"wcGet": "F", "key": KEYS[3], "column": Int64(3)}
    yield {"wcGet": "S", "key": KEYS[3], "superColumn": "s"}
    yield {"wcGet": "F", "key": "", "column": Int64(3)}
    yield {"wcGet": "nope", "key": "k", "column": Int64(3)}
    yield {"wcGetCount": "F", "key": KEYS[2]}
    yield {"wcGetSlice": "F", "key": KEYS[4], "predicate": {"sliceRange": {"reversed": True, "count": 1}}}
    yield {"wcMultigetSlice": "F", "keys": [*KEYS[::3], "absent", KEYS[0]], "predicate": SLICE}
    yield {"wcMultigetSlice": "F", "keys": [KEYS[0], 5], "predicate": SLICE}
    yield {"wcMultigetSlice": "F", "keys": [], "predicate": SLICE}
    yield {"wcMultigetSlice": "S", "keys": KEYS[:7], "predicate": {"columnNames": ["c"]}, "superColumn": "s"}
    yield {"wcGetRangeSlices": "F", "predicate": SLICE}
    yield {"wcGetRangeSlices": "F", "predicate": SLICE, "count": 7}
    yield {"wcGetRangeSlices": "F", "predicate": SLICE, "count": 33, "excludeEmpty": True}
    yield {"wcGetRangeSlices": "F", "predicate": SLICE, "count": 0}
    yield {"wcGetRangeSlices": "S", "predicate": SLICE, "range": {"startKey": "", "endKey": ""}}


def in_pages(sides: Both, database: str, size: int) -> None:
    """Rows in pages, each from the last row of the one before."""
    start, seen = "", []
    while True:
        command = {
            "wcGetRangeSlices": "F",
            "predicate": SLICE,
            "count": size,
            "range": {"startKey": start, "endKey": ""},
        }
        rows = [row["key"] for row in sides.run(database, command, router=len(seen) % 2)["rows"]]
        seen += rows if not seen else rows[1:]
        if len(rows) < size:
            break
        start = rows[-1]
    assert sorted(seen) == sorted({*KEYS})


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_cluster_answers_as_one_node_does(sides: Both, partitioner: str) -> None:
    database = partitioner[:4]
    sides.run("admin", {"createKeyspace": database, "partitioner": partitioner})
    sides.run(database, {"createColumnFamily": "F", "compareWith": "LongType"})
    sides.run(database, {"createColumnFamily": "F", "compareWith": "LongType"})
    sides.run(database, {"createColumnFamily": "G", "compareWith": "LongType"})
    sides.run(database, {"createColumnFamily": "S", "columnType": "Super"})
    sides.run(database, {"createColumnFamily": "T", "compareWith": "nonsense"})
    for number, command in enumerate(commands()):
        sides.run(database, command, router=number % 2)
    in_pages(sides, database, 6)
    tokens = {
        "Murmur3Partitioner": ["0", str(-(1 << 63) + 1), "4611686018427387904"],
        "RandomPartitioner": ["0", str(1 << 126), str(1 << 125)],
        "OrderPreservingPartitioner": ["", "row 2", "row 31"],
    }[partitioner]
    for first in tokens:
        for last in tokens:
            bounds = {"startToken": first, "endToken": last}
            sides.run(database, {"wcGetRangeSlices": "F", "predicate": SLICE, "range": bounds})
    sides.run(database, {"alterColumnFamily": "F", "gcGraceSeconds": 5})
    sides.run(database, {"wcTruncate": "F"})
    sides.run(database, {"wcGetRangeSlices": "F", "predicate": SLICE})
    sides.run(database, {"dropColumnFamily": "G"})
    sides.run(database, {"dropColumnFamily": "G"})
    sides.run(database, {"wcGetSlice": "G", "key": "k", "predicate": SLICE}, router=1)
    sides.run(database, {"createColumnFamily": "G"})
    sides.run(database, {"wcGetSlice": "G", "key": "k", "predicate": SLICE}, router=1)
    sides.run(database, {"dropKeyspace": 1})
    sides.run(database, {"describeKeyspace": 1}, router=1)


STATEMENTS = (
    "CREATE TABLE t (a text, b int, s text STATIC, v text, n int, PRIMARY KEY (a, b))",
    "CREATE TABLE t (a text, b int, PRIMARY KEY (a, b))",
    "CREATE TABLE one (k int PRIMARY KEY, v text)",
    *(
        f"INSERT INTO t (a, b, v, n) VALUES ('p{row % 9}', {row}, 'v{row}', {row * 7 % 10}) USING TIMESTAMP {row + 1}"
        for row in range(60)
    ),
    *(f"INSERT INTO one (k, v) VALUES ({row}, 'v{row}') USING TIMESTAMP 1" for row in range(30)),
    "UPDATE t USING TIMESTAMP 100 SET s = 'static' WHERE a = 'p1'",
    "UPDATE t USING TIMESTAMP 100 SET s = 'alone' WHERE a = 'lonely'",
    "DELETE FROM t USING TIMESTAMP 100 WHERE a = 'p2'",
    "DELETE FROM t USING TIMESTAMP 100 WHERE a = 'p3' AND b > 20",
    "DELETE v FROM t USING TIMESTAMP 100 WHERE a = 'p4' AND b = 4",
    "SELECT * FROM t",
    "SELECT a, b, writetime(v), token(a) FROM t",
    "SELECT * FROM t WHERE a = 'p5'",
    "SELECT * FROM t WHERE a = 'p5' AND b >= 14 ORDER BY b DESC",
    "SELECT * FROM t WHERE a IN ('p8', 'p1', 'p7', 'absent')",
    "SELECT * FROM t WHERE a IN ('p8', 'p1', 'p7') ORDER BY b DESC LIMIT 5",
    "SELECT * FROM t LIMIT 17",
    "SELECT * FROM t PER PARTITION LIMIT 2",
    "SELECT DISTINCT a, s FROM t",
    "SELECT count(*), min(n), max(v), sum(n), avg(n) FROM t",
    "SELECT count(*) FROM t WHERE a = 'p6'",
    "SELECT a, count(*), max(n) FROM t GROUP BY a",
    "DESCRIBE TABLE t",
    "DESCRIBE TABLES",
    "SELECT * FROM t WHERE n = 3 ALLOW FILTERING",
    "SELECT * FROM t WHERE n = 3",
    "SELECT nope FROM t",
    "SELECT * FROM nope",
    "INSERT INTO t (a, v) VALUES ('x', 'y')",
    "BEGIN BATCH USING TIMESTAMP 200 INSERT INTO t (a, b, v) VALUES ('p1', 1, 'batched');"
    " INSERT INTO one (k, v) VALUES (1, 'batched'); DELETE FROM one WHERE k = 2; APPLY BATCH",
    "SELECT * FROM t WHERE a = 'p1'",
    "INSERT INTO one (k, v) VALUES (77, 'first') IF NOT EXISTS",
    "INSERT INTO one (k, v) VALUES (77, 'second') IF NOT EXISTS",
    "UPDATE one SET v = 'third' WHERE k = 77 IF v = 'nothing'",
    "UPDATE one SET v = 'third' WHERE k = 77 IF v = 'first'",
    "DELETE FROM one WHERE k = 78 IF EXISTS",
    "SELECT * FROM one",
    "ALTER TABLE one ADD w int",
    "ALTER TABLE one ADD w int",
    "INSERT INTO one (k, w) VALUES (3, 4) USING TIMESTAMP 5",
    "SELECT * FROM one WHERE k = 3",
    "ALTER TABLE one DROP v",
    "SELECT v FROM one",
    "SELECT * FROM one",
    "TRUNCATE one",
    "SELECT * FROM one",
    "DROP TABLE one",
    "SELECT * FROM one",
    "DROP TABLE IF EXISTS one",
)


def cql_pages(client: pymongo.MongoClient[dict[str, Any]], database: str, text: str, size: int) -> list[Any]:
    rows: list[Any] = []
    fields: dict[str, Any] = {}
    while True:
        reply = client[database].command({"cql": text, "pageSize": size, **fields})
        rows += reply["rows"]
        if "pagingState" not in reply:
            return rows
        fields = {"pagingState": reply["pagingState"]}


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_cql_answers_as_on_one_node(sides: Both, partitioner: str) -> None:
    database = f"cql{partitioner[:4].lower()}"
    sides.run("admin", {"createKeyspace": database, "partitioner": partitioner})
    for number, text in enumerate(STATEMENTS):
        sides.run(database, {"cql": text}, router=number % 2)
    if not partitioner.startswith("Order"):
        owners = [chunk["shard"] for chunk in chunks_of(sides.cluster, f"{database}.t")]
        assert owners == ["one", "one", "two", "two"]
    tokens = [row[0] for row in sides.run(database, {"cql": "SELECT token(a) FROM t PER PARTITION LIMIT 1"})["rows"]]
    for first in tokens[::3]:
        for order in (">", ">=", "<", "<=", "="):
            sides.run(database, {"cql": f"SELECT a, b FROM t WHERE token(a) {order} ?", "params": [first]})
    for text in ("SELECT * FROM t", "SELECT a, b FROM t LIMIT 31", "SELECT * FROM t WHERE a IN ('p8', 'p1', 'p7')"):
        for size in (1, 7):
            expected = cql_pages(sides.node, database, text, size)
            assert cql_pages(sides.cluster.clients[size % 2], database, text, size) == expected
    sides.run(database, {"cql": f"DROP KEYSPACE {database}"})
    sides.run(database, {"cql": "SELECT * FROM t"}, router=1)


def test_a_router_that_knows_an_older_definition_takes_the_newer_one(sides: Both) -> None:
    first, second = (client.stale for client in sides.cluster.clients)
    sides.cluster.client.admin.command({"createKeyspace": "stale"})

    def rows(text: str) -> list[Any]:
        found: list[Any] = second.command({"cql": text})["rows"]
        return found

    first.command({"cql": "CREATE TABLE t (k int PRIMARY KEY, v text)"})
    for key in range(8):
        second.command({"cql": f"INSERT INTO t (k, v) VALUES ({key}, 'old')"})
    first.command({"cql": "ALTER TABLE t DROP v"})
    first.command({"cql": "ALTER TABLE t ADD v text"})
    assert rows("SELECT v FROM t WHERE k = 1") == [[None]]
    first.command({"cql": "ALTER TABLE t DROP v"})
    first.command({"cql": "ALTER TABLE t ADD v text"})
    for key in range(8):
        second.command({"cql": f"INSERT INTO t (k, v) VALUES ({key}, 'new')"})
    assert rows("SELECT count(v) FROM t") == [[8]]
    first.command({"cql": "ALTER TABLE t ADD w int"})
    assert rows("SELECT w FROM t WHERE k = 1") == [[None]]
    first.command({"cql": "DROP TABLE t"})
    first.command({"cql": "CREATE TABLE t (k int PRIMARY KEY, v text)"})
    assert rows("SELECT * FROM t") == []
    first.command({"cql": "DROP TABLE t"})
    with pytest.raises(OperationFailure, match="table t does not exist"):
        second.command({"cql": "INSERT INTO t (k, v) VALUES (1, 'new')"})


def test_column_families_are_spread_from_their_creation(sides: Both) -> None:
    client = sides.cluster.client
    client.admin.command({"createKeyspace": "spread"})
    client.spread.command({"createColumnFamily": "F"})
    found = chunks_of(sides.cluster, "spread.F")
    assert [chunk["shard"] for chunk in found] == ["one", "one", "two", "two"]
    assert [chunk["max"]["token"] for chunk in found[:3]] == [-(1 << 62), 0, 1 << 62]
    assert all(isinstance(chunk["max"]["token"], (Int64, int)) for chunk in found[:3])
    client.spread.command({"wcInsert": "F", "key": "foo", "column": "a", "value": "b"})
    command = {"wcGetSlice": "F", "key": "foo", "predicate": SLICE, "explain": True}
    assert client.spread.command(command)["explain"]["shards"] == 1
    ring = client.spread.command({"wcGetRangeSlices": "F", "predicate": SLICE, "explain": True})
    assert ring["explain"]["shards"] == 2
    described = bson.decode(bson.encode(client.spread.command({"describeKeyspace": 1})))
    assert [family["name"] for family in described["columnFamilies"]] == ["F"]
    listed = client.admin.command({"describeKeyspaces": 1})["keyspaces"]
    assert [keyspace["keyspace"] for keyspace in listed].count("spread") == 1


def chunks_of(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """In the order of the ring."""
    record = cluster.client.config.collections.find_one({"_id": namespace})
    assert record is not None
    return list(cluster.client.config.chunks.find({"uuid": record["uuid"]}).sort("min", 1))


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_chunks_are_split_and_moved(sides: Both, partitioner: str) -> None:
    database = f"moved{partitioner[:4]}"
    admin = sides.cluster.client.admin
    sides.run("admin", {"createKeyspace": database, "partitioner": partitioner})
    sides.run(database, {"createColumnFamily": "F", "compareWith": "LongType"})
    sides.run(database, {"createColumnFamily": "G", "compareWith": "LongType"})
    sides.run(database, {"createColumnFamily": "S", "columnType": "Super"})
    script = list(commands())
    for command in script:
        sides.run(database, command)
    namespace = f"{database}.F"
    admin.command("split", namespace, find={"token": Int64(0) if partitioner.startswith("Murmur") else "8"})
    for number, chunk in enumerate(chunks_of(sides.cluster, namespace)[::2]):
        to = "one" if chunk["shard"] == "two" else "two"
        admin.command("moveChunk", namespace, bounds=[chunk["min"], chunk["max"]], to=to)
        for command in script[-15:] if number else script:
            sides.run(database, command, router=number % 2)
    in_pages(sides, database, 6)
    assert {chunk["shard"] for chunk in chunks_of(sides.cluster, namespace)} == {"one", "two"}


def test_chunks_split_between_rows_while_they_are_written(sides: Both) -> None:
    client = sides.cluster.client
    client.config.settings.update_one({"_id": "chunksize"}, {"$set": {"value": 1}}, upsert=True)
    try:
        client.admin.command("balancerStop")
        client.admin.command({"createKeyspace": "grown"})
        client.grown.command({"createColumnFamily": "F"})
        for number in range(50):
            client.grown.command({"wcInsert": "F", "key": f"k{number}", "column": "c", "value": "x" * 100_000})
        split = len(chunks_of(sides.cluster, "grown.F"))
        assert split > 4
        client.grown.command({"createColumnFamily": "W"})
        for number in range(30):
            client.grown.command({"wcInsert": "W", "key": "wide", "column": f"c{number}", "value": "x" * 100_000})
        assert len(chunks_of(sides.cluster, "grown.W")) == 4
        for place in ("abc", 1.5):
            with pytest.raises(OperationFailure, match="is no place on the ring"):
                client.admin.command("split", "grown.F", middle={"token": place})
        assert client.grown.command({"wcGetCount": "W", "key": "wide"})["n"] == 30
    finally:
        client.config.settings.delete_many({"_id": {"$in": ["chunksize", "balancer"]}})


def test_a_column_family_of_one_shard_can_be_sharded_later(sides: Both) -> None:
    client = sides.cluster.client
    client.admin.command({"createKeyspace": "late"})
    home = client.config.databases.find_one({"_id": "late"})
    assert home is not None
    other = "two" if home["primary"] == "one" else "one"
    member = sides.cluster.deployment.members[f"{home['primary']}-0"]
    with pymongo.MongoClient(member.address, directConnection=True) as shard:
        shard.late.command({"createColumnFamily": "F"})
    for key in KEYS:
        client.late.command({"wcInsert": "F", "key": key, "column": "c", "value": key})
    client.admin.command("shardCollection", "late.F", key={"token": 1})
    client.admin.command("split", "late.F", middle={"token": 0})
    client.admin.command("moveChunk", "late.F", find={"token": 1}, to=other)
    for database in (client.late, sides.cluster.clients[1].late):
        rows = database.command({"wcGetRangeSlices": "F", "predicate": SLICE})["rows"]
        assert sorted(row["key"] for row in rows) == sorted(KEYS)
        for key in KEYS:
            assert database.command({"wcGet": "F", "key": key, "column": "c"})["column"]["value"] == key.encode()


def test_a_router_finds_what_was_dropped_and_made_elsewhere(sides: Both) -> None:
    first, second = sides.cluster.clients
    options = {"partitioner": "OrderPreservingPartitioner"}
    for to in ("two", "one"):
        first.admin.command({"createKeyspace": "again", **options})
        first.again.command({"createColumnFamily": "F"})
        first.admin.command("moveChunk", "again.F", find={"token": "61"}, to=to)
        second.again.command({"wcInsert": "F", "key": "a", "column": "c", "value": to})
        assert second.again.command({"wcGet": "F", "key": "a", "column": "c"})["column"]["value"] == to.encode()
        mutation = {"key": "b", "columnFamily": "F", "insert": {"name": "c", "value": ""}}
        second.again.command({"wcBatchMutate": 1, "mutations": [mutation]})
        first.again.command({"dropKeyspace": 1})
