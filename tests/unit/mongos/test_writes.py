"""Batches of writes across shards: order, errors, stale routing, and cuts where a chunk is due for a look."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId

from docstore.errors import Code, CommandError
from docstore.sharding.chunks import Chunk, ChunkMap
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.version import Lastmod
from mongos.routing.requests import ShardReply
from mongos.routing.targeting import delete_target, insert_target, update_target
from mongos.routing.writes import BatchWrite, Kind

NAMESPACE = "test.c"
KEY = ShardKey(("k",))
EPOCH = ObjectId()


def routing(boundary: int = 10, major: int = 1) -> Routing:
    """Keys below the boundary on shard a, the others on shard b."""
    middle = KEY.bound(bson.encode({"k": boundary}))
    chunks = [
        Chunk(KeyRange(KEY.min, middle), "a", Lastmod(major, 0)),
        Chunk(KeyRange(middle, KEY.max), "b", Lastmod(major, 1)),
    ]
    collection = CollectionRouting(NAMESPACE, bson.Binary(bytes(16), 4), False, ChunkMap(KEY, EPOCH, chunks))
    return Routing(NAMESPACE, "a", collection)


@dataclass
class FakeShard:
    name: str
    requests: list[tuple[list[dict[str, Any]], dict[str, Any]]]
    replies: list[dict[str, Any] | CommandError] = field(default_factory=list)

    async def command(self, db: str, body: bytes, *, sequences: dict[str, list[bytes]], **_: Any) -> ShardReply:
        ((_, documents),) = sequences.items()
        self.requests.append(([bson.decode(document) for document in documents], bson.decode(body)))
        reply = self.replies.pop(0) if self.replies else {"n": len(documents)}
        if isinstance(reply, CommandError):
            raise reply
        return ShardReply(self.name, f"{self.name}:1", bson.encode(reply))


class FakeCluster:
    """Shards, cache and accounting in one: what a batch talks to."""

    def __init__(self) -> None:
        self.log: list[tuple[list[dict[str, Any]], dict[str, Any]]] = []
        self.shards = {name: FakeShard(name, []) for name in ("a", "b")}
        self.routings = [routing()]
        self.due_at: set[int] = set()
        self.looks: list[int] = []
        self.counted: list[int] = []

    async def get(self, name: str) -> Any:
        return self.routings[0] if name == NAMESPACE else self.shards[name]

    async def settle(self, namespace: str, used: Routing, attempt: int) -> None:
        if len(self.routings) > 1:
            self.routings.pop(0)

    async def ensure(self, namespace: str) -> None:
        """Every database is there."""

    def add(self, routing: Routing, chunk: Chunk, size: int) -> bool:
        self.counted.append(size)
        return len(self.counted) in self.due_at

    async def look(self, routing: Routing, chunk: Chunk) -> None:
        self.looks.append(len(self.counted))


class FakeContext:
    def __init__(self, command: dict[str, Any]) -> None:
        self.raw = bson.encode(command)
        self.db, self.namespace = "test", NAMESPACE
        self.session: Any = None
        self.deadline = None
        self.operation = self

    def check(self) -> None:
        """Never killed."""


KINDS = {
    "insert": Kind("documents", insert_target, len),
    "update": Kind("updates", update_target, len),
    "delete": Kind("deletes", delete_target, lambda _: 0),
}


def write(
    cluster: FakeCluster, command: str, statements: list[dict[str, Any]], *, ordered: bool = True
) -> dict[str, Any]:
    batch = BatchWrite(
        FakeContext({command: "c"}), KINDS[command], [bson.encode(row) for row in statements],
        ordered=ordered, shards=cluster, cache=cluster, accounting=cluster, ensure_database=cluster.ensure,
    )  # type: ignore[arg-type]  # fmt: skip
    return asyncio.run(batch.run())


def keys(shard: FakeShard) -> list[list[int]]:
    return [[row["k"] for row in documents] for documents, _ in shard.requests]


def test_an_unordered_batch_is_one_request_a_shard():
    cluster = FakeCluster()
    assert write(cluster, "insert", [{"k": k} for k in (1, 20, 2, 21)], ordered=False) == {"n": 4}
    assert keys(cluster.shards["a"]) == [[1, 2]]
    assert keys(cluster.shards["b"]) == [[20, 21]]


def test_an_ordered_batch_goes_out_in_runs():
    cluster = FakeCluster()
    write(cluster, "insert", [{"k": k} for k in (1, 2, 20, 3)])
    assert keys(cluster.shards["a"]) == [[1, 2], [3]]
    assert keys(cluster.shards["b"]) == [[20]]


def test_nothing_is_sent_after_a_failed_statement_of_an_ordered_batch():
    cluster = FakeCluster()
    cluster.shards["a"].replies = [{"n": 1, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "dup"}]}]
    reply = write(cluster, "insert", [{"k": k} for k in (1, 2, 3, 20)])
    assert reply == {"n": 1, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "dup"}]}
    assert cluster.shards["b"].requests == []


def test_errors_of_an_unordered_batch_carry_the_clients_indexes():
    cluster = FakeCluster()
    cluster.shards["b"].replies = [{"n": 1, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "dup"}]}]
    reply = write(cluster, "insert", [{"k": k} for k in (1, 20, 2, 21)], ordered=False)
    assert reply == {"n": 3, "writeErrors": [{"index": 3, "code": 11000, "errmsg": "dup"}]}


def test_a_stale_statement_is_routed_again_and_lands_once():
    cluster = FakeCluster()
    cluster.routings = [routing(10), routing(2, major=2)]
    cluster.shards["a"].replies = [CommandError(Code.StaleConfig, "stale")]
    assert write(cluster, "insert", [{"k": k} for k in (1, 5, 20)], ordered=False)["n"] == 3
    assert keys(cluster.shards["a"]) == [[1, 5], [1]]
    assert keys(cluster.shards["b"]) == [[20], [5]]


def test_what_was_done_before_the_stale_statement_is_not_sent_again():
    cluster = FakeCluster()
    cluster.routings = [routing(10), routing(2, major=2)]
    stale = {"index": 1, "code": int(Code.StaleConfig), "errmsg": "stale"}
    cluster.shards["a"].replies = [{"n": 1, "writeErrors": [stale]}]
    assert write(cluster, "insert", [{"k": k} for k in (1, 5, 6)]) == {"n": 3}
    assert keys(cluster.shards["a"]) == [[1, 5, 6]]
    assert keys(cluster.shards["b"]) == [[5, 6]]


def test_a_multi_update_goes_to_every_shard_that_may_match_and_counts_add_up():
    cluster = FakeCluster()
    for shard in cluster.shards.values():
        shard.replies = [{"n": 2, "nModified": 1}]
    reply = write(cluster, "update", [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}])
    assert reply == {"n": 4, "nModified": 2}


def test_a_multi_update_is_repeated_only_where_it_was_stale():
    cluster = FakeCluster()
    cluster.shards["a"].replies = [{"n": 2, "nModified": 2}]
    cluster.shards["b"].replies = [CommandError(Code.StaleConfig, "stale"), {"n": 3, "nModified": 3}]
    reply = write(cluster, "update", [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}])
    assert reply == {"n": 5, "nModified": 5}
    assert len(cluster.shards["a"].requests) == 1


def test_a_batch_is_cut_where_a_chunk_is_due_for_a_look():
    cluster = FakeCluster()
    cluster.due_at = {2}
    write(cluster, "insert", [{"k": k} for k in (1, 2, 3)])
    assert keys(cluster.shards["a"]) == [[1, 2], [3]]
    assert cluster.looks == [2]


def test_versions_of_the_routing_go_along():
    cluster = FakeCluster()
    write(cluster, "insert", [{"k": 20}])
    ((_, body),) = cluster.shards["b"].requests
    assert body["shardVersion"] == {"v": bson.Timestamp(1, 1), "e": EPOCH}


@pytest.mark.parametrize(
    ("command", "statement", "code"),
    [
        ("update", {"q": {"x": 1}, "u": {"$set": {"y": 1}}}, Code.InvalidOptions),
        ("update", {"q": {"x": 1}, "u": {"$set": {"y": 1}}, "upsert": True, "multi": True}, Code.ShardKeyNotFound),
        ("delete", {"q": {"x": 1}, "limit": 1}, Code.InvalidOptions),
        ("insert", {"k": [1, 2]}, Code.ShardKeyNotFound),
    ],
)
def test_a_single_document_write_without_the_shard_key_is_refused(command, statement, code):
    cluster = FakeCluster()
    reply = write(cluster, command, [statement])
    assert [row["code"] for row in reply["writeErrors"]] == [code]
    assert all(not shard.requests for shard in cluster.shards.values())


@pytest.mark.parametrize(
    ("command", "statement", "shards"),
    [
        ("update", {"q": {"k": 1, "x": 2}, "u": {"$set": {"y": 1}}}, "a"),
        ("update", {"q": {"k": 1}, "u": {"$set": {"k": 20, "y": 1}}}, "a"),
        ("update", {"q": {"k": 1}, "u": {"k": 20}}, "a"),
        ("update", {"q": {"k": 1}, "u": {"$unset": {"k": 1}}}, "a"),
        ("update", {"q": {"_id": 1}, "u": {"$set": {"y": 1}}}, "ab"),
        ("update", {"q": {"x": 1}, "u": {"k": 20, "y": 1}}, "b"),
        ("update", {"q": {"k": {"$gt": 12}}, "u": {"$set": {"y": 1}}, "multi": True}, "b"),
        ("delete", {"q": {"k": {"$in": [1, 20]}}, "limit": 0}, "ab"),
        ("delete", {"q": {"k": 20}, "limit": 1}, "b"),
    ],
)
def test_statements_reach_the_shards_that_may_hold_a_match(command, statement, shards):
    cluster = FakeCluster()
    write(cluster, command, [statement])
    assert "".join(name for name, shard in cluster.shards.items() if shard.requests) == shards
