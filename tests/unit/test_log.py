"""Log lines: one JSON object each, in a file that may be rotated under us."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS

from docstore import log

LOG = log.component("NETWORK")


@pytest.fixture(autouse=True)
def configured_only_here() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    log.RECENT.lines.clear()
    log.WARNINGS.lines.clear()
    # `configure` closes what it replaces; the test runner's own handlers are kept out of its way.
    root.handlers[:] = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:], root.level = handlers, level


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_real_servers_fields(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    LOG.info("Connection accepted", remote="a:1")
    LOG.warning("Odd", path=Path("/x"))
    first, second = lines(tmp_path / "log")
    assert (first["s"], first["c"], first["msg"], first["attr"]) == (
        "I",
        "NETWORK",
        "Connection accepted",
        {"remote": "a:1"},
    )
    assert first["t"]["$date"].endswith(("Z", "+00:00")) or first["t"]["$date"][-6] in "+-"
    assert (second["s"], second["attr"]) == ("W", {"path": "/x"})
    assert first["id"] != second["id"]


def test_the_same_message_has_the_same_id(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    LOG.info("Same", n=1)
    LOG.info("Same", n=2)
    assert len({line["id"] for line in lines(tmp_path / "log")}) == 1


def test_an_exception_is_one_line_with_its_traceback(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    try:
        raise ValueError("odd\nvalue")
    except ValueError as error:
        LOG.error("Failed", exc_info=error)
    (line,) = lines(tmp_path / "log")
    assert "ValueError" in line["attr"]["traceback"]


def test_a_long_attribute_is_cut_and_said_to_be(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    LOG.info("Long", user="\x01" * 100_000, command={"find": "c" * 100_000}, remote="here")
    (line,) = lines(tmp_path / "log")
    assert line["attr"]["user"] == "\x01" * log.MAX_ATTRIBUTE_LETTERS
    assert line["attr"]["command"].startswith('{"find":"ccc')
    assert line["attr"]["remote"] == "here"
    assert line["truncated"] == {
        "user": {"type": "string", "size": 100_000}, "command": {"type": "object", "size": 100_011},
    }  # fmt: skip
    assert len((tmp_path / "log").read_text()) < 10 * log.MAX_ATTRIBUTE_LETTERS


def test_a_date_that_python_does_not_know_is_written(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    LOG.info("Odd", date=DatetimeMS(2**62))
    (line,) = lines(tmp_path / "log")
    assert "4611686018427387904" in json.dumps(line["attr"])


def test_debug_lines_need_verbosity(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    LOG.debug("quiet")
    log.configure(tmp_path / "log", append=True, verbosity=1)
    LOG.debug("loud")
    assert [line["msg"] for line in lines(tmp_path / "log")] == ["loud"]


def test_an_old_log_is_kept_under_another_name_unless_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for append in (False, True, False):
        log.configure(path, append=append)
        LOG.info("started")
    assert len(lines(path)) == 1
    (old,) = (each for each in tmp_path.iterdir() if each != path)
    assert len(lines(old)) == 2


def test_a_log_that_was_moved_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log.configure(path, append=False)
    LOG.info("before")
    path.rename(tmp_path / "log.1")
    LOG.info("after")
    assert [line["msg"] for line in lines(path)] == ["after"]


def test_the_newest_lines_are_kept_for_get_log(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    LOG.info("one")
    LOG.warning("two")
    LOG.startup_warning("three", why="so")
    assert [json.loads(line)["msg"] for line in log.RECENT.lines] == ["one", "two", "three"]
    kept = [json.loads(line) for line in log.WARNINGS.lines]
    assert [(line["msg"], line["s"], line["attr"]) for line in kept] == [("three", "W", {"why": "so"})]
    assert kept[0]["tags"] == ["startupWarnings"]


def test_redacted_lines_show_the_shape_of_what_clients_sent_and_no_value(tmp_path: Path) -> None:
    log.configure(tmp_path / "log", append=False)
    log.set_redaction(True)
    try:
        command = {"find": "people", "filter": {"name": "Ann", "of": [1, {"x": "y"}]}}
        LOG.info("Slow query", ns="d.people", command=command, durationMillis=7)
        LOG.info("Nobody has thought of it", thing="Ann", things={"w": "Ann", "n": 1}, count=1, ready=True)
        try:
            raise ValueError("Ann")
        except ValueError as error:
            LOG.error("Command failed unexpectedly", error=repr(error), exc_info=error)
    finally:
        log.set_redaction(False)
    slow, other, failed = (line["attr"] for line in lines(tmp_path / "log"))
    shape = {"find": "###", "filter": {"name": "###", "of": ["###", {"x": "###"}]}}
    assert slow == {"ns": "d.people", "command": shape, "durationMillis": 7}
    assert other == {"thing": "###", "things": {"w": "###", "n": "###"}, "count": 1, "ready": True}
    assert failed == {"error": "###", "traceback": "###"}
    assert "Ann" not in (tmp_path / "log").read_text()
    assert "Ann" not in "".join(log.RECENT.lines)
