"""Hints on disk: what was acknowledged is there again, and what was not written whole is cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import bson
import pytest

from mongos.widecolumn.hints.handoff import aged
from mongos.widecolumn.hints.log import HintLog, HintRef, HintsInUse


def commands(log: HintLog) -> list[tuple[str, int, bytes]]:
    """(keyspace, second, command) of the pending hints."""
    return [(ref.keyspace, *hint) for ref in log.pending() if (hint := log.read(ref)) is not None]


def forget(log: HintLog, *refs: HintRef) -> None:
    for ref in refs:
        asyncio.run(log.forget(ref))


def filled(directory: Path, count: int) -> None:
    log = HintLog(directory)
    for number in range(count):
        asyncio.run(log.append("ks", number, b"command %d" % number))
    log.close()


def test_hints_come_again_until_they_are_forgotten(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    log = HintLog(tmp_path)
    asyncio.run(log.append("other", 7, b"x"))
    assert commands(log) == [
        ("ks", 0, b"command 0"), ("ks", 1, b"command 1"), ("ks", 2, b"command 2"), ("other", 7, b"x"),
    ]  # fmt: skip
    assert len(log) == 4
    first, second, third, _ = log.pending()
    forget(log, second)
    assert [command for _, _, command in commands(log)] == [b"command 0", b"command 2", b"x"]
    forget(log, first, third)
    asyncio.run(log.append("ks", 9, b"again"))
    assert commands(log) == [("ks", 9, b"again"), ("other", 7, b"x")]
    log.close()
    again = HintLog(tmp_path)
    assert commands(again) == [("ks", 9, b"again"), ("other", 7, b"x")]
    again.close()


def test_hints_that_are_not_forgotten_come_again(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    log = HintLog(tmp_path)
    forget(log, log.pending()[0])
    log.close()
    again = HintLog(tmp_path)
    assert len(again) == 2
    again.close()


def test_a_file_that_is_mostly_forgotten_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hint that waits does not keep the bytes of all that came with it."""
    monkeypatch.setattr("mongos.widecolumn.hints.log.MIN_GARBAGE_BYTES", 100)
    filled(tmp_path, 20)
    log = HintLog(tmp_path)
    path = tmp_path / "ks.hints"
    whole = path.stat().st_size
    first, *others, last = log.pending()
    forget(log, *others)
    assert path.stat().st_size < whole // 2
    assert log.size == first.size + last.size
    asyncio.run(log.append("ks", 21, b"after"))
    expected = [("ks", 0, b"command 0"), ("ks", 19, b"command 19"), ("ks", 21, b"after")]
    assert [part for part in commands(log) if part[2] in (b"command 0", b"command 19", b"after")] == expected
    forget(log, last)
    assert b"command 0" in [command for _, _, command in commands(log)]
    log.close()


@pytest.mark.parametrize("torn", [1, 5, 8, 20])
def test_a_torn_tail_is_cut_off(tmp_path: Path, torn: int) -> None:
    filled(tmp_path, 2)
    path = tmp_path / "ks.hints"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:torn])
    log = HintLog(tmp_path)
    assert path.read_bytes() == whole
    asyncio.run(log.append("ks", 5, b"next"))
    assert [command for _, _, command in commands(log)] == [b"command 0", b"command 1", b"next"]
    log.close()


def test_a_damaged_hint_ends_the_file(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    path = tmp_path / "ks.hints"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 + 20] ^= 1
    path.write_bytes(whole)
    log = HintLog(tmp_path)
    assert [command for _, _, command in commands(log)] == [b"command 0"]
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
