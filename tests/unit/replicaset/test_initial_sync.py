"""Becoming a copy while the source goes on, and what happens to data for which there is no way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.collection.oplog import operations
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.store import Store
from docstore.errors import CommandError
from docstore.key_layout import timestamp_key
from docstore.log import JsonFormatter
from docstore.net.errors import NetworkError
from docstore.optime import NULL_OPTIME
from docstore.replicaset.sync.oplog_fetch import OplogFetch
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replicaset.sync.session_rows import log_begin
from docstore.replication.states import MemberState
from docstore.storage import Batch, Family
from tests.harness.rollback_files import kept_documents
from tests.harness.serving import run, until
from tests.unit.replicaset.in_memory_set import SETTINGS, InMemorySet, Node, in_memory_set

Interference = Callable[[str, dict[str, Any]], Awaitable[None]]


def interfere(node: Node, with_command: Interference) -> None:
    """Call `with_command(address, command)` before each command that the node sends; it may raise."""
    passed = node.process.pool.command

    async def command(address: str, database: str, body: Any, *arguments: Any, **options: Any) -> bytes:
        await with_command(address, bson.decode(body) if isinstance(body, bytes) else body)
        return await passed(address, database, body, *arguments, **options)

    node.process.pool.command = command  # type: ignore[method-assign]


def store_of(node: Node) -> Store:
    return node.process.node.store


async def cut_log(node: Node) -> None:
    """Keep nothing in the log but its end."""
    oplog = store_of(node).oplog
    assert oplog is not None
    oplog.max_bytes = 1000
    await until(lambda: oplog.commit_limit >= oplog.last.timestamp - 50)
    while oplog.truncate_old():
        pass


async def add_third(members: InMemorySet) -> None:
    """It copies while nobody is given up for being silent for a moment: another source would be another attempt."""
    patient = {"version": 2, "term": 1, "settings": SETTINGS | {"electionTimeoutMillis": 30_000}}
    await members[0].run({"replSetReconfig": members.config(3) | patient}, "admin")
    await until(lambda: members[2].state.member_state is MemberState.SECONDARY, 20)
    await members.until_converged()


def test_a_clone_may_take_longer_than_the_source_keeps_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [NULL_OPTIME]
    keep = OplogFetch._keep

    async def keep_and_tell(self: OplogFetch, entries: list[bytes]) -> None:
        await keep(self, entries)
        if entries:
            kept[0] = entry_optime(entries[-1])

    monkeypatch.setattr(OplogFetch, "_keep", keep_and_tell)

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            await members[0].insert("c", *range(50), w=2)
            seen = [0]

            async def go_on_meanwhile(address: str, command: dict[str, Any]) -> None:
                if command.get("find") == "c" and not seen[0]:
                    seen[0] = 1
                    fetched = store_of(members[0]).last_optime
                    for number in range(100, 300):
                        await members[0].insert("c", number, w=2)
                    await until(lambda: kept[0] >= store_of(members[0]).last_optime, 20)
                    for node in (members[0], members[1]):
                        await cut_log(node)
                        oplog = store_of(node).oplog
                        assert oplog is not None
                        assert oplog.first > fetched

            interfere(members[2], go_on_meanwhile)
            await add_third(members)
            assert seen[0]
            progress = members[2].replica_set.membership.syncing.progress
            assert (progress.attempts, progress.failures) == (1, 0)
            assert len(await members[2].find("c")) == 250

    run(scenario(), 60)


def test_a_copy_tells_how_far_it_is_and_what_it_has_applied(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            await members[0].insert("c", *range(50), w=2)
            await members[0].insert("d", 1, w=2)
            shown = []

            async def ask_meanwhile(address: str, command: dict[str, Any]) -> None:
                if "replSetFetchSessions" not in command:
                    return
                shown.append((await members[2].run({"replSetGetStatus": 1}, "admin"))["initialSyncStatus"])
                if len(shown) == 2:
                    await members[0].insert("c", *range(100, 110), w=1)

            interfere(members[2], ask_meanwhile)
            await add_third(members)
            status = shown[-1]
            clone = status["databases"]["test"]
            assert (clone["collections"], clone["clonedCollections"]) == (2, 2)
            copied = clone["test.c"]
            assert copied["documentsToCopy"] == copied["documentsCopied"] == 50
            assert copied["bytesToCopy"] == copied["approxBytesCopied"] > 0
            assert status["approxTotalBytesCopied"] <= status["approxTotalDataSize"]
            assert status["remainingInitialSyncEstimatedMillis"] >= 0
            assert status["databases"]["databasesToClone"] == 0
            assert "initialSyncStatus" not in await members[2].run({"replSetGetStatus": 1}, "admin")
            told = await members[2].run({"serverStatus": 1}, "admin")
            assert told["metrics"]["repl"]["initialSync"] == {"completed": 1, "failedAttempts": 0}
            assert told["opcountersRepl"]["insert"] >= 10
            assert told["metrics"]["repl"]["apply"]["ops"] <= told["metrics"]["repl"]["network"]["ops"]
            primary = await members[0].run({"serverStatus": 1}, "admin")
            assert primary["electionMetrics"]["electionTimeout"] == {"called": 1, "successful": 1}
            metrics = (await members[0].run({"replSetGetStatus": 1}, "admin"))["electionCandidateMetrics"]
            assert metrics["newTermStartDate"] <= metrics["wMajorityWriteAvailabilityDate"]

    run(scenario(), 60)


@pytest.mark.parametrize("kind", ["documents", "log"])
def test_a_source_out_of_reach_for_a_moment_costs_no_new_attempt(tmp_path: Path, kind: str) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            await members[0].insert("c", *range(500), w=2, pad="x" * 100)
            failures = []

            async def fail_once(address: str, command: dict[str, Any]) -> None:
                wanted = "c" if kind == "documents" else "oplog.rs"
                first = command.get("find") == wanted and (kind == "documents" or command.get("tailable"))
                if first and not failures:
                    failures.append(address)
                    raise NetworkError(address, "reset by peer", sent=True)

            interfere(members[2], fail_once)
            await add_third(members)
            assert failures
            assert members[2].replica_set.membership.syncing.progress.attempts == 1

    run(scenario(), 60)


def test_a_collection_that_is_dropped_before_its_turn_costs_no_new_attempt(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            await members[0].insert("c", *range(10), w=2)
            dropped = []

            async def drop_it(address: str, command: dict[str, Any]) -> None:
                if command.get("listIndexes") == "c" and not dropped:
                    dropped.append(address)
                    await members[0].run({"drop": "c"})

            interfere(members[2], drop_it)
            await add_third(members)
            assert dropped
            assert members[2].replica_set.membership.syncing.progress.attempts == 1
            assert store_of(members[2]).collection("test.c") is None

    run(scenario(), 60)


def test_a_copy_begins_in_front_of_a_transaction_of_several_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last one has an effect, and needs the others."""
    monkeypatch.setattr(operations, "MOST_BYTES", 1)

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            await members[0].insert("c", 1, w=2)
            before = store_of(members[0]).last_optime
            session = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "autocommit": False}
            documents = [{"_id": number} for number in (2, 3, 4)]
            await members[0].run({"insert": "c", "documents": documents, "startTransaction": True, **session})
            majority = {"writeConcern": {"w": "majority"}}
            await members[0].run({"commitTransaction": 1, **session, **majority}, "admin")
            remote = RemoteMember(members[2].process.pool, members[1].address, timeout=5.0)
            await members.until_converged(0, 1)
            begin = await log_begin(remote)
            assert begin is not None
            assert before < begin < store_of(members[0]).last_optime
            await add_third(members)
            await members[0].insert("c", 5, w=3)
            assert await members[2].hash() == await members[0].hash()

    run(scenario(), 60)


def test_where_the_copy_ends_is_noted_until_it_is_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            await members[0].insert("c", 1, w=2)
            await add_third(members)
            await members[0].insert("c", 2, w="majority")
            local = members[2].replica_set.membership.local
            await until(lambda: local.copied_until == NULL_OPTIME)
            assert not local.initial_sync

    run(scenario(), 60)


async def diverge(members: InMemorySet) -> None:
    """Member 0 has entries that nobody else has, later by its clock than all that the others will write."""
    await members.initiate()
    await members[0].insert("c", *range(10), w=3)
    await until(lambda: all(node.state.commit_point == store_of(members[0]).last_optime for node in members.nodes))
    members.isolate(0)
    oplog = store_of(members[0]).oplog
    assert oplog is not None
    oplog.observe(oplog.last.timestamp + (1000 << 32))
    await members[0].insert("c", 100, 101, w=1)
    await until(lambda: members[1].state.writable or members[2].state.writable)
    winner = members[1] if members[1].state.writable else members[2]
    for number in range(200, 300):
        await winner.insert("c", number, w="majority")


def test_without_a_common_entry_the_data_is_kept_until_an_operator_decides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await diverge(members)
            for node in (members[1], members[2]):
                await cut_log(node)
            last = store_of(members[0]).last_optime
            members.heal()
            await until(lambda: members[0].state.member_state is MemberState.RECOVERING, 10)
            assert store_of(members[0]).last_optime == last
            coll = store_of(members[0]).collection("test.c")
            assert coll is not None
            assert coll.count == 12
            assert (await members[0].run({"replSetGetRBID": 1}, "admin"))["rbid"] == 1
            with pytest.raises(CommandError):
                await members[0].find("c")
            assert members[0].replica_set.membership.syncing.progress.attempts == 0

    run(scenario(), 60)
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert any("Too stale to follow, staying in RECOVERING" in line and "empty database" in line for line in lines)


@pytest.mark.parametrize("alone", [False, True])
def test_a_copy_that_was_never_committed_is_made_anew_when_its_end_is_rolled_back(tmp_path: Path, alone: bool) -> None:
    """Entries that came with an initial sync have no undo records. They are a copy of another member's.

    `alone`: the log begins with the last of them, as that of a copy does of an idle source.
    """

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await diverge(members)
            store, local = store_of(members[0]), members[0].replica_set.membership.local
            copied = store.last_optime
            batch = Batch()
            batch.delete(Family.UNDO, timestamp_key(copied.timestamp))
            store.engine.write(batch)
            local.write_initial_sync(False, copied_until=copied)
            if alone:
                batch = Batch()
                batch.delete_range(Family.OPLOG, timestamp_key(0), timestamp_key(copied.timestamp))
                store.engine.write(batch)
                assert store.oplog is not None
                store.oplog.load()
            members.heal()
            copying = members[0].replica_set.membership.syncing

            def copied_again() -> bool:
                # It is a secondary before it goes back, too.
                return copying.progress.attempts == 1 and members[0].state.member_state is MemberState.SECONDARY

            await until(copied_again, 20)
            await members.until_converged()
            assert (await members[0].run({"replSetGetRBID": 1}, "admin"))["rbid"] > 1
            assert len(await members[0].find("c")) == 110

    run(scenario(), 60)


def test_a_long_rollback_and_its_files_by_namespace(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await diverge(members)
            members.heal()
            await until(lambda: members[0].state.member_state is MemberState.SECONDARY, 10)
            await members.until_converged()
            assert [kept["_id"] for kept in kept_documents(tmp_path / "0", "test.c")] == [101, 100]

    run(scenario(), 60)
