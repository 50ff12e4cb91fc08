"""What clients of 2012 send: the group command and eval; and a server that runs no JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymongo
import pytest
from bson.code import Code
from pymongo.errors import OperationFailure

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster

Database = pymongo.database.Database[dict[str, Any]]
COUNT = Code("function (document, result) { result.n++ }")
FUNCTION = {"$function": {"body": "function () { return 1 }", "args": [], "lang": "js"}}
ACCUMULATOR = {
    "$accumulator": {
        "init": "function () { return 0 }", "accumulate": "function (s) { return s }", "accumulateArgs": [],
        "merge": "function (a, b) { return a }", "lang": "js",
    }
}  # fmt: skip


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = ForkedDeployment(tmp_path_factory.mktemp("classic"))
    with stopped_at_end(deployment):
        deployment.start(Member("node", "mongod", []), Member("quiet", "mongod", ["--noscripting"]))
        yield deployment


@pytest.fixture
def database(deployment: Deployment) -> Iterator[Database]:
    with closing(pymongo.MongoClient("127.0.0.1", deployment.members["node"].port, directConnection=True)) as client:
        yield client.test


@pytest.fixture
def quiet(deployment: Deployment) -> Iterator[Database]:
    with closing(pymongo.MongoClient("127.0.0.1", deployment.members["quiet"].port, directConnection=True)) as client:
        client.test.t.replace_one({"_id": 1}, {"n": 1}, upsert=True)
        yield client.test


@pytest.fixture
def numbers(database: Database) -> Database:
    database.numbers.drop()
    database.numbers.insert_many([{"_id": n, "n": n, "k": {"third": n % 3}} for n in range(30)])
    database.numbers.insert_one({"_id": 30, "n": 30})
    return database


def grouped(database: Database, **fields: Any) -> dict[str, Any]:
    given = {"ns": "numbers", "$reduce": COUNT, "initial": {"n": 0}, **fields}
    reply: dict[str, Any] = database.command("group", given)
    return reply


def test_documents_are_folded_into_a_result_for_each_key(numbers: Database) -> None:
    reply = grouped(numbers, key={"k.third": 1})
    assert reply["retval"] == [{"k.third": third, "n": 10.0} for third in (0, 1, 2)] + [{"k.third": None, "n": 1.0}]
    assert (reply["count"], reply["keys"]) == (31, 4)


def test_only_documents_that_meet_the_condition_count(numbers: Database) -> None:
    reply = grouped(numbers, key={"k": 1}, cond={"n": {"$lt": 4}})
    assert [row["n"] for row in reply["retval"]] == [2.0, 1.0, 1.0]
    assert (reply["count"], reply["keys"]) == (4, 3)
    assert grouped(numbers, key={"k": 1}, cond={"$where": "this.n < 4"})["count"] == 4


def test_a_function_may_give_the_key_and_another_the_result(numbers: Database) -> None:
    reply = grouped(
        numbers,
        **{"$keyf": "function (document) { return { even: document.n % 2 == 0 } }"},
        finalize="function (result) { result.tenth = result.n / 10 }",
    )
    assert reply["retval"] == [{"even": True, "n": 16.0, "tenth": 1.6}, {"even": False, "n": 15.0, "tenth": 1.5}]
    reply = grouped(numbers, key={"none": 1}, finalize="function (result) { return result.n }")
    assert reply["retval"] == [31.0]


def test_a_scope_of_the_reduce_function_is_seen(numbers: Database) -> None:
    add = Code("function (document, result) { result.n += step }", {"step": 5})
    assert grouped(numbers, key={"none": 1}, **{"$reduce": add})["retval"] == [{"none": None, "n": 155.0}]


def test_nothing_gives_no_results(numbers: Database) -> None:
    reply = grouped(numbers, ns="nowhere", key={"n": 1})
    assert (reply["retval"], reply["count"], reply["keys"]) == ([], 0, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 2),
        ({"key": {"n": 1}, "$keyf": "function () {}"}, 2),
        ({"key": {"n": 1}, "$reduce": 5}, 2),
        ({"key": {"n": 1}, "initial": 5}, 14),
        ({"key": {"n": 1}, "more": 1}, 40415),
        ({"$keyf": "function () { return 1 }"}, 10042),
        ({"key": {"n": 1}, "$reduce": "function () { throw new Error('no') }"}, 139),
        ({"key": {"n": 1}, "finalize": "function () { nothing }"}, 139),
    ],
)
def test_wrong_groups_are_refused(numbers: Database, fields: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as error:
        grouped(numbers, **fields)
    assert error.value.code == code


def test_there_is_a_limit_to_the_keys_of_a_group(database: Database) -> None:
    database.many.insert_many([{"_id": n} for n in range(20_001)])
    with pytest.raises(OperationFailure) as error:
        grouped(database, ns="many", key={"_id": 1})
    assert error.value.code == 10043


def test_eval_is_off_until_a_parameter_allows_it(database: Database) -> None:
    add = Code("function (a, b) { return a + b }")
    with pytest.raises(OperationFailure) as error:
        database.command("eval", add, args=[1, 2])
    assert error.value.code == 115
    database.client.admin.command("setParameter", 1, enableEval=True)
    assert database.command("eval", add, args=[1, 2])["retval"] == 3.0
    assert database.command("$eval", Code("return 'x'"))["retval"] == "x"
    database["system.js"].replace_one({"_id": "twice"}, {"value": Code("function (n) { return 2 * n }")}, upsert=True)
    assert database.command("eval", "twice(4)")["retval"] == 8.0
    with pytest.raises(OperationFailure) as error:
        database.command("eval", Code("function () { throw new Error('no') }"))
    assert error.value.code == 139
    database.client.admin.command("setParameter", 1, enableEval=False)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"find": "t", "filter": {"$where": "true"}}, 6108304),
        ({"find": "nothere", "filter": {"$where": "true"}}, 6108304),
        ({"find": "t", "filter": {"$where": 5}}, 2),
        ({"count": "t", "query": {"$where": "true"}}, 6108304),
        ({"distinct": "t", "key": "n", "query": {"$where": "true"}}, 6108304),
        ({"findAndModify": "t", "query": {"$where": "true"}, "remove": True}, 6108304),
        ({"explain": {"find": "t", "filter": {"$where": "true"}}}, 6108304),
        ({"find": "t", "filter": {"$expr": FUNCTION}}, 31264),
        ({"find": "t", "projection": {"v": FUNCTION}}, 31264),
        ({"aggregate": "t", "pipeline": [{"$project": {"v": FUNCTION}}], "cursor": {}}, 31264),
        ({"aggregate": "t", "pipeline": [{"$group": {"_id": 1, "v": ACCUMULATOR}}], "cursor": {}}, 31264),
        ({"mapReduce": "t", "map": "emit(1, 1)", "reduce": "return 1", "out": {"inline": 1}}, 31264),
        ({"mapReduce": "t", "map": 5, "reduce": "return 1", "out": {"inline": 1}}, 2),
        ({"group": {"ns": "t", "key": {"n": 1}, "$reduce": COUNT, "initial": {}}}, 31264),
    ],
)
def test_a_server_without_scripting_refuses_what_needs_it(quiet: Database, command: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as error:
        quiet.command(command)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"update": "t", "updates": [{"q": {"$where": "true"}, "u": {"$set": {"a": 1}}}]}, 6108304),
        ({"delete": "t", "deletes": [{"q": {"$where": "true"}, "limit": 1}]}, 6108304),
        ({"update": "t", "updates": [{"q": {}, "u": [{"$set": {"a": FUNCTION}}]}]}, 31264),
    ],
)
def test_a_server_without_scripting_refuses_statements_that_need_it(
    quiet: Database, command: dict[str, Any], code: int
) -> None:
    assert [error["code"] for error in quiet.command(command)["writeErrors"]] == [code]
    assert quiet.t.count_documents({}) == 1
