"""Retryable writes that are sent again and again, perhaps late and by other routers: each is executed once or never.

Each write puts a value of its own into a list. Every attempt at it is an operation of the same key and value; what an
attempt was told is the number of documents. One that was refused, because nobody knows any more whether the write was
executed (IncompleteTransactionHistory) or because its session has gone on (TransactionTooOld), is unknown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from tests.checkers.history import Anomaly, Operation


def check_retries(operations: Iterable[Operation], final: Mapping[Any, Sequence[Any]]) -> list[Anomaly]:
    """The attempts at retryable writes, against the values of each key in the end. Keys are there throughout."""
    attempts: dict[tuple[Hashable, Any], list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.retryable is not None:
            attempts[operation.key, operation.value].append(operation)
    counts = {key: Counter(values) for key, values in final.items()}
    found = []
    for (key, value), tries in attempts.items():
        times = counts.get(key, Counter())[value]
        if times > 1:
            found.append(Anomaly("executed twice", f"{value} is {times} times in {key!r}", (*tries,)))
        claims = [each for each in tries if each.majority and each.result]
        if claims and not times:
            found.append(Anomaly("claimed and not executed", f"{value} is not in {key!r}", (*tries,)))
        if times and not any(each.may_have_happened for each in tries):
            found.append(Anomaly("failed and happened", f"{value} is in {key!r}", (*tries,)))
        for each in tries:
            if each.ok and each.result != 1:
                found.append(Anomaly("miscounted", f"an attempt was told of {each.result} documents", (*tries,)))
    written = {(key, value) for key, value in attempts}
    return found + [
        Anomaly("phantom", f"nobody wrote {value} to {key!r}")
        for key, values in final.items()
        for value in values
        if (key, value) not in written
    ]
