from __future__ import annotations

import pytest

from tests.checkers.history import History, Kind, Operation
from tests.checkers.retries import check_retries


def attempts(*outcomes: str, w: int | str = "majority", n: int = 1) -> list[Operation]:
    """Attempts at one write: "ok", "unknown" or "failed"."""
    times = iter(range(100))
    history = History(clock=lambda: float(next(times)))
    for outcome in outcomes:
        operation = history.invoke(1, Kind.UPDATE_BY_ID, "a", 7, w=w, retryable=3)
        if outcome == "ok":
            history.ok(operation, n)
        elif outcome == "failed":
            history.failed(operation)
        else:
            history.unknown(operation)
    return history.operations


@pytest.mark.parametrize(
    ("operations", "final"),
    [
        (attempts("ok", "ok"), [7]),
        (attempts("unknown", "unknown"), []),
        (attempts("unknown", "ok", "unknown"), [7]),
        (attempts("ok", "unknown", w=1), []),
        (attempts("failed", "ok"), [7]),
        (attempts("failed"), []),
    ],
)
def test_a_write_that_was_executed_once_or_never_is_good(operations: list[Operation], final: list[int]) -> None:
    assert check_retries(operations, {"a": final, "b": []}) == []


@pytest.mark.parametrize(
    ("operations", "final", "kind"),
    [
        (attempts("unknown", "ok"), [7, 7], "executed twice"),
        (attempts("unknown", "unknown"), [7, 7], "executed twice"),
        (attempts("unknown", "ok"), [], "claimed and not executed"),
        (attempts("failed"), [7], "failed and happened"),
        (attempts("ok", n=2), [7], "miscounted"),
        (attempts("ok", n=0), [], "miscounted"),
        (attempts("ok"), [7, 8], "phantom"),
    ],
)
def test_each_anomaly_is_noticed(operations: list[Operation], final: list[int], kind: str) -> None:
    assert [anomaly.kind for anomaly in check_retries(operations, {"a": final})] == [kind]
