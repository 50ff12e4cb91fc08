"""Scripts that go wrong beside others that do not: right answers, right errors, and the memory comes back."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

Client = pymongo.MongoClient[dict[str, Any]]
POSTS = 5000
REDUCE = "function (key, values) { return Array.sum(values) }"
TAGS = {"map": "function () { for (var i in this.tags) emit(this.tags[i], 1) }", "reduce": REDUCE}
ENDLESS = {"map": "function () { while (true) {} }", "reduce": REDUCE}
GREEDY = {"map": "function () { var all = []; while (true) all.push({n: all.length}) }", "reduce": REDUCE}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    deployment = Deployment(tmp_path_factory.mktemp("beside"))
    with stopped_at_end(deployment):
        node = Member("node", "mongod", ["--setParameter", "jsHeapLimitMB=64"])
        deployment.start(node)
        with closing(connected(node)) as client:
            client.test.posts.insert_many([{"_id": n, "tags": [f"tag{n % 43}", f"tag{n % 7}"]} for n in range(POSTS)])
        yield node


def connected(node: Member) -> Client:
    return pymongo.MongoClient("127.0.0.1", node.port, directConnection=True, retryReads=False)


def tally() -> Counter[str]:
    return Counter(tag for n in range(POSTS) for tag in (f"tag{n % 43}", f"tag{n % 7}"))


def resident(pid: int) -> int:
    """Kilobytes that a process and its workers hold."""
    total = 0
    for each in (pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())):
        status = Path(f"/proc/{each}/status").read_text()
        total += int(status[status.index("VmRSS:") :].split(maxsplit=2)[1])
    return total


def code_of(client: Client, job: dict[str, Any], **rest: Any) -> int | None:
    with pytest.raises(OperationFailure) as error:
        client.test.command("mapReduce", "posts", **job, out={"inline": 1}, **rest)
    return error.value.code


def kill_when_running(client: Client, comment: str) -> None:
    found: list[dict[str, Any]] = []

    def running() -> bool:
        found[:] = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": comment}}])
        return bool(found)

    wait_until(running, 30)
    client.admin.command("killOp", op=found[0]["opid"])


def together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)


def test_eight_right_answers_beside_three_right_errors(node: Member) -> None:
    answers: list[dict[str, float]] = []
    codes: dict[str, int | None] = {}
    with closing(connected(node)) as client:

        def right() -> None:
            reply = client.test.command("mapReduce", "posts", **TAGS, out={"inline": 1})
            answers.append({row["_id"]: row["value"] for row in reply["results"]})

        def killed() -> None:
            codes["killed"] = code_of(client, ENDLESS, comment="to be killed")

        def late() -> None:
            codes["late"] = code_of(client, ENDLESS, maxTimeMS=300)

        def greedy() -> None:
            codes["greedy"] = code_of(client, GREEDY)

        together([right] * 8)
        before = resident(node.pid)
        answers.clear()
        together([killed, right, late, right, greedy, *[right] * 6, lambda: kill_when_running(client, "to be killed")])
        assert answers == [tally()] * 8
        assert (codes["killed"], codes["greedy"]) == (11601, 139)
        assert codes["late"] in (50, 11601)  # whether it waits for a worker or runs when its time is over
        wait_until(lambda: resident(node.pid) < before + 50_000, 30)


def test_an_operation_ends_with_the_connection_that_asked_for_it(node: Member) -> None:
    command = {"mapReduce": "posts", **ENDLESS, "out": "never", "comment": "left alone", "$db": "test"}
    body = bytes(5) + bson.encode(command)
    message = struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body
    with closing(connected(node)) as client:

        def running() -> bool:
            found = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": "left alone"}}])
            return bool(list(found))

        with socket.create_connection(("127.0.0.1", node.port)) as asking:
            asking.sendall(message)
            wait_until(running, 30)
            assert client.test.command("ping")["ok"] == 1.0
        wait_until(lambda: not running(), 30)
        wait_until(lambda: client.test.list_collection_names() == ["posts"], 30)
        reply = client.test.command("mapReduce", "posts", **TAGS, out={"inline": 1})
        assert {row["_id"]: row["value"] for row in reply["results"]} == tally()


def test_the_limit_of_memory_is_a_parameter(node: Member) -> None:
    with closing(connected(node)) as client:
        assert client.admin.command("getParameter", 1, jsHeapLimitMB=1)["jsHeapLimitMB"] == 64
        client.admin.command("setParameter", 1, jsHeapLimitMB=32)
        assert code_of(client, GREEDY) == 139
        with pytest.raises(OperationFailure) as error:
            list(client.test.posts.find({"$where": "var all = []; while (true) all.push([1])"}))
        assert error.value.code == 139
        for wrong in (1, 5000, "much"):
            with pytest.raises(OperationFailure):
                client.admin.command("setParameter", 1, jsHeapLimitMB=wrong)
        client.admin.command("setParameter", 1, jsHeapLimitMB=64)


def test_the_time_of_a_script_in_a_filter_or_an_expression_is_limited(node: Member) -> None:
    name, endless = "internalQueryJavaScriptFnTimeoutMillis", "function () { while (true) {} }"
    function = {"$function": {"body": endless, "args": [], "lang": "js"}}
    accumulator = {
        "init": "function () { return 0 }", "accumulate": endless, "accumulateArgs": ["$_id"],
        "merge": "function (a, b) { return a }", "lang": "js",
    }  # fmt: skip
    group = {"$group": {"_id": None, "r": {"$accumulator": accumulator}}}
    with closing(connected(node)) as client:
        assert client.admin.command("getParameter", 1, **{name: 1})[name] == 60_000
        client.admin.command("setParameter", 1, **{name: 200})
        for command in (
            {"find": "posts", "filter": {"$where": endless}},
            {"aggregate": "posts", "pipeline": [{"$project": {"r": function}}], "cursor": {}},
            {"aggregate": "posts", "pipeline": [group], "cursor": {}},
        ):
            with pytest.raises(OperationFailure) as error:
                client.test.command(command)
            assert error.value.code == 11601
        with pytest.raises(OperationFailure):
            client.admin.command("setParameter", 1, **{name: 0})
        client.admin.command("setParameter", 1, **{name: 60_000})
        assert len(list(client.test.posts.find({"$where": "this._id < 3"}))) == 3


def test_more_keys_than_fit_in_memory_go_to_disk(node: Member) -> None:
    many = {"map": "function () { for (var i = 0; i < 20; i++) emit(this._id * 20 + i, {n: 1, s: 'x'.repeat(400)}) }"}
    with closing(connected(node)) as client:
        reply = client.test.command("mapReduce", "posts", **many, reduce=REDUCE, out="many")
        assert reply["counts"]["output"] == client.test.many.count_documents({}) == 20 * POSTS
        client.test.many.drop()
