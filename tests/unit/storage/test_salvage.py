"""Damaged directories: what can be read is saved, in any state in which a repair was left."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from docstore.storage import Batch, Family, StorageError, open_engine, salvage

KEYS = [b"%05d" % n for n in range(4000)]


def fill(path: Path) -> None:
    noise = random.Random(1)
    engine = open_engine("rocksdb", str(path))
    batch = Batch()
    for key in KEYS:
        batch.put(Family.RECORDS, key, noise.randbytes(200))
        batch.put(Family.INDEXES, key, b"")
    engine.write(batch)
    engine.close()
    open_engine("rocksdb", str(path)).close()


def damage(path: Path, *places: float) -> None:
    table = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    for place in places:
        content[int(len(content) * place)] ^= 0xFF
    table.write_bytes(content)


def keys_in(path: Path, family: Family = Family.RECORDS) -> list[bytes]:
    engine = open_engine("rocksdb", str(path))
    found = list(engine.keys(family, b"", b"\xff"))
    engine.close()
    return found


def test_a_sound_directory_is_left_as_it_is(tmp_path: Path) -> None:
    fill(tmp_path)
    assert salvage.salvage(tmp_path) == 0
    assert keys_in(tmp_path) == KEYS
    assert not (tmp_path / salvage.DAMAGED).exists()


def test_all_but_the_damaged_blocks_is_saved_and_the_damaged_files_are_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    damage(tmp_path, 0.2, 0.7)
    assert salvage.salvage(tmp_path) == 2
    found = keys_in(tmp_path)
    assert 3500 < len(found) < len(KEYS)
    assert set(found) < set(KEYS)
    assert keys_in(tmp_path, Family.INDEXES) == KEYS
    assert list((tmp_path / salvage.DAMAGED).glob("*.sst"))


def test_a_lost_list_of_files_is_made_anew(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "CURRENT").write_text("MANIFEST-999999\n")
    with pytest.raises(StorageError):
        open_engine("rocksdb", str(tmp_path))
    assert salvage.salvage(tmp_path) == 0
    assert keys_in(tmp_path) == KEYS == keys_in(tmp_path, Family.INDEXES)


@pytest.mark.parametrize("renames", range(12))
def test_a_repair_that_was_killed_is_refused_to_open_and_ended_by_the_next(
    tmp_path: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    damage(tmp_path, 0.5)
    rename: Callable[..., Path] = Path.rename
    left = [renames]

    def kill(self: Path, target: Path) -> Path:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", kill)
        with pytest.raises(KeyboardInterrupt):
            salvage.salvage(tmp_path)
    with pytest.raises(StorageError, match="was not finished"):
        open_engine("rocksdb", str(tmp_path))
    salvage.salvage(tmp_path)
    assert 3700 < len(keys_in(tmp_path)) < len(KEYS)
