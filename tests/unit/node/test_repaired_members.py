"""A member of a set whose directory a repair has changed copies the others' data before it votes again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from docstore.collection.store import Store
from docstore.node.process.repair import RepairOutcome, repair
from docstore.replicaset.local_state import LocalState
from docstore.storage import Batch, Family, open_engine
from tests.unit.collection.building import doc, make


def written(path: Path, *, oplog: bool) -> None:
    engine = open_engine("rocksdb", str(path))
    store = Store(engine, clock=time.time)
    if oplog:
        store.attach_oplog(1 << 20)
    make(store, "db.c", *(doc(n, text="x" * 100) for n in range(500)))
    engine.flush()
    engine.close()


def must_resync(path: Path) -> bool:
    engine = open_engine("rocksdb", str(path))
    state = LocalState(Store(engine, clock=time.time)).initial_sync
    engine.close()
    return state


def lose_records(path: Path) -> None:
    """Take the largest sorted file away."""
    max(path.glob("*.sst"), key=lambda file: file.stat().st_size).unlink()


@pytest.mark.parametrize("oplog", [True, False])
def test_a_repair_that_has_lost_something_marks_a_member(tmp_path: Path, oplog: bool) -> None:
    written(tmp_path, oplog=oplog)
    lose_records(tmp_path)
    assert repair(tmp_path, None).losses
    assert must_resync(tmp_path) == oplog


def test_a_repair_that_has_found_damage_and_saved_all_marks_a_member(tmp_path: Path) -> None:
    written(tmp_path, oplog=True)
    (tmp_path / "CURRENT").unlink()
    outcome = repair(tmp_path, None)
    assert outcome.losses == ()
    assert any("copies the data of the others" in note for note in outcome.notes)
    assert must_resync(tmp_path)


def test_a_repair_of_a_sound_directory_changes_no_member(tmp_path: Path) -> None:
    written(tmp_path, oplog=True)
    assert repair(tmp_path, None) == RepairOutcome()
    assert not must_resync(tmp_path)
    assert not list((tmp_path / "repair").iterdir())


def test_what_a_repair_has_lost_is_said_until_its_record_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, oplog=True)
    lose_records(tmp_path)
    lost = repair(tmp_path, None).losses
    assert lost
    engine = open_engine("rocksdb", str(tmp_path))
    LocalState(Store(engine, clock=time.time)).write_initial_sync(False)
    engine.close()
    said = [record for record in caplog.records if "its record stands" in record.message]
    assert len(said) == len(lost)
    again = repair(tmp_path, None)
    assert [text.partition(" (lost by the repair in ")[0] for text in again.losses] == list(lost)
    assert again.notes == ()
    assert not must_resync(tmp_path)
    shutil.rmtree(tmp_path / "repair" / "1")
    assert repair(tmp_path, None) == RepairOutcome()


def test_a_repair_that_was_killed_while_it_checked_says_in_the_end_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, oplog=True)
    engine = open_engine("rocksdb", str(tmp_path))
    batch = Batch()
    for key in list(engine.keys(Family.META, b"c", b"d")):
        batch.delete(Family.META, key)
    engine.write(batch)
    engine.close()

    def fail(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("docstore.node.process.repair.repair_collection", fail)
        with pytest.raises(KeyboardInterrupt):
            repair(tmp_path, None)
    [loss] = repair(tmp_path, None).losses
    assert "the catalog did not name the collection" in loss
    assert must_resync(tmp_path)
