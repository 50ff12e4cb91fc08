from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.donor import BlockWrites, CommitOnConfig, Effect, SendChanges, SendClone
from docstore.sharding.version import UNSHARDED, Lastmod, unsharded_in
from mongod.migration.donor.cloning import Cloning
from mongod.migration.donor.driver import DonorDriver
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, Member, turns

IDS = [f"{number:04}" for number in range(300)]


@asynccontextmanager
async def cluster(*, documents: int = 300, cut: str | None = "0100") -> AsyncIterator[Cluster]:
    """A cluster with documents "0000", "0001", ... on shard1, cut at one id."""
    made = await Cluster().build()
    try:
        if documents:
            rows = [{"_id": value, "id": value} for value in IDS[:documents]]
            await made.write({"insert": "test", "documents": rows}, "0")
        if cut is not None:
            await made.split(cut)
        yield made
    finally:
        await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def refused(work: Awaitable[Any]) -> CommandError:
    with pytest.raises(CommandError) as caught:
        await work
    return caught.value


def test_a_moved_chunk_is_visible_once_and_gone_from_the_donor() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.move("0100", "shard2")
            found = await made.visible()
            assert sorted(found) == IDS
            assert all(len(rows) == 1 for rows in found.values())
            await made.settled()
            assert await made.stored("shard1") == IDS[:100]
            assert await made.stored("shard2") == IDS[100:]
            assert made.chunk("0100").lastmod == Lastmod(2, 0)
            assert made.chunk("0000").lastmod == Lastmod(2, 1)

    run(test)


def test_the_recipient_gets_the_collection_with_its_uuid_and_indexes() -> None:
    async def test() -> None:
        async with cluster() as made:
            index = {"createIndexes": "test", "indexes": [{"key": {"x": 1}, "name": "x_1"}]}
            await made.ask("shard1", index, "test")
            await made.move("0100", "shard2")
            sent, got = (made.members[name].node.store.collection(NAMESPACE) for name in ("shard1", "shard2"))
            assert sent is not None
            assert got is not None
            assert got.uuid == sent.uuid
            assert {index.spec.raw for index in got.indexes.values()} == {
                index.spec.raw for index in sent.indexes.values()
            }

    run(test)


def test_a_chunk_can_go_there_and_back() -> None:
    async def test() -> None:
        async with cluster() as made:
            for to in ("shard2", "shard1", "shard2"):
                await made.move("0100", to)
                await made.insert(f"9{to}{made.chunk('9').lastmod}")
            found = await made.visible()
            assert len(found) == 303
            assert all(len(rows) == 1 for rows in found.values())

    run(test)


def test_orphans_are_invisible_until_they_are_deleted() -> None:
    async def test() -> None:
        async with cluster() as made:
            made.members["shard1"].tunables.orphan_delay = 1000.0
            await made.move("0100", "shard2")
            assert len(await made.stored("shard1")) == 300
            found = await made.visible()
            assert all(len(rows) == 1 for rows in found.values())
            version = made.routing.shard_version("shard1") if made.routing else UNSHARDED
            counted = await made.ask("shard1", made.versioned({"count": "test"}, version), "test")
            assert counted["n"] == 100
            deleted = {"delete": "test", "deletes": [{"q": {}, "limit": 0}]}
            assert (await made.ask("shard1", made.versioned(deleted, version), "test"))["n"] == 100
            assert len(await made.stored("shard1")) == 200

    run(test)


def test_all_are_counted_once_while_a_chunk_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            counts: list[int] = []

            async def counting() -> None:
                while True:
                    counts.append(await made.counted())

            carry_out = DonorDriver._carry_out

            async def beside(donation: DonorDriver, effect: Effect) -> Any:
                event = await carry_out(donation, effect)
                await turns(20)
                return event

            monkeypatch.setattr(DonorDriver, "_carry_out", beside)
            await made.split("0200")
            await made.move("0200", "shard2")
            made.members["shard1"].tunables.orphan_delay = 1000.0
            counter = asyncio.ensure_future(counting())
            await made.move("0100", "shard2")
            await turns()
            made.members["shard1"].tunables.orphan_delay = 0.0
            await made.settled()
            counter.cancel()
            await asyncio.gather(counter, return_exceptions=True)
            assert len(counts) > 10
            assert set(counts) == {300}

    run(test)


def test_what_came_past_the_routers_is_counted_with_the_rest_and_not_seen() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.move("0100", "shard2")
            await made.settled()
            await made.ask("shard1", {"insert": "test", "documents": [{"_id": "x", "id": "0150"}]}, "test")
            assert await made.counted() == 301
            assert len(await made.visible()) == 300

    run(test)


def test_a_stale_router_is_told_the_wanted_version() -> None:
    async def test() -> None:
        async with cluster() as made:
            stale = made.routing.shard_version("shard1") if made.routing else UNSHARDED
            await made.move("0100", "shard2")
            error = await refused(made.ask("shard1", made.versioned({"find": "test"}, stale), "test"))
            assert error.code == Code.StaleConfig
            assert error.extra["ns"] == NAMESPACE
            assert error.extra["shardId"] == "shard1"
            assert error.extra["vReceived"] == stale.to_document()
            assert error.extra["vWanted"]["v"] == Lastmod(2, 1).to_timestamp()

    run(test)


def test_a_router_that_thinks_the_collection_unsharded_is_stale() -> None:
    async def test() -> None:
        async with cluster() as made:
            error = await refused(made.ask("shard1", made.versioned({"find": "test"}, UNSHARDED), "test"))
            assert error.code == Code.StaleConfig
            unsharded = unsharded_in((await made.refresh()).database)
            other = await made.ask("shard1", made.versioned({"find": "other"}, unsharded), "test")
            assert other["cursor"]["firstBatch"] == []

    run(test)


def test_a_split_makes_no_router_stale() -> None:
    async def test() -> None:
        async with cluster(cut=None) as made:
            before = made.routing.shard_version("shard1") if made.routing else UNSHARDED
            await made.split("0100")
            await made.ask("shard1", made.versioned({"find": "test"}, before), "test")

    run(test)


class At:
    """Stops a donation before one of its effects, until told to go on; or does something there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, effect: type[Effect]) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        carry_out = DonorDriver._carry_out

        async def stopping(donation: DonorDriver, asked: Effect) -> Any:
            if isinstance(asked, effect) and not self.reached.is_set():
                self.reached.set()
                await self.go_on.wait()
            return await carry_out(donation, asked)

        monkeypatch.setattr(DonorDriver, "_carry_out", stopping)


def test_writes_wait_in_the_critical_section_and_land_once_on_the_new_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            at = At(monkeypatch, CommitOnConfig)
            moving = asyncio.ensure_future(made.move("0100", "shard2"))
            await at.reached.wait()
            writing = asyncio.ensure_future(made.insert("0150x"))
            reading = asyncio.ensure_future(made.visible())
            direct = asyncio.ensure_future(
                made.ask("shard1", {"delete": "test", "deletes": [{"q": {}, "limit": 0}]}, "test")
            )
            _, waiting = await asyncio.wait((writing, reading, direct), timeout=0.1)
            assert waiting == {writing, reading, direct}
            direct.cancel()
            at.go_on.set()
            await asyncio.gather(moving, writing)
            assert "0150x" in await made.stored("shard2")
            assert "0150x" in await made.visible()
            assert sorted(set(await reading) | {"0150x"}) == sorted([*IDS, "0150x"])

    run(test)


@pytest.mark.parametrize("effect", [SendClone, SendChanges, BlockWrites])
def test_changes_during_the_clone_arrive(monkeypatch: pytest.MonkeyPatch, effect: type[Effect]) -> None:
    async def test() -> None:
        async with cluster() as made:
            at = At(monkeypatch, effect)
            moving = asyncio.ensure_future(made.move("0100", "shard2"))
            await at.reached.wait()
            await made.insert("0250x")
            await made.write({"delete": "test", "deletes": [{"q": {"id": "0200"}, "limit": 1}]}, "0200")
            change = {"q": {"id": "0201"}, "u": {"$set": {"x": 7}}}
            await made.write({"update": "test", "updates": [change]}, "0201")
            await made.insert("0050x")
            at.go_on.set()
            await moving
            found = await made.visible()
            assert "0250x" in found
            assert "0200" not in found
            assert found["0201"][0]["x"] == 7
            await made.settled()
            assert "0050x" in await made.stored("shard1")
            assert len(found) == 301

    run(test)


def test_one_migration_at_a_time_and_the_same_one_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.split("0200")
            at = At(monkeypatch, SendClone)
            first = asyncio.ensure_future(made.move("0100", "shard2"))
            await at.reached.wait()
            again = asyncio.ensure_future(made.move("0100", "shard2"))
            error = await refused(made.move("0200", "shard2"))
            assert error.code == Code.ConflictingOperationInProgress
            error = await refused(made.split("0150"))
            assert error.code == Code.ConflictingOperationInProgress
            at.go_on.set()
            await asyncio.gather(first, again)
            started = [name for _, name in made.network.seen if name == "_recvChunkStart"]
            assert len(started) == 1

    run(test)


def test_a_move_that_has_happened_is_not_done_again() -> None:
    async def test() -> None:
        async with cluster() as made:
            routing = await made.refresh()
            command = requests.move_range(NAMESPACE, made.chunk("0100").range, routing.version(), "shard2")
            await made.ask("shard1", command)
            await made.ask("shard1", command)
            assert made.network.seen.count(("shard2:1", "_recvChunkStart")) == 1

    run(test)


def test_moves_of_chunks_that_are_not_there_are_refused() -> None:
    async def test() -> None:
        async with cluster() as made:
            routing = await made.refresh()
            assert routing.collection is not None
            everything = requests.move_range(NAMESPACE, made.key.everything, routing.version(), "shard2")
            assert (await refused(made.ask("shard1", everything))).code == Code.ConflictingOperationInProgress
            other = routing.version()._replace(epoch=bson.ObjectId())
            stale = requests.move_range(NAMESPACE, made.chunk("0100").range, other, "shard2")
            assert (await refused(made.ask("shard1", stale))).code == Code.StaleEpoch
            nowhere = requests.move_range(NAMESPACE, made.chunk("0100").range, routing.version(), "shard9")
            assert (await refused(made.ask("shard1", nowhere))).code == Code.ShardNotFound

    run(test)


def test_an_incoming_range_waits_for_its_deletion() -> None:
    async def test() -> None:
        async with cluster() as made:
            made.members["shard1"].tunables.orphan_delay = 1000.0
            made.members["shard1"].tunables.wait_for_deletion = 0.1
            await made.move("0100", "shard2")
            assert (await refused(made.move("0100", "shard1"))).code == Code.OperationFailed
            made.members["shard1"].tunables.orphan_delay = 0.0
            made.members["shard1"].tunables.wait_for_deletion = 10.0
            await made.move("0100", "shard1")
            found = await made.visible()
            assert sorted(found) == IDS

    run(test)


def test_a_document_with_a_taken_id_on_the_recipient_refuses_the_move() -> None:
    async def test() -> None:
        async with cluster(documents=10, cut="0005") as made:
            await made.move("0005", "shard2")
            await made.write({"insert": "test", "documents": [{"_id": "twin", "id": "0009x"}]}, "0009x")
            await made.write({"insert": "test", "documents": [{"_id": "twin", "id": "0001x"}]}, "0001x")
            assert (await refused(made.move("0001", "shard2"))).code == Code.OperationFailed
            found = await made.visible()
            assert len(found) == 12
            await made.settled()
            assert len(await made.stored("shard2")) == 6

    run(test)


def test_a_collection_that_is_dropped_as_its_move_begins_ends_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """The capture of changes cannot begin, and the clone that was to follow is not sent."""

    def gone(_cloning: Cloning) -> None:
        raise CommandError(Code.NamespaceNotFound, "dropped")

    async def test() -> None:
        async with cluster() as made:
            monkeypatch.setattr(Cloning, "start_capture", gone)
            assert (await refused(made.move("0100", "shard2"))).code == Code.OperationFailed
            await made.settled()
            assert await made.stored("shard2") == []

    run(test)


def test_a_range_that_changes_too_fast_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            monkeypatch.setattr("mongod.migration.donor.capture.MAX_BYTES", 10)
            monkeypatch.setattr("mongod.migration.donor.capture.Capture.__init__.__kwdefaults__", {"max_bytes": 10})
            at = At(monkeypatch, SendClone)
            moving = asyncio.ensure_future(made.move("0100", "shard2"))
            await at.reached.wait()
            await made.insert("0250x")
            at.go_on.set()
            assert (await refused(moving)).code == Code.OperationFailed
            await made.settled()
            assert await made.stored("shard2") == []

    run(test)


def test_a_retry_that_arrives_after_the_move_is_not_executed_again() -> None:
    async def test() -> None:
        async with cluster() as made:
            writes: list[dict[str, Any]] = [
                {"insert": "test", "documents": [{"_id": "a", "id": "0200x"}, {"_id": "b", "id": "0201x"}]},
                {"update": "test", "updates": [{"q": {"id": "0200"}, "u": {"$inc": {"n": 1}}}]},
                {"update": "test", "updates": [{"q": {"id": "0300"}, "u": {"$inc": {"n": 1}}, "upsert": True}]},
                {"delete": "test", "deletes": [{"q": {"id": "0250"}, "limit": 1}]},
                {"findAndModify": "test", "query": {"id": "0202"}, "update": {"$inc": {"n": 1}}, "new": True},
                {"findAndModify": "test", "query": {"id": "0203"}, "remove": True},
            ]
            for session, write in enumerate(writes):
                lsid = {"lsid": {"id": Binary(bytes([session]) * 16, 4)}, "txnNumber": Int64(1)}
                first = await made.write({**write, **lsid}, "0200")
                if session == 0:
                    await made.move("0100", "shard2")
                    await made.move("0100", "shard1")
                to = "shard2" if made.chunk("0200").shard == "shard1" else "shard1"
                await made.move("0200", to)
                again = await made.write({**write, **lsid}, "0200")
                same = {"n", "nModified", "upserted", "value", "lastErrorObject"} & first.keys()
                assert {name: again[name] for name in same} == {name: first[name] for name in same}
                assert "retriedStmtIds" in again or "retriedStmtId" in again
            found = await made.visible()
            assert all(len(rows) == 1 for rows in found.values())
            assert [found[value][0].get("n") for value in ("0200", "0300", "0202")] == [1, 1, 1]
            assert {"0250", "0203"}.isdisjoint(found)
            assert len(found) == 300 + 2 + 1 - 2
            assert made.members["shard2"].node.store.collection("config.migratedStatements").count == 0

    run(test)


def test_a_late_request_to_begin_a_decided_migration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its pending range deletion would stay for ever."""

    async def test() -> None:
        async with cluster() as made:
            starts: list[bytes] = []
            handle = Member.handle

            async def keeping(member: Member, db: str, body: bytes, sequences: dict[str, list[bytes]]) -> bytes:
                if next(iter(bson.decode(body))) == "_recvChunkStart":
                    starts.append(body)
                return await handle(member, db, body, sequences)

            monkeypatch.setattr(Member, "handle", keeping)
            await made.move("0100", "shard2")
            await made.move("0100", "shard1")
            await made.settled()
            with pytest.raises(CommandError, match="decided"):
                await made.network.command("shard2:1", "admin", starts[0])
            await made.settled()

    run(test)
