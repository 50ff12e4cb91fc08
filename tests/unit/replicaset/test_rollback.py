"""A rollback that is cut off, refused by the disk, or long: what it takes away is in the database or in its files."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import bson
import pytest

from docstore.collection.oplog.rollback import MOST_ENTRIES, RemovedDocument
from docstore.collection.store import Store
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync import rollback as under_test
from docstore.replicaset.sync.rollback import roll_back
from docstore.replicaset.sync.rollback_files import RollbackFiles
from docstore.storage import DiskFull, Engine, open_engine
from tests.harness.faulty_engine import FaultyEngine
from tests.harness.power_loss import PowerLossEngine
from tests.harness.rollback_files import kept_documents
from tests.harness.serving import run, until
from tests.unit.collection.building import check, doc, insert, make, plain, read, store_on, ticking

NOW = 1_700_000_000.0


class Killed(BaseException):
    """The process ends here."""


class Clock:
    """Every look takes a millisecond, so that a slice ends after a few entries."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


async def undo(
    store: Store,
    common: OpTime,
    directory: Path,
    *,
    clock: Callable[[], float] | None = None,
    files: RollbackFiles | None = None,
) -> int:
    async def flush() -> None:
        store.engine.flush()

    return await roll_back(
        store,
        LocalState(store),
        common,
        commit_point=NULL_OPTIME,
        files=files or RollbackFiles(directory / "rollback", NOW),
        clock=clock or Clock(),
        flush=flush,
    )


def diverged(engine: Engine, count: int) -> tuple[Store, OpTime]:
    """(a store with so many documents behind the common point, that point)."""
    store = store_on(engine)
    coll = make(store, "db.c", doc(-1))
    common = store.last_optime
    for number in range(count):
        insert(store, coll, doc(number))
    return store, common


def ids_in(engine: Engine) -> set[int]:
    store = store_on(engine, clock=ticking())
    check(store)
    coll = store.collection("db.c")
    assert coll is not None
    return {found["_id"] for found in read(coll, engine)}


def ids_kept(directory: Path) -> set[int]:
    if not (directory / "rollback" / "namespaces.json").exists():
        return set()
    return {found["_id"] for found in kept_documents(directory, "db.c")}


def moments() -> Iterator[int]:
    yield from range(1, 60)


def test_a_rollback_that_is_killed_at_any_write_loses_no_document_and_is_gone_on_with(tmp_path: Path) -> None:
    """Each try ends at the next later write; the member that comes after it finishes the rollback."""
    count, done = 40, False
    for moment in moments():
        directory = tmp_path / str(moment)
        faulty: Any = FaultyEngine(open_engine("inMemory", ""))
        store, common = diverged(faulty, count)
        faulty.write_error, faulty.after = Killed(), moment
        try:
            asyncio.run(undo(store, common, directory))
            done = True
        except Killed:
            pass
        faulty.write_error = None
        assert ids_in(faulty) | ids_kept(directory) == set(range(-1, count)), moment
        again = store_on(faulty, clock=ticking())
        asyncio.run(undo(again, common, directory))
        assert ids_in(faulty) == {-1}
        assert ids_kept(directory) == set(range(count))
        if done:
            break
    assert done
    assert moment > 5, "a rollback of some groups"


def test_a_rollback_during_which_the_power_goes_loses_no_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left but what was synced: of the files of the rollback too."""
    synced: dict[str, int] = {}
    fsync = os.fsync

    def noting_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced[os.readlink(f"/proc/self/fd/{descriptor}")] = os.fstat(descriptor).st_size

    monkeypatch.setattr("docstore.replicaset.sync.rollback_files.os.fsync", noting_fsync)
    engine: Any = PowerLossEngine(tmp_path / "db")
    count = 60
    store, common = diverged(engine, count)
    engine.flush()
    write = engine._engine.write
    left: list[tuple[Path, set[int]]] = []

    def losing_power(batch: Any) -> None:
        write(batch)
        # The worst that may be: the batch has just become durable, and nothing else.
        engine.flush()
        target = tmp_path / f"left{len(left)}"
        engine.lose_power(target)
        kept = set[int]()
        for name, size in synced.items():
            if name.endswith(".bson"):
                kept |= {found["_id"] for found in bson.decode_all(Path(name).read_bytes()[:size])}
        left.append((target, kept))

    engine.write = losing_power
    asyncio.run(undo(store, common, tmp_path))
    assert len(left) > 5
    for target, kept in left:
        found = open_engine("rocksdb", str(target))
        assert ids_in(found) | kept == set(range(-1, count)), target
        found.close()
    engine.close()


def no_room(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_files_that_cannot_be_written_are_tried_again_and_stay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(under_test, "RETRY_SECONDS", 0.0)
    files = RollbackFiles(tmp_path / "rollback", NOW)
    store, common = diverged(open_engine("inMemory", ""), 20)
    keep, fsync, tries = files.keep, os.fsync, 0

    def failing(descriptor: int) -> None:
        nonlocal tries
        tries += 1
        if tries % 12 < 4:
            no_room()
        fsync(descriptor)

    def refused(removed: list[RemovedDocument]) -> None:
        nonlocal tries
        tries += 1
        if tries % 3:
            raise OSError(errno.EMFILE, "Too many open files")
        keep(removed)

    if call == "fsync":
        monkeypatch.setattr("docstore.replicaset.sync.rollback_files.os.fsync", failing)
    else:
        files.keep = refused  # type: ignore[method-assign]

    async def flush() -> None: ...

    async def scenario() -> None:
        await roll_back(
            store,
            LocalState(store),
            common,
            commit_point=NULL_OPTIME,
            files=files,
            clock=Clock(),
            flush=flush,
        )

    run(scenario(), 10)
    assert tries > 3
    assert sorted(found["_id"] for found in kept_documents(tmp_path, "db.c")) == list(range(20))
    assert store.last_optime == common


def test_a_group_that_does_not_fit_on_the_disk_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "RETRY_SECONDS", 0.0)

    async def scenario() -> None:
        faulty: Any = FaultyEngine(open_engine("inMemory", ""))
        store, common = diverged(faulty, 20)
        local = LocalState(store)
        local.raise_rollback_id()
        faulty.write_error, faulty.after = DiskFull("no room"), 1
        undoing = asyncio.ensure_future(undo(store, common, tmp_path))
        await until(lambda: faulty.refused > 3)
        assert not undoing.done()
        faulty.write_error = None
        assert await undoing == 20
        assert sorted(found["_id"] for found in kept_documents(tmp_path, "db.c")) == list(range(20))

    run(scenario(), 10)


def test_any_number_of_long_names_fits(tmp_path: Path) -> None:
    """More namespaces than there may be open files, each longer than a file may be called."""

    async def scenario() -> None:
        store = store_on()
        make(store, "db.c")
        common = store.last_optime
        names = [f"db.{'/' * 100}{number:0100}" for number in range(100)]
        for name in names:
            make(store, name, doc(name))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, limits[1]))
        try:
            await undo(store, common, tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert [kept_documents(tmp_path, name) for name in names] == [[{"_id": name}] for name in names]
        assert all(len(part) < 64 for path in (tmp_path / "rollback").rglob("*") for part in [path.name])

    run(scenario(), 20)


def test_others_run_between_the_groups_of_a_long_rollback(tmp_path: Path) -> None:
    """However much time there is, a group ends after so many entries."""
    groups = 8
    files = RollbackFiles(tmp_path / "rollback", NOW)
    # A thread that writes would wait for the interpreter again and again, as the loop below never rests.
    files.keep = lambda removed: None  # type: ignore[method-assign]

    async def scenario() -> None:
        store, common = diverged(open_engine("inMemory", ""), groups * MOST_ENTRIES)
        assert store.oplog is not None
        lengths = [store.oplog.count]
        undoing = asyncio.ensure_future(undo(store, common, tmp_path, clock=lambda: 0.0, files=files))
        while not undoing.done():
            # What is in memory of the log is always what is on disk of it.
            assert store.oplog.last == OpTime.from_document(plain(next(store.oplog.scan_back(store.engine))))
            if store.oplog.count != lengths[-1]:
                lengths.append(store.oplog.count)
            await asyncio.sleep(0)
        assert await undoing == groups * MOST_ENTRIES
        assert [before - after for before, after in pairwise(lengths)] == [MOST_ENTRIES] * groups

    run(scenario(), 20)


def test_a_rollback_that_is_broken_off_leaves_a_log_that_the_next_one_goes_on_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, common = diverged(open_engine("inMemory", ""), 100)
        undoing = asyncio.ensure_future(undo(store, common, tmp_path))
        assert store.oplog is not None
        start = store.oplog.count
        await until(lambda: store.oplog is not None and store.oplog.count < start - 10)
        undoing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await undoing
        assert common < store.last_optime
        check(store)
        left = store.oplog.count
        assert await undo(store, common, tmp_path) == left - start + 100
        check(store)
        assert {found["_id"] for found in kept_documents(tmp_path, "db.c")} == set(range(100))

    run(scenario(), 20)
