"""Many open cursors over much data: memory stays bounded on nodes and routers, and comes back when they end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.cluster.routed import routed_cluster
from tests.harness.bombs import GROWTH_BYTES, Client, resident
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

DOCUMENTS = 1_000
SIZE = 10_000
"""Bytes of a document."""
SORTED: dict[str, dict[str, Any]] = {
    "find": {"find": "test", "sort": {"n": 1}},
    "$sort": {"aggregate": "test", "pipeline": [{"$sort": {"n": 1}}], "cursor": {}},
    "$group": {"aggregate": "test", "pipeline": [{"$group": {"_id": "$n", "s": {"$first": "$s"}}}], "cursor": {}},
}
CURSORS = {"find": 120, "$sort": 120, "$group": 60}
"""So many that what they read is more than a process may hold: shards sort half of it, routers group all of it."""


def fill(collection: pymongo.collection.Collection[dict[str, Any]]) -> None:
    collection.insert_many({"_id": n, "n": n * 7919 % DOCUMENTS, "s": "x" * SIZE} for n in range(DOCUMENTS))


def held(client: Client) -> int:
    return int(client.admin.command("serverStatus")["metrics"]["cursor"]["memory"]["heldBytes"])


def check(client: Client, idle: dict[int, int], kind: str) -> None:
    """Open all cursors, read of each, end them; the processes had so many bytes when idle."""
    database, command = client.test, SORTED[kind]
    most = idle
    opened: list[int] = []
    for _ in range(CURSORS[kind]):
        cursor = database.command(command)["cursor"]
        assert len(cursor["firstBatch"]) == 101
        opened.append(cursor["id"])
        most = {pid: max(known, resident(pid)) for pid, known in most.items()}
    seen = [document["_id"] for document in cursor["firstBatch"]]
    while cursor["id"]:
        cursor = database.command({"getMore": cursor["id"], "collection": "test"})["cursor"]
        seen += [document["_id"] for document in cursor["nextBatch"]]
    assert len(set(seen)) == len(seen) == DOCUMENTS
    for cursor_id in opened[:-1]:
        database.command({"getMore": cursor_id, "collection": "test", "batchSize": 10})
        most = {pid: max(known, resident(pid)) for pid, known in most.items()}
    growth = [known - idle[pid] for pid, known in most.items()]
    assert all(grown < GROWTH_BYTES for grown in growth), growth
    database.command("killCursors", "test", cursors=opened)
    wait_until(lambda: held(client) == 0, 10)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, dict[int, int]]]:
    """A client of a node; the bytes of its process when idle."""
    with stopped_at_end(Deployment(tmp_path_factory.mktemp("cursors"))) as deployment:
        member = Member("node", "mongod", [])
        deployment.start(member)
        with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", member.port, directConnection=True) as client:
            fill(client.test.test)
            yield client, {member.pid: resident(member.pid)}


@pytest.mark.parametrize("kind", SORTED)
def test_many_sorted_cursors_of_a_node_share_what_there_is(node: tuple[Client, dict[int, int]], kind: str) -> None:
    check(*node, kind)


def test_cursors_that_time_out_give_back_what_they_hold(node: tuple[Client, dict[int, int]]) -> None:
    client, _ = node
    client.test.command(SORTED["find"])
    assert held(client) > 0
    settings = {"cursorTimeoutMillis": 1, "clientCursorMonitorFrequencySecs": 1}
    before = {name: client.admin.command("getParameter", 1, **{name: 1})[name] for name in settings}
    assert before == {"cursorTimeoutMillis": 600_000, "clientCursorMonitorFrequencySecs": 4}
    with pytest.raises(OperationFailure, match="at least 1"):
        client.admin.command("setParameter", 1, clientCursorMonitorFrequencySecs=0)
    try:
        for name, value in settings.items():
            client.admin.command("setParameter", 1, **{name: value})
        wait_until(lambda: held(client) == 0, 60)
    finally:
        for name, value in before.items():
            client.admin.command("setParameter", 1, **{name: value})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, dict[int, int], list[str]]]:
    """A client of a router; the bytes of the router and of a member of each shard when idle; the members' addresses."""
    with routed_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        collection = cluster.shard("test", {"_id": 1})
        cluster.split_and_move("test", {"_id": DOCUMENTS // 2})
        fill(collection)
        members = [cluster.deployment.members[name] for name in ("router-0", "one-0", "two-0")]
        idle = {member.pid: resident(member.pid) for member in members}
        yield cluster.client, idle, [member.address for member in members[1:]]


@pytest.mark.parametrize("kind", SORTED)
def test_many_sorted_cursors_of_a_router_share_what_there_is(
    cluster: tuple[Client, dict[int, int], list[str]], kind: str
) -> None:
    client, idle, shards = cluster
    check(client, idle, kind)
    for address in shards:
        with pymongo.MongoClient[dict[str, Any]](address, directConnection=True) as shard:
            wait_until(lambda shard=shard: held(shard) == 0, 10)
