"""What is particular to the engine on disk."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from docstore.key_layout import FORMAT_KEY
from docstore.storage import (
    FORMAT_VERSION,
    Batch,
    DatabaseLocked,
    DataCorrupted,
    DirectoryDamaged,
    DiskFull,
    Family,
    StorageError,
    disk_space,
    open_engine,
    rocks_snapshot,
)
from docstore.storage.engine import keys_of_ranges
from docstore.storage.removed_keys import MAX_REMOVED, MIN_REMOVED
from tests.harness.power_loss import copy_files
from tests.harness.waiting import wait_until


def put(path: Path, key: bytes, value: bytes, family: Family = Family.RECORDS) -> None:
    engine = open_engine("rocksdb", str(path))
    batch = Batch()
    batch.put(family, key, value)
    engine.write(batch)
    engine.close()


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    put(tmp_path, b"a", b"1")
    engine = open_engine("rocksdb", str(tmp_path))
    assert engine.get(Family.RECORDS, b"a") == b"1"
    engine.close()


def test_a_directory_in_use_is_refused_with_the_owner_in_the_sentence(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path))
    with pytest.raises(DatabaseLocked, match=f"in use by another process .pid {os.getpid()}"):
        open_engine("rocksdb", str(tmp_path))
    engine.close()
    open_engine("rocksdb", str(tmp_path)).close()


def test_a_format_of_the_future_is_refused(tmp_path: Path) -> None:
    put(tmp_path, FORMAT_KEY, b"\0\0\0\x63", Family.META)
    with pytest.raises(StorageError, match=f"version 99; this program reads and writes version {FORMAT_VERSION}"):
        open_engine("rocksdb", str(tmp_path))
    with pytest.raises(StorageError, match="format version 99"):
        open_engine("rocksdb", str(tmp_path))


def test_a_directory_of_the_format_before_is_taken_over(tmp_path: Path) -> None:
    """From then on programs that know only that one refuse it."""
    put(tmp_path, b"a", b"1")
    put(tmp_path, FORMAT_KEY, b"\0\0\0\3", Family.META)
    engine = open_engine("rocksdb", str(tmp_path))
    assert engine.get(Family.RECORDS, b"a") == b"1"
    assert engine.get(Family.META, FORMAT_KEY) == bytes((0, 0, 0, FORMAT_VERSION))
    engine.close()


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(StorageError, match="no storage engine named 'wiredTiger'"):
        open_engine("wiredTiger", "")


def test_the_directory_of_another_server_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "WiredTiger").write_text("")
    with pytest.raises(StorageError, match="another server"):
        open_engine("rocksdb", str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["WiredTiger"]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("")
    with pytest.raises((StorageError, OSError)):
        open_engine("rocksdb", str(tmp_path / "db"))


def test_a_checkpoint_is_a_database_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / "db", b"a", b"1")
    engine = open_engine("rocksdb", str(tmp_path / "db"))
    engine.checkpoint(str(tmp_path / "copy"))
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"2")
    engine.write(batch)
    engine.close()
    copy = open_engine("rocksdb", str(tmp_path / "copy"))
    assert copy.get(Family.RECORDS, b"a") == b"1"
    copy.close()


def test_a_checkpoint_over_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    engine = open_engine("rocksdb", str(tmp_path / "db"))
    with pytest.raises(StorageError, match="no checkpoint"):
        engine.checkpoint(str(tmp_path / "copy"))
    engine.close()


def test_open_snapshots_do_not_keep_the_directory(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path))
    kept = engine.snapshot()
    engine.close()
    open_engine("rocksdb", str(tmp_path)).close()
    with pytest.raises(StorageError, match="closed"):
        kept.get(Family.RECORDS, b"a")


def test_the_ratio_of_a_family_tells_how_far_its_files_are_compressed(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path))
    batch = Batch()
    for n in range(2000):
        batch.put(Family.RECORDS, b"k%06d" % n, os.urandom(200))
        batch.put(Family.INDEXES, b"k%06d" % n, b"x" * 200)
    engine.write(batch)
    assert engine.ratio(Family.RECORDS) == 1
    engine.close()
    engine = open_engine("rocksdb", str(tmp_path))
    assert 0.9 < engine.ratio(Family.RECORDS) < 1.2
    assert engine.ratio(Family.INDEXES) < 0.3
    engine.close()


def test_a_log_that_was_torn_holds_whole_batches_from_its_beginning(tmp_path: Path) -> None:
    """What no flush has covered may be torn; a log that ends before that is refused, and stays as it is."""
    source = tmp_path / "source"
    engine = open_engine("rocksdb", str(source))
    synced = 0
    for n in range(20):
        batch = Batch()
        for family in (Family.RECORDS, Family.INDEXES):
            batch.put(family, b"%02d" % n, b"x" * 50)
        engine.write(batch)
        if n == 9:
            engine.flush()
            [log] = [file.name for file in source.iterdir() if file.suffix == ".log"]
            synced = (source / log).stat().st_size
    kept = tmp_path / "kept"
    copy_files(engine, source, kept)
    engine.close()
    whole = (kept / log).read_bytes()
    for size in (*range(0, len(whole), 97), synced - 1, synced, len(whole)):
        torn = tmp_path / "torn"
        shutil.copytree(kept, torn)
        (torn / log).write_bytes(whole[:size])
        if size < synced:
            with pytest.raises(DirectoryDamaged, match=rf"and {synced} bytes were synced"):
                open_engine("rocksdb", str(torn))
            assert (torn / log).read_bytes() == whole[:size]
        else:
            engine = open_engine("rocksdb", str(torn))
            keys = list(engine.keys(Family.RECORDS, b"", b"\xff"))
            assert keys == [b"%02d" % n for n in range(len(keys))] == list(engine.keys(Family.INDEXES, b"", b"\xff"))
            assert len(keys) >= 10
            engine.close()
        shutil.rmtree(torn)


def test_damage_is_met_with_an_error_and_never_with_fewer_documents(tmp_path: Path) -> None:
    noise = random.Random(1)
    engine = open_engine("rocksdb", str(tmp_path))
    batch = Batch()
    for n in range(2000):
        batch.put(Family.RECORDS, b"%04d" % n, noise.randbytes(200))
    engine.write(batch)
    engine.close()
    open_engine("rocksdb", str(tmp_path)).close()
    table = max(tmp_path.glob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 0xFF
    table.write_bytes(content)
    engine = open_engine("rocksdb", str(tmp_path))
    snapshot = engine.snapshot()
    batch = Batch()
    batch.put(Family.RECORDS, b"9999", b"")
    engine.write(batch)
    for reader in (engine, snapshot):
        for read in (reader.items, reader.keys, reader.values):
            for reverse in (False, True):
                with pytest.raises(DataCorrupted):
                    list(read(Family.RECORDS, b"", b"\xff", reverse))
        assert reader.get(Family.RECORDS, b"0000") is not None
        assert len(list(reader.keys(Family.RECORDS, b"0000", b"0100"))) == 100
    damaged = 0
    for n in range(2000):
        try:
            assert engine.get(Family.RECORDS, b"%04d" % n) is not None
        except DataCorrupted:
            damaged += 1
    assert 0 < damaged < 200
    snapshot.close()
    engine.close()


def test_held_files_stay_as_they_are_and_a_copy_of_them_opens(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path / "db"))
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"1")
    engine.write(batch)
    copy_files(engine, tmp_path / "db", tmp_path / "copy")
    engine.close()
    copy = open_engine("rocksdb", str(tmp_path / "copy"))
    assert copy.get(Family.RECORDS, b"a") == b"1"
    copy.close()


def test_a_checkpoint_is_a_directory_of_its_own_that_opens(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path / "db"))
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"1")
    engine.write(batch)
    engine.checkpoint(str(tmp_path / "copy"))
    batch = Batch()
    batch.put(Family.RECORDS, b"b", b"1")
    engine.write(batch)
    copy = open_engine("rocksdb", str(tmp_path / "copy"))
    assert list(copy.keys(Family.RECORDS, b"", b"\xff")) == [b"a"]
    with pytest.raises(StorageError, match="no checkpoint"):
        engine.checkpoint(str(tmp_path / "copy"))
    copy.close()
    engine.close()


def test_a_block_with_a_large_document_stays_in_the_cache(tmp_path: Path) -> None:
    """It holds small ones too, for each of which it would be read from disk."""
    size = 8 << 20
    engine = open_engine("rocksdb", str(tmp_path / "db"), cache_bytes=64 << 20)
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"small")
    batch.put(Family.RECORDS, b"b", os.urandom(size))
    engine.write(batch)
    # A copy of the directory's state is written to sorted files before it is linked.
    engine.checkpoint(str(tmp_path / "copy"))
    before = engine.stats()["cacheBytes"]

    assert engine.get(Family.RECORDS, b"a") == b"small"

    assert engine.stats()["cacheBytes"] - before > size
    engine.close()


class FullDisk:
    """The library's database as it is once its log has met a full disk."""

    def write(self, *_: object) -> None:
        raise OSError("IO error: No space left on device: While appending to file")

    def flush_wal(self, sync: bool) -> None:
        raise OSError("IO error: No space left on device: While appending to file")


def test_what_was_written_before_the_disk_was_full_is_durable_only_when_it_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = open_engine("rocksdb", str(tmp_path))
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"1")
    engine.write(batch)
    real, engine._db = engine._db, FullDisk()
    with pytest.raises(DiskFull):
        engine.write(batch)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    engine.flush()
    assert synced == [str(log) for log in tmp_path.glob("*.log")]

    def fails(_descriptor: int) -> None:
        raise OSError("Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StorageError, match="Input/output error"):
        engine.flush()
    monkeypatch.undo()
    engine._db = real
    engine.close()


def test_removed_keys_do_not_stay_in_the_way_of_readers(tmp_path: Path) -> None:
    engine: Any = open_engine("rocksdb", str(tmp_path))
    value = engine._db.get_column_family("records").property_value
    keys = [b"%08d" % number for number in range(3 * MAX_REMOVED)]
    for first in range(0, len(keys), 1000):
        batch = Batch()
        for key in keys[first : first + 1000]:
            batch.put(Family.RECORDS, key, b"x" * 100)
        engine.write(batch)
    for first in range(0, len(keys) - 1, 500):
        batch = Batch()
        for key in keys[first : min(first + 500, len(keys) - 1)]:
            batch.delete(Family.RECORDS, key)
        engine.write(batch)

    def is_gone() -> bool:
        engine.compact_removed()
        in_files = re.search(r"# deletions=(\d+)", value("rocksdb.aggregated-table-properties"))
        in_memory = int(value("rocksdb.num-deletes-active-mem-table"))
        return in_files is not None and int(in_files[1]) + in_memory < MIN_REMOVED

    wait_until(is_gone, 30.0)
    assert list(engine.keys(Family.RECORDS, b"", b"\xff")) == keys[-1:]
    engine.close()


def test_a_snapshot_reads_ranges_without_later_writes_by_one_iterator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine("rocksdb", str(tmp_path))
    batch = Batch()
    for number in range(100):
        batch.put(Family.INDEXES, b"%03d" % number, b"value")
    engine.write(batch)
    snapshot = engine.snapshot()
    made: list[str] = []
    for name in ("iterate_ranges", "Walk"):
        monkeypatch.setattr(rocks_snapshot, name, _noting(getattr(rocks_snapshot, name), made, name))
    keys = [b"%03d" % number for number in range(100)]
    ranges = [(key, key + b"\0") for key in keys]
    for changed, expected in ((b"zzz", ["iterate_ranges"]), (b"050", ["iterate_ranges", "Walk", "iterate_ranges"])):
        batch = Batch()
        batch.delete(Family.INDEXES, changed)
        engine.write(batch)
        assert list(keys_of_ranges(snapshot, Family.INDEXES, ranges)) == keys
        assert made == expected
        made.clear()
    snapshot.close()
    engine.close()


def _noting(function: Any, calls: list[str], name: str) -> Any:
    def noting(*arguments: Any) -> Any:
        calls.append(name)
        return function(*arguments)

    return noting


def test_a_snapshot_shares_what_is_kept_of_keys_without_later_writes(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path))
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"first")
    batch.put(Family.RECORDS, b"b", b"second")
    engine.write(batch)
    snapshot = engine.snapshot()
    batch = Batch()
    batch.put(Family.RECORDS, b"b", b"changed")
    engine.write(batch)
    assert snapshot.get(Family.RECORDS, b"a") is engine.get(Family.RECORDS, b"a")
    assert snapshot.get(Family.RECORDS, b"b") == b"second"
    snapshot.close()
    engine.close()


def test_removals_are_written_out_where_the_disk_has_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space, "disk_space", lambda _path: (4 << 20, 100 << 20))
    engine = open_engine("rocksdb", str(tmp_path))
    before = engine.stats()["fileBytes"]
    for number in range(8):
        batch = Batch()
        batch.delete(Family.RECORDS, b"%d" % number)
        batch.put(Family.UNDO, b"%d" % number, os.urandom(100_000))
        engine.write(batch)
    wait_until(lambda: engine.stats()["fileBytes"] > before, 10)
    engine.close()
