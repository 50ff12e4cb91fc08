"""A disk that runs full: what is refused, and until when."""

from __future__ import annotations

import logging

import pytest

from docstore.storage import Batch, DiskFull, Family, Urgency
from docstore.storage.disk_space import RESERVE_BYTES, DiskSpace

TOTAL = 1 << 40


def insertion() -> Batch:
    batch = Batch()
    batch.put(Family.RECORDS, b"k", b"v")
    return batch


def test_documents_are_refused_while_the_reserve_is_not_free_and_removals_are_not() -> None:
    free = [RESERVE_BYTES - 1]
    room = DiskSpace("/", lambda _path: (free[0], TOTAL))
    with pytest.raises(DiskFull, match="255 MiB are left"):
        room.check(insertion())
    removal = Batch()
    removal.delete(Family.RECORDS, b"k")
    removal.put(Family.META, b"k", b"v")
    room.check(removal)
    free[0] = RESERVE_BYTES
    room.check(insertion())


def test_the_log_tells_when_writes_are_refused_and_when_they_are_taken_again(caplog: pytest.LogCaptureFixture) -> None:
    free = [RESERVE_BYTES - 1]
    room = DiskSpace("/", lambda _path: (free[0], TOTAL))
    with caplog.at_level(logging.INFO, logger="docstore"):
        for _ in range(2):
            with pytest.raises(DiskFull):
                room.check(insertion())
        free[0] = RESERVE_BYTES
        room.check(insertion())
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "The disk is full: writes are refused"),
        ("INFO", "The disk has room again: writes are taken"),
    ]


@pytest.mark.parametrize("family", [Family.RECORDS, Family.WIDE, Family.INDEXES])
def test_rows_and_index_entries_are_refused_as_documents_are(family: Family) -> None:
    batch = Batch()
    batch.put(family, b"k", b"v")
    with pytest.raises(DiskFull):
        DiskSpace("/", lambda _path: (RESERVE_BYTES - 1, TOTAL)).check(batch)


def test_the_reserve_is_there_for_rollbacks_and_to_its_end_for_elections() -> None:
    free = [RESERVE_BYTES // 4]
    room = DiskSpace("/", lambda _path: (free[0], TOTAL))
    recovery, consensus = insertion(), insertion()
    recovery.urgency, consensus.urgency = Urgency.RECOVERY, Urgency.CONSENSUS
    room.check(recovery)
    room.check(consensus)
    free[0] -= 1
    with pytest.raises(DiskFull):
        room.check(recovery)
    free[0] = 0
    room.check(consensus)


def test_a_small_disk_has_a_small_reserve() -> None:
    DiskSpace("/", lambda _path: (6 << 20, 100 << 20)).check(insertion())
    with pytest.raises(DiskFull):
        DiskSpace("/", lambda _path: (4 << 20, 100 << 20)).check(insertion())


def test_the_disk_is_not_looked_at_for_every_write() -> None:
    looks = []
    room = DiskSpace("/", lambda _path: (looks.append(1) or TOTAL, TOTAL))  # type: ignore[func-returns-value]
    for _ in range(320):
        room.check(insertion())
    assert len(looks) <= 11


def removal(weight: int) -> Batch:
    """The removal of a document, with so many bytes of what undoes it."""
    batch = Batch()
    batch.delete(Family.RECORDS, b"k")
    batch.put(Family.UNDO, b"k", bytes(weight))
    return batch


def test_a_removal_goes_the_further_into_the_reserve_the_less_it_weighs() -> None:
    free = [RESERVE_BYTES // 2]
    room = DiskSpace("/", lambda _path: (free[0], TOTAL))
    room.check(removal(1 << 20))
    free[0] -= 1
    with pytest.raises(DiskFull):
        room.check(removal(1 << 20))
    room.check(removal(50_000))
    free[0] = 8 << 20
    with pytest.raises(DiskFull):
        room.check(removal(50_000))
    drop = removal(1000)
    drop.delete_range(Family.RECORDS, b"a", b"b")
    room.check(drop)


def test_heavy_batches_are_looked_at_more_often() -> None:
    free = [TOTAL]
    room = DiskSpace("/", lambda _path: (free[0], TOTAL))
    room.check(removal(1 << 20))
    free[0] = 0
    for _ in range(RESERVE_BYTES // 16 >> 20):
        room.check(removal(1 << 20))
    with pytest.raises(DiskFull):
        room.check(removal(1 << 20))


def test_what_is_removed_in_the_reserve_is_to_be_written_out() -> None:
    free = [RESERVE_BYTES]
    room = DiskSpace("/", lambda _path: (free[0], TOTAL))
    wanted = []
    for free[0] in (2 * RESERVE_BYTES, RESERVE_BYTES - 1):
        for _ in range(40):
            room.check(removal(1 << 20))
            wanted.append(room.wants_room())
    assert sum(wanted[:40]) == 0
    assert 1 <= sum(wanted[40:]) <= 2
    drop = Batch()
    drop.delete_range(Family.RECORDS, b"a", b"b")
    room.check(drop)
    assert room.wants_room()
    assert not room.wants_room()
