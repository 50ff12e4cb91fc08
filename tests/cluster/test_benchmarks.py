"""What the bench measures can be measured: each part is run in small, however fast."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import (
    bench_growth,
    bench_members,
    bench_report,
    bench_routed,
    bench_routing,
    bench_shapes,
    expression_requests,
    other_requests,
    routed_requests,
    saturate,
    saturate_routed,
    session_requests,
    shop_requests,
)
from scripts.deployment import Deployment, Member, stopped_at_end


def test_each_small_operation_is_measured_on_each_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saturate.compare(tmp_path, "", 1, count=2 * saturate.GROUP, concerns=[{"w": 1}])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:21].rstrip() for line in lines[2:]] == list(saturate.OPERATIONS)
    assert all(line.count("/s") == 3 for line in lines[2:])


def test_each_small_operation_is_measured_on_a_router(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saturate_routed.compare(tmp_path, "", 1, count=2 * saturate.GROUP)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:28].rstrip() for line in lines[1:]] == list(saturate_routed.OPERATIONS)


def test_each_operation_is_measured_on_three_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench_members.run(tmp_path, "", 1, count=20, many=20)
    lines = capsys.readouterr().out.splitlines()
    single = [operation.name for operation in bench_members.SINGLE]
    together = [operation.name for operation in bench_members.TOGETHER]
    names = [*single, *(f"{name}, 16 clients" for name in single), *together]
    assert [line[:34].rstrip() for line in lines[1:]] == names


def test_each_shape_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (shop_requests, other_requests, expression_requests, session_requests):
        monkeypatch.setattr(module, "SHAPES", tuple(shape._replace(count=1) for shape in module.SHAPES))
    of_sets = tuple(shape._replace(count=1) for shape in session_requests.SHAPES_OF_SETS)
    monkeypatch.setattr(session_requests, "SHAPES_OF_SETS", of_sets)
    bench_shapes.run(tmp_path, "", 1, replicated=True, documents=200)
    lines = capsys.readouterr().out.splitlines()
    names = [shape.name for shape in bench_shapes.shapes_of(replicated=True)]
    assert [line[:48].rstrip() for line in lines[1:]] == names


def test_each_shape_through_a_router_is_measured_and_answered_as_by_a_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = routed_requests.Requests(1_000).shapes()
    few = tuple(shape._replace(count=2) for shape in every)
    monkeypatch.setattr(routed_requests.Requests, "shapes", lambda _: few)
    assert bench_routed.run(tmp_path, "", 1, documents=1_000) == []
    lines = capsys.readouterr().out.splitlines()
    assert [line[:40].rstrip() for line in lines[1:]] == [shape.name for shape in every]


def test_the_cost_of_routing_is_measured_by_the_number_of_chunks() -> None:
    found = bench_routing.in_process(10)
    assert {"lookup", "equality target", "refresh after a move", "full refresh"} <= found.keys()
    assert all(value > 0 for value in found.values())


def test_what_much_data_costs_is_measured_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCSTORE_REFERENCE", raising=False)
    for name, value in (("_POINTS", 40), ("INDEXES", (1, 2)), ("_TURNS", 1)):
        monkeypatch.setattr(bench_report, name, value)
    picture = tmp_path / "picture.svg"
    bench_report.measure(tmp_path / "data", [200], 0.1, picture)
    shown = capsys.readouterr().out
    assert all(name in shown for name, _, _ in bench_report.STEPS)
    assert "delete with 2 indexes" in shown
    assert picture.read_text().startswith("<svg")


def test_each_thing_that_grows_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_growth, "LIVE", 10)
    with stopped_at_end(Deployment(tmp_path)) as deployment:
        deployment.start(Member("node", "mongod", []))
        address = deployment.members["node"].address
        for name in bench_growth.GROWTHS:
            if not name.endswith("a second"):
                assert bench_growth.measure(address, name, 20) > 0, name
