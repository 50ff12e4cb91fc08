"""What is large in a request is parsed in parts: between two of them a request may be killed, and others may run.

Work is counted in calls of functions, not in time: from one look of the supervision (`docstore.commands.supervision`)
to the next there are not many, however large the request is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from docstore.bson import allowance
from docstore.commands.supervision import SUPERVISION
from docstore.query.pausing import PAUSING
from tests.unit.node.local import LocalNode, loop

Command = dict[str, Any]

SMALL, LARGE = 1_500, 6_000
MAX_CALLS = 50_000
"""Between two looks: some 15 ms."""


def fields(count: int, value: Any = 1) -> Command:
    return {f"f{number}": value for number in range(count)}


def find(**options: Callable[[int], Any]) -> Callable[[int], Command]:
    return lambda count: {"find": "c", **{name: make(count) for name, make in options.items()}}


def stage(name: str, make: Callable[[int], Any]) -> Callable[[int], Command]:
    return lambda count: {"aggregate": "c", "pipeline": [{name: make(count)}], "cursor": {}}


def expression(name: str, make: Callable[[int], Any]) -> Callable[[int], Command]:
    return lambda count: {"find": "c", "filter": {"$expr": {name: make(count)}}}


def update(make: Callable[[int], Any]) -> Callable[[int], Command]:
    return lambda count: {"update": "c", "updates": [{"q": {"_id": -1}, "u": make(count)}]}


OUTPUT: dict[str, Any] = {"$sum": 1}
PARSERS: dict[str, Callable[[int], Command]] = {
    "projection": find(projection=fields),
    "projection that leaves out": find(projection=lambda count: fields(count, 0)),
    "projection that computes": find(projection=lambda count: fields(count, "$a")),
    "projection of paths": find(projection=lambda count: {f"a.f{number}": 1 for number in range(count)}),
    "filter": find(filter=fields),
    "filter of one path": find(filter=lambda count: {"$and": [{"a": number} for number in range(count)]}),
    "filter of $or": find(filter=lambda count: {"$or": [{"a": number, "b": 1} for number in range(count)]}),
    "filter of $elemMatch": find(filter=lambda count: {"a": {"$elemMatch": fields(count)}}),
    "filter of $jsonSchema": find(
        filter=lambda count: {"$jsonSchema": {"properties": fields(count, {"type": "string"})}}
    ),
    "let": find(let=fields),
    "let that computes": find(let=lambda count: fields(count, {"$add": [1, 2]})),
    "$expr of operands": expression("$and", lambda count: ["$a"] * count),
    "$expr of constants": expression("$add", lambda count: [1] * count),
    "$expr of a document": expression("$eq", lambda count: [fields(count, "$a"), 1]),
    "$expr of branches": expression("$switch", lambda count: {"branches": [{"case": "$a", "then": 1}] * count}),
    "$expr of variables": expression("$let", lambda count: {"vars": fields(count), "in": 1}),
    "$project": stage("$project", fields),
    "$set": stage("$set", lambda count: fields(count, "$a")),
    "$group of outputs": stage("$group", lambda count: {"_id": None, **fields(count, OUTPUT)}),
    "$group of a document": stage("$group", lambda count: {"_id": fields(count, "$a")}),
    "$bucket": stage("$bucket", lambda count: {"groupBy": "$a", "boundaries": list(range(count))}),
    "$bucketAuto": stage("$bucketAuto", lambda count: {"groupBy": "$a", "buckets": 2, "output": fields(count, OUTPUT)}),
    "$lookup": stage("$lookup", lambda count: {"from": "c", "let": fields(count), "pipeline": [], "as": "x"}),
    "$match": stage("$match", fields),
    "$merge": stage("$merge", lambda count: {"into": "x", "on": list(fields(count))}),
    "$setWindowFields": stage(
        "$setWindowFields", lambda count: {"sortBy": {"a": 1}, "output": fields(count, {"$sum": "$a"})}
    ),
    "stages": lambda count: {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}] * min(count, 1000), "cursor": {}},
    "update of fields": update(lambda count: {"$set": fields(count)}),
    "update that renames": update(lambda count: {"$rename": {f"f{number}": f"g{number}" for number in range(count)}}),
    "update by a pipeline": update(lambda count: [{"$set": fields(count, "$a")}]),
    "delete": lambda count: {"delete": "c", "deletes": [{"q": fields(count), "limit": 1}]},
    "count": lambda count: {"count": "c", "query": fields(count)},
    "distinct": lambda count: {"distinct": "c", "key": "a", "query": fields(count)},
    "findAndModify": lambda count: {"findAndModify": "c", "query": {"_id": -1}, "update": {"$set": fields(count)}},
    "rolesInfo": lambda count: {"rolesInfo": list(fields(count))},
    "usersInfo": lambda count: {"usersInfo": list(fields(count))},
}


class CallCounter:
    """`total` calls of functions, and the `longest` run of them between two looks that may end the request."""

    def __init__(self) -> None:
        self.total = self.longest = self._run = 0

    def profile(self, _frame: object, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            self.total += 1
            self._run += 1
            self.longest = max(self.longest, self._run)

    def look(self, spent: int) -> None:
        if PAUSING.level:
            self._run = 0
        SUPERVISION.look(spent)


async def counted(command: Command) -> CallCounter:
    node = LocalNode()
    await node.insert("c", {"_id": 1, "a": 1})
    counter = CallCounter()
    allowance.install(counter.look)
    sys.setprofile(counter.profile)
    try:
        reply = await node.reply(command)
    finally:
        sys.setprofile(None)
        allowance.install(SUPERVISION.look)
    assert reply.get("code") not in (1, 8), reply
    return counter


@pytest.mark.parametrize("name", PARSERS)
def test_a_large_request_is_parsed_in_parts(name: str) -> None:
    async def work() -> None:
        small, large = [await counted(PARSERS[name](count)) for count in (SMALL, LARGE)]
        assert large.longest <= MAX_CALLS, (small.longest, large.longest, large.total)
        assert large.total <= small.total * 1.3 * LARGE / SMALL, (small.total, large.total)

    loop(work())
