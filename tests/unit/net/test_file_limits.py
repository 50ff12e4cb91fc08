"""How many clients a process lets in by its limit of open files."""

from __future__ import annotations

import configparser
import resource
from pathlib import Path

import pytest

from docstore.net.access.file_limits import RESERVED_FILES, connection_limit
from docstore.net.listener import MAX_CONNECTIONS

UNIT = Path(__file__).parents[3] / "scripts" / "deploy" / "systemd" / "docstore@.service"


@pytest.mark.parametrize(
    ("limit", "asked", "allowed"),
    [(100, 65_536, 50), (8192, 65_536, 4096), (20_000, 65_536, 15_904), (69_632, 65_536, 65_536), (10_000, 100, 100)],
)
def test_clients_leave_descriptors_for_the_process(
    monkeypatch: pytest.MonkeyPatch, limit: int, asked: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (limit, limit))
    assert connection_limit(asked) == allowed


def test_the_unit_gives_descriptors_for_all_connections() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(UNIT)
    assert int(unit["Service"]["LimitNOFILE"]) >= MAX_CONNECTIONS + RESERVED_FILES
