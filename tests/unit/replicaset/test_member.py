"""Members at work, all in one loop: what clients are told, and what is left after links were cut."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.key_layout import SESSION_PREFIX, after_prefix
from docstore.replication.states import MemberState
from docstore.storage import Family, disk_space
from tests.harness.rollback_files import kept_documents
from tests.harness.serving import run, until
from tests.unit.replicaset.in_memory_set import InMemorySet, Node, in_memory_set


def refused_with(error: pytest.ExceptionInfo[CommandError], code: int) -> bool:
    return error.value.code == code


def session_id(identifier: bytes) -> bytes:
    """As it is stored: the id and the digest of nobody's name."""
    return identifier + hashlib.sha256(b"").digest()


async def failure_of(node: Node, command: dict[str, Any]) -> int:
    """The code of the command's failure, or of its write concern's."""
    try:
        reply = await node.run(command)
    except CommandError as refused:
        return refused.code
    return int(reply["writeConcernError"]["code"])


async def write_alone(members: InMemorySet, number: int, collection: str, *ids: int) -> None:
    """Write where nobody hears of it."""
    members.isolate(number)
    await members[number].insert(collection, *ids, w=1)


def test_a_set_of_one_is_primary_at_once_and_acknowledges_a_majority(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 1) as members:
            reply = await members[0].run({"replSetInitiate": {}}, "admin")
            assert reply["me"] == members[0].address
            await until(lambda: members[0].state.writable)
            assert "writeConcernError" not in await members[0].insert("c", 1, w="majority")
            config = await members[0].run({"replSetGetConfig": 1, "commitmentStatus": True}, "admin")
            assert (config["config"]["term"], config["commitmentStatus"]) == (1, True)

    run(scenario())


def test_a_majority_write_is_on_the_others_and_readable_at_majority(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            for number in range(20):
                await members[0].insert("c", number, w="majority")
                seen = await members[0].find("c", readConcern={"level": "majority"})
                assert [row["_id"] for row in seen] == list(range(number + 1))
            await members.until_converged()
            status = await members[1].run({"replSetGetStatus": 1}, "admin")
            assert [row["stateStr"] for row in status["members"]] == ["PRIMARY", "SECONDARY", "SECONDARY"]
            assert status["syncSourceHost"] == members[0].address
            own = status["members"][1]
            assert own["lastAppliedWallTime"] == status["optimes"]["lastAppliedWallTime"]
            assert own["lastDurableWallTime"] == status["optimes"]["lastDurableWallTime"]
            leading = await members[0].run({"replSetGetStatus": 1}, "admin")
            assert all("lastAppliedWallTime" in row for row in leading["members"])

    run(scenario())


def test_a_partitioned_primary_is_replaced_and_rolls_back_what_only_it_had(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            await members[0].insert("c", *range(10), w=3, v="both")
            await write_alone(members, 0, "c", 100, 101)
            await members[0].run(
                {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"v": "lost"}}}], "writeConcern": {"w": 1}}
            )
            await until(lambda: members[1].state.writable or members[2].state.writable)
            winner = members[1] if members[1].state.writable else members[2]
            assert not members[0].state.writable or members[0].state.term < winner.state.term
            await winner.insert("c", 100, w="majority", v="kept")
            members.heal()
            await until(lambda: members[0].state.member_state is MemberState.SECONDARY)
            await members.until_converged()
            assert {row["_id"]: row["v"] for row in await members[0].find("c")} == dict.fromkeys(range(10), "both") | {
                100: "kept"
            }
            assert {row["_id"] for row in kept_documents(tmp_path / "0", "test.c")} == {3, 100, 101}
            assert (await members[0].run({"replSetGetRBID": 1}, "admin"))["rbid"] == 2

    run(scenario())


def test_a_writer_waiting_for_a_majority_learns_that_office_was_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            members.isolate(0)
            command = {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": "majority"}}
            assert await failure_of(members[0], command) in (
                Code.PrimarySteppedDown,
                Code.InterruptedDueToReplStateChange,
            )

    run(scenario())


def test_what_cannot_be_acknowledged_in_time_is_a_write_concern_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            members.isolate(2)
            late = {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": 3, "wtimeout": 30}}
            error = (await members[0].run(late))["writeConcernError"]
            assert (error["code"], error["errInfo"]["wtimeout"]) == (64, True)
            limited = {"insert": "c", "documents": [{"_id": 2}], "writeConcern": {"w": 3}, "maxTimeMS": 30}
            assert await failure_of(members[0], limited) == Code.MaxTimeMSExpired
            impossible = {"insert": "c", "documents": [{"_id": 3}], "writeConcern": {"w": 9}}
            assert (await members[0].run(impossible))["writeConcernError"]["code"] == 100
            assert len(await members[0].find("c")) == 3

    run(scenario())


def test_a_majority_read_waits_for_no_write_that_is_not_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            await members[0].insert("c", 1, w="majority")
            members.isolate(0)
            await members[0].insert("c", 2, w=1)
            seen = await members[0].find("c", readConcern={"level": "majority"})
            assert [row["_id"] for row in seen] == [1]
            assert len(await members[0].find("c")) == 2

    run(scenario())


def test_an_idle_primary_moves_its_log_to_the_time_that_a_read_asks_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 1) as members:
            await members.initiate()
            oplog = members[0].process.node.store.oplog
            assert oplog is not None
            ahead = oplog.last.timestamp + (5 << 32)
            members[0].replica_set.observe_cluster_time(ahead)
            concern = {"afterClusterTime": bson.Timestamp(ahead >> 32, ahead & 0xFFFFFFFF)}
            assert await members[0].find("c", readConcern=concern) == []
            assert oplog.last.timestamp >= ahead

    run(scenario())


def test_a_late_member_copies_everything_sessions_included_while_it_is_written_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            source = members[0]
            await source.run({"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n_1", "unique": True}]})
            documents = [{"_id": n, "n": n, "pad": "x" * 200} for n in range(3000)]
            retry = {"lsid": {"id": bson.Binary(b"s" * 16, 4)}, "txnNumber": Int64(4)}
            await source.run({"insert": "c", "documents": documents, **retry})
            added = members.config(3) | {"version": 2, "term": 1}
            await source.run({"replSetReconfig": added}, "admin")
            number = 3000
            while members[2].state.member_state is not MemberState.SECONDARY:
                number += 1
                await source.insert("c", number, n=number)
                await source.run(
                    {"update": "c", "updates": [{"q": {"_id": number % 3000}, "u": {"$set": {"n": -number}}}]}
                )
                await source.run({"delete": "c", "deletes": [{"q": {"_id": number * 7 % 3000}, "limit": 1}]})
            await members.until_converged()
            assert (await members[2].run({"validate": "c"}))["valid"]
            engine = members[0].process.node.engine
            row_key = next(engine.keys(Family.META, SESSION_PREFIX, after_prefix(SESSION_PREFIX), True))
            copied = members[2].process.node.store.sessions.state(row_key[len(SESSION_PREFIX) :])
            assert copied.txn_number == 4
            await until(lambda: (c := members[0].state.config) is not None and len(c.voters) == 3)

    run(scenario())


def test_kinds_of_collections_are_copied_replicated_and_rolled_back(tmp_path: Path) -> None:
    """Kinds of collections and views, by an initial sync, by the oplog, and back from a partition."""
    collation = {"locale": "en", "strength": 2}
    anywhere = {"$readPreference": {"mode": "nearest"}}

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate(2)
            first = members[0]
            await first.run({"create": "capped", "capped": True, "size": 4096, "max": 3})
            await first.insert("capped", *range(5))
            await first.run({"create": "checked", "validator": {"a": {"$gt": 1}}})
            await first.run({"create": "view", "viewOn": "capped", "pipeline": [{"$match": {"_id": {"$gt": 3}}}]})
            await first.run({"create": "collated", "collation": collation})
            await first.run({"createIndexes": "collated", "indexes": [{"key": {"a": 1}, "name": "a", "unique": True}]})
            await first.run({"insert": "collated", "documents": [{"_id": "One", "a": "x"}]})
            await first.run({"replSetReconfig": members.config(3) | {"version": 2, "term": 1}}, "admin")
            await first.run({"insert": "collated", "documents": [{"_id": "Two", "a": "y"}]})
            await first.run({"collMod": "checked", "validationAction": "warn"})
            await first.run({"collMod": "view", "viewOn": "capped", "pipeline": []})
            await first.insert("capped", 5, w="majority")
            await members.until_converged()
            # One that has just been copied has all entries a moment before it is read from.
            await until(lambda: all(member.state.member_state.readable for member in members.nodes))
            for member in members.nodes[1:]:
                assert [each["_id"] for each in await member.find("view")] == [3, 4, 5]
                store = member.process.node.store
                for text in ("x", "Y"):
                    counted = await member.run(
                        {"count": "collated", "query": {"a": text.upper()}, "hint": "a", **anywhere}
                    )
                    assert counted["n"] == 1
                for name in ("capped", "checked", "collated"):
                    ours, theirs = first.process.node.store.collection(f"test.{name}"), store.collection(f"test.{name}")
                    assert ours is not None
                    assert theirs is not None
                    assert theirs.options == ours.options

            def all_vote() -> bool:
                configs = [member.state.config for member in members.nodes]
                return all(config is not None and len(config.voters) == 3 for config in configs)

            await until(all_vote)
            await write_alone(members, 0, "capped", 6, 7, 8)
            await first.run({"collMod": "capped", "cappedMax": 1, "writeConcern": {"w": 1}})
            lost = {"updates": [{"q": {"_id": "ONE"}, "u": {"$set": {"a": "z"}}}], "writeConcern": {"w": 1}}
            assert (await first.run({"update": "collated", **lost}))["n"] == 1
            await until(lambda: members[1].state.writable or members[2].state.writable)
            members.heal()
            await members.until_converged()
            collection = first.process.node.store.collection("test.capped")
            assert collection is not None
            assert (collection.options.max_documents, collection.count) == (3, 3)
            assert [each["_id"] for each in await first.find("capped")] == [3, 4, 5]
            for text, count in (("X", 1), ("Z", 0)):
                assert (await first.run({"count": "collated", "query": {"a": text}, "hint": "a", **anywhere}))[
                    "n"
                ] == count
            assert (await first.run({"validate": "collated"}))["valid"]

    run(scenario())


def test_a_member_too_stale_for_its_sources_stays_in_recovering(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            await members[0].insert("c", *range(10), w=3)
            members.isolate(2)
            for number in (0, 1):
                oplog = members[number].process.node.store.oplog
                assert oplog is not None
                oplog.max_bytes = 1000
            for start in range(100, 1100, 100):
                await members[0].insert("c", *range(start, start + 100), w=2)
            for number in (0, 1):
                oplog = members[number].process.node.store.oplog
                assert oplog is not None
                await until(lambda oplog=oplog: oplog.commit_limit >= oplog.last.timestamp - 50)
                while oplog.truncate_old():
                    pass
            members.heal()
            await until(lambda: members[2].state.member_state is MemberState.RECOVERING, 10)
            with pytest.raises(CommandError) as refused:
                await members[2].find("c")
            assert refused_with(refused, Code.NotPrimaryOrSecondary)

    run(scenario(), 30)


def test_stopping_the_primary_hands_over_without_an_election_timeout(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            # Longer than is waited for below.
            settings = {"electionTimeoutMillis": 60_000, "heartbeatIntervalMillis": 100}
            await members.initiate(config=members.config(settings=settings))
            await members[0].insert("c", 1, w=3)
            await members[0].process.stop()
            await until(lambda: members[1].state.writable or members[2].state.writable)
            assert (members[1].state.leadership.last_election or members[2].state.leadership.last_election) is not None

    run(scenario())


def test_a_forced_configuration_brings_back_a_set_that_lost_its_majority(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            await members[0].insert("c", 1, w=3)
            members.isolate(0)
            await until(lambda: not members[0].state.writable)
            alone = members.config(1) | {"version": 2}
            with pytest.raises(CommandError) as refused:
                await members[0].run({"replSetReconfig": alone}, "admin")
            assert refused_with(refused, Code.NotWritablePrimary)
            await members[0].run({"replSetReconfig": alone, "force": True}, "admin")
            await until(lambda: members[0].state.writable)
            assert await members[0].find("c") == [{"_id": 1}]

    run(scenario())


def test_the_administrators_commands_refuse_what_makes_no_sense(tmp_path: Path) -> None:
    cases: list[tuple[int, dict[str, Any], int]] = [
        (0, {"replSetInitiate": {}}, Code.AlreadyInitialized),
        (0, {"replSetFreeze": 5}, Code.NotSecondary),
        (1, {"replSetFreeze": -1}, Code.BadValue),
        (1, {"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 1}, Code.NotWritablePrimary),
        (0, {"replSetStepDown": -1}, Code.BadValue),
        (0, {"replSetStepDown": 5}, Code.BadValue),
        (0, {"replSetMaintenance": True}, Code.NotSecondary),
        (1, {"replSetMaintenance": False}, Code.OperationFailed),
        (0, {"replSetAbortPrimaryCatchUp": 1}, Code.IllegalOperation),
        (0, {"replSetSyncFrom": "127.0.0.1:1"}, Code.NotSecondary),
        (1, {"replSetSyncFrom": "127.0.0.1:1"}, Code.NodeNotFound),
        (
            0,
            {"replSetReconfig": {"_id": "rs", "version": 1, "members": []}},
            Code.NewReplicaSetConfigurationIncompatible,
        ),
        (0, {"replSetHeartbeat": "other", "from": "x:1", "configVersion": 1, "term": 1}, 108),
        (0, {"replSetUpdatePosition": 1}, Code.FailedToParse),
    ]

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members.initiate()
            for number, command, code in cases:
                with pytest.raises(CommandError) as refused:
                    await members[number].run(command, "admin")
                assert refused.value.code == code, (command, refused.value)
            assert (await members[1].run({"replSetFreeze": 0}, "admin"))["info"] == "unfreezing"

    run(scenario())


def test_a_member_in_maintenance_is_neither_read_nor_elected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members.initiate()
            await members[1].run({"replSetMaintenance": True}, "admin")
            with pytest.raises(CommandError) as refused:
                await members[1].find("c")
            assert refused_with(refused, Code.NotPrimaryOrSecondary)
            with pytest.raises(CommandError) as refused:
                await members[1].run({"replSetStepUp": 1}, "admin")
            assert refused_with(refused, Code.CommandFailed)
            await members[1].run({"replSetMaintenance": False}, "admin")
            assert await members[1].find("c") == []

    run(scenario())


def test_a_set_name_that_differs_or_a_host_that_is_down_stops_the_initiation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 1) as members:
            for config, code in (
                (members.config() | {"_id": "other"}, Code.InvalidReplicaSetConfig),
                (members.config() | {"members": [{"_id": 0, "host": "127.0.0.1:1"}]}, Code.InvalidReplicaSetConfig),
                (
                    members.config()
                    | {"members": [{"_id": 0, "host": members[0].address}, {"_id": 1, "host": "127.0.0.1:1"}]},
                    Code.NodeNotFound,
                ),
            ):
                with pytest.raises(CommandError) as refused:
                    await members[0].run({"replSetInitiate": config}, "admin")
                assert refused.value.code == code
            assert members[0].state.config is None
            with pytest.raises(CommandError) as refused:
                await members[0].run({"replSetGetConfig": 1}, "admin")
            assert refused_with(refused, Code.NotYetInitialized)

    run(scenario())


def test_a_delayed_member_applies_nothing_before_its_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            config = members.config()
            config["members"][2] |= {"secondaryDelaySecs": 2, "priority": 0, "hidden": True}
            await members.initiate(config=config)
            await members[0].insert("c", 1, w=2)
            assert await members[2].find("c") == []
            hello = await members[0].run({"hello": 1})
            assert members[2].address not in hello["hosts"]
            await members.until_converged()
            assert await members[2].find("c") == [{"_id": 1}]

    run(scenario())


def test_a_member_that_ends_says_so_while_it_still_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 3) as members:
            await members.initiate()
            hello = await members[0].run({"hello": 1})
            awaiting = asyncio.ensure_future(
                members[0].run({"hello": 1, "topologyVersion": hello["topologyVersion"], "maxAwaitTimeMS": 60_000})
            )
            await members[0].run({"ping": 1})

            assert await members[0].replica_set.hand_over(leaving=True) is None

            assert not members[0].state.writable
            # The one that awaited news may hear first that it is primary no longer.
            with pytest.raises(CommandError) as refused:
                await members[0].run({"hello": 1})
            assert refused_with(refused, Code.ShutdownInProgress)
            with contextlib.suppress(CommandError):
                assert not (await awaiting)["isWritablePrimary"]

    run(scenario())


def test_a_member_killed_in_its_initial_sync_does_not_count_what_it_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members.initiate(1)
            await members[0].insert("c", *range(100), w="majority")
            fresh = members[1].replica_set.membership
            fresh.local.write_initial_sync(True)
            await members[0].run({"replSetReconfig": members.config() | {"version": 2}}, "admin")
            await until(lambda: members[1].state.member_state is MemberState.SECONDARY)
            assert not fresh.local.initial_sync
            await members.until_converged()
            assert fresh.syncing.progress.attempts == 1

    run(scenario())


def test_members_whose_disks_are_full_to_the_reserve_still_elect_a_primary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserve is there for votes and configurations; documents are refused, and taken when there is room."""

    async def scenario() -> None:
        free = [1 << 40]
        monkeypatch.setattr(disk_space, "_LOOK_EVERY", 0)
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free[0], f_blocks=1 << 40, f_frsize=1))
        async with in_memory_set(tmp_path, 3, engine="rocksdb") as members:
            await members.initiate()
            await members[0].insert("c", 1, w=3)
            free[0] = 0
            refused = await members[0].run({"insert": "c", "documents": [{"_id": 2}]})
            assert refused["writeErrors"][0]["code"] == Code.OutOfDiskSpace
            members.isolate(0)
            await until(lambda: members[1].state.writable or members[2].state.writable, 10)
            winner = members[1] if members[1].state.writable else members[2]
            config = {**members.config(), "version": 2, "term": winner.state.term}
            await winner.run({"replSetReconfig": config}, "admin")
            members.heal()
            free[0] = 1 << 40
            await winner.insert("c", 3, w=3)
            await members.until_converged()

    run(scenario(), 40)
