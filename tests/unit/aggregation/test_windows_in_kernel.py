"""What the kernel calculates over windows is what the accumulators of the stage make of them, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from bson import Decimal128, Int64

from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import DocumentList
from docstore.aggregation.window import functions
from docstore.errors import CommandError
from tests.unit.aggregation.running import drain, parsed
from tests.unit.query.raw import decoded, raw

NAMES = ["$sum", "$avg", "$min", "$max", "$push", "$addToSet", "$first", "$last", "$stdDevPop"]
WINDOWS: list[list[Any]] = [
    ["unbounded", "unbounded"],
    ["unbounded", "current"],
    ["unbounded", -2],
    ["unbounded", 3],
    ["current", "unbounded"],
    [-2, 2],
    [0, 0],
    [3, 5],
    [-30, -4],
    [-5, "unbounded"],
]
ORDINARY: list[Callable[[Random], Any]] = [
    lambda rng: rng.randrange(-100, 100),
    lambda rng: rng.random() * 10 ** rng.randrange(-5, 18),
    lambda rng: Int64(rng.randrange(-(2**40), 2**40)),
]
ANY: list[Callable[[Random], Any]] = [
    *ORDINARY,
    lambda rng: Int64(rng.choice([2**62, -(2**63), 2**61])),
    lambda rng: rng.choice([None, "x", [1, 2]]),
    lambda rng: Decimal128("1.5"),
    lambda rng: rng.choice([float("inf"), float("-inf"), float("nan"), 1e308]),
]


def made(stage: dict[str, Any], documents: list[bytes]) -> list[bytes]:
    return drain(parsed([stage]).open(DocumentList(documents), Environment(clock=lambda: 0.0)))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("kinds", [ORDINARY, ANY], ids=["ordinary numbers", "anything"])
def test_windows_of_the_kernel_are_those_of_the_stage(
    window: list[Any], kinds: list[Callable[[Random], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(str(window))
    output = {name[1:]: {name: "$v", "window": {"documents": window}} for name in NAMES}
    stage = {"$setWindowFields": {"partitionBy": "$p", "sortBy": {"s": 1, "_id": 1}, "output": output}}
    for size in (0, 1, 5, 60, 60):
        documents: list[dict[str, Any]] = []
        for number in range(size):
            documents.append({"_id": number, "p": rng.choice([0, 1.0, None, "a", {"x": 1}]), "s": rng.randrange(9)})
            if rng.random() < 0.9:
                documents[-1]["v"] = rng.choice(kinds)(rng)
        given = [raw(document) for document in documents]
        with monkeypatch.context() as patched:
            found = made(stage, given)
            patched.setattr(functions._Accumulated, "_in_kernel", lambda *_: None)
            assert found == made(stage, given)


def test_partitions_that_begin_alike_stay_apart() -> None:
    documents = [raw({"_id": number, "p": "a" * (number % 3)}) for number in range(9)]
    stage = {"$setWindowFields": {"partitionBy": "$p", "output": {"n": {"$count": {}}, "all": {"$push": "$_id"}}}}
    found = [decoded(document) for document in made(stage, documents)]
    assert [(each["n"], each["all"]) for each in found if each["_id"] < 3] == [(3, [i, i + 3, i + 6]) for i in range(3)]


def test_a_window_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MEMORY_LIMIT", 2000)
    documents = [raw({"_id": number, "v": number}) for number in range(50)]
    output = {"r": {"$sum": "$v", "window": {"documents": [-30, 0]}}}
    with pytest.raises(CommandError) as refused:
        made({"$setWindowFields": {"sortBy": {"_id": 1}, "output": output}}, documents)
    assert refused.value.code == 5414201


def test_a_whole_partition_is_summed_in_steps() -> None:
    """Between two looks at the clock only so many documents are looked at."""
    documents = [raw({"_id": number, "v": 1}) for number in range(5000)]
    stage = {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": {"$sum": "$v"}}}}
    stream = parsed([stage]).open(DocumentList(documents), Environment(clock=lambda: 0.0))
    steps, last, count = 0, False, 0
    while not last:
        some, last = stream.next_batch(0.0)
        count += len(some)
        steps += 1
    assert count == 5000
    assert steps > 5000 // 128 + 5000 // 1024
