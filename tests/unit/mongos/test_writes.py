"""Batches of writes across shards: order, errors, stale routing, and cuts where a chunk is due for a look."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId

from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.version import Lastmod
from docstore.wire import MAX_MESSAGE_BYTES, encode_message
from mongos.routing.requests import ShardReply
from mongos.routing.targeting import delete_target, insert_target, update_target
from mongos.routing.writes import Batch, BatchWrite, Kind

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
        assert encode_message(body, request_id=1, sequences=sequences.items())
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
        self.session: Session | None = None
        self.pauses = 0

    async def pause(self) -> None:
        self.pauses += 1

    async def get(self, name: str) -> Any:
        return self.routings[0] if name == NAMESPACE else self.shards[name]

    of_routing = get

    def doubt(self, namespace: str, error: CommandError) -> None:
        """What is known stays."""

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
    context = FakeContext({command: "c"})
    context.session = cluster.session
    batch = BatchWrite(
        context, Batch(KINDS[command], [bson.encode(row) for row in statements], ordered),
        shards=cluster, cache=cluster, accounting=cluster, ensure_database=cluster.ensure,
        pause=cluster.pause,
    )  # type: ignore[arg-type]  # fmt: skip
    return asyncio.run(batch.run())


def keys(shard: FakeShard) -> list[list[int]]:
    return [[row["k"] for row in documents] for documents, _ in shard.requests]


def test_an_unordered_batch_is_one_request_a_shard():
    cluster = FakeCluster()
    assert write(cluster, "insert", [{"k": k} for k in (1, 20, 2, 21)], ordered=False) == {"n": 4}
    assert keys(cluster.shards["a"]) == [[1, 2]]
    assert keys(cluster.shards["b"]) == [[20, 21]]


def test_a_long_batch_lets_others_run_and_finds_all_that_fail_in_one_round():
    cluster = FakeCluster()
    statements = [{"k": k} if k % 3 else {"k": [k]} for k in range(3000)]
    reply = write(cluster, "insert", statements, ordered=False)
    assert reply["n"] == 2000
    assert [row["index"] for row in reply["writeErrors"]] == list(range(0, 3000, 3))
    assert [len(each) for each in keys(cluster.shards["a"])] == [6]
    assert [len(each) for each in keys(cluster.shards["b"])] == [1994]
    assert cluster.pauses == 11


def test_an_ordered_batch_goes_out_in_runs():
    cluster = FakeCluster()
    write(cluster, "insert", [{"k": k} for k in (1, 2, 20, 3)])
    assert keys(cluster.shards["a"]) == [[1, 2], [3]]
    assert keys(cluster.shards["b"]) == [[20]]


def test_statement_ids_that_follow_one_another_are_said_by_the_first():
    cluster = FakeCluster()
    cluster.session = Session(bytes(48), 7, (4,))
    write(cluster, "insert", [{"k": k} for k in (1, 2, 20, 21, 3)], ordered=False)
    asked = [{name: body.get(name) for name in ("stmtId", "stmtIds")} for _, body in cluster.shards["b"].requests]
    assert asked == [{"stmtId": 6, "stmtIds": None}]
    asked = [{name: body.get(name) for name in ("stmtId", "stmtIds")} for _, body in cluster.shards["a"].requests]
    assert asked == [{"stmtId": None, "stmtIds": [4, 5, 8]}]


def test_the_first_of_a_sort_is_not_where_a_replacement_belongs():
    cluster = FakeCluster()
    statement = {"q": {"x": 1}, "u": {"k": 20}}
    assert "writeErrors" not in write(cluster, "update", [statement])
    assert [len(shard.requests) for shard in cluster.shards.values()] == [0, 1]
    reply = write(cluster, "update", [{**statement, "sort": {"y": 1}}])
    assert [row["code"] for row in reply["writeErrors"]] == [Code.InvalidOptions]
    statement["q"] = {"k": 1}
    write(cluster, "update", [{**statement, "sort": {"y": 1}}])
    assert [len(shard.requests) for shard in cluster.shards.values()] == [1, 1]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch_as_long_as_a_message_may_be_is_sent_in_two(ordered: bool):
    """Beside its statements there is no room for their numbers, by which retried writes are known."""
    cluster = FakeCluster()
    cluster.session = Session(bytes(5), 1, None)
    rows = [{"k": k, "l": "x" * 15_994_000} for k in range(3)] + [{"k": k} for k in range(3, 800)]
    sent = [("documents", [bson.encode(row) for row in rows])]
    assert len(encode_message(bytes(200), request_id=1, sequences=sent)) < MAX_MESSAGE_BYTES
    assert write(cluster, "insert", [{**row, "k": row["k"] - 1000} for row in rows], ordered=ordered) == {"n": 800}
    first, second = keys(cluster.shards["a"])
    assert [*first, *second] == list(range(-1000, -200))


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


def test_a_shard_without_a_primary_does_not_say_that_nothing_was_done_where_another_has_done_its_part():
    everywhere = [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}]
    cluster = FakeCluster()
    cluster.shards["b"].replies = [CommandError(Code.NotWritablePrimary, "not primary")]
    with pytest.raises(CommandError) as refused:
        write(cluster, "update", everywhere)
    assert refused.value.code == Code.InterruptedDueToReplStateChange
    for shard in cluster.shards.values():
        shard.replies = [CommandError(Code.NotWritablePrimary, "not primary")]
    with pytest.raises(CommandError) as refused:
        write(cluster, "update", everywhere)
    assert refused.value.code == Code.NotWritablePrimary


def test_a_multi_update_is_repeated_only_where_it_was_stale():
    cluster = FakeCluster()
    cluster.shards["a"].replies = [{"n": 2, "nModified": 2}]
    cluster.shards["b"].replies = [CommandError(Code.StaleConfig, "stale"), {"n": 3, "nModified": 3}]
    reply = write(cluster, "update", [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}])
    assert reply == {"n": 5, "nModified": 5}
    assert len(cluster.shards["a"].requests) == 1


BY_ID = {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}
STALE = CommandError(Code.StaleConfig, "stale")


def test_an_update_by_id_that_found_nothing_asks_all_shards_again_after_a_stale_answer():
    """The shard that found nothing may have got the document since."""
    cluster = FakeCluster()
    cluster.routings = [routing(10), routing(2, major=2)]
    cluster.shards["a"].replies = [STALE, {"n": 0, "nModified": 0}]
    cluster.shards["b"].replies = [{"n": 0, "nModified": 0}, {"n": 1, "nModified": 1}]
    assert write(cluster, "update", [BY_ID]) == {"n": 1, "nModified": 1}


def test_an_update_by_id_that_found_its_document_is_not_sent_to_where_that_moved():
    cluster = FakeCluster()
    cluster.routings = [routing(10), routing(2, major=2)]
    cluster.shards["a"].replies = [{"n": 1, "nModified": 1}]
    cluster.shards["b"].replies = [STALE, {"n": 1, "nModified": 1}]
    assert write(cluster, "update", [BY_ID]) == {"n": 1, "nModified": 1}
    assert len(cluster.shards["b"].requests) == 1


def test_of_many_statements_by_id_those_are_asked_again_that_found_nothing():
    cluster = FakeCluster()
    cluster.routings = [routing(10), routing(2, major=2)]
    cluster.shards["a"].replies = [STALE, {"n": 0, "counts": [0, 0]}]
    cluster.shards["b"].replies = [{"n": 1, "counts": [0, 1, 0]}, {"n": 2, "counts": [1, 1]}]
    deletes = [{"q": {"_id": n}, "limit": 1} for n in range(3)]
    assert write(cluster, "delete", deletes, ordered=False) == {"n": 3}
    sent = [[row["q"]["_id"] for row in documents] for documents, _ in cluster.shards["b"].requests]
    assert sent == [[0, 1, 2], [0, 2]]
    assert all(body["statementCounts"] for _, body in cluster.shards["b"].requests)


def test_a_retried_statement_that_two_shards_remember_counts_once():
    cluster = FakeCluster()
    cluster.session = Session(bytes(5), 1, None)
    for shard in cluster.shards.values():
        shard.replies = [{"n": 1, "nModified": 1, "retriedStmtIds": [0]}]
    assert write(cluster, "update", [BY_ID]) == {"n": 1, "retriedStmtIds": [0], "nModified": 1}


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_statement_whose_document_moved_while_it_was_sent_counts_once(first: str):
    """The recipient has been told that it was carried out, and answers before or after the donor, which did it."""
    cluster = FakeCluster()
    cluster.session = Session(bytes(5), 1, None)
    for name, shard in cluster.shards.items():
        shard.replies = [{"n": 1, "nModified": 1, **({"retriedStmtIds": [0]} if name == first else {})}]
    assert write(cluster, "update", [BY_ID]) == {"n": 1, "retriedStmtIds": [0], "nModified": 1}


def test_a_statement_that_every_shard_refuses_has_one_error():
    cluster = FakeCluster()
    for shard in cluster.shards.values():
        shard.replies = [{"n": 0, "nModified": 0, "writeErrors": [{"index": 0, "code": 9, "errmsg": "what?"}]}]
    assert len(write(cluster, "update", [BY_ID])["writeErrors"]) == 1


@pytest.mark.parametrize(
    ("first", "boundary", "again"),
    [
        # What b has called stale, of whoever has it by now.
        ("b", 2, {"b": [(10, None)]}),
        ("b", 20, {"a": [(10, 20)], "b": [(20, None)]}),
        ("a", 2, {"a": [(None, 2)], "b": [(2, 10)]}),
        ("a", 20, {"a": [(None, 10)]}),
    ],
)
def test_an_update_of_many_documents_looks_at_each_key_once(first: str, boundary: int, again: dict[str, Any]):
    cluster = FakeCluster()
    cluster.routings = [routing(10), routing(boundary, major=2)]
    for name, shard in cluster.shards.items():
        shard.replies = [STALE, {"n": 1, "nModified": 1}] if name == first else [{"n": 4, "nModified": 4}]
        shard.replies.append({"n": 1, "nModified": 1})
    reply = write(cluster, "update", [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}])
    assert reply["n"] == 4 + len(again)
    ends = {KEY.min.key: None, KEY.max.key: None, **{KEY.key_of(bson.encode({"k": k})): k for k in (2, 10, 20)}}
    for name, shard in cluster.shards.items():
        asked = [body["within"] for _, body in shard.requests if "within" in body]
        ranges = [[(ends[row["min"]], ends[row["max"]]) for row in within] for within in asked]
        assert ranges == ([again[name]] if name in again else [])


def test_an_update_of_many_documents_begins_anew_where_the_collection_is_another():
    cluster = FakeCluster()
    other = ChunkMap(KEY, ObjectId(), list(routing(10).collection.chunks))
    collection = CollectionRouting(NAMESPACE, bson.Binary(bytes(16), 4), False, other)
    cluster.routings = [routing(10), Routing(NAMESPACE, "a", collection)]
    cluster.shards["a"].replies = [{"n": 4, "nModified": 4}]
    cluster.shards["b"].replies = [STALE]
    write(cluster, "update", [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}])
    assert [len(shard.requests) for shard in cluster.shards.values()] == [2, 2]
    assert all("within" not in body for shard in cluster.shards.values() for _, body in shard.requests)


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
