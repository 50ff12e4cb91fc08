"""Every small operation that the bench measures is carried out by each kind of server, however fast."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import saturate


def test_each_operation_is_measured_on_each_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saturate.compare(tmp_path, "", 1, count=2 * saturate.GROUP, concerns=[{"w": 1}])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:21].rstrip() for line in lines[2:]] == list(saturate.OPERATIONS)
    assert all(line.count("/s") == 3 for line in lines[2:])
