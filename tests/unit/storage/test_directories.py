"""Data directories are made once; one of which something is missing is refused, and stays as it is."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from docstore.storage import Batch, DirectoryDamaged, Family, StorageError, open_engine
from docstore.storage.directory import COMPLETE, MAKING, Marker, SyncedMarks, read_mark, read_marker
from docstore.storage.durable import Unreadable, read_sealed, seal, unseal, write_sealed
from docstore.storage.inspection import inspect


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
    shutil.copytree(path, target)
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


def test_a_directory_in_which_a_process_ended_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    Marker("1", MAKING).write(tmp_path)
    (tmp_path / "CURRENT").write_text("MANIFEST-000009\n")
    put(tmp_path, b"a")
    marker = read_marker(tmp_path)
    assert marker is not None
    assert (marker.state, len(marker.families)) == (COMPLETE, len(Family) + 1)


def test_a_directory_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    put(tmp_path, b"a")
    for name in ("DOCSTORE", "SYNCED"):
        (tmp_path / name).unlink()
    put(tmp_path, b"b")
    assert read_marker(tmp_path) is not None
    assert read_mark(tmp_path) is not None


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
    rng = random.Random()
    for _ in range(60):
        file = rng.choice([path / "DOCSTORE", path / "CURRENT", *path.glob("MANIFEST-*")])
        good = file.read_bytes()
        content = bytearray(good)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        assert inspect(path).damage
        file.write_bytes(good)
    assert not inspect(path).damage
