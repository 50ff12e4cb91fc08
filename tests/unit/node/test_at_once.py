"""Reads answered in one step by prepared scans, against the general way."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from docstore.replicaset.read.snapshot_leases import Lease
from docstore.storage.engine import Reader
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.requests_at_once import (
    INDEXES,
    KINDS,
    LOOSE,
    PATHS,
    PATTERNS,
    SCALARS,
    STRICT,
    document,
    everything,
    identity,
    patched,
    pipeline,
    request,
)
from tests.unit.node.test_fast_path import VERSION, own_a_part
from tests.unit.node.transactional import Client


def sorted_out(found: tuple[list[Any], bool]) -> tuple[list[str], bool]:
    """Documents without their order, and what is gathered in them without its own."""
    documents, first = found
    plain = [
        {name: sorted(map(repr, value)) if name in ("all", "l") else value for name, value in each.items()}
        for each in documents
    ]
    return sorted(map(repr, plain)), first


async def compare(
    node: LocalNode, command: dict[str, Any], monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    found, first = await everything(node, command)
    also = ("shardVersion", "collation", "batchBytes", "readConcern")
    version = {name: value for name, value in command.items() if name in also}
    with monkeypatch.context() as patch:
        patched(patch)
        expected, first_of_expected = await everything(node, command)
        named = {
            name: value for name, value in command.items() if name not in ("projection", "limit", "skip", "batchBytes")
        }
        matching = {each["_id"] for each in (await everything(node, named | {"batchSize": 1000}))[0]}
    assert (len(found), first) == (len(expected), first_of_expected), command
    plain = "projection" not in command or command["projection"] == {}
    if plain and (command.get("sort") == {"_id": 1} or ("sort" not in command and list(command["filter"]) == ["$or"])):
        assert repr(found) == repr(expected), command
    if not {"limit", "skip"} & command.keys():
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), command
    if plain:
        assert {each["_id"] for each in found} <= matching, command
        assert len({each["_id"] for each in found}) == len(found), command
    for aggregate in (pipeline(rng, command["filter"], partly="batchBytes" in version) | version for _ in range(2)):
        given = await everything(node, aggregate)
        with monkeypatch.context() as patch:
            patched(patch)
            assert sorted_out(given) == sorted_out(await everything(node, aggregate)), aggregate
    if "hint" in command:
        return
    version.pop("batchBytes", None)
    distinct = {"distinct": "c", "key": rng.choice(PATHS), "query": command["filter"], **version}
    values = [outcome(await node.reply(distinct), "values")]
    with monkeypatch.context() as patch:
        patched(patch)
        values.append(outcome(await node.reply(distinct), "values"))
    assert repr(values[0]) == repr(values[1]) or distinct["key"] != "_id", distinct
    assert len(values[0]) == len(values[1]), distinct
    counted = {"count": "c", "query": command["filter"], **version}
    counted |= {name: command[name] for name in ("skip", "limit") if name in command}
    counts = [outcome(await node.reply(counted), "n")]
    with monkeypatch.context() as patch:
        patched(patch)
        counts.append(outcome(await node.reply(counted), "n"))
    assert counts[0] == counts[1], counted


EARLIER = {"readConcern": {"level": "snapshot", "atClusterTime": bson.Timestamp(1, 1)}}


async def write_over(node: LocalNode, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> Lease:
    """Have the present state as the one of `EARLIER` from now on, and write to most of it."""
    snapshot = node.node.engine.snapshot()
    lease = Lease(snapshot, snapshot.close, 0.0, 0)

    async def reader(*_: Any) -> tuple[Reader, Callable[[], None]]:
        return lease.hold()

    monkeypatch.setattr(node.replication, "leases", SimpleNamespace(lease_at=lambda _at: lease))
    monkeypatch.setattr(node.replication, "reader", reader)
    known = [each["_id"] for each in await node.documents("c")]
    for each in rng.sample(known, len(known) // 3):
        await node.run({"delete": "c", "deletes": [{"q": {"_id": each}, "limit": 1}]})
    for each in rng.sample(known, len(known) // 2):
        changed = document(rng, each, arrays=False)
        await node.run({"update": "c", "updates": [{"q": {"_id": each}, "u": changed, "upsert": True}]})
    await node.insert("c", *(document(rng, rng.randrange(1000, 10**9), arrays=False) for _ in range(10)))
    return lease


def outcome(reply: dict[str, Any], name: str) -> Any:
    """What a reply says, or the name of its error."""
    return reply[name] if reply["ok"] else reply["codeName"]


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_at_once_is_what_the_general_way_finds(
    seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        rng = random.Random(seed)
        node = LocalNode(replicated=kind in ("shard", "earlier"))
        clustered = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}} if kind == "clustered" else {}
        collated = {"collation": LOOSE} if kind == "collated by default" else {}
        await node.run({"create": "c", **clustered, **collated})
        await node.run({"createIndexes": "c", "indexes": _several(rng, kind)})
        # Arrays are met only later, when plans have been kept.
        await node.insert("c", *(document(rng, identity(kind, number), arrays=False) for number in range(60)))
        if kind == "shard":
            own_a_part(node)
        requests = [request(rng) for _ in range(25)]
        if kind.startswith("collated"):
            requests = [
                each | rng.choice(({}, *({"collation": rules} for rules in (LOOSE, STRICT)))) for each in requests
            ]
        for _turn in range(3):
            if kind == "earlier":
                await write_over(node, monkeypatch, rng)
            for command in requests:
                asked = {name: each for name, each in command["filter"].items() if name not in ("$expr", "$nor")}
                sent = command | {
                    "filter": command["filter"] | {path: _other(rng, each) for path, each in asked.items()}
                }
                if kind == "shard":
                    # A router that asks several shards.
                    sent |= {"shardVersion": VERSION} | rng.choice(({}, {"batchBytes": 200}, {"batchBytes": 1 << 22}))
                elif kind == "earlier":
                    sent |= EARLIER
                await compare(node, sent, monkeypatch, rng)
            await _change(node, kind, rng)

    loop(work())


def _several(rng: random.Random, kind: str) -> list[dict[str, Any]]:
    """A few indexes."""
    return list({each["name"]: each for each in rng.sample(KINDS[kind], 3)}.values())


def _other(rng: random.Random, asked: Any) -> Any:
    """Another condition of the form, mostly."""
    if isinstance(asked, list) and all(isinstance(each, dict) and each for each in asked):
        return [{path: _other(rng, each) for path, each in branch.items()} for branch in asked]
    if isinstance(asked, bson.Regex):
        return rng.choice(PATTERNS)
    if not isinstance(asked, dict):
        return rng.choice([each for each in SCALARS if type(each) is type(asked)] or [asked])
    if "$in" in asked:
        return {"$in": rng.choices(SCALARS, k=rng.randrange(5))}
    if "$all" in asked:
        return {"$all": [_other(rng, each) for each in asked["$all"]]}
    if "$elemMatch" in asked:
        return {"$elemMatch": {name: _other(rng, each) for name, each in asked["$elemMatch"].items()}}
    if "$regex" in asked:
        pattern = rng.choice(PATTERNS)
        return asked | {"$regex": pattern.pattern if isinstance(asked["$regex"], str) else pattern}
    return {name: rng.choice(SCALARS) if name in ("$gt", "$lt", "$eq") else value for name, value in asked.items()}


async def _change(node: LocalNode, kind: str, rng: random.Random) -> None:
    kept, node.node.shard_filter = node.node.shard_filter, None
    more = (document(rng, identity(kind, rng.randrange(1000, 10**9)), arrays=True) for _ in range(20))
    await node.insert("c", *more)
    names = [each["name"] for each in (await node.run({"listIndexes": "c"}))["cursor"]["firstBatch"]]
    await node.run({"dropIndexes": "c", "index": rng.choice([name for name in names if name != "_id_"])})
    await node.reply({"createIndexes": "c", "indexes": [rng.choice(KINDS[kind])]})
    node.node.shard_filter = kept


def test_a_sorted_find_gives_the_documents_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        rng = random.Random(3)
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"b": 1, "e": -1}, "name": "be"}]})
        rows = [{"_id": number, "a": number % 4, "b": number % 3, "e": rng.random()} for number in range(90)]
        await node.insert("c", *rows)
        for wanted in ({"a": 1}, {"b": 2}, {"a": {"$gte": 1, "$lt": 3}}, {"a": 9}):
            for sort in ({"e": 1}, {"e": -1}, {"b": 1, "e": 1}):
                command = {"find": "c", "filter": wanted, "sort": sort, "limit": 7, "skip": 2}
                found, _ = await everything(node, command)
                with monkeypatch.context() as patch:
                    patched(patch)
                    assert found == (await everything(node, command))[0], command

    loop(work())


def test_reads_of_a_state_that_has_been_read_before_need_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]})
        await node.run({"createIndexes": "d", "indexes": [{"key": {"a": 1}, "name": "a"}]})
        await node.insert("c", *({"_id": number, "a": number % 4} for number in range(200)))
        await node.insert("d", {"_id": 1, "a": 1})
        joined = {"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "l"}}
        requests: list[dict[str, Any]] = [
            {"find": "c", "filter": {"_id": 7}},
            {"find": "c", "filter": {"a": 1}},
            {"find": "c", "filter": {"a": 1}, "batchSize": 3},
            {"find": "c", "filter": {"_id": {"$lt": 9}}, "sort": {"_id": -1}},
            {"distinct": "c", "key": "_id", "query": {"a": 2}},
            {"distinct": "c", "key": "a"},
            {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$count": "n"}], "cursor": {}},
            {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, joined], "cursor": {}},
        ]
        before = [await _whole(node, command) for command in requests]
        lease = await write_over(node, monkeypatch, random.Random(1))
        await node.run({"update": "d", "updates": [{"q": {}, "u": {"$set": {"a": 2}}}]})
        opened: list[None] = []
        reader = node.replication.reader

        async def counted(*asked: Any) -> Any:
            opened.append(None)
            return await reader(*asked)

        monkeypatch.setattr(node.replication, "reader", counted)
        assert [await _whole(node, command | EARLIER) for command in requests] == before
        assert opened == []
        assert lease.holders == 1, "what cursors held is released"
        # Of an index that has been dropped there may be more in the state than is known now.
        await node.run({"dropIndexes": "c", "index": "a"})
        assert [await _whole(node, command | EARLIER) for command in requests] == before
        assert len(opened) == len(requests)

    loop(work())


async def _whole(node: LocalNode, command: dict[str, Any]) -> Any:
    if "distinct" in command:
        reply = await node.run(command)
        if "readConcern" in command:
            assert reply.get("atClusterTime", bson.Timestamp(1, 1)) == bson.Timestamp(1, 1)
        return sorted(reply["values"])
    return sorted(map(repr, (await everything(node, command))[0]))


@pytest.mark.parametrize("seed", range(4))
def test_what_a_transaction_reads_at_once_is_what_it_reads_the_general_way(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        rng = random.Random(seed)
        node = LocalNode(replicated=True)
        await node.run({"createIndexes": "c", "indexes": _several(rng, "standalone")})
        await node.insert("c", *(document(rng, number, arrays=False) for number in range(60)))
        for turn in range(30):
            one = Client(node, number=turn + 1)
            await one.first({"find": "c", "filter": {"_id": 1}})
            await node.insert("c", document(rng, rng.randrange(1000, 10**9), arrays=False))
            for _ in range(3):
                changed = document(rng, rng.randrange(70), arrays=False)
                update = {"q": {"_id": changed["_id"]}, "u": changed, "upsert": True}
                assert (await one.then({"update": "c", "updates": [update]}))["ok"]
            await one.then({"delete": "c", "deletes": [{"q": {"_id": rng.randrange(60)}, "limit": 1}]})
            asked = pipeline(rng, request(rng)["filter"]) | {"cursor": {"batchSize": 500}}
            given = [await one.then(asked)]
            with monkeypatch.context() as patch:
                patched(patch)
                given.append(await one.then(asked) if given[0]["ok"] else given[0])
            if given[0]["ok"]:
                first, second = (sorted_out((each["cursor"]["firstBatch"], True)) for each in given)
                assert first == second, asked
                assert (await one.commit())["ok"]

    loop(work())
