"""Writes of one document done at once, against the general way."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.errors import Code
from docstore.node.commands import delete, insert, update
from tests.unit.node.local import LocalNode, loop, session

_INDEXES: tuple[dict[str, Any], ...] = (
    {"key": {"a": 1}, "name": "a"},
    {"key": {"b": 1, "a.x": -1}, "name": "b_ax", "sparse": True},
    {"key": {"u": 1}, "name": "u", "unique": True, "partialFilterExpression": {"u": {"$exists": True}}},
    {"key": {"c": "hashed"}, "name": "c"},
    {"key": {"$**": 1}, "name": "all"},
    {"key": {"d": 1}, "name": "d", "collation": {"locale": "en", "strength": 2}},
    {"key": {"d": 1}, "name": "part", "partialFilterExpression": {"a": {"$gt": 3}}},
)
_VALUES: tuple[Any, ...] = (0, 1, 2, Int64(7), 2.5, "x", "X", {"x": 1}, {"x": "y"}, [], [1, 2], None, Int64(2**62))


def _value(rng: random.Random) -> Any:
    return rng.choice(_VALUES)


def _command(rng: random.Random) -> dict[str, Any]:
    identity = rng.randrange(12)
    fields = {name: _value(rng) for name in rng.sample("abcdu", rng.randrange(1, 4))}
    kind = rng.randrange(6)
    if kind < 2:
        return {"insert": "c", "documents": [{"_id": identity, **fields}]}
    if kind == 2:
        return {"delete": "c", "deletes": [{"q": {"_id": identity}, "limit": 1}]}
    statement: dict[str, Any] = {"q": {"_id": identity}, "u": {"$set": fields}}
    if kind == 4:
        statement["u"] = {"$inc": {rng.choice("abdu"): rng.choice((1, 2.5, Int64(2**62)))}}
    statement |= rng.choice(({}, {"multi": False}, {"multi": False, "upsert": False}, {"upsert": True}))
    return {"update": "c", "updates": [statement]}


def _comparable(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reply.items() if name not in ("opTime", "electionId")}


async def _state(node: LocalNode) -> dict[str, Any]:
    store = node.node.store
    found = store.collection("test.c")
    assert found is not None
    report = store.validate(found)
    assert report.valid, report.errors
    return {"documents": await node.documents("c"), "count": found.count, "size": found.size}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("replicated", [False, True])
def test_what_is_done_at_once_is_what_the_general_way_does(
    seed: int, replicated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        rng = random.Random(seed)
        quick, general = LocalNode(replicated=replicated), LocalNode(replicated=replicated)
        indexes = rng.sample(_INDEXES, 4)
        for node in (quick, general):
            await node.run({"createIndexes": "c", "indexes": indexes})
        for number in range(150):
            command = _command(rng)
            if replicated and rng.random() < 0.7:
                command |= session(rng.randrange(3), number // 2)
            replies = [await quick.reply(command)]
            with monkeypatch.context() as patch:
                for module, name in ((insert, "insert_one"), (update, "update_one"), (delete, "delete_one")):
                    patch.setattr(module, name, lambda *_: None)
                replies.append(await general.reply(command))
            assert _comparable(replies[0]) == _comparable(replies[1]), command
        assert await _state(quick) == await _state(general)
        oplogs = [node.node.store.oplog for node in (quick, general)]
        if replicated:
            assert oplogs[0] is not None
            assert oplogs[1] is not None
            assert (oplogs[0].count, oplogs[0].size) == (oplogs[1].count, oplogs[1].size)

    loop(work())


def test_a_statement_sent_again_is_not_done_again() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"insert": "c", "documents": [{"_id": 1, "n": 0}]})
        command = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}], **session()}
        assert "retriedStmtIds" not in await node.run(command)
        assert (await node.run(command))["retriedStmtIds"] == [0]
        assert await node.documents("c") == [{"_id": 1, "n": 1}]

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"insert": "c", "documents": [{"_id": 2}]},
        {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
        {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    ],
)
def test_what_cannot_be_acknowledged_is_not_done(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        assert (await node.reply({**command, "writeConcern": {"w": 2}}))["code"] == Code.BadValue
        assert await node.documents("c") == [{"_id": 1}]

    loop(work())
