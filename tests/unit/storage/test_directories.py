"""Data directories are made once; one of which something is missing is refused, and stays as it is."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from pathlib import Path

import pytest

from docstore.key_layout import FORMAT_KEY
from docstore.storage import Batch, DirectoryDamaged, Family, StorageError, open_engine
from docstore.storage.directory import COMPLETE, MAKING, Marker, SyncedMarks, read_mark, read_marker
from docstore.storage.durable import Unreadable, read_sealed, seal, unseal, write_sealed
from docstore.storage.inspection import inspect
from docstore.storage.restored import mark_restored
from docstore.storage.rocks import RocksEngine
from docstore.storage.rocks_format import LogRecord, append_record, read_records
from tests.harness.power_loss import copy_files


def put(path: Path, *keys: bytes) -> None:
    engine = open_engine("rocksdb", str(path))
    batch = Batch()
    for key in keys:
        batch.put(Family.RECORDS, key, b"x" * 100)
    engine.write(batch)
    engine.flush()
    engine.close()


def live_copy(path: Path, target: Path, count: int = 100) -> None:
    """A directory as a process that was killed leaves it: half of what it wrote is synced."""
    engine = open_engine("rocksdb", str(path))
    for n in range(count):
        batch = Batch()
        batch.put(Family.RECORDS, b"%04d" % n, b"x" * 100)
        engine.write(batch)
        if n == count // 2:
            engine.flush()
    copy_files(engine, path, target)
    engine.close()


def contents(path: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and not file.name.startswith("LOG")
    }


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst", "DOCSTORE", "SYNCED"])
def test_a_start_without_a_file_is_refused_again_and_again_and_changes_nothing(tmp_path: Path, name: str) -> None:
    put(tmp_path, b"a")
    put(tmp_path, b"b")
    for file in tmp_path.glob(name):
        file.unlink()
    before = contents(tmp_path)
    for _ in range(3):
        with pytest.raises(DirectoryDamaged, match="Nothing was changed"):
            open_engine("rocksdb", str(tmp_path))
        assert contents(tmp_path) == before


def test_a_start_without_its_log_is_refused(tmp_path: Path) -> None:
    live_copy(tmp_path / "db", tmp_path / "copy")
    [log] = [file for file in (tmp_path / "copy").glob("*.log") if file.stat().st_size]
    log.unlink()
    with pytest.raises(DirectoryDamaged, match=rf"the log {log.name} is missing"):
        open_engine("rocksdb", str(tmp_path / "copy"))


@pytest.mark.parametrize("part", [0.05, 0.2, 0.45])
def test_a_flipped_bit_in_the_synced_part_of_a_log_is_refused(tmp_path: Path, part: float) -> None:
    live_copy(tmp_path / "db", tmp_path / "copy")
    [log] = [file for file in (tmp_path / "copy").glob("*.log") if file.stat().st_size]
    content = bytearray(log.read_bytes())
    content[int(len(content) * part)] ^= 1
    log.write_bytes(content)
    with pytest.raises(DirectoryDamaged, match="bytes were synced"):
        open_engine("rocksdb", str(tmp_path / "copy"))
    assert log.read_bytes() == content


def test_a_torn_end_that_was_never_synced_is_dropped(tmp_path: Path) -> None:
    live_copy(tmp_path / "db", tmp_path / "copy")
    [log] = [file for file in (tmp_path / "copy").glob("*.log") if file.stat().st_size]
    os.truncate(log, int(log.stat().st_size * 0.9))
    assert len(inspect(tmp_path / "copy").torn) == 1
    engine = open_engine("rocksdb", str(tmp_path / "copy"))
    assert 50 < len(list(engine.keys(Family.RECORDS, b"", b"\xff"))) < 100
    engine.close()


@pytest.mark.parametrize("files", ["MANIFEST-*", "*.log"])
def test_a_torn_end_is_not_given_to_a_reader_that_would_not_come_back(tmp_path: Path, files: str) -> None:
    """Such a head of a record, with a length that goes beyond the end, keeps RocksDB's own reader for ever."""
    live_copy(tmp_path / "db", tmp_path / "copy")
    file = max((tmp_path / "copy").glob(files), key=lambda each: each.stat().st_size)
    with file.open("ab") as end:
        end.write(bytes.fromhex("fa1408c42d8805") + bytes(range(1, 256)) * 6)
    assert len(inspect(tmp_path / "copy").torn) == 1
    engine = open_engine("rocksdb", str(tmp_path / "copy"))
    assert len(list(engine.keys(Family.RECORDS, b"", b"\xff"))) == 100
    engine.close()


def test_a_directory_in_which_a_process_ended_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    Marker("1", MAKING).write(tmp_path)
    (tmp_path / "CURRENT").write_text("MANIFEST-000009\n")
    put(tmp_path, b"a")
    marker = read_marker(tmp_path)
    assert marker is not None
    assert (marker.state, len(marker.families)) == (COMPLETE, len(Family) + 1)


def make_earlier(path: Path, stored: dict[bytes, bytes]) -> None:
    """A directory as earlier versions left it, without marker, mark and identity; `stored` is in META."""
    path.mkdir()
    engine = RocksEngine(str(path), create=True)
    batch = Batch()
    for key, value in stored.items():
        batch.put(Family.META, key, value)
    engine.write(batch)
    engine.flush()
    engine.close()
    (path / "SYNCED").unlink()


@pytest.mark.parametrize("version", [3, 4])
def test_a_directory_of_an_earlier_version_is_taken_over(tmp_path: Path, version: int) -> None:
    path = tmp_path / "db"
    make_earlier(path, {FORMAT_KEY: version.to_bytes(4, "big")})
    put(path, b"b")
    assert read_marker(path) is not None
    assert read_mark(path) is not None
    # Even without its logs it does not pass for one of an earlier version again.
    for name in ("DOCSTORE", "SYNCED"):
        (path / name).unlink()
    for log in path.glob("*.log"):
        log.write_bytes(b"")
    assert_refused(path, "DOCSTORE and SYNCED, which this directory had")


def assert_refused(path: Path, message: str) -> None:
    """Starts and inspections are refused with the message, and change nothing."""
    before = contents(path)
    for _ in range(2):
        with pytest.raises(StorageError, match=message):
            open_engine("rocksdb", str(path))
        after = contents(path)
        after.pop("mongod.lock", None)
        before.pop("mongod.lock", None)
        assert after == before


def test_a_directory_whose_marker_and_mark_are_gone_is_not_taken_for_one_of_an_earlier_version(tmp_path: Path) -> None:
    live_copy(tmp_path / "db", tmp_path / "copy")
    for path in (tmp_path / "db", tmp_path / "copy"):
        for name in ("DOCSTORE", "SYNCED"):
            (path / name).unlink()
        assert_refused(path, "DOCSTORE and SYNCED, which this directory had, are missing")


def test_a_look_into_the_data_writes_nothing(tmp_path: Path) -> None:
    put(tmp_path, b"a")
    (tmp_path / "SYNCED").unlink()
    (tmp_path / "DOCSTORE").unlink()
    (tmp_path / "rocksdict-config.json").write_text("{}")
    assert_refused(tmp_path, "which this directory had, are missing")


def test_a_directory_whose_logs_are_gone_as_well_is_not_taken_over(tmp_path: Path) -> None:
    """In its first life, all that says whose the directory is stands in the log."""
    live_copy(tmp_path / "db", tmp_path / "copy")
    for file in [*(tmp_path / "copy").glob("*.log"), *map((tmp_path / "copy").joinpath, ("DOCSTORE", "SYNCED"))]:
        file.unlink()
    assert_refused(tmp_path / "copy", "the write-ahead log is missing")
    (tmp_path / "copy" / "000004.log").write_bytes(b"")
    assert_refused(tmp_path / "copy", "so is what says the format of the database")


def test_a_directory_of_a_format_that_is_not_known_stays_as_it_is(tmp_path: Path) -> None:
    make_earlier(tmp_path / "db", {FORMAT_KEY: (99).to_bytes(4, "big")})
    assert_refused(tmp_path / "db", "has format version 99")


def test_a_restored_directory_of_which_nothing_is_left_is_not_made_anew(tmp_path: Path) -> None:
    mark_restored(tmp_path)
    assert_refused(tmp_path, "all files of the database are missing")


@pytest.mark.parametrize("name", ["DOCSTORE", "SYNCED"])
def test_marker_and_mark_of_two_directories_are_told_apart(tmp_path: Path, name: str) -> None:
    put(tmp_path / "one", b"a")
    put(tmp_path / "two", b"a")
    shutil.copy(tmp_path / "one" / name, tmp_path / "two" / name)
    assert_refused(tmp_path / "two", "belong to different directories")


# Logs


def test_marker_and_mark_of_another_directory_are_refused_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(tmp_path / name, b"a")
        put(tmp_path / name, b"b")
    for name in ("DOCSTORE", "SYNCED"):
        shutil.copy(tmp_path / "one" / name, tmp_path / "two" / name)
    assert_refused(tmp_path / "two", "different directories|the families of this directory")


def test_a_damaged_block_of_the_catalog_is_noticed_before_anything_is_changed(tmp_path: Path) -> None:
    live_copy(tmp_path / "made", tmp_path / "db")
    path = tmp_path / "db"
    open_engine("rocksdb", str(path)).close()
    version = inspect(path).version
    assert version is not None
    [number] = [n for family in version.families.values() if family.name == "meta" for n in family.files]
    table = path / f"{number:06}.sst"
    content = bytearray(table.read_bytes())
    content[20] ^= 1
    table.write_bytes(content)
    assert_refused(path, "the database cannot be read: .*block checksum mismatch")


def only_log(path: Path) -> Path:
    [log] = [file for file in path.glob("*.log") if file.stat().st_size]
    return log


def swap_blocks(log: Path, one: int, other: int) -> None:
    content = log.read_bytes()
    blocks = [content[start : start + 32_768] for start in range(0, len(content), 32_768)]
    blocks[one], blocks[other] = blocks[other], blocks[one]
    log.write_bytes(b"".join(blocks))


@pytest.mark.parametrize("count", [1000, 3000])
def test_blocks_of_a_log_in_another_order_are_refused(tmp_path: Path, count: int) -> None:
    """In the part that is synced, and in the one that is not: no loss of power does that."""
    live_copy(tmp_path / "db", tmp_path / "copy", count)
    log = only_log(tmp_path / "copy")
    for one, other in ((0, 1), (1, 2), (0, 2)):
        swap_blocks(log, one, other)
        assert_refused(tmp_path / "copy", r"in the log 000004.log change \d+ stands behind \d+")
        swap_blocks(log, one, other)
    assert not inspect(tmp_path / "copy").damage


def test_the_log_of_another_directory_is_refused(tmp_path: Path) -> None:
    """The same changes with the same numbers and sizes; only the identities differ."""
    for name in ("one", "two"):
        live_copy(tmp_path / name, tmp_path / f"{name}-copy")
    log = only_log(tmp_path / "one-copy")
    shutil.copy(log, tmp_path / "two-copy" / log.name)
    assert_refused(tmp_path / "two-copy", "is not the one that was written here")


def write_log(path: Path, payloads: list[bytes]) -> None:
    content = b""
    for payload in payloads:
        content += append_record(content, payload)
    path.write_bytes(content)


def batches_of(log: Path) -> list[bytes]:
    return [record.payload for record in read_records(log.read_bytes()) if isinstance(record, LogRecord)]


def test_a_log_that_begins_behind_the_last_change_of_the_list_of_files_is_refused(tmp_path: Path) -> None:
    live_copy(tmp_path / "db", tmp_path / "copy")
    path = tmp_path / "copy"
    log = only_log(path)
    write_log(log, batches_of(log)[10:])
    marks = SyncedMarks(path)
    marks.record(marks.observe(), 50)
    marks.close()
    assert_refused(path, "the log 000004.log begins with change 12, and the last one before it is 0")


def test_logs_behind_a_torn_end_are_dropped_with_it(tmp_path: Path) -> None:
    """A loss of power may leave a log that was begun later, and not the end of the one before."""
    live_copy(tmp_path / "db", tmp_path / "copy")
    path = tmp_path / "copy"
    log = only_log(path)
    batches = batches_of(log)
    write_log(path / "000099.log", batches[90:])
    assert_refused(path, "the log 000099.log begins with change 92, and the last one before it is 102")
    write_log(log, batches[:80])
    assert inspect(path).beyond_tear == [99]
    engine = open_engine("rocksdb", str(path))
    assert len(list(engine.keys(Family.RECORDS, b"", b"\xff"))) == 79
    engine.close()


def test_a_log_in_the_place_of_an_empty_one_is_refused(tmp_path: Path) -> None:
    """What its changes are numbered with has been flushed from other logs."""
    live_copy(tmp_path / "other", tmp_path / "copy")
    path = tmp_path / "db"
    put(path, *(b"%d" % n for n in range(200)))
    open_engine("rocksdb", str(path)).close()
    log = max(path.glob("*.log"))
    assert log.stat().st_size == 0
    shutil.copy(only_log(tmp_path / "copy"), log)
    assert_refused(path, "is not the one that was written here")


def test_numbers_that_files_take_which_come_in_whole_are_not_missed(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path / "db"))
    for _ in range(3):
        load = engine.begin_load(Family.INDEXES, b"k", b"n")
        load.entries.add(b"l1", b"1")
        load.entries.add(b"l3", b"1")
        batch = Batch()
        batch.put(Family.INDEXES, b"l2", b"2")
        engine.write(batch)
        while not load.step(float("inf")):
            pass
    engine.flush()
    copy_files(engine, tmp_path / "db", tmp_path / "copy")
    engine.close()
    state = inspect(tmp_path / "copy")
    assert not state.damage
    assert state.version is not None
    assert len(state.version.logless_sequences) >= 2
    open_engine("rocksdb", str(tmp_path / "copy")).close()


def test_files_of_two_directories_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path / "one", b"a")
    put(tmp_path / "two", b"a")
    shutil.copy(tmp_path / "one" / "DOCSTORE", tmp_path / "two" / "DOCSTORE")
    with pytest.raises(StorageError):
        open_engine("rocksdb", str(tmp_path / "two"))


def test_a_checkpoint_is_a_directory_of_its_own_with_marker_and_mark(tmp_path: Path) -> None:
    engine = open_engine("rocksdb", str(tmp_path / "db"))
    batch = Batch()
    batch.put(Family.RECORDS, b"a", b"1")
    engine.write(batch)
    engine.checkpoint(str(tmp_path / "copy"))
    engine.close()
    state = inspect(tmp_path / "copy")
    assert (state.damage, state.marker is None, state.mark is None) == ([], False, False)
    next((tmp_path / "copy").glob("*.sst")).unlink()
    with pytest.raises(DirectoryDamaged):
        open_engine("rocksdb", str(tmp_path / "copy"))


def test_sealed_files_are_whole_or_unreadable(tmp_path: Path) -> None:
    line = seal({"a": 1})
    assert unseal(line) == {"a": 1}
    for at in range(len(line) - 1):
        assert unseal(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]) is None
    write_sealed(tmp_path / "file", {"a": 2})
    assert read_sealed(tmp_path / "file") == {"a": 2}
    (tmp_path / "file").write_bytes(line[:-3])
    with pytest.raises(Unreadable):
        read_sealed(tmp_path / "file")


class TestSyncedMarks:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        (tmp_path / "CURRENT").write_text("MANIFEST-000004\n")
        (tmp_path / "MANIFEST-000004").write_bytes(b"m" * 10)
        (tmp_path / "000005.log").write_bytes(b"l" * 20)
        return tmp_path

    def test_of_two_slots_the_newest_whole_one_counts(self, path: Path) -> None:
        marks = SyncedMarks(path)
        for size in (20, 30, 40):
            (path / "000005.log").write_bytes(b"l" * size)
            marks.record(marks.observe(), size)
        marks.close()
        mark = read_mark(path)
        assert mark is not None
        assert (mark.sequence, mark.manifest, mark.manifest_bytes, mark.logs) == (40, 4, 10, {5: 40})
        content = bytearray((path / "SYNCED").read_bytes())
        for start in (0, len(content) // 2):
            if json.loads(content[start + 9 :].split(b"\n")[0])["sequence"] == 40:
                content[start + 20] ^= 1
        (path / "SYNCED").write_bytes(content)
        mark = read_mark(path)
        assert mark is not None
        assert mark.sequence == 30

    def test_a_new_log_is_noticed(self, path: Path) -> None:
        marks = SyncedMarks(path)
        assert marks.observe() == (10, {5: 20})
        (path / "000006.log").write_bytes(b"x")
        (path / "000005.log").unlink()
        assert marks.observe() == (10, {6: 1})
        marks.close()

    def test_a_new_log_is_noticed_though_the_clock_is_ahead(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: 1 << 62)
        monkeypatch.setattr(time, "time", lambda: 4e9)
        marks = SyncedMarks(path)
        assert marks.observe() == (10, {5: 20})
        (path / "000006.log").write_bytes(b"x")
        assert marks.observe() == (10, {5: 20, 6: 1})
        marks.close()

    def test_a_disk_that_takes_no_mark_stops_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        marks = SyncedMarks(path)

        def fail(*_arguments: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", fail)
        marks.record(marks.observe(), 1)
        monkeypatch.undo()
        marks.close()


def test_any_flipped_bit_of_marker_or_list_of_files_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "db"
    live_copy(tmp_path / "made", path)
    mark = read_mark(path)
    assert mark is not None
    for _ in range(60):
        file = random.choice([path / "DOCSTORE", path / "CURRENT", *path.glob("MANIFEST-*")])
        good = file.read_bytes()
        content = bytearray(good)
        at, bit = random.randrange(len(content)), random.randrange(8)
        content[at] ^= 1 << bit
        file.write_bytes(content)
        state = inspect(path)
        # What the copy itself has made the engine write behind the mark may look torn.
        is_synced = not file.name.startswith("MANIFEST-") or at < mark.manifest_bytes
        assert state.damage or (state.torn and not is_synced), (file.name, at, bit)
        file.write_bytes(good)
    assert not inspect(path).damage
