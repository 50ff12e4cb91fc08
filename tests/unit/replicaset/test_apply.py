"""Applying fetched entries: whole, in slices, and never past a source's rollback."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import bson
import pytest

from docstore.collection.index.spec import parse_index_spec
from docstore.collection.store import Store
from docstore.net.pool import Pool
from docstore.optime import OpTime
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync.apply import Applier
from docstore.replicaset.sync.initial_sync import AttemptFailed
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replicaset.sync.sync_counts import SyncCounts
from docstore.replicaset.sync.sync_source import SyncSourceFollower
from docstore.replication.messages import Event
from docstore.replication.state import State
from docstore.storage import MemoryEngine
from tests.harness.serving import run

DOCUMENTS = 3000


def new_store() -> Store:
    store = Store(MemoryEngine(), clock=time.time)
    store.attach_oplog(1 << 30)
    return store


def entries_of(store: Store, after: int = 0) -> list[bytes]:
    assert store.oplog is not None
    return list(store.oplog.scan(store.engine, after))


def insert(store: Store, namespace: str, *ids: int, term: int = 1) -> None:
    assert store.oplog is not None
    store.oplog.term = term
    with store.unit() as unit:
        collection = store.collection(namespace) or store.create_collection(unit, namespace)
        for number in ids:
            unit.insert(collection, bson.encode({"_id": number, "n": number % 10}))
        unit.commit()


def documents(store: Store, namespace: str) -> list[dict[str, Any]]:
    collection = store.collection(namespace)
    assert collection is not None
    return [bson.decode(raw) for raw in collection.documents(store.engine)]


class FollowingMember:
    """A member that only counts what it is told."""

    def __init__(self) -> None:
        self.state = State("set", rng=lambda: 0.5)
        self.advanced = 0

    def deliver(self, event: Event) -> None:
        raise AssertionError(f"not expected: {event}")

    def log_advanced(self) -> None:
        self.advanced += 1

    def log_cut(self) -> None: ...

    def initial_sync_done(self) -> None: ...


class RolledBackSource(RemoteMember):
    """A source whose rollback id the test sets."""

    def __init__(self, current: int) -> None:
        super().__init__(Pool(), "127.0.0.1:1", timeout=1.0)
        self.current = current
        self.asked = 0

    async def rollback_id(self) -> int:
        self.asked += 1
        return self.current


def syncing(store: Store, directory: Path, member: FollowingMember) -> SyncSourceFollower:
    async def flush() -> None: ...

    return SyncSourceFollower(
        member,
        store,
        LocalState(store),
        Pool(),
        flush=flush,
        clock=time.monotonic,
        wall_clock=time.time,
        dbpath=directory,
    )


def test_entries_are_applied_in_slices_that_let_others_run() -> None:
    async def scenario() -> None:
        source, copy = new_store(), new_store()
        insert(source, "test.c", *range(DOCUMENTS))
        with source.unit() as unit:
            collection = source.collection("test.c")
            assert collection is not None
            build = source.build_index(
                collection, [parse_index_spec(bson.encode({"v": 2, "key": {"n": 1}, "name": "n_1"}))]
            )
            while not build.step(time.monotonic() + 1):
                pass
        with source.unit() as unit:
            build.finish(unit)
            unit.commit()
        slices, turns = 0, 0

        def progressed() -> None:
            nonlocal slices
            slices += 1

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.ensure_future(other())
        counts = SyncCounts()
        applier = Applier(copy, clock=time.monotonic, wall_clock=time.time, progressed=progressed, counts=counts)
        await applier.apply(entries_of(source))
        running.cancel()
        assert slices > 2
        assert turns >= slices - 1
        assert counts.applied_entries == len(entries_of(source))
        assert counts.opcounters() == {
            "insert": DOCUMENTS, "query": 0, "update": 0, "delete": 0, "getmore": 0, "command": 2,
        }  # fmt: skip
        assert documents(copy, "test.c") == documents(source, "test.c")
        copied = copy.collection("test.c")
        assert copied is not None
        assert set(copied.indexes) == {"_id_", "n_1"}
        assert entries_of(copy) == entries_of(source)

    run(scenario())


def test_a_change_of_term_is_applied_only_if_the_source_has_not_rolled_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        source, copy = new_store(), new_store()
        insert(source, "test.c", 1, term=1)
        first = entries_of(source)
        insert(source, "test.c", 2, term=1)
        insert(source, "test.c", 3, term=2)
        insert(source, "test.c", 4, term=3)
        rest = entries_of(source)[len(first) :]
        member = FollowingMember()
        follower = syncing(copy, tmp_path, member)
        await Applier(copy, clock=time.monotonic, wall_clock=time.time, progressed=lambda: None).apply(first)
        remote = RolledBackSource(current=8)
        with pytest.raises(AttemptFailed, match="rolled back"):
            await follower.apply_fetched(remote, 7, rest)
        assert copy.last_optime.term == 1
        assert [row["_id"] for row in documents(copy, "test.c")] == [1, 2]
        await follower.apply_fetched(RolledBackSource(current=8), 8, entries_of(source, copy.last_optime.timestamp))
        assert copy.last_optime == source.last_optime
        assert copy.last_optime > OpTime(3, 0)

    run(scenario())
