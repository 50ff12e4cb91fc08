"""Many open cursors over much data: memory stays bounded on nodes and routers, and comes back when they end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.cluster.routed import routed_cluster
from tests.harness.bombs import GROWTH_BYTES, Client, resident
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

CURSORS = 139
DOCUMENTS = 20_000
SORTED: dict[str, dict[str, Any]] = {
    "find": {"find": "test", "sort": {"n": 1}},
    "$sort": {"aggregate": "test", "pipeline": [{"$sort": {"n": 1}}], "cursor": {}},
    "$group": {"aggregate": "test", "pipeline": [{"$group": {"_id": "$n", "s": {"$first": "$s"}}}], "cursor": {}},
}


def fill(collection: pymongo.collection.Collection[dict[str, Any]]) -> None:
    for start in range(0, DOCUMENTS, 5_000):
        collection.insert_many(
            {"_id": number, "n": number * 7919 % DOCUMENTS, "s": "x" * 1_000} for number in range(start, start + 5_000)
        )


def held(client: Client) -> int:
    return int(client.admin.command("serverStatus")["metrics"]["cursor"]["memory"]["heldBytes"])


def check(client: Client, pids: list[int], command: dict[str, Any]) -> None:
    """Open all cursors, read of each, end them."""
    database = client.test
    idle = [resident(pid) for pid in pids]
    most = list(idle)
    opened: list[int] = []
    for _ in range(CURSORS):
        cursor = database.command(command)["cursor"]
        assert len(cursor["firstBatch"]) == 101
        opened.append(cursor["id"])
        most = [max(known, resident(pid)) for known, pid in zip(most, pids, strict=True)]
    seen = [document["_id"] for document in cursor["firstBatch"]]
    while cursor["id"]:
        cursor = database.command({"getMore": cursor["id"], "collection": "test"})["cursor"]
        seen += [document["_id"] for document in cursor["nextBatch"]]
    assert len(set(seen)) == len(seen) == DOCUMENTS
    for cursor_id in opened[:-1]:
        database.command({"getMore": cursor_id, "collection": "test", "batchSize": 10})
        most = [max(known, resident(pid)) for known, pid in zip(most, pids, strict=True)]
    growth = [known - before for known, before in zip(most, idle, strict=True)]
    assert all(grown < GROWTH_BYTES for grown in growth), growth
    database.command("killCursors", "test", cursors=opened)
    wait_until(lambda: held(client) == 0, 10)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, int]]:
    with stopped_at_end(Deployment(tmp_path_factory.mktemp("cursors"))) as deployment:
        member = Member("node", "mongod", [])
        deployment.start(member)
        with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", member.port, directConnection=True) as client:
            fill(client.test.test)
            yield client, member.pid


@pytest.mark.parametrize("kind", SORTED)
def test_many_sorted_cursors_of_a_node_share_what_there_is(node: tuple[Client, int], kind: str) -> None:
    client, pid = node
    check(client, [pid], SORTED[kind])


def test_cursors_that_time_out_give_back_what_they_hold(node: tuple[Client, int]) -> None:
    client, _ = node
    client.test.command(SORTED["find"])
    assert held(client) > 0
    before = client.admin.command("getParameter", 1, cursorTimeoutMillis=1)["cursorTimeoutMillis"]
    client.admin.command("setParameter", 1, cursorTimeoutMillis=1)
    try:
        wait_until(lambda: held(client) == 0, 60)
    finally:
        client.admin.command("setParameter", 1, cursorTimeoutMillis=before)


def test_many_sorted_cursors_of_a_router_share_what_there_is(tmp_path: Path) -> None:
    with routed_cluster(tmp_path) as cluster:
        collection = cluster.shard("test", {"_id": 1})
        cluster.split_and_move("test", {"_id": DOCUMENTS // 2})
        fill(collection)
        members = [cluster.deployment.members[name] for name in ("router-0", "one-0", "two-0")]
        for command in SORTED.values():
            check(cluster.client, [member.pid for member in members], command)
        for member in members[1:]:
            with pymongo.MongoClient[dict[str, Any]](member.address, directConnection=True) as client:
                wait_until(lambda client=client: held(client) == 0, 10)
