"""What the balancer does by itself: spreading data, emptying shards, leaving alone what is too large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from docstore.errors import Code
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
POSTS = 200_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("balancer")) as cluster:
        yield cluster


def owners(cluster: Cluster, collection: str) -> list[str]:
    return [row["shard"] for row in cluster.chunks(collection)]


def per_shard(cluster: Cluster, collection: str) -> dict[str, int]:
    shards = cluster.client.test.command("collStats", collection)["shards"]
    return {name: part["count"] for name, part in shards.items()}


def moved_to(cluster: Cluster, collection: str, shard: str) -> list[dict[str, Any]]:
    """Every move of a chunk to a shard, also one that has been undone since."""
    query = {"what": {"$regex": "^moveChunk"}, "ns": f"test.{collection}", "details.to": shard}
    return list(cluster.client.config.changelog.find(query))


def setting(cluster: Cluster, megabytes: int) -> None:
    """The size that chunks have, in force at once. Both routers have read the settings just before."""
    for client in cluster.clients:
        client.admin.command("balancerStop")
    cluster.client.config.settings.update_one({"_id": "chunksize"}, {"$set": {"value": megabytes}}, upsert=True)


def test_posts_loaded_through_a_router_end_on_both_shards(cluster: Cluster) -> None:
    """26 MB, which the ladder cuts to four or five chunks."""
    posts = cluster.shard("posts", {"number": 1})
    rows = ({"number": n, "author": f"author{n % 97}", "tags": ["a", "b"], "text": "hello"} for n in range(POSTS))
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == 2000:
            posts.insert_many(batch)
            batch = []
    third = POSTS // 3

    def spread() -> bool:
        counts = per_shard(cluster, "posts")
        return sum(counts.values()) == POSTS and min(counts.get(name, 0) for name in ("one", "two")) >= third

    wait_until(spread, 90)
    assert len(owners(cluster, "posts")) < 8
    assert posts.count_documents({}) == POSTS


def test_a_chunk_of_one_key_that_is_too_large_is_flagged_and_moves_by_force_alone(cluster: Cluster) -> None:
    setting(cluster, 1)
    large = cluster.shard("large", {"k": 1})
    cluster.client.admin.command("split", "test.large", middle={"k": 1})
    large.insert_many([{"k": 5, "pad": "x" * 1000} for _ in range(3000)])
    admin = cluster.client.admin
    with pytest.raises(OperationFailure) as caught:
        admin.command("moveChunk", "test.large", find={"k": 5}, to="two")
    assert (caught.value.code, caught.value.details["codeName"]) == (Code.ChunkTooBig, "ChunkTooBig")
    flags = {row["min"]["k"]: row.get("jumbo", False) for row in cluster.chunks("large")}
    assert flags[1] is True
    admin.command("clearJumboFlag", "test.large", find={"k": 5})
    assert not any(row.get("jumbo", False) for row in cluster.chunks("large"))
    with pytest.raises(OperationFailure) as caught:
        cluster.clients[1].admin.command("clearJumboFlag", "test.large")
    assert caught.value.code == Code.InvalidOptions
    admin.command("moveChunk", "test.large", find={"k": 5}, to="two", forceJumbo=True)
    assert owners(cluster, "large") == ["one", "two"]
    assert large.count_documents({"k": 5}) == 3000
    setting(cluster, 128)


def test_a_draining_shard_is_emptied_and_gets_nothing_more(cluster: Cluster) -> None:
    """Not the lone top chunk of a growing collection either. Databases are for the operator to move."""
    admin = cluster.client.admin
    for collection in ("one", "several"):
        cluster.shard(collection, {"k": 1})
        for middle in (10, 20):
            admin.command("split", f"test.{collection}", middle={"k": middle})
        admin.command("moveChunk", f"test.{collection}", find={"k": 15}, to="two")
    started = admin.command("removeShard", "two")
    assert started["state"] == "started"
    ongoing = admin.command("removeShard", "two")
    assert (ongoing["state"], ongoing["dbsToMove"]) == ("ongoing", [])
    assert ongoing["remaining"]["chunks"] > 0
    # While it is stopped, top chunks stay where they are too.
    admin.command("balancerStart")
    growing = cluster.shard("growing", {"k": 1})
    for n in range(40):
        growing.insert_one({"k": n, "pad": "x" * 20_000})
    assert len(owners(cluster, "growing")) > 2, "the first cut is at the low end, the second at the top"
    assert set(owners(cluster, "growing")) == {"one"}
    assert moved_to(cluster, "several", "two")
    assert not moved_to(cluster, "growing", "two")
    wait_until(lambda: admin.command("removeShard", "two")["state"] == "completed", 90)
    for collection in ("one", "several", "posts", "large", "growing"):
        assert set(owners(cluster, collection)) == {"one"}
    assert cluster.client.test.posts.count_documents({}) == POSTS
