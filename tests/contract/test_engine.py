"""What every engine must do, whatever it keeps its data in."""

from __future__ import annotations

import threading

import pytest

from docstore.storage import Batch, Engine, Family, StorageError
from docstore.storage.engine import getter_of, keys_of_ranges, seeking, values_of_ranges

RECORDS, INDEXES = Family.RECORDS, Family.INDEXES
ALL = (b"", b"\xff" * 16)


def write(engine: Engine, **changes: bytes | None) -> None:
    batch = Batch()
    for key, value in changes.items():
        batch.changes[RECORDS][key.encode()] = value
    engine.write(batch)


def contents(reader: object, family: Family = RECORDS) -> dict[bytes, bytes]:
    return dict(reader.items(family, *ALL))  # type: ignore[attr-defined]


def test_a_missing_key_is_none_and_an_empty_value_is_not(engine: Engine) -> None:
    write(engine, a=b"")
    assert engine.get(RECORDS, b"a") == b""
    assert engine.get(RECORDS, b"b") is None
    snapshot = engine.snapshot()
    assert snapshot.get(RECORDS, b"a") == b""
    assert snapshot.get(RECORDS, b"b") is None


def test_families_are_apart(engine: Engine) -> None:
    batch = Batch()
    for family in Family:
        batch.put(family, b"key", family.name.encode())
    engine.write(batch)
    assert [engine.get(family, b"key") for family in Family] == [family.name.encode() for family in Family]
    batch = Batch()
    batch.delete(INDEXES, b"key")
    engine.write(batch)
    assert engine.get(INDEXES, b"key") is None
    assert engine.get(RECORDS, b"key") == b"RECORDS"


def test_the_last_change_of_a_key_in_a_batch_wins(engine: Engine) -> None:
    batch = Batch()
    batch.put(RECORDS, b"a", b"1")
    batch.put(RECORDS, b"a", b"2")
    batch.put(RECORDS, b"b", b"1")
    batch.delete(RECORDS, b"b")
    engine.write(batch)
    assert contents(engine) == {b"a": b"2"}


@pytest.mark.parametrize("reverse", [False, True])
def test_ranges_hold_their_start_and_not_their_end(engine: Engine, reverse: bool) -> None:
    write(engine, **dict.fromkeys("abcde", b"v"))
    expected = [b"b", b"c"]
    if reverse:
        expected.reverse()
    assert list(engine.keys(RECORDS, b"b", b"d", reverse)) == expected
    assert list(engine.items(RECORDS, b"b", b"d", reverse)) == [(key, b"v") for key in expected]
    assert list(engine.values(RECORDS, b"b", b"d", reverse)) == [b"v", b"v"]
    assert list(engine.keys(RECORDS, b"x", b"z", reverse)) == []
    assert list(engine.keys(RECORDS, b"c", b"c", reverse)) == []


@pytest.mark.parametrize("family", [RECORDS, INDEXES])
def test_what_was_read_by_key_is_read_as_it_is_now(engine: Engine, family: Family) -> None:
    get = getter_of(engine, family)

    def put(**values: bytes | None) -> None:
        batch = Batch()
        for name, value in values.items():
            batch.changes[family][name.encode()] = value
        engine.write(batch)

    def found() -> list[bytes | None]:
        for key in (b"a", b"b", b"c"):
            assert get(key) == engine.get(family, key)
        return [get(b"a"), get(b"b"), get(b"c")]

    put(a=b"1", b=b"2")
    assert found() == [b"1", b"2", None]
    snapshot = engine.snapshot()
    assert snapshot.get(family, b"a") == b"1"
    put(a=b"3", b=None, c=b"4")
    assert found() == [b"3", None, b"4"]
    assert [snapshot.get(family, key) for key in (b"a", b"b", b"c")] == [b"1", b"2", None]
    snapshot.close()
    batch = Batch()
    batch.delete_range(family, b"a", b"b")
    batch.put(family, b"d", b"5")
    engine.write(batch)
    assert [*found(), get(b"d")] == [None, None, b"4", b"5"]


@pytest.mark.parametrize("later", [False, True])
def test_many_ranges_are_read_one_after_the_other(engine: Engine, later: bool) -> None:
    write(engine, **{name: name.upper().encode() for name in "abcdefg"})
    snapshot = engine.snapshot()
    if later:
        write(engine, b=None, d=b"changed", dd=b"new")
    ranges = [(b"a", b"b\0"), (b"bb", b"c"), (b"d", b"d\0"), (b"e", b"e"), (b"f", b"z"), (b"zz", b"zzz")]
    assert list(keys_of_ranges(snapshot, RECORDS, ranges)) == [b"a", b"b", b"d", b"f", b"g"]
    assert list(values_of_ranges(snapshot, RECORDS, ranges)) == [b"A", b"B", b"D", b"F", b"G"]
    assert list(keys_of_ranges(snapshot, RECORDS, [])) == []
    expected = [b"A", b"changed", b"F", b"G"] if later else [b"A", b"B", b"D", b"F", b"G"]
    assert list(values_of_ranges(engine, RECORDS, ranges)) == expected
    snapshot.close()


@pytest.mark.parametrize("later", [False, True])
def test_an_iterator_that_can_be_moved_shows_the_state_it_was_made_in(engine: Engine, later: bool) -> None:
    write(engine, **{name: name.upper().encode() for name in "abcdefg"})
    snapshot = engine.snapshot()
    for reader in (engine, snapshot):
        keys = seeking(reader, RECORDS, b"f", pairs=False)
        pairs = seeking(reader, RECORDS, b"f", pairs=True)
        if later:
            write(engine, d=b"changed", dd=b"new")
        if keys is not None and pairs is not None:
            keys.seek(b"bb")
            assert list(keys) == [b"c", b"d", b"e"]
            keys.seek(b"a")
            assert next(keys) == b"a"
            pairs.seek(b"d")
            assert next(pairs) == (b"d", b"D")
    snapshot.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_bounds_need_not_be_keys(engine: Engine, reverse: bool) -> None:
    write(engine, a=b"1", c=b"3", e=b"5")
    expected = [b"c", b"e"]
    assert sorted(engine.keys(RECORDS, b"b", b"f", reverse)) == expected


def test_a_bound_holds_while_memory_is_reused(engine: Engine) -> None:
    """RocksDB reads the upper bound where it stood when the iterator was made."""
    batch = Batch()
    keys = [bytes((0, 0, 0, 2)) + n.to_bytes(10, "big") for n in range(50)]
    for key in keys:
        batch.put(INDEXES, key, b"")
    engine.write(batch)
    for _ in range(20):
        walks = [engine.keys(INDEXES, bytes((0, 0, 0, 2)), bytes((0, 0, 0, 3))) for _ in range(10)]
        noise = [bytes(size) for size in range(4, 64)]
        assert all(list(walk) == keys for walk in walks)
        assert noise


def test_an_iterator_shows_the_moment_it_was_made(engine: Engine) -> None:
    write(engine, **dict.fromkeys("abcd", b"old"))
    forward, backward = engine.items(RECORDS, *ALL), engine.items(RECORDS, *ALL, True)
    first = next(forward)
    write(engine, a=None, b=b"new", d=None, e=b"new")
    assert [first, *forward] == [(key.encode(), b"old") for key in "abcd"]
    assert [key for key, _ in backward] == [b"d", b"c", b"b", b"a"]


def test_a_snapshot_keeps_its_state(engine: Engine) -> None:
    write(engine, a=b"1", b=b"1")
    snapshot = engine.snapshot()
    write(engine, a=b"2", b=None, c=b"2")
    later = engine.snapshot()
    write(engine, a=None)
    assert contents(snapshot) == {b"a": b"1", b"b": b"1"}
    assert contents(later) == {b"a": b"2", b"c": b"2"}
    assert contents(engine) == {b"c": b"2"}
    assert snapshot.get(RECORDS, b"c") is None
    snapshot.close()
    assert later.get(RECORDS, b"a") == b"2"
    later.close()


@pytest.mark.parametrize("written", [10, 5000, 20000])
def test_a_snapshot_keeps_its_state_over_many_writes(engine: Engine, written: int) -> None:
    """Few written keys are remembered, for many the engine on disk keeps iterators instead."""
    keys = [b"%06d" % n for n in range(1000)]
    batch = Batch()
    for key in keys:
        batch.put(RECORDS, key, b"old")
    engine.write(batch)
    snapshot = engine.snapshot()
    for first in range(0, written, 1000):
        batch = Batch()
        for n in range(first, min(first + 1000, written)):
            batch.changes[RECORDS][b"%06d" % n] = None if n % 3 == 0 else b"new"
        engine.write(batch)
    for reverse in (False, True):
        expected = sorted(keys, reverse=reverse)
        assert list(snapshot.keys(RECORDS, *ALL, reverse)) == expected
        assert list(snapshot.items(RECORDS, *ALL, reverse)) == [(key, b"old") for key in expected]
    assert list(snapshot.keys(RECORDS, b"000100", b"000200")) == keys[100:200]
    assert snapshot.get(RECORDS, b"000003") == b"old"
    snapshot.close()


def test_an_iterator_outlives_its_snapshot(engine: Engine) -> None:
    write(engine, a=b"1", b=b"1")
    snapshot = engine.snapshot()
    walk = snapshot.items(RECORDS, *ALL)
    snapshot.close()
    write(engine, a=None, b=b"2")
    assert list(walk) == [(b"a", b"1"), (b"b", b"1")]


def test_a_closed_snapshot_refuses_to_read(engine: Engine) -> None:
    snapshot = engine.snapshot()
    snapshot.close()
    snapshot.close()
    with pytest.raises(StorageError, match="closed"):
        snapshot.get(RECORDS, b"a")
    with pytest.raises(StorageError, match="closed"):
        snapshot.items(RECORDS, *ALL)


def test_a_range_goes_before_the_changes_of_its_batch(engine: Engine) -> None:
    write(engine, **dict.fromkeys("abcd", b"old"))
    snapshot = engine.snapshot()
    batch = Batch()
    batch.put(RECORDS, b"b", b"forgotten")
    batch.delete_range(RECORDS, b"b", b"d")
    batch.put(RECORDS, b"c", b"new")
    engine.write(batch)
    assert contents(engine) == {b"a": b"old", b"c": b"new", b"d": b"old"}
    assert len(contents(snapshot)) == 4
    snapshot.close()


def test_a_range_reaches_its_own_family_only(engine: Engine) -> None:
    batch = Batch()
    batch.put(RECORDS, b"a", b"1")
    batch.put(INDEXES, b"a", b"1")
    engine.write(batch)
    batch = Batch()
    batch.delete_range(RECORDS, *ALL)
    engine.write(batch)
    assert contents(engine) == {}
    assert contents(engine, INDEXES) == {b"a": b"1"}


def test_values_of_sixteen_megabytes_come_back(engine: Engine) -> None:
    value = bytes(range(256)) * (64 * 1024)
    write(engine, big=value)
    assert engine.get(RECORDS, b"big") == value
    assert list(engine.values(RECORDS, *ALL)) == [value]


def test_an_empty_batch_is_false(engine: Engine) -> None:
    batch = Batch()
    assert not batch
    engine.write(batch)
    batch.delete(RECORDS, b"a")
    assert batch


def test_flush_and_statistics(engine: Engine) -> None:
    write(engine, a=b"1")
    engine.flush()
    stats = engine.stats()
    assert stats["name"] in ("inMemory", "rocksdb")
    assert stats["batches"] >= 1
    assert engine.ratio(RECORDS) > 0
    engine.close()
    engine.close()


def test_a_flush_runs_beside_the_writes(engine: Engine) -> None:
    done = threading.Event()
    flushed = []

    def flush() -> None:
        while not done.is_set():
            engine.flush()
            flushed.append(1)

    thread = threading.Thread(target=flush)
    thread.start()
    for n in range(500):
        write(engine, **{f"k{n}": b"v"})
    done.set()
    thread.join()
    assert len(contents(engine)) == 500
    assert flushed


def test_a_load_brings_entries_in_and_later_writes_stand(engine: Engine) -> None:
    write(engine, a=b"old", z=b"old")
    before = engine.snapshot()
    load = engine.begin_load(RECORDS, b"a", b"y")
    for n in range(500):
        load.entries.add(f"k{n}".encode(), b"" if n % 2 else b"value")
    for key in (b"b", b"c", b"ab"):
        load.entries.add(key, b"loaded")
    write(engine, b=b"later", c=None, k7=b"later", z=b"new")
    batch = Batch()
    batch.delete_range(RECORDS, b"k1", b"k2")
    batch.put(RECORDS, b"k11", b"put")
    engine.write(batch)
    write(engine, k12=b"put")
    while not load.step(0.0):
        write(engine, k3=None)
    write(engine, k5=b"last")
    expected = {f"k{n}".encode(): b"" if n % 2 else b"value" for n in range(500) if not f"k{n}".startswith("k1")}
    expected |= {b"a": b"old", b"ab": b"loaded", b"b": b"later", b"z": b"new", b"k7": b"later", b"k5": b"last"}
    expected |= {b"k11": b"put", b"k12": b"put"}
    found = contents(engine)
    found.setdefault(b"k3", b"")
    assert found == expected
    assert contents(before) == {b"a": b"old", b"z": b"old"}


def test_loads_of_one_range_follow_each_other(engine: Engine) -> None:
    for start in range(3):
        load = engine.begin_load(INDEXES, b"k", b"l")
        for n in range(start, 300, 3):
            load.entries.add(b"k%03d" % n, b"%d" % start)
        while not load.step(0.0):
            pass
        load.abandon()
    assert contents(engine, INDEXES) == {b"k%03d" % n: b"%d" % (n % 3) for n in range(300)}


def test_an_abandoned_load_leaves_nothing(engine: Engine) -> None:
    load = engine.begin_load(INDEXES, b"k", b"l")
    for n in range(20_000):
        load.entries.add(b"k%05d" % n, b"")
    load.abandon()
    load.abandon()
    assert contents(engine, INDEXES) == {}
    empty = engine.begin_load(INDEXES, b"k", b"l")
    assert empty.step(0.0)
