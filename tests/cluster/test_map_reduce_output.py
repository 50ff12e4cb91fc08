"""The output of a map-reduce is complete or absent: kill -9 while it is written, targets that are sharded."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson.code import Code
from pymongo.errors import OperationFailure, PyMongoError

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

DOCUMENTS = 4000
NOTES = "mapReduceOutputs"
EACH = {"map": "function () { emit(this._id, this.n) }", "reduce": "function (k, v) { return Array.sum(v) }"}

Client = pymongo.MongoClient[dict[str, Any]]
OLD = {"value": 1000}
OUTCOMES = {
    "replace": ({"old": 1000, 1: 1000}, {n: n for n in range(DOCUMENTS)}),
    "merge": ({"old": 1000, 1: 1000}, {"old": 1000, **{n: n for n in range(DOCUMENTS)}}),
    "reduce": ({"old": 1000, 1: 1000}, {"old": 1000, **{n: n for n in range(DOCUMENTS)}, 1: 1001}),
}


def connected(member: Member) -> Client:
    # A client of a node that was killed looks for it once more when it is closed.
    return pymongo.MongoClient(
        "127.0.0.1", member.port, directConnection=True, retryReads=False, serverSelectionTimeoutMS=1000
    )


def writable(client: Client) -> Callable[[], bool]:
    return lambda: bool(client.admin.command("hello")["isWritablePrimary"])


@pytest.fixture(scope="module", params=["standalone", "set"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with stopped_at_end(ForkedDeployment(tmp_path_factory.mktemp("output"))) as deployment:
        node = Member("node", "mongod", ["--replSet", "rs"] if request.param == "set" else [])
        deployment.start(node)
        with connected(node) as client:
            if request.param == "set":
                client.admin.command("replSetInitiate", {"_id": "rs", "members": [{"_id": 0, "host": node.address}]})
                wait_until(writable(client), 30)
            client.test.source.insert_many([{"_id": n, "n": n} for n in range(DOCUMENTS)])
        yield deployment


@pytest.mark.parametrize("moment", ["filling", "merging"])
@pytest.mark.parametrize("mode", ["replace", "merge", "reduce"])
def test_a_killed_node_comes_back_with_all_of_the_output_or_none(
    deployment: Deployment, mode: str, moment: str
) -> None:
    node = deployment.members["node"]
    before, after = OUTCOMES[mode]
    with connected(node) as client:
        client.test.out.drop()
        client.test.out.insert_many([{"_id": "old", **OLD}, {"_id": 1, **OLD}])

        def run() -> None:
            with contextlib.suppress(PyMongoError):
                client.test.command("mapReduce", "source", **EACH, out={mode: "out"})

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and not begun(client, moment):
            pass
        deployment.kill("node")
        thread.join(30)
        # Closed while nobody listens, a client looks for its node in vain.
        deployment.restart("node")
        with connected(node) as again:
            wait_until(writable(again), 30)
            wait_until(lambda: not begun(again, "filling"), 30)
            found = {row["_id"]: row["value"] for row in again.test.out.find()}
            assert found in (before, after)
            assert NOTES not in again.config.list_collection_names()


def begun(client: Client, moment: str) -> bool:
    """Whether there are temporary collections, or one that is being merged."""
    if moment == "merging":
        return NOTES in client.config.list_collection_names()
    return any(name.startswith("tmp.mr.") for name in client.test.list_collection_names())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    arguments = ["--setParameter", "enableTestCommands=1"]
    with routed_cluster(tmp_path_factory.mktemp("routed"), arguments=arguments) as cluster:
        source = cluster.shard("source", {"n": 1})
        cluster.split_and_move("source", {"n": 500})
        source.insert_many([{"_id": n, "n": n} for n in range(1000)])
        yield cluster


def values(cluster: Cluster, collection: str) -> dict[Any, Any]:
    return {row["_id"]: row["value"] for row in cluster.client.test[collection].find()}


THIRDS = EACH | {"map": "function () { emit(this.n % 3, 1) }"}
COUNTS = {0: 334.0, 1: 333.0, 2: 333.0}


def test_a_sharded_target_takes_merged_and_reduced_results(cluster: Cluster) -> None:
    out = cluster.shard("spread", {"_id": 1})
    cluster.split_and_move("spread", {"_id": 1})
    out.insert_many([{"_id": 0, "value": 1000.0, "more": 1}, {"_id": 9, "value": 1.0}])
    for mode, first in (("merge", 334.0), ("reduce", 668.0)):
        reply = cluster.client.test.command("mapReduce", "source", **THIRDS, out={mode: "spread", "sharded": True})
        assert reply["result"] == "spread"
        times = first / 334
        assert values(cluster, "spread") == {9: 1.0, **{key: times * count for key, count in COUNTS.items()}}


def test_other_sharded_targets_are_refused(cluster: Cluster) -> None:
    cluster.shard("by_other", {"other": 1})
    cluster.shard("by_id", {"_id": 1})
    for out, code in (({"merge": "by_other"}, 31313), ({"replace": "by_id"}, 28769), ("by_id", 28769)):
        with pytest.raises(OperationFailure) as error:
            cluster.client.test.command("mapReduce", "source", **THIRDS, out=out)
        assert error.value.code == code
    with pytest.raises(OperationFailure) as error:
        cluster.client.test.command("mapReduce", "source", **THIRDS, out={"merge": "nowhere", "sharded": True})
    assert error.value.code == 72


def test_more_results_than_a_message_holds_pass_through_a_router(cluster: Cluster) -> None:
    large = EACH | {"map": "function () { emit(this.n, 'x'.repeat(60000)) }"}
    reply = cluster.client.test.command("mapReduce", "source", **large, out="large")
    assert reply["counts"]["output"] == 1000
    sizes = cluster.client.test.large.aggregate([{"$group": {"_id": {"$strLenBytes": "$value"}, "n": {"$sum": 1}}}])
    assert list(sizes) == [{"_id": 60000, "n": 1000}]
    with pytest.raises(OperationFailure) as error:
        cluster.client.test.command("mapReduce", "source", **large, out={"inline": 1})
    assert error.value.code == 10334
    assert not [name for name in cluster.client.test.list_collection_names() if name.startswith("tmp.mr")]


def test_a_collation_holds_across_shards(cluster: Cluster) -> None:
    letters = EACH | {"map": "function () { emit(this.n % 2 || this.n > 500 ? 'a' : 'A', 1) }"}
    rules = {"locale": "en", "strength": 2}
    reply = cluster.client.test.command("mapReduce", "source", **letters, out={"inline": 1}, collation=rules)
    assert [row["value"] for row in reply["results"]] == [1000.0]


def random_options(rng: random.Random) -> dict[str, Any]:
    """Options of a map-reduce over documents with `n`, `m` and `s`, whose results they determine."""
    sort = rng.choice([{"n": 1}, {"n": -1}, {"m": 1, "n": -1}, {"s": -1, "n": 1}])
    options: dict[str, Any] = {"sort": sort, "limit": rng.choice([1, 3, 20, 499, 5000])} if rng.random() < 0.7 else {}
    if rng.random() < 0.5:
        options["query"] = rng.choice([{"n": {"$gte": 480}}, {"m": 3}, {"n": {"$lt": 100}}, {"n": 505}, {"n": -1}])
    if rng.random() < 0.4:
        options["finalize"] = "function (k, v) { return {v: v, more: more} }"
        options["scope"] = {"more": rng.randrange(5)}
    if rng.random() < 0.3:
        options["collation"] = {"locale": "en", "strength": 2}
    if rng.random() < 0.2:
        options["jsMode"] = True
    return options


def test_every_option_means_on_two_shards_what_it_means_on_one(cluster: Cluster) -> None:
    database = cluster.client.test
    rows = [{"_id": n, "n": n, "m": n * 7 % 11, "s": "abABcC"[n % 6]} for n in range(1000)]
    cluster.shard("options", {"n": 1}).insert_many(rows)
    cluster.split_and_move("options", {"n": 500})
    database.options_alone.insert_many(rows)
    rng = random.Random(3)
    for number in range(30):
        options = random_options(rng)
        key = rng.choice(["this.m", "this.s", "this.n % 10", "1", "this.n"])
        command = {
            "map": f"function () {{ emit({key}, [this.n]) }}",
            "reduce": "function (k, v) { return [].concat.apply([], v).sort((a, b) => a - b) }",
        }
        outcomes = []
        for source in ("options", "options_alone"):
            out = {"inline": 1} if number % 3 else {rng.choice(["merge", "reduce", "replace"]): f"{source}_out"}
            reply = database.command("mapReduce", source, **command, **options, out=out)
            counts = {name: reply["counts"][name] for name in ("input", "emit", "output")}
            rows = reply["results"] if "results" in reply else list(database[f"{source}_out"].find())
            if "results" not in reply:
                database[f"{source}_out"].drop()
            # Of keys that are equal under a collation any may stand for the others.
            values = sorted(str(row["value"]) for row in rows)
            outcomes.append((counts, values, [] if "collation" in options else [row["_id"] for row in rows]))
        assert outcomes[0] == outcomes[1], (command, options)
    limited = EACH | {"map": "function () { emit(1, 1) }", "limit": 20, "out": {"inline": 1}}
    assert database.command("mapReduce", "options", **limited)["counts"]["input"] == 20


def test_stored_functions_are_seen_by_shards_and_router(cluster: Cluster) -> None:
    database = cluster.client.test
    database["system.js"].insert_one({"_id": "negative", "value": Code("function (x) { return -x }")})
    finished = THIRDS | {"finalize": "function (k, v) { return negative(v) }"}
    reply = database.command("mapReduce", "source", **finished, out={"inline": 1})
    assert {row["_id"]: -row["value"] for row in reply["results"]} == COUNTS


def test_nothing_is_left_of_a_router_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """What it had gathered goes when the shard starts anew."""
    shard = next(member for name, member in cluster.deployment.members.items() if name.startswith("one"))
    router = Member("victim", "mongos", [*cluster.deployment.members["router-0"].arguments])
    cluster.deployment.start(router)
    with connected(router) as client, connected(shard) as direct:

        def run() -> None:
            with contextlib.suppress(PyMongoError):
                client.test.command("mapReduce", "source", **EACH | {"map": MANY}, out="many")

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and not begun(direct, "filling"):
            pass
        cluster.deployment.kill("victim")
        thread.join(30)
    cluster.deployment.kill(shard.name)
    cluster.deployment.restart(shard.name)
    with connected(shard) as direct:
        wait_until(writable(direct), 30)
        wait_until(lambda: not begun(direct, "filling"), 30)
        assert "many" not in direct.test.list_collection_names()


MANY = "function () { for (var i = 0; i < 20; i++) emit(this.n + '.' + i, 1) }"


@pytest.mark.parametrize(
    "command",
    [
        {"aggregate": "source", "pipeline": [{"$out": "kept"}], "cursor": {}},
        {"mapReduce": "source", **EACH, "out": {"replace": "kept"}},
        {"mapReduce": "source", **EACH, "out": {"merge": "kept"}},
    ],
    ids=["out", "replace", "merge"],
)
def test_a_killed_router_leaves_no_temporary_collection_to_the_next_primary(
    cluster: Cluster, command: dict[str, Any]
) -> None:
    database, shard = cluster.client.test, cluster.deployment.members["one-0"]
    database.kept.drop()
    database.kept.insert_one({"_id": "old"})
    with connected(shard) as client:
        held = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": 60_000}
        client.admin.command(
            "configureFailPoint", "failCommand", mode="alwaysOn", data={**held, "failInternalCommands": True}
        )

    def run() -> None:
        with contextlib.suppress(PyMongoError):
            cluster.clients[1].test.command(command)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: temporary(cluster) != [], 30)
    cluster.deployment.kill("router-1")
    thread.join(30)
    cluster.deployment.kill("one-0")
    cluster.deployment.restart("one-0")
    cluster.deployment.restart("router-1")
    wait_until(lambda: temporary(cluster) == [], 30)
    assert list(database.kept.find()) == [{"_id": "old"}]


def temporary(cluster: Cluster) -> list[str]:
    """The temporary collections of results."""
    return [name for name in cluster.client.test.list_collection_names() if name.startswith("tmp.")]
