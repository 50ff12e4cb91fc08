"""Change streams of one node: what is told, in which order, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest
from bson.timestamp import Timestamp

from docstore.collection.oplog.document_key import DocumentKey
from docstore.errors import Code
from docstore.node.change_streams.shared_reader import SharedReader
from tests.unit.node.local import LocalNode, LonePrimary, loop
from tests.unit.node.streaming import Stream, change, kinds, member
from tests.unit.node.transactional import Client


def test_changes_are_told_in_order() -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open()
        await change(node)
        await node.insert("other", {"_id": 1})
        events = await stream.events()
        assert kinds(events) == ["insert", "update", "replace", "delete"]
        assert list(events[0]) == [
            "_id",
            "operationType",
            "clusterTime",
            "wallTime",
            "fullDocument",
            "ns",
            "documentKey",
        ]
        assert events[1]["updateDescription"] == {
            "updatedFields": {"a.b": 2, "l.1": 2}, "removedFields": [], "truncatedArrays": [],
        }  # fmt: skip
        assert events[2]["fullDocument"] == {"_id": 1, "x": 1}
        assert all(event["documentKey"] == {"_id": 1} for event in events)
        assert await stream.events() == []

    loop(work())


def test_a_large_event_comes_in_fragments_and_a_stream_goes_on_behind_each() -> None:
    async def work() -> None:
        node = member()
        await node.run({"create": "c", "changeStreamPreAndPostImages": {"enabled": True}})
        split = {"$changeStreamSplitLargeEvent": {}}
        stream = await Stream(node).open(split, fullDocumentBeforeChange="required")
        await node.insert("c", {"_id": 1, "x": "a" * 10_000_000})
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": "b" * 10_000_000}}}]})
        await node.insert("c", {"_id": 2})
        events = [*await stream.events(), *await stream.events(), *await stream.events()]
        assert [event.get("splitEvent") for event in events] == [
            None, {"fragment": 1, "of": 2}, {"fragment": 2, "of": 2}, None,
        ]  # fmt: skip
        assert events[1]["operationType"] == "update"
        assert "updateDescription" in events[1]
        assert list(events[2]) == ["_id", "splitEvent", "fullDocumentBeforeChange"]
        tokens = [event["_id"]["_data"] for event in events]
        assert tokens == sorted(tokens)
        for place in range(4):
            options = {"fullDocumentBeforeChange": "required", "resumeAfter": events[place]["_id"]}
            again = await Stream(node).open(split, **options)
            found = [event["_id"] for event in again.cursor["firstBatch"]]
            found += [event["_id"] for _ in range(4) for event in await again.events()]
            assert found == [event["_id"] for event in events[place + 1 :]], place
        whole = await Stream(node).reply(resumeAfter=events[1]["_id"])
        assert whole["code"] == Code.ChangeStreamFatalError
        for stages in (({"$changeStreamSplitLargeEvent": {"x": 1}},), (split, {"$match": {}})):
            assert (await Stream(node).reply(*stages))["ok"] == 0
        reply = await node.reply({"aggregate": "c", "pipeline": [split], "cursor": {}})
        assert reply["code"] == Code.IllegalOperation

    loop(work())


def test_paths_that_could_be_taken_for_others_are_told_of_by_their_parts() -> None:
    async def work() -> None:
        node = member()
        await node.insert("c", {"_id": 1, "a": {"1": 1, "b": 1}, "l": [{"2": 1}, 5], "x": 1})
        plain, expanded = await Stream(node).open(), await Stream(node).open(showExpandedEvents=True)
        for update in (
            {"$set": {"a.1": 2}},
            {"$set": {"l.0.2": 2, "l.1": 6}},
            {"$unset": {"a.1": 1}},
            {"$inc": {"x": 1}},
        ):
            await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": update}]})
        events = [event["updateDescription"] for event in await expanded.events()]
        assert [event.get("disambiguatedPaths") for event in events] == [
            {"a.1": ["a", "1"]}, {"l.0.2": ["l", 0, "2"]}, {"a.1": ["a", "1"]}, None,
        ]  # fmt: skip
        for event in events:
            event.pop("disambiguatedPaths", None)
        assert [event["updateDescription"] for event in await plain.events()] == events

    loop(work())


@pytest.mark.parametrize("transaction", [False, True])
def test_documents_of_a_sharded_collection_are_named_by_the_shard_key_first(transaction: bool) -> None:
    async def work() -> None:
        node = member()
        node.node.store.document_keys["test.c"] = DocumentKey(("a.b", "x"))
        stream = await Stream(node).open(fullDocument="updateLookup")
        if transaction:
            client = Client(node)
            await client.first({"insert": "c", "documents": [{"_id": 1, "a": {"b": 2}}, {"_id": 2, "x": 1.5}]})
            await client.then({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
            await client.commit()
        else:
            await node.insert("c", {"_id": 1, "a": {"b": 2}}, {"_id": 2, "x": 1.5})
            await node.run({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": "y"}}}]})
        events = await stream.events()
        assert [list(event["documentKey"].items()) for event in events] == [
            [("a.b", 2), ("_id", 1)], [("x", 1.5), ("_id", 2)], [("x", 1.5), ("_id", 2)],
            [("a.b", 2), ("x", "y"), ("_id", 1)],
        ]  # fmt: skip
        assert events[3]["fullDocument"] == {"_id": 1, "a": {"b": 2}, "x": "y"}
        for place, event in enumerate(events):
            again = await Stream(node).open(resumeAfter=event["_id"])
            assert kinds(again.cursor["firstBatch"]) == kinds(events[place + 1 :])

    loop(work())


def test_only_what_a_majority_has_is_told() -> None:
    async def work() -> None:
        node = member()
        set_ = node.replication
        assert isinstance(set_, LonePrimary)
        stream = await Stream(node).open()
        set_.held_back = node.node.store.last_optime
        await node.insert("c", {"_id": 1})
        assert await stream.events() == []
        waiting = asyncio.ensure_future(stream.events(maxTimeMS=5000))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        set_.held_back = None
        set_.progressed()
        assert kinds(await asyncio.wait_for(waiting, 1)) == ["insert"]

    loop(work())


def test_a_waiting_stream_is_woken_by_its_own_changes() -> None:
    async def work() -> None:
        node = member()
        streams = [await Stream(node, name).open() for name in ("c", "d")]
        both = await Stream(node, 1).open()
        waiting = [asyncio.ensure_future(each.events(maxTimeMS=300)) for each in (*streams, both)]
        await asyncio.sleep(0.01)
        await node.insert("c", {"_id": 1})
        assert [kinds(events) for events in await asyncio.gather(*waiting)] == [["insert"], [], ["insert"]]

    loop(work())


def test_streams_end_with_what_they_are_about() -> None:
    async def work() -> None:
        node = member()
        await node.insert("c", {"_id": 1})
        stream = await Stream(node).open()
        database = await Stream(node, 1).open()
        everything = await Stream(node, 1, "admin").open(allChangesForCluster=True)
        await node.run({"drop": "c"})
        events = await stream.events()
        assert kinds(events) == ["drop", "invalidate"]
        assert stream.cursor["id"] == 0
        assert stream.cursor["invalidated"]
        assert stream.token == events[1]["_id"]
        await node.insert("c", {"_id": 2})
        assert (await Stream(node).reply(resumeAfter=events[1]["_id"]))["code"] == 260
        behind = await Stream(node).open(startAfter=events[1]["_id"])
        assert kinds(behind.cursor["firstBatch"]) == ["insert"]
        before = await Stream(node).open(resumeAfter=events[0]["_id"])
        assert kinds(before.cursor["firstBatch"]) == ["invalidate"]
        await node.run({"dropDatabase": 1})
        assert kinds(await database.events()) == ["drop", "insert", "drop", "dropDatabase", "invalidate"]
        assert kinds(await everything.events()) == ["drop", "insert", "drop", "dropDatabase"]

    loop(work())


def test_changes_of_the_catalog_are_told_to_those_who_ask() -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node, 1).open(showExpandedEvents=True)
        plain = await Stream(node, 1).open()
        await node.run({"create": "c"})
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        await node.run({"collMod": "c", "validationLevel": "off"})
        await node.run({"dropIndexes": "c", "index": "a_1"})
        await node.run({"create": "v", "viewOn": "c", "pipeline": []})
        await node.run({"renameCollection": "test.c", "to": "test.d"}, "admin")
        events = await stream.events()
        assert kinds(events) == ["create", "createIndexes", "modify", "dropIndexes", "create", "rename"]
        assert events[1]["operationDescription"] == {"indexes": [{"v": 2, "key": {"a": 1}, "name": "a_1"}]}
        assert events[5]["to"] == {"db": "test", "coll": "d"}
        assert all("collectionUUID" in event for event in events if event["ns"]["coll"] == "c")
        assert kinds(await plain.events()) == ["rename"]
        for place, event in enumerate(events):
            again = await Stream(node, 1).open(resumeAfter=event["_id"], showExpandedEvents=True)
            assert again.cursor["firstBatch"] == events[place + 1 :]

    loop(work())


def test_that_a_collection_was_sharded_is_told_to_those_who_ask() -> None:
    async def work() -> None:
        node = member()
        await node.insert("c", {"_id": 1})
        plain, asking = await Stream(node).open(), await Stream(node).open(showExpandedEvents=True)
        coll = node.node.store.collection("test.c")
        with node.node.store.unit() as unit:
            unit.noop(bson.encode({"msg": 1}), coll, bson.encode({"shardCollection": "test.c", "shardKey": {"a": 1}}))
            unit.commit()
        assert await plain.events() == []
        (event,) = await asking.events()
        assert (event["operationType"], event["ns"]) == ("shardCollection", {"db": "test", "coll": "c"})
        assert event["operationDescription"] == {"shardKey": {"a": 1}}
        assert coll is not None
        assert bytes(event["collectionUUID"]) == coll.uuid.bytes
        again = await Stream(node).open(resumeAfter=event["_id"], showExpandedEvents=True)
        assert again.cursor["firstBatch"] == []

    loop(work())


def test_stages_behind() -> None:
    async def work() -> None:
        node = member()
        stages = ({"$match": {"operationType": "insert"}}, {"$set": {"twice": {"$multiply": ["$fullDocument.n", 2]}}})
        stream = await Stream(node).open(*stages)
        await node.insert("c", {"_id": 1, "n": 4})
        await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
        await node.insert("c", {"_id": 2, "n": 5})
        assert [event["twice"] for event in await stream.events()] == [8, 10]
        gone = await Stream(node).open({"$match": {"operationType": "insert"}})
        await node.run({"drop": "c"})
        assert await gone.events() == []
        assert gone.cursor["id"] == 0
        assert gone.cursor["invalidated"]

    loop(work())


def test_explain_shows_where_a_stream_begins_and_its_steps() -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open()
        await change(node)
        (event, *_) = await stream.events()

        async def explained(options: dict[str, Any], *stages: dict[str, Any], target: str | int = "c") -> Any:
            inner = {"aggregate": target, "pipeline": [{"$changeStream": options}, *stages], "cursor": {}}
            reply = await node.reply({"explain": inner, "verbosity": "queryPlanner"})
            assert reply["ok"] == 1, reply
            return reply["stages"]

        cursor, *steps = await explained({"startAtOperationTime": event["clusterTime"]})
        planner = cursor["$cursor"]["queryPlanner"]
        assert planner["namespace"] == "local.oplog.rs"
        begins = event["clusterTime"].time << 32 | event["clusterTime"].inc
        assert planner["winningPlan"]["stage"] == "COLLSCAN"
        assert planner["winningPlan"]["minRecord"] == begins
        assert [each["$changeStream"]["stage"] for each in steps[:-1]] == [
            "internalUnwindTransaction", "internalTransform", "internalCheckInvalidate", "internalCheckResumability",
        ]  # fmt: skip
        assert steps[1]["$changeStream"]["options"] == {
            "startAtOperationTime": event["clusterTime"], "fullDocument": "default", "fullDocumentBeforeChange": "off",
        }  # fmt: skip
        assert list(steps[-1]) == ["$match"]
        options = {"resumeAfter": event["_id"], "fullDocument": "updateLookup", "showExpandedEvents": True}
        _, *steps = await explained(options, {"$match": {"a": 1}}, {"$project": {"x": 1}}, target=1)
        assert steps[3:] == [
            {"$match": {"a": {"$eq": 1}}},
            {"$changeStream": {"stage": "$_internalChangeStreamAddPostImage", "fullDocument": "updateLookup"}},
            {"$changeStream": {"stage": "internalEnsureResumeTokenPresent", "resumeToken": event["_id"]}},
            {"$project": {"x": 1}},
        ]
        shown = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}
        assert (await node.reply({**shown, "explain": True}))["ok"] == 1

    loop(work())


def test_explain_reads_a_stream_up_to_its_end_where_it_is_asked_for_statistics() -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open()
        await node.insert("c", *({"_id": number, "x": number % 2} for number in range(2500)))
        await node.insert("d", {"_id": 1})
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 5}}}]})
        (event,) = await stream.events(batchSize=1)

        async def explained(options: dict[str, Any], *stages: dict[str, Any], **given: Any) -> Any:
            options = {"startAtOperationTime": event["clusterTime"], **options}
            inner = {"aggregate": "c", "pipeline": [{"$changeStream": options}, *stages], "cursor": {}}
            reply = await node.run({"explain": inner, "verbosity": "executionStats", **given})
            return reply["stages"]

        cursor, *steps = await explained({})
        examined = 2500 + 2 + 1
        assert cursor["nReturned"] == cursor["$cursor"]["executionStats"]["totalDocsExamined"] == examined
        scan = cursor["$cursor"]["executionStats"]["executionStages"]
        assert (scan["stage"], scan["docsExamined"], scan["isEOF"]) == ("COLLSCAN", examined, 0)
        assert [each["nReturned"] for each in steps] == [2501] * 5
        node.hurry()
        match = {"$match": {"operationType": {"$ne": "delete"}}}
        stages = (match, {"$match": {"fullDocument.x": 1}}, {"$project": {"ns": 1}})
        cursor, *steps = await explained({"fullDocument": "updateLookup"}, *stages, verbosity="allPlansExecution")
        assert cursor["$cursor"]["executionStats"]["allPlansExecution"] == []
        assert [next(iter(each)) for each in steps[4:]] == ["$match", "$changeStream", "$match", "$project"]
        assert [each["nReturned"] for each in steps] == [2501] * 6 + [1250] * 2
        assert node.node.parts[SharedReader]._streams == 1, "the one that was opened before"

    loop(work())


@pytest.mark.parametrize(
    ("collection", "db", "options", "stages", "code"),
    [
        (1, "admin", {}, (), 73),
        ("c", "config", {}, (), 73),
        ("system.views", "test", {}, (), 73),
        ("c", "test", {"allChangesForCluster": True}, (), 72),
        (1, "test", {"allChangesForCluster": True}, (), 72),
        ("c", "test", {"fullDocument": "x"}, (), 2),
        ("c", "test", {"foo": 1}, (), 40415),
        ("c", "test", {"resumeAfter": {"_data": ""}}, (), 40649),
        ("c", "test", {"resumeAfter": {"_data": "00"}}, (), 50811),
        ("c", "test", {}, ({"$group": {"_id": 1}},), 20),
        ("c", "test", {}, ({"$out": "x"},), 20),
        ("c", "test", {}, ({"$changeStream": {}},), 40602),
        ("v", "test", {}, (), 166),
    ],
)
def test_what_is_refused(
    collection: str | int, db: str, options: dict[str, Any], stages: tuple[dict[str, Any], ...], code: int
) -> None:
    async def work() -> None:
        node = member()
        await node.run({"create": "v", "viewOn": "c", "pipeline": []})
        assert (await Stream(node, collection, db).reply(*stages, **options))["code"] == code

    loop(work())


def test_a_node_alone_has_none() -> None:
    async def work() -> None:
        assert (await Stream(LocalNode()).reply())["code"] == 40573

    loop(work())


def test_what_stays_behind_reads_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams fall out of what is kept for all of them, and come back to it, without gap or repeat."""
    monkeypatch.setattr("docstore.node.change_streams.shared_reader.MOST_OPERATIONS", 8)

    async def work() -> None:
        node = member()
        fast, slow = await Stream(node).open(), await Stream(node).open()
        told: dict[str, list[int]] = {"fast": [], "slow": []}
        for identity in range(60):
            await node.insert("c", {"_id": identity})
            told["fast"] += [event["documentKey"]["_id"] for event in await fast.events()]
            if identity % 20 == 19:
                for _ in range(5):
                    told["slow"] += [event["documentKey"]["_id"] for event in await slow.events(batchSize=3)]
        while events := await slow.events():
            told["slow"] += [event["documentKey"]["_id"] for event in events]
        assert told == {"fast": list(range(60)), "slow": list(range(60))}

    loop(work())


def test_a_null_timestamp_is_before_all_that_the_log_has() -> None:
    async def work() -> None:
        node = member()
        await node.insert("c", {"_id": 1})
        for at in (Timestamp(0, 0), Timestamp(0, 1)):
            stream = await Stream(node).open(startAtOperationTime=at)
            assert kinds(stream.cursor["firstBatch"]) == ["insert"]

    loop(work())
