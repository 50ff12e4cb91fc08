"""What commands have cost, by collection and kind."""

from __future__ import annotations

import pytest

from docstore.commands import metrics
from docstore.commands.metrics import Metrics


def test_times_are_told_apart_by_collection_and_kind() -> None:
    kept = Metrics()
    kept.add("a.c", "find", 0.001)
    kept.add("a.c", "insert", 0.002)
    kept.add("a.d", "find", 0.004)
    kept.add("", "ping", 0.008)
    top = kept.top()
    assert list(top) == ["a.c", "a.d"]
    assert top["a.c"]["total"] == {"time": 3000, "count": 2}
    assert top["a.c"]["queries"] == top["a.c"]["readLock"] == {"time": 1000, "count": 1}
    assert top["a.c"]["insert"] == top["a.c"]["writeLock"] == {"time": 2000, "count": 1}
    assert kept.latencies("a.c")["reads"] == {"latency": 1000, "ops": 1}
    assert kept.latencies()["reads"]["ops"] == 2
    assert kept.latencies()["commands"] == {"latency": 8000, "ops": 1}


def test_refusals_are_counted_by_command() -> None:
    kept = Metrics()
    kept.add("", "ping", 0.0)
    kept.fail("ping")
    kept.fail(None)
    assert kept.by_command(["ping"]) == {"<UNKNOWN>": 1, "ping": {"failed": 1, "total": 1}}
    assert kept.refused == 2


def test_the_figures_of_what_is_gone_are_forgotten() -> None:
    kept = Metrics()
    kept.add("a.c", "find", 0.001)
    kept.forget(lambda namespace: namespace == "a.c")
    assert kept.top() == {}
    assert kept.latencies("a.c")["reads"] == {"latency": 0, "ops": 0}


def test_totals_hold_what_is_forgotten_of_collections() -> None:
    kept = Metrics()
    for name in ("a.c", "a.d", "a.c"):
        kept.add(name, "find", 0.001)
    kept.forget(lambda namespace: namespace == "a.c")
    kept.add("a.c", "find", 0.001)
    assert kept.by_command(["find"])["find"] == {"failed": 0, "total": 4}
    assert kept.latencies()["reads"] == {"latency": 4000, "ops": 4}
    assert kept.latencies("a.c")["reads"]["ops"] == 1


def test_a_client_that_names_ever_new_collections_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_KEYS", 2)
    kept = Metrics()
    for number in range(10):
        kept.add(f"a.{number}", "find", 0.001)
    assert len(kept.top()) == 2
    assert kept.latencies()["reads"]["ops"] == 10


def test_names_of_no_collection_take_no_room_from_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_KEYS", 3)
    kept = Metrics()
    kept.is_dropped = lambda namespace: namespace.startswith("no.")
    kept.add("a.c", "find", 0.001)
    for number in range(10):
        kept.add(f"no.{number}", "find", 0.001)
    kept.add("a.d", "find", 0.001)
    assert {"a.c", "a.d"} <= kept.top().keys()
