"""Users' JavaScript in filters and expressions of one node, driven by the stock driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from bson.code import Code
from pymongo.errors import OperationFailure

from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster

Client = pymongo.MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    deployment = ForkedDeployment(tmp_path_factory.mktemp("scripts"))
    with stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        yield node


@pytest.fixture
def client(member: Member) -> Iterator[Client]:
    with pymongo.MongoClient("127.0.0.1", member.port, directConnection=True) as client:
        yield client


@pytest.fixture
def numbers(client: Client) -> Any:
    collection = client.scripts.numbers
    collection.drop()
    collection.insert_many([{"_id": n, "n": n, "text": "x" * (n % 7)} for n in range(1000)])
    return collection


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"$where": "this.n > 997"}, [998, 999]),
        ({"$where": "return obj.n > 997;"}, [998, 999]),
        ({"$where": Code("function () { return this.n < 2 }")}, [0, 1]),
        ({"n": {"$gte": 5, "$lt": 9}, "$where": "this.n % 2 == 0"}, [6, 8]),
        ({"$or": [{"n": 3}, {"$where": "this.n == 5"}]}, [3, 5]),
        ({"$nor": [{"n": {"$gt": 1}}, {"$where": "this.n == 0"}]}, [1]),
        ({"$or": [{"n": {"$gte": 0}}, {"$where": "throw 1"}], "n": 4}, [4]),
    ],
)
def test_a_script_decides_which_documents_match(numbers: Any, condition: dict[str, Any], found: list[int]) -> None:
    assert [each["_id"] for each in numbers.find(condition)] == found


def test_a_script_serves_every_command_that_has_a_filter(numbers: Any) -> None:
    last = {"$where": "this.n >= 990"}
    database = numbers.database
    assert database.command("count", "numbers", query=last)["n"] == 10
    assert numbers.distinct("n", last) == list(range(990, 1000))
    assert numbers.update_many(last, {"$set": {"seen": True}}).modified_count == 10
    assert numbers.find_one_and_update(last, {"$inc": {"n": 1}}, sort=[("n", -1)])["_id"] == 999
    assert numbers.delete_many({"$where": "this.seen"}).deleted_count == 10
    assert numbers.delete_one({"$where": "this.n == 5"}).deleted_count == 1
    assert numbers.update_one({"$where": "this.n == -1", "_id": 5000}, {"$set": {"n": 1}}, upsert=True).upserted_id


def test_a_cursor_goes_on_asking_the_script(numbers: Any) -> None:
    found = numbers.find({"$where": "this.n % 2"}, batch_size=7)
    assert [each["_id"] for each in found] == list(range(1, 1000, 2))


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"$where": "throw new Error('no')"}, 139),
        ({"$where": "nothing.here"}, 139),
        ({"$where": "this.n +"}, 139),
        ({"$where": "throw 5"}, 8),
        ({"$where": Code("this.n == m", {"m": 1})}, 4649201),
        ({"$where": 5}, 2),
        ({"$where": ""}, 2),
        ({"n": {"$elemMatch": {"$where": "1"}}}, 2),
    ],
)
def test_what_is_wrong_with_a_script_is_said(numbers: Any, condition: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as error:
        list(numbers.find(condition))
    assert error.value.code == code


@pytest.mark.parametrize(
    "endless", ["while (true) {}", "(function f() { Promise.resolve().then(f) })()", "var a = []; for (;;) a.push([a])"]
)
def test_an_endless_script_ends_with_its_time_and_harms_nobody(numbers: Any, endless: str) -> None:
    with pytest.raises(OperationFailure) as error:
        list(numbers.find({"$where": f"function () {{ {endless}; return true }}"}, max_time_ms=200))
    assert error.value.code == 50
    assert numbers.count_documents({}) == 1000
    assert len(list(numbers.find({"$where": "this.n < 3"}))) == 3


def test_a_script_leaves_nothing_to_the_next_one(numbers: Any) -> None:
    spoiled = "function () { Array.prototype.push = null; Object.prototype.n = 1; left = 1; return this.n < 2 }"
    list(numbers.find({"$where": spoiled}))
    clean = "function () { return typeof left == 'undefined' && ({}).n === undefined && [].push && this.n < 2 }"
    assert [each["_id"] for each in numbers.find({"$where": clean})] == [0, 1]


def test_an_operation_is_killed_in_its_script(client: Client, numbers: Any) -> None:
    codes: list[int | None] = []

    def search() -> None:
        with pytest.raises(OperationFailure) as error:
            list(numbers.find({"$where": "while (true) {}"}, comment="endless"))
        codes.append(error.value.code)

    thread = threading.Thread(target=search)
    thread.start()
    found: list[dict[str, Any]] = []
    while not found:
        found = list(client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": "endless"}}]))
    client.admin.command("killOp", op=found[0]["opid"])
    thread.join(10)
    assert codes == [11601]


DOUBLE = {"$function": {"body": "function (n) { return n * 2 }", "args": ["$n"], "lang": "js"}}
TOTAL = {
    "init": "function (start) { return start || 0 }",
    "accumulate": "function (state, n) { return state + n }",
    "accumulateArgs": ["$n"],
    "merge": "function (one, other) { return one + other }",
    "lang": "js",
}


def test_a_function_computes_a_value_wherever_expressions_stand(numbers: Any) -> None:
    doubled = list(numbers.aggregate([{"$match": {"n": {"$lt": 3}}}, {"$project": {"v": DOUBLE}}]))
    assert doubled == [{"_id": n, "v": 2.0 * n} for n in range(3)]
    equal = {"$expr": {"$eq": [DOUBLE, 8]}}
    assert [each["_id"] for each in numbers.find(equal)] == [4]
    assert [each["_id"] for each in numbers.aggregate([{"$skip": 1}, {"$match": equal}])] == [4]
    assert numbers.update_many({"n": {"$lt": 2}}, [{"$set": {"twice": DOUBLE}}]).modified_count == 2
    assert numbers.find_one({"_id": 1}, {"v": DOUBLE}) == {"_id": 1, "v": 2.0}
    mapped = {"$map": {"input": [1, 2], "in": {"$function": {**DOUBLE["$function"], "args": ["$$this"]}}}}
    assert numbers.aggregate([{"$limit": 1}, {"$project": {"v": mapped}}]).next()["v"] == [2.0, 4.0]


def test_a_cursor_over_a_pipeline_goes_on_calling_the_function(numbers: Any) -> None:
    found = numbers.aggregate([{"$project": {"v": DOUBLE}}], batchSize=10)
    assert [each["v"] for each in found] == [2.0 * n for n in range(1000)]


def test_an_accumulator_of_functions_keeps_its_state(numbers: Any) -> None:
    parity = {"$mod": ["$n", 2]}
    rows = numbers.aggregate([{"$group": {"_id": parity, "v": {"$accumulator": TOTAL}}}, {"$sort": {"_id": 1}}])
    assert list(rows) == [{"_id": 0, "v": 249500.0}, {"_id": 1, "v": 250000.0}]
    finished = {**TOTAL, "init": "function (k) { return k * 1000 }", "initArgs": ["$k"], "finalize": "s => ({ s })"}
    key = {"k": {"$mod": ["$n", 3]}}
    rows = numbers.aggregate([{"$match": {"n": {"$lt": 3}}}, {"$group": {"_id": key, "v": {"$accumulator": finished}}}])
    assert sorted(each["v"]["s"] for each in rows) == [0.0, 1001.0, 2002.0]


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$match": {"$where": "1"}}, 2),
        ({"$project": {"v": {"$function": {"body": "function () { throw 1 }", "args": [], "lang": "js"}}}}, 8),
        ({"$project": {"v": {"$function": {"body": "$text", "args": [], "lang": "js"}}}}, 31432),
        ({"$project": {"v": {"$function": {"body": "1", "args": 1, "lang": "js"}}}}, 31266),
        ({"$project": {"v": {"$accumulator": TOTAL}}}, 31325),
        ({"$group": {"_id": None, "v": {"$accumulator": {**TOTAL, "more": 1}}}}, 4544706),
        ({"$group": {"_id": None, "v": {"$accumulator": {**TOTAL, "accumulateArgs": 1}}}}, 4544712),
    ],
)
def test_what_is_wrong_with_a_function_is_said(numbers: Any, stage: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as error:
        list(numbers.aggregate([stage]))
    assert error.value.code == code


def test_writes_between_two_batches_of_a_search_are_seen(numbers: Any) -> None:
    """Two searches that change what both look for change each document once."""
    numbers.update_many({}, {"$set": {"turn": 0}})
    counted: list[int] = []

    def change() -> None:
        outcome = numbers.update_many({"$where": "this.turn == 0"}, {"$inc": {"turn": 1}})
        counted.append(outcome.modified_count)

    threads = [threading.Thread(target=change) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(counted) == 1000
    assert numbers.distinct("turn") == [1]


COUNT = {"map": "function () { emit(this.n % 3, 1) }", "reduce": "function (k, counts) { return Array.sum(counts) }"}


@pytest.mark.parametrize(
    ("mode", "first"), [("replace", 334.0), ("normal", 334.0), ("merge", 334.0), ("reduce", 1334.0)]
)
def test_results_are_put_into_a_collection_that_has_some(numbers: Any, mode: str, first: float) -> None:
    database = numbers.database
    database.drop_collection("counts")
    database.counts.insert_many([{"_id": 0, "value": 1000}, {"_id": 9, "value": 1}])
    assert database.command("mapReduce", "numbers", **COUNT, out={mode: "counts"})["result"] == "counts"
    found = {each["_id"]: each["value"] for each in database.counts.find()}
    kept = {9: 1} if mode in ("merge", "reduce") else {}
    assert found == {0: first, 1: 333.0, 2: 333.0, **kept}
    assert not [name for name in database.list_collection_names() if name.startswith("tmp.")]


def test_results_go_to_another_database(client: Client, numbers: Any) -> None:
    reply = numbers.database.command("mapReduce", "numbers", **COUNT, out={"merge": "counts", "db": "elsewhere"})
    assert reply["result"] == {"db": "elsewhere", "collection": "counts"}
    assert client.elsewhere.counts.count_documents({}) == 3


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"out": 1}, 2),
        ({"out": {"merge": "a", "replace": "b"}}, 2),
        ({"out": {"merge": "a", "more": 1}}, 2),
        ({"out": {"inline": 0}}, 2),
        ({"out": {"inline": 1, "db": "x"}}, 72),
        ({"out": {"merge": "a", "sharded": True}}, 72),
        ({"out": {"merge": "a", "nonAtomic": False}}, 2),
        ({"out": "system.a"}, 17385),
        ({"out": {"merge": ""}}, 73),
        ({"out": {"inline": 1}, "limit": 0}, 15958),
        ({"out": {"inline": 1}, "jsMode": 1}, 14),
        ({"out": {"inline": 1}, "scope": 1}, 2),
        ({"out": {"inline": 1}, "finalize": 1}, 2),
        ({"out": {"inline": 1}, "query": {"$where": "1"}}, 2),
    ],
)
def test_wrong_forms_of_a_map_reduce_are_refused(numbers: Any, more: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as error:
        numbers.database.command("mapReduce", "numbers", **(COUNT | more))
    assert error.value.code == code


def test_stored_functions_are_seen_by_filters_and_map_reduces(numbers: Any) -> None:
    database = numbers.database
    third = {"value": Code("function (n) { return n % 3 }")}
    database["system.js"].replace_one({"_id": "third"}, third, upsert=True)
    assert len(list(numbers.find({"$where": "third(this.n) == 0"}))) == 334
    grouped = COUNT | {"map": "function () { emit(third(this.n), 1) }"}
    assert len(database.command("mapReduce", "numbers", **grouped, out={"inline": 1})["results"]) == 3


ONE_MORE = [{"$set": {"n": {"$function": {"body": "function (n) { return n + 1 }", "args": ["$n"], "lang": "js"}}}}]


@pytest.mark.parametrize("filter_", [{"_id": 0}, {"text": "counter"}, {"$where": "this.text == 'counter'"}])
def test_updates_with_scripts_lose_nothing_that_others_write_meanwhile(client: Client, filter_: dict[str, Any]) -> None:
    counters = client.scripts.counters
    counters.drop()
    counters.insert_many([{"_id": 0, "n": 0, "text": "counter"}, {"_id": 1, "n": 0, "text": "another"}])
    failed: list[BaseException] = []

    def repeat(times: int, act: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            try:
                for _ in range(times):
                    act()
            except BaseException as error:
                failed.append(error)

        return run

    writers = [
        repeat(25, lambda: counters.update_one(filter_, ONE_MORE)),
        repeat(25, lambda: counters.update_many(filter_, ONE_MORE)),
        repeat(25, lambda: counters.find_one_and_update(filter_, ONE_MORE)),
        repeat(25, lambda: counters.update_one({"text": "made"}, ONE_MORE, upsert=True)),
        repeat(25, lambda: counters.update_one({"text": "made"}, {"$inc": {"n": 1}}, upsert=True)),
        repeat(200, lambda: counters.update_one({"_id": 0}, {"$inc": {"n": 1}})),
    ]
    threads = [threading.Thread(target=writer) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert counters.find_one({"_id": 0}) == {"_id": 0, "n": 275, "text": "counter"}
    assert counters.count_documents({"text": "made"}) == 1
