"""Where the audit log goes, and in which form."""

from __future__ import annotations

import asyncio
import json
import stat
import syslog
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.min_key import MinKey
from bson.regex import Regex

from docstore.commands.audit.log import AuditLog
from docstore.commands.client_connection import UNIX_SOCKET, ClientConnection
from docstore.net.access.audit import audit_log
from docstore.net.process import Process, StartError, Voice
from docstore.options.values import AuditOptions


def with_log(options: AuditOptions, act: Callable[[Process, AuditLog], None]) -> None:
    async def run() -> None:
        process = Process("test", Voice())
        log = audit_log(process, options)
        assert log is not None
        act(process, log)

    asyncio.run(run())


def note(text: str) -> Callable[[Process, AuditLog], None]:
    return lambda _process, log: log.note(None, "applicationMessage", {"msg": text})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_without_a_destination_there_is_no_log() -> None:
    async def run() -> AuditLog | None:
        return audit_log(Process("test", Voice()), AuditOptions())

    assert asyncio.run(run()) is None


def test_a_json_file_has_a_line_a_message_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    options = AuditOptions("file", "JSON", path)
    with_log(options, note("one"))
    with_log(options, note("two"))
    found = lines(path)
    assert [each["param"]["msg"] for each in found] == ["one", "two"]
    assert list(found[0]["ts"]) == ["$date"]
    assert found[0]["ts"]["$date"].startswith("20")
    assert found[0]["uuid"]["$type"] == "04"
    assert found[0]["local"] == found[0]["remote"] == {"isSystemUser": True}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_value_of_a_client_keeps_a_message_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    nested: dict[str, Any] = {}
    for _ in range(180):
        nested = {"a": [nested]}
    values = [DatetimeMS(2**62), DatetimeMS(-(2**62)), Regex("(", 0), Decimal128("NaN"), float("inf"), nested, MinKey()]

    def act(_process: Process, log: AuditLog) -> None:
        for value in values:
            log.note(None, "applicationMessage", {"msg": value})

    with_log(AuditOptions("file", "JSON", path), act)
    found = lines(path)
    assert len(found) == len(values)
    assert found[0]["param"]["msg"] == {"$date": {"$numberLong": str(2**62)}}


def test_a_client_that_came_by_the_file_system_is_told_of_by_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    client = ClientConnection(1, UNIX_SOCKET, local="/tmp/mongodb-27017.sock")
    with_log(AuditOptions("file", "JSON", path), lambda _process, log: log.note(client, "logout", {}))
    (found,) = lines(path)
    assert found["local"] == found["remote"] == {"unix": "/tmp/mongodb-27017.sock"}


def test_a_bson_file_holds_documents(tmp_path: Path) -> None:
    path = tmp_path / "audit.bson"
    with_log(AuditOptions("file", "BSON", path), note("one"))
    (found,) = bson.decode_all(path.read_bytes())
    assert found["param"] == {"msg": "one"}


def test_the_console_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with_log(AuditOptions("console"), note("one"))
    assert json.loads(capsys.readouterr().out)["param"] == {"msg": "one"}


def test_the_system_log_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, str]] = []
    monkeypatch.setattr(syslog, "syslog", lambda priority, text: written.append((priority, text)))
    with_log(AuditOptions("syslog"), note("one"))
    ((priority, text),) = written
    assert priority == syslog.LOG_INFO
    assert json.loads(text)["param"] == {"msg": "one"}


@pytest.mark.parametrize(("rename", "old"), [(True, 1), (False, 0)])
def test_a_rotation_begins_the_file_anew(tmp_path: Path, rename: bool, old: int) -> None:
    path = tmp_path / "audit.json"

    def act(process: Process, log: AuditLog) -> None:
        note("one")(process, log)
        if not rename:
            path.rename(tmp_path / "moved")
        process.rotations[-1]()
        note("two")(process, log)

    with_log(AuditOptions("file", "JSON", path, rename=rename), act)
    assert [each["param"]["msg"] for each in lines(path)] == ["two"]
    assert len(list(tmp_path.glob("audit.json.*"))) == old


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("{ atype: { $in: [ 'b' ] } }", ["b"]),
        ('{"atype": {"$regex": "^[ac]$"}}', ["a", "c"]),
        ('{ "param.n": { $gte: 2 } }', ["b", "c"]),
    ],
)
def test_a_filter_is_json_whose_names_need_no_quotes(tmp_path: Path, text: str, kinds: list[str]) -> None:
    path = tmp_path / "audit.json"

    def act(_process: Process, log: AuditLog) -> None:
        for number, kind in enumerate("abc", 1):
            log.note(None, kind, {"n": number})

    with_log(AuditOptions("file", "JSON", path, text), act)
    assert [each["atype"] for each in lines(path)] == kinds


@pytest.mark.parametrize("text", ["1", "{ atype: [", "{ $nonsense: 1 }", "{ ts: { $date: 'never' } }"])
def test_a_filter_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(StartError, match="--auditFilter"):
        with_log(AuditOptions("file", "JSON", tmp_path / "a", text), note("never"))


def test_a_file_that_cannot_be_written_is_refused_at_the_start_and_fatal_later(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot write the audit log"):
        with_log(AuditOptions("file", "JSON", tmp_path / "nowhere" / "audit.json"), note("never"))
    with pytest.raises(AssertionError, match="cannot be written"):
        with_log(AuditOptions("file", "JSON", Path("/dev/full")), note("never"))
