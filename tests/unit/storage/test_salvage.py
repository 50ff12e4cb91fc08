"""Damaged directories: what can be read is saved, what cannot is said, in any state in which a repair was killed."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from docstore.storage import Batch, Family, StorageError, open_engine, opening, salvage, table_list
from docstore.storage.inspection import inspect
from docstore.storage.repairs import Loss, Phase, Repair, begin_repair, discard_repair, unfinished_repair
from tests.harness.power_loss import copy_files

KEYS = [b"%05d" % n for n in range(4000)]


def fill(path: Path, *, reopened: bool = True) -> None:
    """A database of one life, whose data is in the log, or of two, whose data is in sorted files."""
    noise = random.Random(1)
    engine = open_engine("rocksdb", str(path))
    for begin in range(0, len(KEYS), 40):
        batch = Batch()
        for key in KEYS[begin : begin + 40]:
            batch.put(Family.RECORDS, key, noise.randbytes(200))
            batch.put(Family.INDEXES, key, b"")
        engine.write(batch)
    engine.flush()
    if reopened:
        engine.close()
        open_engine("rocksdb", str(path)).close()
    else:
        copy = path.with_name("copy")
        copy_files(engine, path, copy)
        engine.close()
        shutil.rmtree(path)
        copy.rename(path)


def flip(file: Path, *places: float) -> None:
    content = bytearray(file.read_bytes())
    for place in places:
        content[int(len(content) * place)] ^= 0x10
    file.write_bytes(content)


def largest(path: Path, pattern: str) -> Path:
    return max(path.glob(pattern), key=lambda file: file.stat().st_size)


def keys_in(path: Path, family: Family = Family.RECORDS) -> list[bytes]:
    engine = open_engine("rocksdb", str(path))
    found = list(engine.keys(family, b"", b"\xff"))
    engine.close()
    return found


def values_in(path: Path, prepare: Callable[[Path], None] = lambda path: None) -> dict[bytes, bytes]:
    prepare(path)
    engine = open_engine("rocksdb", str(path))
    pairs = dict(engine.items(Family.RECORDS, b"", b"\xff"))
    engine.close()
    return pairs


def repaired(path: Path) -> tuple[Loss, ...]:
    repair = salvage.salvage(path)
    assert repair.phase is Phase.CHECKING
    with pytest.raises(StorageError, match="was not finished"):
        open_engine("rocksdb", str(path))
    repair.enter(Phase.DONE)
    return repair.losses


def test_a_sound_directory_is_left_as_it_is(tmp_path: Path) -> None:
    fill(tmp_path)
    repair = salvage.salvage(tmp_path)
    assert (repair.reason, repair.losses, repair.damaged.exists()) == ("", (), False)
    repair.enter(Phase.DONE)
    assert keys_in(tmp_path) == KEYS


def test_all_but_the_damaged_blocks_is_saved_and_the_damaged_files_are_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    flip(largest(tmp_path, "*.sst"), 0.2, 0.7)
    losses = repaired(tmp_path)
    assert [loss.family for loss in losses] == ["records", "records"]
    kept = keys_in(tmp_path)
    assert 3500 < len(kept) < len(KEYS)
    assert set(kept) < set(KEYS)
    for key in set(KEYS) - set(kept):
        assert any(bytes.fromhex(loss.start) < key < bytes.fromhex(loss.end) for loss in losses)
    assert keys_in(tmp_path, Family.INDEXES) == KEYS
    assert list((tmp_path / "repair" / "1" / "damaged").glob("*.sst"))


def test_a_current_file_that_names_nothing_costs_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "CURRENT").write_text("MANIFEST-999999\n")
    with pytest.raises(StorageError):
        open_engine("rocksdb", str(tmp_path))
    assert repaired(tmp_path) == ()
    assert keys_in(tmp_path) == KEYS == keys_in(tmp_path, Family.INDEXES)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_flipped_bit_in_the_list_of_files_of_the_first_life_costs_nothing(tmp_path: Path, place: float) -> None:
    path = tmp_path / "db"
    fill(path, reopened=False)
    flip(largest(path, "MANIFEST-*"), place)
    with pytest.raises(StorageError, match="MANIFEST"):
        open_engine("rocksdb", str(path))
    assert repaired(path) == ()
    assert keys_in(path) == KEYS == keys_in(path, Family.INDEXES)


def test_what_stands_behind_a_flipped_bit_in_the_log_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fill(path, reopened=False)
    flip(largest(path, "*.log"), 0.3)
    with pytest.raises(StorageError, match=r"can be read up to byte \d+, and \d+ bytes were synced"):
        open_engine("rocksdb", str(path))
    [loss] = repaired(path)
    assert "of the log are missing" in loss.text
    kept = keys_in(path)
    assert len(kept) == len(KEYS) - 40
    assert kept[0] == KEYS[0]
    assert kept[-1] == KEYS[-1]


@pytest.mark.parametrize(("one", "other"), [(0, 1), (3, 9), (9, 10), (0, 20)])
def test_blocks_of_a_log_in_another_order_cost_what_stands_at_their_ends(tmp_path: Path, one: int, other: int) -> None:
    path = tmp_path / "db"
    fill(path, reopened=False)
    log = largest(path, "*.log")
    content = log.read_bytes()
    blocks = [content[start : start + 32_768] for start in range(0, len(content), 32_768)]
    blocks[one], blocks[other] = blocks[other], blocks[one]
    log.write_bytes(b"".join(blocks))
    before = values_in(tmp_path / "sound", lambda sound: fill(sound, reopened=False))
    losses = repaired(path)
    assert 2 <= len(losses) <= 4
    assert [loss.text for loss in losses if "are missing" not in loss.text] == []
    kept = values_in(path)
    assert len(before) - 4 * 40 <= len(kept) < len(before)
    assert kept.items() <= before.items()


def test_the_log_of_another_directory_is_left_out(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fill(tmp_path / name, reopened=False)
    log = largest(tmp_path / "one", "*.log")
    shutil.copy(log, tmp_path / "two" / log.name)
    left_out, missing = repaired(tmp_path / "two")
    assert f"{log.name} is not the one that was written here, and was left out" in left_out.text
    assert "which were synced, are missing" in missing.text
    assert keys_in(tmp_path / "two") == []


@pytest.mark.parametrize("without_log", [False, True])
def test_without_marker_and_mark_what_is_not_known_is_said(tmp_path: Path, without_log: bool) -> None:
    path = tmp_path / "db"
    fill(path, reopened=False)
    for name in ("DOCSTORE", "SYNCED", *(log.name for log in path.glob("*.log") if without_log)):
        (path / name).unlink()
    [loss] = repaired(path)
    assert "without the file SYNCED it is not known" in loss.text
    assert keys_in(path) == ([] if without_log else KEYS)


def test_a_log_that_was_cut_is_said_to_end_early(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fill(path, reopened=False)
    log = largest(path, "*.log")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    assert any("which were synced, are missing" in loss.text for loss in repaired(path))
    assert 1500 < len(keys_in(path)) < 2500


def test_a_sorted_file_that_is_missing_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    largest(tmp_path, "*.sst").unlink()
    with pytest.raises(StorageError, match=r"\.sst of the family records is missing"):
        open_engine("rocksdb", str(tmp_path))
    [loss] = repaired(tmp_path)
    assert (loss.family, bytes.fromhex(loss.start), bytes.fromhex(loss.end)) == ("records", KEYS[0], KEYS[-1])
    assert keys_in(tmp_path) == []
    assert keys_in(tmp_path, Family.INDEXES) == KEYS


@pytest.mark.parametrize("names_it", [True, False])
def test_a_sorted_file_that_cannot_be_opened_is_named(
    tmp_path: Path, names_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the message of RocksDB does not name it."""
    if not names_it:
        monkeypatch.setattr(table_list, "_NAMED_TABLE", re.compile("(nothing)"))
    fill(tmp_path)
    table = largest(tmp_path, "*.sst")
    table.write_bytes(table.read_bytes()[:-30] + bytes(30))
    [loss] = repaired(tmp_path)
    assert f"{table.name} cannot be opened" in loss.text
    assert keys_in(tmp_path, Family.INDEXES) == KEYS


def test_a_lost_list_of_files_is_made_anew_and_that_is_said(tmp_path: Path) -> None:
    fill(tmp_path)
    for file in tmp_path.glob("MANIFEST-*"):
        file.unlink()
    assert any("older versions" in loss.text for loss in repaired(tmp_path))
    assert keys_in(tmp_path) == KEYS == keys_in(tmp_path, Family.INDEXES)


class Killed(BaseException):
    """What a process that is killed does not catch."""


def kills(patch: pytest.MonkeyPatch, moment: int) -> None:
    """Die before the numbered move or phase."""
    remaining = [moment]

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if not remaining[0]:
                raise Killed
            remaining[0] -= 1
            return function(*args, **options)

        return call

    for target, name in ((Path, "rename"), (Repair, "enter")):
        patch.setattr(target, name, counted(getattr(target, name)))


def moments() -> Iterator[int]:
    yield from (0, 2, 5, 9, 14, 20, 27, 60)


@pytest.mark.parametrize("before", [False, True])
def test_a_repair_that_was_killed_is_refused_to_open_and_ended_by_the_next(
    tmp_path: Path, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a directory that has been repaired `before`, whose files of that time stay."""
    fill(tmp_path)
    if before:
        flip(largest(tmp_path, "*.sst"), 0.2)
        repaired(tmp_path)
        open_engine("rocksdb", str(tmp_path)).close()
    old = sorted((tmp_path / "repair").rglob("damaged/*"))
    count = len(keys_in(tmp_path))
    flip(largest(tmp_path, "*.sst"), 0.6)
    for moment in moments():
        again = tmp_path.with_name(f"{tmp_path.name}.{moment}")
        shutil.copytree(tmp_path, again)
        with monkeypatch.context() as patch:
            kills(patch, moment)
            try:
                salvage.salvage(again)
            except Killed:
                was_killed = True
            else:
                was_killed = False
        begun = unfinished_repair(again)
        if begun is not None:
            with pytest.raises(StorageError, match="was not finished"):
                open_engine("rocksdb", str(again))
        losses = repaired(again)
        assert len(losses) == 1
        assert count - 300 < len(keys_in(again)) < count
        assert len(list((again / "repair").rglob("damaged/*.sst"))) > len(
            [file for file in old if file.suffix == ".sst"]
        )
        shutil.rmtree(again)
        if not was_killed:
            return
    raise AssertionError("the repair was never ended")


@pytest.mark.parametrize("moment", [1, 5, 14])
def test_nothing_is_begun_over_a_repair_whose_journal_is_missing(
    tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory may be empty then, as one of a new server is: all of its files are moved."""
    fill(tmp_path)
    (tmp_path / "CURRENT").unlink()
    with monkeypatch.context() as patch:
        kills(patch, moment)
        with pytest.raises(Killed):
            salvage.salvage(tmp_path)
    (tmp_path / "repair" / "1" / "journal").unlink()
    for attempt in (lambda: open_engine("rocksdb", str(tmp_path)), lambda: salvage.salvage(tmp_path)):
        with pytest.raises(StorageError, match=r"journal is missing, so how far the repair .* cannot be told"):
            attempt()


def test_fresh_files_that_are_damaged_before_they_are_moved_are_repaired_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    (tmp_path / "CURRENT").unlink()
    with monkeypatch.context() as patch:
        kills(patch, 2)
        with pytest.raises(Killed):
            salvage.salvage(tmp_path)
    assert (tmp_path / "repair" / "1" / "fresh" / "CURRENT").exists()
    (tmp_path / "repair" / "1" / "fresh" / "CURRENT").write_text("")
    assert repaired(tmp_path) == ()
    assert keys_in(tmp_path) == KEYS


def lose(path: Path, names: Sequence[str], how: str) -> None:
    """The files of these names are gone or, where they are there, damaged."""
    for name in names:
        if how == "removed":
            (path / name).unlink(missing_ok=True)
        elif (path / name).exists():
            flip(path / name, *(n / 100 for n in range(100)))


@pytest.mark.parametrize(("names", "how"), [(("SYNCED",), "flipped"), (("DOCSTORE", "SYNCED"), "removed")])
def test_a_repair_knows_whose_directory_it_is_and_what_was_synced_whatever_it_loses_while_it_is_killed(
    tmp_path: Path, names: tuple[str, ...], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without both, the log of another directory would be taken for that of this one."""
    for name in ("one", "two"):
        fill(tmp_path / name, reopened=False)
    log = largest(tmp_path / "two", "*.log")
    shutil.copy(largest(tmp_path / "one", "*.log"), log)
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "two", whole)
    expected = {loss.text for loss in repaired(whole)}
    assert len(expected) == 2
    for moment in range(1, 40):
        again = tmp_path / f"killed at {moment}"
        shutil.copytree(tmp_path / "two", again)
        with monkeypatch.context() as patch:
            kills(patch, moment)
            try:
                salvage.salvage(again)
            except Killed:
                was_killed = True
            else:
                was_killed = False
        lose(again, names, how)
        assert {loss.text for loss in repaired(again)} == expected, f"killed before step {moment}"
        assert keys_in(again) == []
        shutil.rmtree(again)
        if not was_killed:
            return
    raise AssertionError("the repair was never ended")


def test_a_repair_that_takes_the_place_of_another_is_begun_with_its_journal(tmp_path: Path) -> None:
    """Until then the other one is under way."""
    fill(tmp_path)
    (tmp_path / "CURRENT").unlink()
    salvage.salvage(tmp_path)
    (tmp_path / "repair" / "2").mkdir()
    with pytest.raises(StorageError, match="was not finished"):
        open_engine("rocksdb", str(tmp_path))


def test_the_inspection_of_a_sound_directory_finds_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    state = inspect(tmp_path)
    assert (state.damage, state.torn, state.missing) == ([], [], [])
    assert state.marker is not None
    assert set(state.marker.families) == {"default", *(family.name.lower() for family in Family)}


@pytest.mark.parametrize("damaged", [False, True])
def test_a_repair_without_findings_stays_if_an_earlier_journal_is_unreadable(tmp_path: Path, *, damaged: bool) -> None:
    path = tmp_path / "db"
    open_engine("rocksdb", str(path)).close()
    earlier = begin_repair(path, "a reason").enter(Phase.DONE)
    later = begin_repair(path, "")
    if damaged:
        (earlier.directory / "journal").write_bytes(b"no journal")
    discard_repair(later)
    assert later.directory.exists() == damaged
    assert unfinished_repair(path) is None


@pytest.mark.parametrize("killed_at", range(8))
def test_a_check_that_finds_nothing_may_be_killed_at_any_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    path = tmp_path / "db"
    fill(path)
    before = {file.name: file.read_bytes() for file in path.glob("*.sst")}
    remaining = [killed_at]

    def killing(name: str) -> Callable[..., Any]:
        whole = getattr(os, name)

        def step(*arguments: Any, **options: Any) -> Any:
            # The inspection works in a directory of its own.
            remaining[0] -= str(arguments[0]).startswith(f"{path}/repair")
            if remaining[0] < 0:
                raise KeyboardInterrupt
            return whole(*arguments, **options)

        return step

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        for name in ("replace", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, killing(name))
        discard_repair(salvage.salvage(path))
    resumed = unfinished_repair(path)
    assert resumed is None or resumed.phase is Phase.CHECKING
    discard_repair(salvage.salvage(path))
    assert unfinished_repair(path) is None
    assert not list(path.glob("repair/*/damaged"))
    assert before == {file.name: file.read_bytes() for file in path.glob("*.sst")}
    assert keys_in(path) == KEYS


def test_a_repair_that_holds_files_of_the_database_is_not_discarded(tmp_path: Path) -> None:
    fill(tmp_path / "db")
    repair = begin_repair(tmp_path / "db", "")
    repair.damaged.mkdir()
    discard_repair(repair)
    assert repair.damaged.exists()
    assert unfinished_repair(tmp_path / "db") is None


def test_a_start_that_is_refused_drops_no_torn_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "db"
    fill(path, reopened=False)
    log = largest(path, "*.log")
    with log.open("ab") as file:
        file.write(random.Random(2).randbytes(1000))
    torn = log.read_bytes()

    def fail(*_arguments: object, **_options: object) -> None:
        assert len(log.read_bytes()) == len(torn) - 1000
        raise StorageError("a sorted file cannot be opened")

    with monkeypatch.context() as patch:
        patch.setattr(opening, "RocksEngine", fail)
        with pytest.raises(StorageError, match="cannot be opened"):
            open_engine("rocksdb", str(path))
    assert log.read_bytes() == torn
    assert keys_in(path) == KEYS


def test_a_log_that_no_flush_had_covered_and_that_does_not_follow_is_left_out(tmp_path: Path) -> None:
    """As at a start, which drops it: it may be that of another directory."""
    own, other = tmp_path / "own", tmp_path / "other"
    for path in (own, other):
        fill(path)
    for _ in range(2):
        engine = open_engine("rocksdb", str(other))
        batch = Batch()
        for key in KEYS[:100]:
            batch.put(Family.RECORDS, key, b"of the other")
        engine.write(batch)
        engine.flush()
        copy_files(engine, other, tmp_path / "copy")
        engine.close()
        last = largest(tmp_path / "copy", "*.log").read_bytes()
        shutil.rmtree(tmp_path / "copy")
    (log,) = own.glob("*.log")
    log.write_bytes(last)
    largest(own, "*.sst").write_bytes(b"")
    losses = repaired(own)
    assert any("does not follow what is there" in loss.text for loss in losses)
    assert not any(value == b"of the other" for value in values_in(own).values())
