"""The wide-column mode through a router: definitions, timestamps, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from tests.cluster.routed import Cluster, routed_cluster

pytestmark = pytest.mark.cluster

BLOG = """
<Keyspace Name="BloggyAppy">
  <ColumnFamily CompareWith="BytesType" Name="Authors"/>
  <ColumnFamily ColumnType="Super" CompareWith="TimeUUIDType" CompareSubcolumnsWith="BytesType" Name="Comments"/>
</Keyspace>
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("wide")) as cluster:
        yield cluster


def refused(cluster: Cluster, database: str, command: dict[str, Any]) -> int:
    with pytest.raises(OperationFailure) as failure:
        cluster.client[database].command(command)
    assert failure.value.code is not None
    return failure.value.code


def test_a_keyspace_is_made_written_read_and_dropped(cluster: Cluster) -> None:
    admin, ks = cluster.client.admin, cluster.client.ks
    admin.command({"createKeyspace": "ks"})
    ks.command({"createColumnFamily": "F", "compareWith": "LongType"})
    stamps = [
        ks.command({"wcInsert": "F", "key": "k", "column": Int64(name), "value": "v"})["timestamp"]
        for name in (976, 3, 832416, 123)
    ]
    assert stamps == sorted(set(stamps))
    found = ks.command({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {}}})
    assert [column["name"] for column in found["columns"]] == [3, 123, 976, 832416]
    mutations = [{"key": "l", "columnFamily": "F", "insert": {"name": Int64(n), "value": ""}} for n in range(10)]
    assert ks.command({"wcBatchMutate": 1, "mutations": mutations})["n"] == 10
    assert cluster.clients[1].ks.command({"wcGetCount": "F", "key": "l"})["n"] == 10
    ks.command({"wcRemove": "F", "key": "l"})
    assert refused(cluster, "ks", {"wcGet": "F", "key": "l", "column": Int64(1)}) == 47
    assert refused(cluster, "ks", {"find": "F"}) == 115
    assert refused(cluster, "ks", {"insert": "x", "documents": [{"a": 1}]}) == 115
    for command in (
        {"insert": "F", "documents": [{"a": 1}]},
        {"update": "F", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}}]},
        {"delete": "F", "deletes": [{"q": {"a": 1}, "limit": 1}]},
        {"findAndModify": "F", "query": {"a": 1}, "remove": True},
        {"aggregate": "F", "pipeline": [], "cursor": {}},
        {"drop": "F"},
    ):
        assert refused(cluster, "ks", command) == 115, command
    assert (
        refused(cluster, "ks", {"wcInsert": "F", "key": "k", "column": Int64(1), "value": "", "consistency": "TWO"})
        == 100
    )
    assert refused(cluster, "admin", {"shardCollection": "ks.F", "key": {"a": 1}}) == 23
    ks.command({"dropKeyspace": 1})
    assert refused(cluster, "ks", {"describeKeyspace": 1}) == 26


def test_a_published_definition_is_loaded(cluster: Cluster) -> None:
    admin = cluster.client.admin
    loaded = admin.command({"loadStorageConf": BLOG})
    assert loaded["keyspaces"] == ["BloggyAppy"]
    assert loaded["columnFamilies"] == ["BloggyAppy.Authors", "BloggyAppy.Comments"]
    admin.command({"loadStorageConf": BLOG})
    listed = admin.command({"describeKeyspaces": 1})["keyspaces"]
    assert [keyspace["keyspace"] for keyspace in listed] == ["BloggyAppy"]
    assert [family["name"] for family in listed[0]["columnFamilies"]] == ["Authors", "Comments"]
    cluster.client.BloggyAppy.command({"dropKeyspace": 1})


def test_keyspaces_may_differ_in_upper_and_lower_case(cluster: Cluster) -> None:
    """A quoted identifier of CQL is another one than the same without quotes; databases of documents are not."""
    client = cluster.client
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    for name, value in (("foo", 1), ('"Foo"', 2)):
        client.admin.command({"cql": f"CREATE KEYSPACE {name} WITH replication = {replication}"})
        client.admin.command({"cql": f"CREATE TABLE {name}.t (a int PRIMARY KEY, v int)"})
        client.admin.command({"cql": f"INSERT INTO {name}.t (a, v) VALUES (1, {value})"})
    for name, value in (("foo", 1), ('"Foo"', 2)):
        assert client.admin.command({"cql": f"SELECT v FROM {name}.t"})["rows"] == [[value]]
    client.documents.c.insert_one({})
    assert refused(cluster, "Documents", {"insert": "c", "documents": [{}]}) == 13297
    assert refused(cluster, "FOO", {"insert": "c", "documents": [{}]}) == 13297
    for name in ("foo", "Foo"):
        client[name].command({"dropKeyspace": 1})
