"""Writes of one document done at once, against the general way."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.node.commands import delete, find_and_modify, insert, update
from docstore.node.write import modification
from docstore.node.write.delete import DeleteWork
from docstore.node.write.update import UpdateWork
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from tests.unit.node.local import LocalNode, loop, session
from tests.unit.node.scripted_shard_filter import ScriptedShardFilter

_INDEXES: tuple[dict[str, Any], ...] = (
    {"key": {"a": 1}, "name": "a"},
    {"key": {"b": 1, "a.x": -1}, "name": "b_ax", "sparse": True},
    {"key": {"u": 1}, "name": "u", "unique": True, "partialFilterExpression": {"u": {"$exists": True}}},
    {"key": {"c": "hashed"}, "name": "c"},
    {"key": {"$**": 1}, "name": "all"},
    {"key": {"a.x": 1}, "name": "inside"},
    {"key": {"b.x": 1, "b.y": -1}, "name": "insides"},
    {"key": {"d": 1}, "name": "d", "collation": {"locale": "en", "strength": 2}},
    {"key": {"d": 1}, "name": "part", "partialFilterExpression": {"a": {"$gt": 3}}},
)
_VALUES: tuple[Any, ...] = (0, 1, 2, Int64(7), 2.5, "x", "X", {"x": 1}, {"x": "y"}, [], [1, 2], None, Int64(2**62),
                             [{"x": 1, "y": [1, 2]}, {"x": 2}], [{"x": 2, "y": {"z": 1}}, 3, {"y": 1}])  # fmt: skip

_VALIDATORS: tuple[dict[str, Any], ...] = (
    {"validator": {"$jsonSchema": {"properties": {"a": {"bsonType": ["int", "double", "object"]}}, "required": ["k"]}}},
    {"validator": {"b": {"$ne": "x"}}, "validationLevel": "moderate"},
    {"validator": {"$expr": {"$ne": ["$a", "$$ROOT.b"]}}},
    {"validator": {"k": {"$exists": False}}, "validationAction": "warn"},
)


def _value(rng: random.Random) -> Any:
    return rng.choice(_VALUES)


OWNED: dict[str, Any] = {"_id": {"$not": {"$mod": [3, 0]}}}
AT_ONCE = (
    (insert, "insert_one"), (update, "update_one"), (delete, "delete_one"), (find_and_modify, "find_and_modify_one"),
)  # fmt: skip
VERSION = {"v": Timestamp(2, 1), "e": ObjectId(bytes(12))}


def _filter(rng: random.Random, identity: int) -> dict[str, Any]:
    """One that at most the document with that identity matches, by it or by its key."""
    return rng.choice(
        (
            {"_id": identity}, {"_id": identity}, {"k": identity}, {"k": {"$gt": identity - 1, "$lt": identity + 1}},
            {"k": identity, "a": _value(rng)}, {"k": float(identity), "b": {"$gte": 0}}, {"k": identity, "u": None},
            {"k": identity, "a": {"$in": [0, "x"]}}, {"k": identity, "d": {"$ne": "x"}}, {"k": {"$eq": identity}},
            {"k": identity, "a.x": 2}, {"_id": identity, "b.x": 2}, {"k": identity, "a": {"$elemMatch": {"x": 2}}},
        )
    )  # fmt: skip


def _command(rng: random.Random) -> dict[str, Any]:
    identity = rng.randrange(12)
    fields = {name: _value(rng) for name in rng.sample("abcdu", rng.randrange(1, 4))}
    kind = rng.randrange(8)
    if kind < 2:
        return {"insert": "c", "documents": [{"_id": identity, "k": identity, **fields}]}
    wanted = _filter(rng, identity)
    if kind == 2:
        return {"delete": "c", "deletes": [{"q": wanted, "limit": 1}]}
    if kind > 5:
        return _found_and_modified(rng, wanted, fields)
    statement: dict[str, Any] = {"q": wanted, "u": {"$set": fields}}
    if kind == 5:
        statement["u"] = rng.choice(
            (
                {"k": identity, **fields}, {"_id": identity, "k": identity}, {"k": identity}, {"$set": {"b.$": 1}},
                {"$push": {"b": rng.randrange(3)}}, {"$pull": {"a": {"$gt": 1}}}, {"$addToSet": {"a": 9}},
                {"$unset": {"a": 1, "b.x": 1}}, {"$set": {"b.x": 1, "a.1": 2}}, {"$max": {"a": 5}, "$min": {"b": 2}},
                {"$push": {"b": {"$each": [1, 2], "$slice": -3}}}, {"$pull": {"b": 1}}, {"$push": {"n": {"$each": []}}},
                {"$addToSet": {"b": {"$each": [1, 2.0, 5]}}, "$setOnInsert": {"s": 1}},
                {"$set": {"a.$.y": 3, "d": 2}}, {"$inc": {"b.$.x": 1}}, {"$set": {"b.$[].y": 2}},
                {"$set": {"a.0.y": rng.randrange(3)}}, {"$inc": {"c.x.y": 1}}, {"$push": {"a.$.y": 3}},
                {"$pop": {"b": -1}}, {"$pull": {"a": {"x": 1}}}, {"$mul": {"b": 2}}, {"$set": {"a.$[e].y": 4}},
                {"$push": {"a": {"$each": [{"x": 1}], "$position": 0}}},
                {"$setOnInsert": {"z": 1}}, {"$mul": {"a": "x"}}, {"$rename": {"a": "e"}}, {"$nonsense": 1},
                {"$set": {"_id": identity}}, {"$set": {"_id": 99}}, {"$inc": {"a.$": 1}}, {"$unset": {"a.$": 1}},
                {"$set": {"b.$[]": 3}}, {"$inc": {"b.$[e]": 1}}, {"$unset": {"a.$[e]": 1}},
                [{"$set": {"b": {"$add": [1, "$k"]}}}], [{"$unset": ["a", "b.x"]}], [{"$set": {"a.x": 1}}],
                [{"$replaceWith": {"k": "$k", "e": "$a"}}], [{"$set": {"e": {"$toInt": "$a"}}}], [{"$group": {}}],
                [{"$set": {"e": {"$eq": ["$$NOW", "$$NOW"]}}}], [{"$project": {"k": 1, "u": 1}}], [{"$set": 3}],
            )
        )  # fmt: skip
    if "$[e]" in str(statement["u"]) or rng.random() < 0.02:
        statement["arrayFilters"] = rng.choice(
            ([{"e": {"$gte": 1}}], [{"e.x": 2}], [{"e": 1}], [{"e": {"$gt": 1}}, {"x": 1}], [{"$or": [3]}])
        )
    if kind == 4:
        statement["u"] = {"$inc": {rng.choice("abdu"): rng.choice((1, 2.5, Int64(2**62)))}}
    statement |= rng.choice(({}, {"multi": False}, {"multi": False, "upsert": False}, {"upsert": True}))
    return {"update": "c", "updates": [statement]}


def _batch(rng: random.Random) -> dict[str, Any]:
    """Updates or deletes of one command, of which some are of many documents."""
    kind = rng.choice(("update", "delete"))
    statements: list[dict[str, Any]] = []
    while len(statements) < rng.choice((1, 2, 4)):
        statements += _command(rng).get(f"{kind}s", ())
    for each in statements:
        if rng.random() < 0.5:
            each["q"] = rng.choice(({"k": {"$gt": rng.randrange(9)}}, {"a": _value(rng)}, {"k": rng.randrange(12)}, {}))
            each |= {"multi": rng.random() < 0.9} if kind == "update" else {"limit": 0}
    return {kind: "c", f"{kind}s": statements, "ordered": rng.random() < 0.5}


def _statements(command: dict[str, Any]) -> list[dict[str, Any]]:
    return [*command.get("updates", ()), *command.get("deletes", ())]


def _is_many(command: dict[str, Any]) -> bool:
    return any(each.get("multi") or each.get("limit") == 0 for each in _statements(command))


def _found_and_modified(rng: random.Random, wanted: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    command: dict[str, Any] = {"findAndModify": "c", "query": wanted}
    if rng.random() < 0.2:
        command["remove"] = True
    else:
        command["update"] = rng.choice(
            (
                {"$set": fields},
                {"$inc": {"b": 1}},
                {"$unset": {"a": 1}},
                {"k": wanted.get("_id", 3)},
                {"$push": {"a": 1}},
                {"$set": {"a.$": 4}},
                {"$set": {"a.$.y": 4, "b": 1}},
                {"$inc": {"b.$[].x": 1}},
                {"$set": {"b.$[e]": 4}},
                [{"$set": {"e": "$k"}}],
            )
        )
        if "$[e]" in str(command["update"]):
            command["arrayFilters"] = [{"e": {"$gte": 1}}]
        command |= rng.choice(({}, {"new": True}, {"upsert": True}, {"new": False, "upsert": False}))
    return command | rng.choice(({}, {"fields": {"a": 1}}, {"fields": {"b.x": 0}}, {"sort": {"k": -1}}))


def _comparable(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reply.items() if name not in ("opTime", "electionId")}


def own_a_part(node: LocalNode) -> ScriptedShardFilter:
    """Let the node own the documents that `OWNED` matches."""
    installed = ScriptedShardFilter()
    installed.owned = compile_filter(parse_filter(bson.encode(OWNED)))
    node.node.shard_filter = installed
    return installed


async def _state(node: LocalNode) -> dict[str, Any]:
    store = node.node.store
    found = store.collection("test.c")
    assert found is not None
    node.node.shard_filter = None
    report = store.validate(found)
    assert report.valid, report.errors
    return {"documents": await node.documents("c"), "count": found.count, "size": found.size}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("role", ["standalone", "member", "shard"])
def test_what_is_done_at_once_is_what_the_general_way_does(
    seed: int, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated = role != "standalone"

    async def work() -> None:
        rng = random.Random(seed)
        quick, general = LocalNode(replicated=replicated), LocalNode(replicated=replicated)
        indexes = [*rng.sample(_INDEXES, 4), {"key": rng.choice(({"k": 1}, {"k": -1, "a": 1})), "name": "k"}]
        for node in (quick, general):
            await node.run({"createIndexes": "c", "indexes": indexes})
            if seed % 3 == 0:
                await node.run({"collMod": "c", **_VALIDATORS[seed // 3]})
            if role == "shard":
                await node.insert("c", *({"_id": identity} for identity in range(12)))
                own_a_part(node)
        for number in range(150):
            command = _command(rng) if rng.random() < 0.6 else _batch(rng)
            if replicated and rng.random() < 0.7 and not _is_many(command):
                command |= session(rng.randrange(3), number // 2)
                if role == "shard":
                    command["stmtIds"] = rng.choice(([0], [3], [0, 1], [])) if len(_statements(command)) < 2 else []
            if seed % 3 == 0 and "findAndModify" not in command and rng.random() < 0.1:
                command["bypassDocumentValidation"] = True
            if role == "shard" and rng.random() < 0.9:
                command["shardVersion"] = VERSION
            # The identity that an upsert makes is the same on both.
            monkeypatch.setattr(modification, "ObjectId", partial(ObjectId, number.to_bytes(12, "big")))
            replies = [await quick.reply(command)]
            with monkeypatch.context() as patch:
                for module, name in AT_ONCE:
                    patch.setattr(module, name, lambda *_: None)
                for work_of_one in (UpdateWork, DeleteWork):
                    patch.setattr(work_of_one, "_done_at_once", lambda *_: False)
                patch.setattr(modification, "direct_update", lambda *_: None)
                patch.setattr(modification, "prepared_update", lambda *_: None)
                replies.append(await general.reply(command))
            assert _comparable(replies[0]) == _comparable(replies[1]), command
        assert await _state(quick) == await _state(general)
        oplogs = [node.node.store.oplog for node in (quick, general)]
        if replicated:
            assert oplogs[0] is not None
            assert oplogs[1] is not None
            assert (oplogs[0].count, oplogs[0].size) == (oplogs[1].count, oplogs[1].size)

    loop(work())


@pytest.mark.parametrize(
    "statement",
    [
        {"q": {"k": 3}, "u": {"$inc": {"n": 1}}, "multi": True},
        {"q": {"k": 7, "a": {"$gt": 1}}, "u": {"$setOnInsert": {"n": 1}}, "upsert": True},
        {"q": {"k": 7}, "u": {"k": 7, "n": 1}, "upsert": True, "multi": False},
    ],
)
def test_statements_by_a_key_are_carried_out_at_once(
    statement: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k"}]})
        await node.insert("c", *({"_id": number, "k": number // 3} for number in range(18)))
        monkeypatch.delattr(update, "run_statements")
        reply = await node.run({"update": "c", "updates": [statement]})
        assert (reply["n"], "upserted" in reply) == ((3, False) if statement.get("multi") else (1, True))

    loop(work())


@pytest.mark.parametrize("key", [1, 7])
@pytest.mark.parametrize("indexed", [False, True])
def test_what_may_insert_has_no_expression_whether_there_is_a_document_or_not(key: int, indexed: bool) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": number, "k": number} for number in range(3)))
        if indexed:
            await node.run({"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k"}]})
        query, change = {"k": key, "$expr": {"$eq": [1, 1]}}, {"$set": {"n": 1}}
        refused = Code.QueryFeatureNotAllowed
        for multi in (False, True):
            statement = {"q": query, "u": change, "upsert": True, "multi": multi}
            for statements in ([statement], [statement, {**statement, "q": {"k": 1}}]):
                reply = await node.run({"update": "c", "updates": statements, "ordered": False})
                assert [each["code"] for each in reply["writeErrors"]] == [refused]
        command = {"findAndModify": "c", "query": query, "update": change, "upsert": True}
        assert (await node.reply(command))["code"] == refused

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


WRITES: list[dict[str, Any]] = [
    {"insert": "c", "documents": [{"_id": 2}]},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
    {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
]


@pytest.mark.parametrize("command", WRITES)
def test_what_cannot_be_acknowledged_is_not_done(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        assert (await node.reply({**command, "writeConcern": {"w": 2}}))["code"] == Code.BadValue
        assert await node.documents("c") == [{"_id": 1}]

    loop(work())


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("concern", [{"w": 1}, {"w": "majority"}])
def test_what_a_router_sends_a_shard_is_done_at_once(
    command: dict[str, Any], concern: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        own_a_part(node)
        for module in (delete, insert, update):
            monkeypatch.delattr(module, "run_statements")
        routed = {**command, **session(), "stmtIds": [0], "writeConcern": concern, "shardVersion": VERSION}
        assert (await node.run(routed))["n"] == 1

    loop(work())


@pytest.mark.parametrize("command", WRITES)
def test_a_stale_version_is_refused_before_anything_is_done(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        stale = CommandError(Code.StaleConfig, "stale", extra={"ns": "test.c"})
        own_a_part(node).answer = lambda _count: stale
        assert (await node.reply({**command, **session(), "shardVersion": VERSION}))["code"] == Code.StaleConfig
        node.node.shard_filter = None
        assert await node.documents("c") == [{"_id": 1}]

    loop(work())


@pytest.mark.parametrize("command", WRITES[1:])
def test_a_document_that_the_shard_does_not_own_is_not_found(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        own_a_part(node).owned = compile_filter(parse_filter(bson.encode({"_id": 2})))
        assert (await node.run({**command, "shardVersion": VERSION}))["n"] == 0
        node.node.shard_filter = None
        assert await node.documents("c") == [{"_id": 1}]

    loop(work())
