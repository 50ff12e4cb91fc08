"""Statements of one command that are written together, and come out as if each were written by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.collection.oplog.undo import undo_keys
from docstore.node.write import modification
from docstore.node.write.groups.group import GroupedWorks
from docstore.node.write.joint_unit import JointUnit
from docstore.storage import Family, open_engine
from tests.harness.faulty_engine import FaultyEngine
from tests.unit.node.local import LocalNode, loop, session
from tests.unit.node.transactional import Client


def update(condition: dict[str, Any], change: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"q": condition, "u": change, **more}


async def _node(count: int = 20, **options: Any) -> LocalNode:
    node = LocalNode(**options)
    await node.run({"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k"}]})
    await node.run({"createIndexes": "c", "indexes": [{"key": {"u": 1}, "name": "u", "unique": True}]})
    await node.insert("c", *({"_id": number, "k": number // 2, "u": number, "n": 0} for number in range(count)))
    return node


def _writes(node: LocalNode) -> int:
    writes: int = node.node.engine.stats()["batches"]
    return writes


def _entries(node: LocalNode) -> int:
    assert node.node.store.oplog is not None
    return node.node.store.oplog.count


async def _updated(node: LocalNode, statements: Iterable[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return await node.reply({"update": "c", "updates": list(statements), **more})


@pytest.mark.parametrize("replicated", [False, True])
def test_many_statements_are_one_write_of_the_engine(replicated: bool) -> None:
    async def scenario() -> None:
        node = await _node(replicated=replicated)
        # No slice ends before the statements do.
        node.node.clock = lambda: 0.0
        before, logged = _writes(node), _entries(node) if replicated else 0
        statements = [update({"_id": number}, {"$inc": {"n": 1}}) for number in range(10)]
        statements += [update({"u": number}, {"$set": {"k": -1 - number}}) for number in range(10)]
        done = await _updated(node, statements)
        assert (done["n"], done["nModified"]) == (20, 20)
        assert _writes(node) == before + 1
        assert not replicated or _entries(node) == logged + 20
        deleted = await node.run({"delete": "c", "deletes": [{"q": {"u": n}, "limit": 1} for n in range(10)]})
        assert deleted["n"] == 10
        assert _writes(node) == before + 2
        assert (await node.run({"validate": "c"}))["valid"]

    loop(scenario())


def test_a_statement_finds_what_those_before_it_have_left() -> None:
    async def scenario() -> None:
        node = await _node()
        done = await _updated(
            node,
            [
                update({"_id": 1}, {"$set": {"k": 77}}),
                update({"k": 77}, {"$inc": {"n": 5}}),
                update({"k": 77, "n": 5}, {"$set": {"u": 500}}),
                update({"u": 1}, {"$inc": {"n": 100}}),
                update({"_id": 2}, {"$set": {"u": 1}}),
                update({"u": 1}, {"$inc": {"n": 7}}),
                update({"_id": "new"}, {"$set": {"k": 77, "u": 600}}, upsert=True),
                update({"k": 77}, {"$inc": {"n": 1}}, multi=True),
                update({"_id": "new"}, {"$inc": {"n": 1}}, upsert=True),
            ],
        )
        assert (done["n"], done["nModified"]) == (9, 8)
        found = {each["_id"]: each for each in await node.documents("c", {"_id": {"$in": [1, 2, "new"]}})}
        assert found == {
            1: {"_id": 1, "k": 77, "u": 500, "n": 6},
            2: {"_id": 2, "k": 1, "u": 1, "n": 7},
            "new": {"_id": "new", "k": 77, "u": 600, "n": 2},
        }
        assert (await node.run({"validate": "c"}))["valid"]

    loop(scenario())


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("replicated", [False, True])
def test_a_refused_statement_takes_none_of_the_others_with_it(replicated: bool, ordered: bool) -> None:
    async def scenario() -> None:
        node = await _node(replicated=replicated)
        done = await _updated(
            node,
            [
                update({"_id": 1}, {"$inc": {"n": 1}}),
                update({"_id": 2}, {"$set": {"u": 3}}),
                update({"_id": 3}, {"$inc": {"n": 1}}),
                update({"_id": "x"}, {"$set": {"u": 4}}, upsert=True),
                update({"_id": 4}, {"$inc": {"k": "text"}}),
                update({"_id": 5}, {"$inc": {"n": 1}}),
            ],
            ordered=ordered,
        )
        assert [(error["index"], error["code"]) for error in done["writeErrors"]] == (
            [(1, 11000)] if ordered else [(1, 11000), (3, 11000), (4, 14)]
        )
        assert done["n"] == done["nModified"] == (1 if ordered else 3)
        changed = {each["_id"] for each in await node.documents("c", {"n": 1})}
        assert changed == ({1} if ordered else {1, 3, 5})
        assert (await node.run({"validate": "c"}))["valid"]

    loop(scenario())


def test_retried_statements_are_done_once() -> None:
    async def scenario() -> None:
        node = await _node(replicated=True)
        statements = [update({"_id": number}, {"$inc": {"n": 1}}) for number in range(4)]
        statements.append(update({"_id": "new"}, {"$inc": {"n": 1}}, upsert=True))
        first = await _updated(node, statements, **session())
        again = await _updated(node, statements, **session())
        assert again["retriedStmtIds"] == [0, 1, 2, 3, 4]
        for reply in (first, again):
            assert (reply["n"], reply["nModified"]) == (5, 4)
            assert reply["upserted"] == [{"index": 4, "_id": "new"}]
        more = await _updated(node, [*statements, update({"_id": 9}, {"$inc": {"n": 1}})], **session())
        assert (more["n"], more["nModified"], len(more["retriedStmtIds"])) == (6, 5, 5)
        assert {each["_id"] for each in await node.documents("c", {"n": 1})} == {0, 1, 2, 3, "new", 9}

    loop(scenario())


@pytest.mark.parametrize("ordered", [False, True])
def test_a_full_disk_refuses_all_that_were_to_be_written_together(ordered: bool) -> None:
    async def scenario() -> None:
        engine = FaultyEngine(open_engine("inMemory", ""))
        node = await _node(engine=engine)
        engine.fill_disk()
        statements = [update({"_id": number}, {"$inc": {"n": 1}}) for number in range(3)]
        done = await _updated(node, statements, ordered=ordered)
        assert [error["index"] for error in done["writeErrors"]] == ([0] if ordered else [0, 1, 2])
        assert {error["code"] for error in done["writeErrors"]} == {14031}
        assert (done["n"], done["nModified"]) == (0, 0)
        engine.write_error = None
        assert not await node.documents("c", {"n": 1})
        assert (await _updated(node, statements))["nModified"] == 3

    loop(scenario())


def test_an_open_transaction_is_waited_for_and_nothing_is_done_twice() -> None:
    async def scenario() -> None:
        node = await _node(replicated=True)
        client = Client(node)
        await client.first({"update": "c", "updates": [update({"_id": 3}, {"$inc": {"n": 10}})]})
        statements = [update({"_id": number}, {"$inc": {"n": 1}}) for number in (1, 2, 3, 4)]
        waiting = asyncio.ensure_future(_updated(node, statements))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert (await client.commit())["ok"] == 1
        done = await waiting
        assert (done["n"], done["nModified"]) == (4, 4)
        found = {each["_id"]: each["n"] for each in await node.documents("c", {"n": {"$gt": 0}})}
        assert found == {1: 1, 2: 1, 3: 11, 4: 1}

    loop(scenario())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("hurried", [False, True])
def test_batches_do_what_their_statements_do_one_by_one(seed: int, hurried: bool) -> None:
    """Also where slices end in the middle of a batch."""

    async def scenario() -> None:
        rng = Random(seed)
        together, apart = await _node(replicated=True), await _node(replicated=True)
        if hurried:
            together.hurry()
        for _round in range(12):
            kind = rng.choice(("update", "update", "delete"))
            field = "updates" if kind == "update" else "deletes"
            statements = [_statement(rng, kind) for _ in range(rng.randint(2, 9))]
            ordered = rng.random() < 0.5
            done = await together.reply({kind: "c", field: statements, "ordered": ordered})
            expected: dict[str, Any] = {"n": 0, "nModified": 0, "upserted": [], "writeErrors": []}
            for index, statement in enumerate(statements):
                one = await apart.reply({kind: "c", field: [statement]})
                expected["n"] += one["n"]
                expected["nModified"] += one.get("nModified", 0)
                expected["upserted"] += [{**each, "index": index} for each in one.get("upserted", ())]
                expected["writeErrors"] += [(index, each["code"]) for each in one.get("writeErrors", ())]
                if ordered and "writeErrors" in one:
                    break
            assert done["n"] == expected["n"]
            assert done.get("nModified", 0) == expected["nModified"]
            assert done.get("upserted", []) == expected["upserted"]
            assert [(each["index"], each["code"]) for each in done.get("writeErrors", ())] == expected["writeErrors"]
            assert await together.documents("c") == await apart.documents("c")
        assert (await together.run({"validate": "c"}))["valid"]
        assert _entries(together) == _entries(apart)

    loop(scenario())


def _statement(rng: Random, kind: str) -> dict[str, Any]:
    number = rng.randrange(12)
    condition = rng.choice(
        ({"_id": number}, {"k": number // 2}, {"u": number}, {"k": number // 2, "n": 0}, {"n": {"$gt": number}})
    )
    if kind == "delete":
        return {"q": condition, "limit": rng.choice((0, 1))}
    change = rng.choice(
        ({"$inc": {"n": 1}}, {"$set": {"k": number}}, {"$set": {"u": number}}, {"$inc": {"k": "no number"}})
    )
    if "_id" in condition and rng.random() < 0.5:
        return update(condition, change, upsert=True)
    return update(condition, change, multi=rng.random() < 0.3)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("retryable", [False, True])
def test_statements_that_each_ask_for_one_id_leave_what_they_leave_one_by_one(
    seed: int, unique: bool, retryable: bool
) -> None:
    """Their entries in the log too."""

    async def scenario() -> None:
        rng = Random(seed)
        together, apart = await _node(replicated=True), await _node(replicated=True)
        if not unique:
            for node in (together, apart):
                await node.run({"dropIndexes": "c", "index": "u"})
        for turn in range(6):
            statements = [_identified(rng) for _ in range(rng.randint(2, 150))]
            more = session(turn + 1) if retryable else {}
            done = await _updated(together, statements, ordered=False, **more)
            n = modified = 0
            upserted, errors = [], []
            for index, statement in enumerate(statements):
                one = await _updated(apart, [statement], **({**more, "stmtIds": [index]} if retryable else {}))
                n, modified = n + one["n"], modified + one["nModified"]
                upserted += [{**each, "index": index} for each in one.get("upserted", ())]
                errors += [(index, each["code"]) for each in one.get("writeErrors", ())]
            assert (done["n"], done["nModified"]) == (n, modified)
            assert done.get("upserted", []) == upserted
            assert [(each["index"], each["code"]) for each in done.get("writeErrors", ())] == errors
            assert await together.documents("c") == await apart.documents("c")
        assert (await together.run({"validate": "c"}))["valid"]
        assert await _logged(together) == await _logged(apart)
        if not retryable:
            # The rows of sessions hold times.
            # What was given up in between has used up record ids.
            assert _undone_but_ids(together) == _undone_but_ids(apart)

    loop(scenario())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("retryable", [False, True])
def test_deletes_that_each_ask_for_one_id_leave_what_they_leave_one_by_one(
    seed: int, unique: bool, retryable: bool
) -> None:
    """Their entries in the log too, and what undoes them."""

    async def scenario() -> None:
        rng = Random(seed)
        together, apart = await _node(replicated=True), await _node(replicated=True)
        for node in (together, apart):
            await node.run({"createIndexes": "c", "indexes": [{"key": {"l": 1, "n": -1}, "name": "l_n"}]})
            if not unique:
                await node.run({"dropIndexes": "c", "index": "u"})
        for turn in range(6):
            made = [update({"_id": number}, {"$set": {"u": number, "l": [number, turn]}}, upsert=True)
                    for number in rng.sample(range(60), 40)]  # fmt: skip
            for node in (together, apart):
                await _updated(node, made)
            statements = [_identified_delete(rng) for _ in range(rng.randint(2, 150))]
            more = session(turn + 1) if retryable else {}
            done = await together.reply({"delete": "c", "deletes": statements, "ordered": False, **more})
            n = 0
            for index, statement in enumerate(statements):
                ids = {**more, "stmtIds": [index]} if retryable else {}
                n += (await apart.reply({"delete": "c", "deletes": [statement], **ids}))["n"]
            assert done["n"] == n
            assert "writeErrors" not in done
            assert await together.documents("c") == await apart.documents("c")
            if retryable:
                again = await together.reply({"delete": "c", "deletes": statements, **more})
                assert (again["n"], await together.documents("c")) == (n, await apart.documents("c"))
        assert (await together.run({"validate": "c"}))["valid"]
        assert await _logged(together) == await _logged(apart)
        if not retryable:
            # The rows of sessions hold times.
            assert _undoing(together) == _undoing(apart)

    loop(scenario())


def test_many_deleted_documents_are_logged_as_each_by_itself() -> None:
    async def scenario() -> None:
        together, apart = await _node(200, replicated=True), await _node(200, replicated=True)
        await together.run({"delete": "c", "deletes": [{"q": {"u": {"$gte": 20}}, "limit": 0}]})
        for number in range(20, 200):
            await apart.run({"delete": "c", "deletes": [{"q": {"_id": number}, "limit": 1}]})
        assert await together.documents("c") == await apart.documents("c")
        assert await _logged(together) == await _logged(apart)
        assert _undoing(together) == _undoing(apart)
        assert (await together.run({"validate": "c"}))["valid"]

    loop(scenario())


def _undoing(node: LocalNode) -> list[bytes]:
    """What undoes the entries about documents; those of the catalog have identifiers that were made up."""
    records = [record for _, record in node.node.engine.items(Family.UNDO, b"", b"\xff" * 9)]
    return [record for record in records if b"uuid" not in record]


def _undone_but_ids(node: LocalNode) -> list[list[tuple[Family, int, bytes | None]]]:
    """The same without the record ids: families, lengths of keys, what stood there."""
    return [
        [
            (family, len(key), previous if family is Family.RECORDS or previous is None else previous[:-8])
            for family, key, previous in undo_keys(record)
        ]
        for record in _undoing(node)
    ]


def _identified_delete(rng: Random) -> dict[str, Any]:
    number = rng.randrange(60)
    if rng.random() < 0.05:
        condition = rng.choice(({"u": number}, {"_id": {"$in": [number]}}, {"_id": number, "u": number}))
        return {"q": condition, "limit": 1}
    more = {"hint": {"_id": 1}} if rng.random() < 0.05 else {}
    return {"q": {"_id": rng.choice((number, float(number), str(number)))}, "limit": 1, **more}


async def _logged(node: LocalNode) -> list[dict[str, Any]]:
    """What the log says of documents, but when it was."""
    reply = await node.run({"find": "oplog.rs", "filter": {"ns": "test.c"}, "batchSize": 100_000}, "local")
    left_out = ("ts", "wall", "prevOpTime", "ui")
    return [{name: each[name] for name in each if name not in left_out} for each in reply["cursor"]["firstBatch"]]


def _identified(rng: Random) -> dict[str, Any]:
    number = rng.randrange(60)
    change = rng.choice(
        (
            {"$inc": {"n": 1}}, {"$set": {"n": 7}}, {"$set": {"k": number}}, {"$set": {"u": 1000 + rng.randrange(200)}},
            {"$push": {"l": number}}, {"$push": {"k": number}}, {"$unset": {"n": 1}}, {"$inc": {"k": "no number"}},
            {"$set": {"m": 1}, "$setOnInsert": {"made": 1}}, {"$set": {"_id": number}}, {"$set": {"a.b": number}},
            {"n": 7}, {"u": 2000 + number, "n": 1}, {"n": 1, "_id": number}, {"_id": float(number), "n": 2},
            {"_id": -1}, {"n": 1, "_id": number, "k": 1}, {"at": {"t": Timestamp(0, 0)}}, {"k": [number, 1]}, {},
            {"$setOnInsert": {"k": number, "a": 2}}, {"$inc": {"a.b": 1}, "$set": {"k": 3}}, {"$set": {"n.0": 1}},
            {"$push": {"l": {"$each": [number], "$sort": 1}}}, {"$set": {"k": number, "u": 3000 + number, "n": number}},
            {"$rename": {"n": "m"}}, {"n": {"$k": 1}}, {"$set": {"k": {"a": 1}}, "$addToSet": {"l": 1}},
        )
    )  # fmt: skip
    condition: dict[str, Any] = {"_id": rng.choice((number, float(number)))}
    if rng.random() < 0.05:
        return update(rng.choice(({"k": number}, {"_id": {"$in": [number]}}, {"_id": number, "n": 7})), change)
    return update(condition, change, upsert=rng.random() < 0.7)


def _by_key(rng: Random) -> dict[str, Any]:
    condition: dict[str, Any] = rng.choice(
        (
            {"k": rng.randrange(10)}, {"u": rng.randrange(20)}, {"k": {"$gte": rng.randrange(10)}},
            {"k": rng.randrange(10), "n": rng.randrange(3)}, {"k": rng.randrange(10), "a": 1}, {"a": rng.randrange(3)},
            {"k": rng.randrange(10), "a.b": {"$ne": 1}}, {"u": {"$in": [1, 2, 30]}}, {"_id": rng.randrange(20)},
            {"$or": [{"k": 3}, {"u": 5}]}, {"k": 1, "$or": [{"n": 1}, {"n": 0}]}, {"k": 99},
        )
    )  # fmt: skip
    change: dict[str, Any] = rng.choice(
        (
            {"$inc": {"n": 1}}, {"$inc": {"n": 1}}, {"$set": {"n": 1}}, {"$set": {"a": [1, 2]}}, {"$push": {"a": 1}},
            {"$set": {"a": {"b": 1}}}, {"$set": {"k": rng.randrange(10)}}, {"$set": {"u": rng.randrange(30)}},
            {"$inc": {"k": 1, "n": 1}}, {"$unset": {"a": 1}}, {"$mul": {"a": 2}}, {"$set": {"_id": 3}}, {"n": 5},
            {"$setOnInsert": {"u": rng.randrange(100)}}, {"$set": {"a.$": 1}}, {"$rename": {"n": "m"}},
        )
    )  # fmt: skip
    statement = update(condition, change)
    if rng.random() < 0.15:
        statement["upsert"] = True
    elif rng.random() < 0.1:
        statement["multi"] = "n" not in change
    return statement


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("retryable", [False, True])
def test_statements_by_keys_do_what_each_does_alone(
    seed: int, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        rng = Random(seed)
        together, alone = await _node(replicated=True), await _node(replicated=True)
        for node in (together, alone):
            await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1, "n": -1}, "name": "a_n"}]})
        for number in range(30):
            statements = [_by_key(rng) for _ in range(rng.choice((2, 5, 12)))]
            if retryable:
                statements = [{**each, "multi": False} for each in statements]
            monkeypatch.setattr(modification, "ObjectId", partial(ObjectId, number.to_bytes(12, "big")))
            more = session(1, number) if retryable else {}
            done = await together.run({"update": "c", "updates": statements, "ordered": False, **more})
            with monkeypatch.context() as patch:
                patch.setattr(JointUnit, "begin", lambda *_: None)
                patch.setattr(GroupedWorks, "_group_of", lambda *_: None)
                expected = await alone.run({"update": "c", "updates": statements, "ordered": False, **more})
            assert {**done, "opTime": 0} == {**expected, "opTime": 0}, statements
        assert await together.documents("c") == await alone.documents("c")
        assert (await together.run({"validate": "c"}))["valid"]
        assert _entries(together) == _entries(alone)

    loop(scenario())
