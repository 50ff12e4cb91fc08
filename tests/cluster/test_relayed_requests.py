"""Requests that a router relays, beside moves and over connections that break: each write is done once, or is not said
to have been done.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.errors import OperationFailure

from docstore.errors import Code
from tests.cluster.routed import Cluster, Writer, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
MIDDLE = 100
DOCUMENTS = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    arguments = ["--setParameter", "enableTestCommands=1"]
    with routed_cluster(tmp_path_factory.mktemp("relayed"), arguments=arguments) as cluster:
        cluster.client.admin.command("balancerStop")
        yield cluster


def spread(cluster: Cluster, name: str) -> pymongo.collection.Collection[dict[str, Any]]:
    """A collection by {k: 1}, the upper half of which is on shard two; both routers know it."""
    collection = cluster.shard(name, {"k": 1})
    collection.insert_many([{"_id": n, "k": n, "x": 0} for n in range(DOCUMENTS)])
    cluster.split_and_move(name, {"k": MIDDLE})
    for client in cluster.clients:
        for key in (0, MIDDLE):
            assert client.test[name].find_one({"k": key}) is not None
    return collection


@pytest.mark.parametrize("retryable", [False, True])
def test_each_write_is_done_once_beside_moves(cluster: Cluster, retryable: bool) -> None:
    name = f"moving_{retryable}".lower()
    spread(cluster, name)
    clients = [
        pymongo.MongoClient(f"127.0.0.1:{client.address[1]}", retryWrites=retryable)  # type: ignore[index]
        for client in cluster.clients
    ]
    updated: Counter[int] = Counter()
    modified: Counter[int] = Counter()

    def update(round_: int) -> None:
        key = MIDDLE - 20 + (round_ * 37) % 40
        result = clients[round_ % 2].test[name].update_one({"k": key}, {"$inc": {"x": 1}})
        assert (result.matched_count, result.modified_count) == (1, 1), key
        updated[key] += 1

    def modify(round_: int) -> None:
        key = MIDDLE - 20 + (round_ * 31) % 40
        collection = clients[round_ % 2].test[name]
        found = collection.find_one_and_update({"k": key}, {"$inc": {"y": 1}}, return_document=ReturnDocument.AFTER)
        modified[key] += 1
        assert found["y"] == modified[key], key

    def come_and_go(round_: int) -> None:
        collection = clients[round_ % 2].test[name]
        document = {"_id": f"n{round_}", "k": MIDDLE + 1000, "x": 0}
        collection.insert_one(document)
        assert collection.find_one({"k": MIDDLE + 1000}) == document
        assert collection.count_documents({"k": MIDDLE + 1000}) == 1
        assert collection.delete_one({"k": MIDDLE + 1000}).deleted_count == 1

    writers = [Writer(write) for write in (update, modify, come_and_go)]
    for writer in writers:
        writer.start()
    try:
        for to in ("one", "two") * 2:
            seen = [writer.rounds for writer in writers]
            wait_until(lambda seen=seen: all(w.rounds > s or w.failure for w, s in zip(writers, seen, strict=True)), 60)
            cluster.client.admin.command("moveChunk", f"test.{name}", find={"k": MIDDLE}, to=to)
    finally:
        for writer in writers:
            writer.finish()
        for client in clients:
            client.close()
    rows = list(cluster.client.test[name].find())
    assert len(rows) == DOCUMENTS
    assert {row["k"]: row["x"] for row in rows if row["x"]} == dict(updated)
    assert {row["k"]: row["y"] for row in rows if "y" in row} == dict(modified)


TXN_NUMBERS = itertools.count(1_000_000)
"""Above those of the driver, which uses its sessions again."""
KEY = MIDDLE + 5
"""Of a document that is on shard two."""
WRITES: dict[str, dict[str, Any]] = {
    "insert": {"documents": [{"_id": "new", "k": KEY + 0.5, "x": 1}]},
    "update": {"updates": [{"q": {"k": KEY}, "u": {"$inc": {"x": 1}}}]},
    "delete": {"deletes": [{"q": {"k": KEY}, "limit": 1}]},
    "findAndModify": {"query": {"k": KEY}, "update": {"$inc": {"x": 1}}, "new": True},
}
OTHERS: dict[str, dict[str, Any]] = {
    "insert": {"documents": [{"_id": 1, "k": KEY + 1}]},
    "update": {"updates": [{"q": {"k": KEY + 1}, "u": {"$inc": {"x": 1}}}]},
    "delete": {"deletes": [{"q": {"k": KEY + 1}, "limit": 1}]},
    "findAndModify": {"query": {"k": KEY + 1}, "update": {"$inc": {"x": 1}}, "new": True},
}
DONE = {"insert": [0, 1], "update": [1], "delete": [], "findAndModify": [1]}
UNDONE = {"insert": [0], "update": [0], "delete": [0], "findAndModify": [0]}


@contextmanager
def failing(cluster: Cluster, point: str, times: int, **data: Any) -> Iterator[Callable[[], int]]:
    """The next requests of routers meet a fail point of shard two; gives how many have."""
    with closing(pymongo.MongoClient(cluster.deployment.members["two-0"].address, directConnection=True)) as shard:

        def configure(mode: Any, **fields: Any) -> int:
            return int(shard.admin.command({"configureFailPoint": point, "mode": mode, **fields})["count"])

        before = configure({"times": times}, data=data)
        try:
            yield lambda: configure("off") - before
        finally:
            configure("off")


def prepared(cluster: Cluster, name: str, command: str) -> pymongo.collection.Collection[dict[str, Any]]:
    """The collection, by whose requests the router has connections that are idle, and knows this kind of request."""
    collection = spread(cluster, name)
    collection.delete_many({"k": {"$gt": MIDDLE, "$ne": KEY}})
    cluster.client.test.command({command: name, **OTHERS[command]})
    collection.delete_many({"k": {"$gt": MIDDLE, "$ne": KEY}})
    return collection


def asked(cluster: Cluster, name: str, command: str, *, retryable: bool) -> dict[str, Any]:
    """The reply to a write, errors included."""
    with cluster.client.start_session() as session:
        more = {"txnNumber": Int64(next(TXN_NUMBERS))} if retryable else {}
        try:
            return cluster.client.test.command({command: name, **WRITES[command], **more}, session=session)
        except OperationFailure as error:
            return dict(error.details or {})


def left(collection: pymongo.collection.Collection[dict[str, Any]]) -> list[int]:
    """What the documents that are written to hold."""
    return [row["x"] for row in collection.find({"k": {"$gt": MIDDLE}}).sort("k", 1)]


def check_success(command: str, reply: dict[str, Any]) -> None:
    assert reply["ok"] == 1
    if command == "findAndModify":
        assert reply["value"]["x"] == 1
    else:
        assert (reply["n"], reply.get("writeErrors")) == (1, None)


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("code", [Code.StaleConfig, Code.NotWritablePrimary])
@pytest.mark.parametrize("retryable", [False, True])
def test_a_write_that_a_shard_has_not_done_is_sent_again(
    cluster: Cluster, command: str, code: int, retryable: bool
) -> None:
    name = f"{command}_{int(code)}_{retryable}".lower()
    collection = prepared(cluster, name, command)
    with failing(
        cluster, "failCommand", 1, failCommands=[command], errorCode=int(code), failInternalCommands=True
    ) as met:
        check_success(command, asked(cluster, name, command, retryable=retryable))
        assert met() == 1
    assert left(collection) == DONE[command]


@pytest.mark.parametrize("command", WRITES)
def test_a_write_whose_connection_breaks_is_not_said_to_be_done(cluster: Cluster, command: str) -> None:
    name = f"{command}_broken".lower()
    collection = prepared(cluster, name, command)
    with failing(
        cluster, "failCommand", 1, failCommands=[command], closeConnection=True, failInternalCommands=True
    ) as met:
        reply = asked(cluster, name, command, retryable=False)
        assert met() == 1
    assert (reply["ok"], reply["code"], reply.get("errorLabels")) == (0, Code.HostUnreachable, None)
    assert left(collection) == UNDONE[command]


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("done", [False, True])
def test_a_retryable_write_whose_connection_breaks_is_done_once(cluster: Cluster, command: str, done: bool) -> None:
    name = f"{command}_retried_{done}".lower()
    collection = prepared(cluster, name, command)
    point, data = "failCommand", {"failCommands": [command], "closeConnection": True, "failInternalCommands": True}
    if done:
        point, data = "onPrimaryTransactionalWrite", {"closeConnection": True}
    with failing(cluster, point, 1, **data) as met:
        check_success(command, asked(cluster, name, command, retryable=True))
        assert met() == 1
    assert left(collection) == DONE[command]


@pytest.mark.parametrize("read", [{"find": "c", "filter": {"k": KEY}}, {"count": "c", "query": {"k": KEY}}])
def test_a_read_whose_connection_breaks_is_answered(cluster: Cluster, read: dict[str, Any]) -> None:
    (command, *_) = read
    name = f"{command}_reads"
    spread(cluster, name)
    read = {**read, command: name}
    expected = cluster.client.test.command(read)
    with failing(
        cluster, "failCommand", 1, failCommands=[command], closeConnection=True, failInternalCommands=True
    ) as met:
        reply = cluster.client.test.command(read)
        assert met() == 1
    for field in ("cursor", "n"):
        assert reply.get(field) == expected.get(field)
