"""Hints on disk: what was acknowledged is there again, and what was not written whole is cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import bson
import pytest

from mongos.widecolumn.hints.handoff import aged
from mongos.widecolumn.hints.log import HintLog, HintsInUse


def kept(log: HintLog, keyspace: str) -> list[tuple[int, bytes]]:
    found = []
    while (hint := log.first(keyspace)) is not None:
        found.append((hint.at, hint.command))
        log.done(keyspace, hint)
    return found


def filled(directory: Path, count: int) -> None:
    log = HintLog(directory)
    for number in range(count):
        asyncio.run(log.append("ks", number, b"command %d" % number))
    log.close()


def test_hints_come_in_their_order_and_by_keyspace(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    log = HintLog(tmp_path)
    asyncio.run(log.append("other", 7, b"x"))
    assert sorted(log.keyspaces()) == ["ks", "other"]
    assert len(log) == 4
    assert kept(log, "ks") == [(0, b"command 0"), (1, b"command 1"), (2, b"command 2")]
    assert log.keyspaces() == ["other"]
    asyncio.run(log.append("ks", 9, b"again"))
    assert kept(log, "ks") == [(9, b"again")]
    log.close()
    again = HintLog(tmp_path)
    assert again.keyspaces() == ["other"]
    again.close()


def test_hints_that_are_not_done_come_again(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    log = HintLog(tmp_path)
    first = log.first("ks")
    assert first is not None
    log.done("ks", first)
    log.close()
    again = HintLog(tmp_path)
    assert len(again) == 2
    again.close()


@pytest.mark.parametrize("torn", [1, 5, 8, 20])
def test_a_torn_tail_is_cut_off(tmp_path: Path, torn: int) -> None:
    filled(tmp_path, 2)
    path = tmp_path / "ks.hints"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:torn])
    log = HintLog(tmp_path)
    assert path.read_bytes() == whole
    asyncio.run(log.append("ks", 5, b"next"))
    assert [command for _, command in kept(log, "ks")] == [b"command 0", b"command 1", b"next"]
    log.close()


def test_a_damaged_hint_ends_the_file(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    path = tmp_path / "ks.hints"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 + 20] ^= 1
    path.write_bytes(whole)
    log = HintLog(tmp_path)
    assert [command for _, command in kept(log, "ks")] == [b"command 0"]
    log.close()


def test_a_directory_has_one_user(tmp_path: Path) -> None:
    log = HintLog(tmp_path)
    with pytest.raises(HintsInUse):
        HintLog(tmp_path)
    log.close()
    HintLog(tmp_path).close()


def test_a_value_that_expires_has_less_time_left_when_its_hint_is_carried_out() -> None:
    columns = [{"name": "a", "ttl": 100}, {"name": "b"}]
    batch = {"mutations": [{"insert": {"name": "c", "ttl": 5}}, {"insertSuper": {"columns": columns}}]}
    found = bson.decode(aged(bson.encode(batch), 10))["mutations"]
    assert found == [
        {"insert": {"name": "c", "ttl": 1}},
        {"insertSuper": {"columns": [{"name": "a", "ttl": 90}, {"name": "b"}]}},
    ]
    single = bson.encode({"wcInsert": "F", "ttl": 60})
    assert bson.decode(aged(single, 10))["ttl"] == 50
    assert aged(single, 0) == single
