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
