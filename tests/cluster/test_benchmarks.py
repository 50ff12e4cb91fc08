"""What the bench measures can be measured: each part is run in small, however fast."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import bench_routing, saturate, saturate_routed


def test_each_small_operation_is_measured_on_each_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saturate.compare(tmp_path, "", 1, count=2 * saturate.GROUP, concerns=[{"w": 1}])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:21].rstrip() for line in lines[2:]] == list(saturate.OPERATIONS)
    assert all(line.count("/s") == 3 for line in lines[2:])


def test_each_small_operation_is_measured_on_a_router(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saturate_routed.compare(tmp_path, "", 1, count=2 * saturate.GROUP)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:28].rstrip() for line in lines[1:]] == list(saturate_routed.OPERATIONS)


def test_the_cost_of_routing_is_measured_by_the_number_of_chunks() -> None:
    found = bench_routing.in_process(10)
    assert {"lookup", "equality target", "refresh after a move", "full refresh"} <= found.keys()
    assert all(value > 0 for value in found.values())
