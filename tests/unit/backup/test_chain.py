"""Which backups lead to a time, and which are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from bson.timestamp import Timestamp

from docstore.backup.chain import chain_to
from docstore.backup.failures import OutOfReach
from docstore.backup.manifest import Manifest, Part, Span
from docstore.backup.retention import select_retained
from docstore.optime import OpTime

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def at(second: int) -> OpTime:
    return OpTime(1, second << 32 | 1)


def backup(number: int, start: int, end: int, *, files: bool = True, parts: tuple[str, ...] = ("set",)) -> Manifest:
    """One whose checkpoint ends a second before its log; it was begun `number` hours after noon, and took one."""
    span = Span(start=at(start), end=at(end), entries=1, size=1, sha256="")
    ends = at(end - 1) if files else None
    made = tuple(
        Part(
            name=name, directory=name, member="h:1", set_name="rs", set_id="1", database="d", files=(), after=ends,
            until=ends, span=span, collections=None,
        )
        for name in parts
    )  # fmt: skip
    return Manifest(
        name=f"b{number}", kind="set", content="full" if files else "oplog", version="1", parts=made,
        began=(NOON + timedelta(hours=number)).isoformat(), ended=(NOON + timedelta(hours=number + 1)).isoformat(),
        point=Timestamp(end, 1),
    )  # fmt: skip


ROW = [backup(1, 9, 10), backup(2, 10, 20), backup(3, 20, 30, files=False), backup(4, 30, 40)]


def names(manifests: tuple[Manifest, ...]) -> list[str]:
    return [each.name for each in manifests]


def test_a_time_is_reached_from_the_newest_backup_before_it() -> None:
    assert names(chain_to(ROW, None, Timestamp(15, 0)).backups) == ["b1", "b2"]
    assert names(chain_to(ROW, None, Timestamp(19, 1)).backups) == ["b2"]
    assert names(chain_to(ROW, None, Timestamp(35, 0)).backups) == ["b2", "b3", "b4"]
    assert names(chain_to(ROW, None, Timestamp(40, 1)).backups) == ["b4"]


def test_a_backup_is_restored_to_its_point() -> None:
    assert chain_to(ROW, None, None).point == Timestamp(40, 1)
    of_the_oplog = chain_to(ROW, "b3", None)
    assert (names(of_the_oplog.backups), of_the_oplog.point) == (["b2", "b3"], Timestamp(30, 1))


@pytest.mark.parametrize("time", [Timestamp(8, 0), Timestamp(40, 2)])
def test_no_other_time_is_reached(time: Timestamp) -> None:
    with pytest.raises(OutOfReach):
        chain_to(ROW, None, time)


def test_a_gap_is_not_crossed() -> None:
    for later in (backup(2, 11, 20), backup(2, 10, 20, parts=("set", "other"))):
        with pytest.raises(OutOfReach, match="was not saved"):
            chain_to([ROW[0], later], None, Timestamp(15, 0))
        assert chain_to([ROW[0], later], None, Timestamp(20, 0)).base.name == "b2"


def test_what_does_not_go_together() -> None:
    with pytest.raises(OutOfReach, match="no backup"):
        chain_to([], None, None)
    with pytest.raises(OutOfReach, match="exclude each other"):
        chain_to(ROW, "b1", Timestamp(9, 0))
    with pytest.raises(OutOfReach, match="no backup other"):
        chain_to(ROW, "other", None)


def test_backups_are_kept_by_number() -> None:
    assert select_retained(ROW, count=1, since=None) == ROW[3:]
    assert select_retained(ROW, count=2, since=None) == ROW[1:]
    assert select_retained(ROW, count=9, since=None) == ROW


@pytest.mark.parametrize("seconds", range(10, 41))
def test_what_a_time_needs_is_kept(seconds: int) -> None:
    """A time is reached from what is kept as from all."""
    remaining = select_retained(ROW, count=None, since=datetime.fromtimestamp(seconds, UTC))
    at = Timestamp(seconds, 0)
    assert chain_to(remaining, None, at) == chain_to(ROW, None, at)
    assert remaining[0] == chain_to(ROW, None, at).base


def test_times_before_the_first_backup_need_all() -> None:
    assert select_retained(ROW, count=None, since=datetime.fromtimestamp(1, UTC)) == ROW


def test_what_a_node_held_is_known_at_the_end_of_its_backup() -> None:
    row = [replace(each, kind="node", point=None, content="full") for each in ROW]
    assert select_retained(row, count=None, since=NOON + timedelta(hours=3, minutes=30)) == row[1:]
    assert select_retained(row, count=None, since=NOON + timedelta(hours=5)) == row[3:]


def test_the_log_of_another_set_continues_nothing() -> None:
    other = tuple(replace(part, set_id="2") for part in ROW[2].parts)
    with pytest.raises(OutOfReach, match="was not saved"):
        chain_to([*ROW[:2], replace(ROW[2], parts=other)], None, None)
