"""`$setWindowFields`. Expected values are the real server's."""

from __future__ import annotations

import gc
import weakref
from random import Random
from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import GIVEN_BYTES
from docstore.aggregation.window.partition import Partition
from docstore.errors import CommandError
from tests.unit.aggregation.running import DiskSpace, FewAtATime, aggregate, drain, parsed, refusal
from tests.unit.query.raw import decoded, raw

DAY = 86_400_000
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": place, "k": place % 2, "q": q, "d": DatetimeMS(DAY * place * 10)}
    for place, q in enumerate([3, None, 1, 2.5, Decimal128("2"), 5])
]


def stage(output: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"$setWindowFields": {"sortBy": {"_id": 1}, **given, "output": {"w": output}}}


def outputs(output: dict[str, Any], **given: Any) -> list[Any]:
    return [document.get("w", ...) for document in aggregate([stage(output, **given)], DOCUMENTS)]


def over(kind: str, low: object, high: object, **more: Any) -> dict[str, Any]:
    return {"window": {kind: [low, high], **more}}


@pytest.mark.parametrize(
    ("output", "given", "expected"),
    [
        ({"$sum": 1, **over("documents", -1, 1)}, {}, [2, 3, 3, 3, 3, 2]),
        ({"$sum": 1, **over("documents", "unbounded", -1)}, {}, [0, 1, 2, 3, 4, 5]),
        ({"$sum": 1, **over("range", -1.5, 0)}, {}, [1, 2, 2, 2, 2, 2]),
        ({"$sum": 1, **over("range", "unbounded", "current")}, {"sortBy": {"k": 1}}, [1, 2, 3, 4, 5, 6]),
        ({"$sum": 1, **over("range", -1, 0)}, {"sortBy": {"k": 1}}, [3, 3, 3, 6, 6, 6]),
        ({"$sum": 1, **over("range", -1, 0, unit="month")}, {"sortBy": {"d": 1}}, [1, 2, 3, 4, 4, 4]),
        ({"$min": "$q", **over("documents", 1, 2)}, {}, [1, 1, Decimal128("2"), Decimal128("2"), 5, None]),
        ({"$stdDevPop": "$q", **over("documents", -1, 0)}, {}, [0, 0, 0, 0.75, 0.25, 1.5]),
        (
            {"$push": "$_id", **over("documents", -1, 0)},
            {"partitionBy": "$k"},
            [[0], [0, 2], [2, 4], [1], [1, 3], [3, 5]],
        ),
        ({"$topN": {"n": 2, "sortBy": {"q": 1}, "output": "$_id"}, **over("documents", -1, 1)}, {}, None),
        ({"$rank": {}}, {"sortBy": {"k": 1}}, [1, 1, 1, 4, 4, 4]),
        ({"$denseRank": {}}, {"sortBy": {"k": 1}}, [1, 1, 1, 2, 2, 2]),
        ({"$shift": {"output": "$zz", "by": 1}}, {}, [..., ..., ..., ..., ..., None]),
        (
            {"$derivative": {"input": "$_id", "unit": "day"}, **over("documents", -1, 0)},
            {"sortBy": {"d": 1}},
            [None] + [0.1] * 5,
        ),
        ({"$integral": {"input": "$_id"}, **over("documents", -1, 0)}, {}, [0, 0.5, 1.5, 2.5, 3.5, 4.5]),
        ({"$covariancePop": ["$_id", "$k"]}, {}, [0.25] * 6),
        ({"$linearFill": "$q"}, {}, [3, 2.0, 1, 2.5, Decimal128("2"), 5]),
        ({"$locf": "$q"}, {"sortBy": {"k": 1, "_id": -1}}, [Decimal128("2"), 1, 3, 5, 2.5, 2.5]),
    ],
)
def test_functions_give_the_values_of_the_real_server(
    output: dict[str, Any], given: dict[str, Any], expected: list[Any] | None
) -> None:
    assert outputs(output, **given) == (expected or [[1, 0], [1, 2], [1, 2], [2, 4], [4, 3], [4, 5]])


@pytest.mark.parametrize(
    ("output", "given", "code"),
    [
        ({}, {}, 9),
        ({"$mergeObjects": {}}, {}, 9),
        ({"$sum": 1, "$avg": 1}, {}, 9),
        ({"$sum": 1, **over("documents", 1, -1)}, {}, 5339900),
        ({"$sum": 1, **over("documents", 0, 1)}, {"sortBy": None}, 5339901),
        ({"$sum": 1, **over("range", 0, 1)}, {"sortBy": {"a": 1, "b": 1}}, 5339902),
        ({"$sum": 1, **over("range", 0, 1)}, {"sortBy": {"q": 1}}, 5429414),
        ({"$sum": 1, **over("range", 0, 1)}, {"sortBy": {"d": 1}}, 5429413),
        ({"$sum": 1, **over("range", 0, 1, unit="day")}, {}, 5429513),
        ({"$rank": {}}, {"sortBy": {"a": 1, "b": 1}}, 5371602),
        ({"$linearFill": "$_id"}, {"sortBy": {"k": 1}}, 6050106),
        ({"$sum": 1}, {"partitionBy": ["$k"]}, 14),
    ],
)
def test_refusals_have_the_codes_of_the_real_server(output: dict[str, Any], given: dict[str, Any], code: int) -> None:
    try:
        found = refusal([stage(output, **given)], DOCUMENTS)
    except CommandError as error:
        found = error.code
    assert found == code


@pytest.mark.parametrize("name", ["$sum", "$avg", "$min", "$max", "$push", "$first", "$last"])
def test_a_window_that_slides_gives_what_it_gives_afresh(name: str) -> None:
    rnd = Random(4)
    numbers = [rnd.choice([rnd.randint(-9, 9), rnd.uniform(-9, 9), None, "x"]) for _ in range(60)]
    documents = [{"_id": place, "q": number} for place, number in enumerate(numbers)]
    low, high = -rnd.randint(0, 5), rnd.randint(0, 5)
    found = aggregate([stage({name: "$q", **over("documents", low, high)})], documents)
    for place, document in enumerate(found):
        part = documents[max(0, place + low) : place + high + 1]
        [expected] = aggregate([{"$group": {"_id": None, "w": {name: "$q"}}}], part)
        assert document["w"] == (pytest.approx(expected["w"]) if isinstance(expected["w"], float) else expected["w"])


LONG: list[dict[str, Any]] = [
    {"_id": place, "k": place // 700, "q": None if place % 100 else place, "n": place % 7} for place in range(1000)
]
WIDE = [
    {"$sum": "$n", **over("documents", "unbounded", "current")},
    {"$sum": "$n"},
    {"$push": "$n", **over("documents", -2, 2)},
    {"$max": "$n", **over("range", -200, 300)},
    {"$avg": "$n", **over("documents", 100, 400)},
    {"$sum": "$n", **over("documents", 300, 200 + 101)},
    {"$rank": {}},
    {"$shift": {"output": "$n", "by": -90}},
    {"$linearFill": "$q"},
    {"$locf": "$q"},
    {"$integral": {"input": "$n"}, **over("documents", -150, 150)},
    {"$derivative": {"input": "$n"}, **over("range", -150, 150)},
]


@pytest.mark.parametrize("output", WIDE)
def test_partitions_beyond_memory_are_the_same(output: dict[str, Any]) -> None:
    stages = [stage(output, partitionBy="$k")]
    room = DiskSpace()
    environment = Environment(clock=lambda: 0.0, memory_limit=20_000, spill=room)
    stream = parsed(stages).open(FewAtATime(map(raw, LONG)), environment)
    assert [decoded(document) for document in drain(stream)] == aggregate(stages, LONG)
    assert room.runs
    with pytest.raises(CommandError) as refused:
        drain(parsed(stages).open(FewAtATime(map(raw, LONG)), Environment(clock=lambda: 0.0, memory_limit=20_000)))
    assert refused.value.code == 292


def test_wide_windows_over_long_partitions() -> None:
    found = aggregate([stage({"$sum": "$n", **over("documents", 100, 400)})], LONG)
    assert [each["w"] for each in found] == [sum(each["n"] for each in LONG[at + 100 : at + 401]) for at in range(1000)]
    found = aggregate([stage({"$sum": "$n", **over("range", -200, 300)})], LONG)
    assert [each["w"] for each in found] == [
        sum(each["n"] for each in LONG[max(0, at - 200) : at + 301]) for at in range(1000)
    ]
    found = aggregate([stage({"$linearFill": "$q"})], LONG)
    assert [each["w"] for each in found] == [*range(901), *[None] * 99]


def test_a_window_that_slides_holds_no_more_than_memory_does() -> None:
    documents = [{"_id": number, "s": "x" * 3_000_000} for number in range(12)]
    tripled = {"$concat": ["$s", "$s", "$s"]}

    for function in ("$push", "$max"):
        assert refusal([stage({function: tripled, **over("documents", -20, 20)})], documents) == 5414201
    last = stage({"$last": tripled, **over("documents", -20, 20)})
    assert len(aggregate([last, {"$project": {"w": 0}}], documents)) == 12


def test_a_partition_that_is_let_go_goes_with_what_it_holds() -> None:
    gc.disable()
    try:
        partition = Partition((), Environment(clock=lambda: 0.0))
        partition.add([(b"k", raw({"_id": 1}))])
        assert partition.document(0) == raw({"_id": 1})
        left = weakref.ref(partition)
        del partition
        assert left() is None
    finally:
        gc.enable()


def test_documents_that_grow_in_a_window_are_given_out_few_at_a_time() -> None:
    """Each of them is as large as all values of its partition together."""
    documents = [raw({"_id": number, "s": "x" * 100}) for number in range(2_000)]
    stream = parsed([stage({"$push": "$s"})]).open(FewAtATime(documents), Environment(clock=lambda: 0.0))
    count, done = 0, False
    while not done:
        batch, done = stream.next_batch(1.0)
        count += len(batch)
        assert sum(map(len, batch)) <= GIVEN_BYTES + max(map(len, batch), default=0)
    assert count == 2_000
