"""Documents that are inserted or changed many at once, which come out as if each were by itself."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest

from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.oplog import END_KEY, MIN_KEY
from docstore.node.write.insert import Inserts
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.sharding.key import ShardKey
from docstore.sharding.post_images import PostImages
from docstore.storage import Family
from tests.harness.undoing import roll_back
from tests.unit.node.local import LocalNode, loop, session
from tests.unit.node.scripted_shard_filter import ScriptedShardFilter
from tests.unit.node.test_fast_path import VERSION

_TIMES = frozenset(("ts", "wall", "ui", "prevOpTime"))
_PUT_BACK = (Family.RECORDS, Family.INDEXES, Family.OPLOG, Family.UNDO)


async def _node() -> LocalNode:
    node = LocalNode(replicated=True)
    indexes = [{"key": {"k": 1}, "name": "k"}, {"key": {"t": 1, "k": -1}, "name": "t"}]
    await node.run({"createIndexes": "c", "indexes": indexes})
    return node


def _entries(node: LocalNode) -> list[dict[str, Any]]:
    """What the log says, but for when."""
    engine = node.node.engine
    found = [bson.decode(entry) for entry in engine.values(Family.OPLOG, MIN_KEY, END_KEY)]
    return [{name: value for name, value in entry.items() if name not in _TIMES} for entry in found]


def _document(rng: Random) -> dict[str, Any]:
    made: dict[str, Any] = {"k": rng.choice((1, 2.5, "x", [1, 2, 2], [], None)), "t": rng.choice(("a", ["a", "b"]))}
    if rng.random() < 0.1:
        made["k"] = [1]
        made["t"] = [1]
    if rng.random() < 0.9:
        made["_id"] = rng.randrange(400)
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("retryable", [False, True])
def test_many_are_inserted_as_each_by_itself(seed: int, retryable: bool) -> None:
    async def scenario() -> None:
        rng = Random(seed)
        together, apart = await _node(), await _node()
        for number in range(6):
            documents = [_document(rng) for _ in range(rng.choice((2, 30, 130)))]
            if number == 2:
                documents = [{"_id": 1000 + place, "k": place} for place in range(200)]
            for document in documents:
                document.setdefault("_id", bson.ObjectId())
            ordered = rng.random() < 0.5
            fields = session(1, number + 1) if retryable else {}
            done = await together.reply({"insert": "c", "documents": documents, "ordered": ordered, **fields})
            count, errors = 0, []
            for index, document in enumerate(documents):
                named = {**session(1, number + 1), "stmtId": index} if retryable else {}
                one = await apart.reply({"insert": "c", "documents": [document], **named})
                count += one["n"]
                errors += [(index, each["code"]) for each in one.get("writeErrors", ())]
                if errors and ordered:
                    break
            assert done["n"] == count
            assert [(each["index"], each["code"]) for each in done.get("writeErrors", ())] == errors
        assert await together.documents("c") == await apart.documents("c")
        assert _entries(together) == _entries(apart)
        assert (await together.run({"validate": "c"}))["valid"]
        multikey = [index.array_bits for index in together.node.store.catalog.collections["test.c"].secondary]
        assert multikey == [index.array_bits for index in apart.node.store.catalog.collections["test.c"].secondary]

    loop(scenario())


def _timeless(found: Any) -> Any:
    """The same without the times that were filled in."""
    if isinstance(found, list):
        return [_timeless(each) for each in found]
    if isinstance(found, dict):
        return {name: _timeless(value) for name, value in found.items()}
    return "a time" if isinstance(found, bson.Timestamp) else found


class _Sharded(ScriptedShardFilter):
    """By `k`, of which the node owns all that is not "x"."""

    def post_images(self, namespace: str) -> PostImages:  # type: ignore[override]
        return PostImages(ShardKey(("k",)), compile_filter(parse_filter(bson.encode({"k": {"$ne": "x"}}))))


@pytest.mark.parametrize("seed", range(4))
def test_many_of_a_sharded_collection_are_inserted_as_each_by_itself(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router went by a document as it was given: what is made of it may belong elsewhere."""
    put = []

    insert_each = Inserts._each

    def counted(inserts: Inserts, *arguments: Any) -> int:
        size = insert_each(inserts, *arguments)
        put.append(size > 0)
        return size

    monkeypatch.setattr(Inserts, "_each", counted)

    async def scenario() -> None:
        rng = Random(seed)
        together, apart = await _node(), await _node()
        for node in (together, apart):
            node.node.store.document_keys["test.c"] = DocumentKey(("k", "_id"))
            node.node.shard_filter = _Sharded()
        for number in range(6):
            documents: list[dict[str, Any]] = [
                {"_id": 100 * number + place, "k": rng.choice((1, 2.5, None))} for place in range(30)
            ]
            if number % 2:
                documents[rng.randrange(30)] = rng.choice(
                    ({"k": 1, "_id": -number}, {"_id": -number, "k": bson.Timestamp(0, 0)}, {"k": "x", "_id": -number})
                )
            version = {"shardVersion": VERSION}
            done = await together.reply({"insert": "c", "documents": documents, **version, **session(1, number + 1)})
            count, errors = 0, []
            for index, document in enumerate(documents):
                named = {**session(1, number + 1), "stmtId": index, **version}
                one = await apart.reply({"insert": "c", "documents": [document], **named})
                count += one["n"]
                errors += [(index, each["code"]) for each in one.get("writeErrors", ())]
                if errors:
                    break
            assert done["n"] == count
            assert [(each["index"], each["code"]) for each in done.get("writeErrors", ())] == errors
        for node in (together, apart):
            node.node.shard_filter = None
        assert _timeless(await together.documents("c")) == _timeless(await apart.documents("c"))
        assert _timeless(_entries(together)) == _timeless(_entries(apart))
        assert (await together.run({"validate": "c"}))["valid"]
        assert put.count(True) >= 3

    loop(scenario())


@pytest.mark.parametrize("count", [3, 700])
def test_each_of_many_is_found_again_by_a_retry(count: int) -> None:
    """Also where nothing is known of them but what the log says."""

    async def scenario() -> None:
        node = await _node()
        documents = [{"_id": number, "k": number} for number in range(count)]
        await node.run({"insert": "c", "documents": documents[: count // 2], **session()})
        for forgotten in (False, True):
            if forgotten:
                node.node.store.sessions.forget()
            again = await node.reply({"insert": "c", "documents": documents, **session()})
            assert again["n"] == count
            assert again["retriedStmtIds"] == list(range(count if forgotten else count // 2))
            assert len(await node.documents("c")) == count

    loop(scenario())


def test_what_undoes_each_is_known() -> None:
    async def scenario() -> None:
        node = await _node()
        store = node.node.store
        assert store.oplog is not None
        before = {family: dict(node.node.engine.items(family, b"", b"\xff" * 60)) for family in _PUT_BACK}
        logged = store.oplog.last
        await node.run({"insert": "c", "documents": [{"_id": n, "k": [n, -n]} for n in range(100)], **session()})
        assert roll_back(store, logged) == 100
        after = {family: dict(node.node.engine.items(family, b"", b"\xff" * 60)) for family in _PUT_BACK}
        assert after == before

    loop(scenario())


@pytest.mark.parametrize(
    "change",
    [{"$inc": {"n": 1}}, {"$set": {"s": "x" * 50}, "$unset": {"n": 1}}, {"$set": {"k": 5}}, {"$push": {"p.q": 1}}],
)
def test_many_are_changed_as_each_by_itself(change: dict[str, Any]) -> None:
    async def scenario() -> None:
        together, apart = await _node(), await _node()
        for node in (together, apart):
            await node.insert("c", *({"_id": number, "k": number % 7, "n": number % 2} for number in range(150)))
        oplog = together.node.store.oplog
        assert oplog is not None
        begun = oplog.last
        before = {family: dict(together.node.engine.items(family, b"", b"\xff" * 60)) for family in _PUT_BACK}
        done = await together.run({"update": "c", "updates": [{"q": {}, "u": change, "multi": True}]})
        one_by_one = [
            await apart.run({"update": "c", "updates": [{"q": {"_id": number}, "u": change}]}) for number in range(150)
        ]
        assert done["n"] == 150
        assert done["nModified"] == sum(each["nModified"] for each in one_by_one)
        assert await together.documents("c") == await apart.documents("c")
        assert _entries(together) == _entries(apart)
        assert (await together.run({"validate": "c"}))["valid"]
        roll_back(together.node.store, begun)
        assert {family: dict(together.node.engine.items(family, b"", b"\xff" * 60)) for family in _PUT_BACK} == before

    loop(scenario())


def test_one_that_is_refused_leaves_those_before_it_changed() -> None:
    async def scenario() -> None:
        node = await _node()
        await node.insert("c", *({"_id": number, "n": "text" if number == 20 else 1} for number in range(30)))
        done = await node.reply({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]})
        assert done["writeErrors"][0]["code"] == 14
        assert [each["_id"] for each in await node.documents("c", {"n": 2})] == list(range(20))

    loop(scenario())


@pytest.mark.parametrize(
    "change",
    [
        {"$set": {"k": 5}},
        {"$set": {"k": [1, 2, 3]}},
        {"$push": {"t": "c"}},
        {"$unset": {"k": 1}, "$inc": {"n": 1}},
        {"$set": {"t": ["x", "y"]}},
        {"$mul": {"k": 1.0}},
    ],
)
def test_entries_of_many_change_as_those_of_each_by_itself(change: dict[str, Any]) -> None:
    async def scenario() -> None:
        nodes = [LocalNode(), LocalNode()]
        rng = Random(5)
        documents = [{"_id": n, "k": rng.choice((1, 2.0, [3])), "t": "a", "n": n % 2} for n in range(150)]
        if "$push" in change:
            documents = [{**document, "k": 1, "t": ["a", "b"][: document["_id"] % 3]} for document in documents]
        if "$mul" in change:
            documents = [{**document, "k": document["_id"] % 3} for document in documents]
        for node in nodes:
            indexes = [{"key": {"k": 1}, "name": "k"}, {"key": {"t": 1, "k": -1}, "name": "t"}]
            indexes += [{"key": {"n": 1}, "name": "n", "partialFilterExpression": {"k": {"$gt": 1}}}]
            await node.run({"createIndexes": "c", "indexes": indexes})
            await node.insert("c", *documents)
        together, apart = nodes
        done = await together.reply({"update": "c", "updates": [{"q": {}, "u": change, "multi": True}]})
        one_by_one = []
        for number in range(150):
            one_by_one.append(await apart.reply({"update": "c", "updates": [{"q": {"_id": number}, "u": change}]}))
            if "writeErrors" in one_by_one[-1]:
                break
        assert done["nModified"] == sum(each["nModified"] for each in one_by_one)
        assert ("writeErrors" in done) == ("writeErrors" in one_by_one[-1])
        stored = [dict(node.node.engine.items(Family.INDEXES, b"", b"\xff" * 60)) for node in nodes]
        assert stored[0] == stored[1]
        assert (await together.run({"validate": "c"}))["valid"]

    loop(scenario())


def test_what_an_update_commits_itself_does_not_have_it_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def look(_search: object, match: tuple[int, bytes]) -> tuple[int, bytes]:
        looked.append(match)
        return match

    async def scenario() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n, "n": 0} for n in range(1_000)))
        monkeypatch.setattr("docstore.node.slices.STEP_SECONDS", 0.0005)
        monkeypatch.setattr("docstore.node.write.search._PlainSearch._current", look)
        done = await node.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]})
        assert done["nModified"] == 1_000
        assert not looked

    loop(scenario())


@pytest.mark.parametrize("fields", [{}, session()])
@pytest.mark.parametrize("validated", [False, True])
def test_nothing_is_inserted_behind_a_refused_document_wherever_it_stands(
    fields: dict[str, Any], validated: bool
) -> None:
    """Documents are written some dozens at a time; the clock stands, so that no slice ends between them."""

    async def work() -> None:
        for refused in (0, 62, 63, 64, 127):
            node = LocalNode(replicated=True)
            node.node.clock = lambda: 0.0
            await node.insert("c", {"_id": refused})
            if validated:
                await node.run({"collMod": "c", "validator": {"_id": {"$gte": 0}}})
            documents = [{"_id": number} for number in range(150)]
            reply = await node.reply({"insert": "c", "documents": documents, **fields})
            assert (reply["n"], [error["index"] for error in reply["writeErrors"]]) == (refused, [refused])
            assert len(await node.documents("c")) == refused + 1
            reply = await node.reply({"insert": "c", "documents": documents, "ordered": False})
            assert (reply["n"], len(reply["writeErrors"])) == (149 - refused, refused + 1)

    loop(work())
