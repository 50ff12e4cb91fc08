"""What is particular to the engine in memory: the list of versions behind its snapshots."""

from __future__ import annotations

import pytest

from docstore.storage import Batch, Family, StorageError
from docstore.storage.memory import MemoryEngine


def put(engine: MemoryEngine, key: bytes, value: bytes | None) -> None:
    batch = Batch()
    batch.changes[Family.RECORDS][key] = value
    engine.write(batch)


def versions(engine: MemoryEngine) -> int:
    count = 0
    step = engine._newest
    while step is not None:
        count += 1
        step = step.older
    return count


def test_snapshots_of_one_state_share_a_version() -> None:
    engine = MemoryEngine()
    put(engine, b"a", b"1")
    held = [engine.snapshot() for _ in range(3)]
    assert versions(engine) == 1
    put(engine, b"a", b"2")
    held.append(engine.snapshot())
    assert versions(engine) == 2


def test_a_closed_version_hands_its_values_to_the_older_one() -> None:
    engine = MemoryEngine()
    put(engine, b"a", b"1")
    put(engine, b"b", b"1")
    first = engine.snapshot()
    put(engine, b"a", b"2")
    second = engine.snapshot()
    put(engine, b"b", b"2")
    second.close()
    assert versions(engine) == 1
    assert [first.get(Family.RECORDS, key) for key in (b"a", b"b")] == [b"1", b"1"]


def test_nothing_is_saved_without_a_snapshot() -> None:
    engine = MemoryEngine()
    engine.snapshot().close()
    for n in range(10):
        put(engine, b"a", b"%d" % n)
    assert versions(engine) == 0


def test_a_dropped_iterator_lets_its_version_go() -> None:
    engine = MemoryEngine()
    put(engine, b"a", b"1")
    started, unstarted = engine.items(Family.RECORDS, b"", b"z"), engine.items(Family.RECORDS, b"", b"z")
    next(started)
    assert versions(engine) == 1
    del started, unstarted
    assert versions(engine) == 0


def test_long_ranges_are_walked_in_chunks_while_keys_come_and_go() -> None:
    engine = MemoryEngine()
    for n in range(1000):
        put(engine, b"%04d" % n, b"")
    for reverse in (False, True):
        walk = engine.keys(Family.RECORDS, b"", b"z", reverse)
        found = [next(walk)]
        for n in range(0, 1000, 2):
            put(engine, b"%04d" % n, None)
            put(engine, b"%04d+" % n, b"")
        found += walk
        assert found == sorted(found, reverse=reverse)
        assert {key for key in found if not key.endswith(b"+")} <= {b"%04d" % n for n in range(1000)}
        assert len(found) == 1000
        for n in range(0, 1000, 2):
            put(engine, b"%04d" % n, b"")
            put(engine, b"%04d+" % n, None)


def test_there_is_no_checkpoint_of_memory() -> None:
    with pytest.raises(StorageError, match="nothing on disk"):
        MemoryEngine().checkpoint("/nowhere")
