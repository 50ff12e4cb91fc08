"""The fail point `onPrimaryTransactionalWrite`: entered once for each unit that a retryable write writes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import bson
import pytest

from docstore.bson import from_python
from docstore.commands.dispatch import Dispatcher
from docstore.commands.fail_points.registry import WRITE, FailPoints
from tests.unit.node.local import LocalNode, loop, session

INSERT = {"insert": "c", "documents": [{"_id": n} for n in range(4)]}
UPDATE = {"update": "c", "updates": [{"q": {"_id": 100 + n}, "u": {"$inc": {"a": 1}}} for n in range(4)]}
IDLE_UPDATE = {
    "update": "c",
    "updates": [{"q": {"_id": n}, "u": {"$set": {"a": value}}} for n, value in ((100, 0), (999, 0), (101, 7))],
}
DELETE = {"delete": "c", "deletes": [{"q": {"_id": 100 + n}, "limit": 1} for n in range(4)]}


def failing_node(points: FailPoints, closed: list[int]) -> LocalNode:
    node = LocalNode(replicated=True)
    points.watch_writes = partial(setattr, node.node.store.sessions, "before_write")
    node.peer.hang_up = lambda: closed.append(node.peer.id)
    node.dispatcher = Dispatcher(replace(node.services, fail_points=points))
    return node


def configure(points: FailPoints, mode: Any, **data: Any) -> None:
    points.configure(WRITE, from_python(mode), bson.encode(data))


@pytest.mark.parametrize(
    ("command", "skip", "done", "failed"),
    [
        (INSERT, 0, 0, 0), (INSERT, 1, 4, None),
        (UPDATE, 0, 0, 0), (UPDATE, 1, 1, 1), (UPDATE, 3, 3, 3), (UPDATE, 4, 4, None), (IDLE_UPDATE, 1, 2, None),
        (DELETE, 2, 2, 2), (DELETE, 4, 4, None),
    ],
)  # fmt: skip
def test_the_statement_of_a_refused_unit_fails_and_those_before_stand(
    command: dict[str, Any], skip: int, done: int, failed: int | None
) -> None:
    async def work() -> None:
        points = FailPoints(asyncio.sleep, lambda: 0.5)
        closed: list[int] = []
        node = failing_node(points, closed)
        await node.insert("c", *({"_id": 100 + n, "a": 0} for n in range(4)))
        configure(points, {"skip": skip}, failBeforeCommitExceptionCode=1, closeConnection=False)
        reply = await node.reply({**command, **session()})
        assert reply["n"] == done
        assert [(each["index"], each["code"]) for each in reply.get("writeErrors", ())] == (
            [] if failed is None else [(failed, 1)]
        )
        configure(points, "off")
        again = await node.reply({**command, **session()})
        assert "writeErrors" not in again
        assert len(again.get("retriedStmtIds", ())) == (done if command is not IDLE_UPDATE else 1)
        assert not closed

    loop(work())


@pytest.mark.parametrize("code", [None, 1])
def test_the_connection_is_closed_where_the_point_was_entered(code: int | None) -> None:
    async def work() -> None:
        points = FailPoints(asyncio.sleep, lambda: 0.5)
        closed: list[int] = []
        node = failing_node(points, closed)
        await node.insert("c", {"_id": 1})
        refused = {} if code is None else {"failBeforeCommitExceptionCode": code}
        configure(points, {"times": 1}, **refused)
        change = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"a": 1}}}
        await node.reply({**change, "query": {"_id": 2}, **session()})
        assert not closed
        await node.reply({**change, **session(txn=2)})
        assert closed
        (document,) = await node.documents("c")
        assert ("a" in document) == (code is None)

    loop(work())
