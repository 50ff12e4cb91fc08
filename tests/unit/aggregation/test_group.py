from __future__ import annotations

from random import Random
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.aggregation.split import split_pipeline
from docstore.aggregation.stage import Environment
from docstore.aggregation.stages.group import Group, general_run
from docstore.errors import Code, CommandError
from tests.unit.aggregation.running import DiskSpace, FewAtATime, aggregate, drain, parsed
from tests.unit.query.raw import decoded, raw

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "a": 1, "v": 1.5},
    {"_id": 2, "a": 1.0, "v": Int64(3)},
    {"_id": 3, "v": None},
    {"_id": 4, "a": None},
    {"_id": 5, "a": [1], "v": Decimal128("2.5")},
    {"_id": 6, "a": {"x": 1}, "v": "s"},
]


def groups(specification: dict[str, Any]) -> list[dict[str, Any]]:
    return aggregate([{"$group": specification}], DOCUMENTS)


def test_equal_keys_are_one_group_shown_as_first_seen() -> None:
    found = groups({"_id": "$a", "n": {"$sum": 1}})

    assert found == [{"_id": 1, "n": 2}, {"_id": None, "n": 2}, {"_id": [1], "n": 1}, {"_id": {"x": 1}, "n": 1}]
    assert isinstance(found[0]["_id"], int)


def test_a_missing_part_of_a_key_stays_missing() -> None:
    assert {"_id": {}} in groups({"_id": {"x": "$nope", "y": "$a"}})
    assert {"_id": [None]} in groups({"_id": ["$a"]})


@pytest.mark.parametrize(
    ("accumulator", "expected"),
    [
        ({"$sum": "$v"}, Decimal128("7.0")),
        ({"$sum": "$nope"}, 0),
        ({"$sum": 2**31 - 1}, Int64(6 * (2**31 - 1))),
        ({"$avg": "$v"}, Decimal128("2.333333333333333333333333333333333")),
        ({"$avg": 1}, 1.0),
        ({"$avg": "$nope"}, None),
        ({"$min": "$v"}, 1.5),
        ({"$max": "$v"}, "s"),
        ({"$max": "$nope"}, None),
        ({"$first": "$a"}, 1),
        ({"$last": "$a"}, {"x": 1}),
        ({"$first": "$nope"}, None),
        ({"$push": "$a"}, [1, 1.0, None, [1], {"x": 1}]),
        ({"$push": {"x": "$nope"}}, [{}] * 6),
        ({"$addToSet": "$a"}, [1, None, [1], {"x": 1}]),
        ({"$count": {}}, 6),
        ({"$stdDevPop": "$v"}, pytest.approx(0.6236095644623235)),
        ({"$stdDevSamp": "$v"}, pytest.approx(0.7637626158259733)),
        ({"$mergeObjects": {"a": "$_id", "b": "$nope"}}, {"a": 6}),
    ],
)
def test_accumulators(accumulator: dict[str, Any], expected: object) -> None:
    assert groups({"_id": None, "r": accumulator}) == [{"_id": None, "r": expected}]


def test_sums_with_decimals_are_those_of_the_real_server() -> None:
    doubles = [34.22, 9.98, 42.83, 24.26, 44.64, 19.34, 5.67, 8.72, 4.69, 42.01]
    documents = [{"v": each} for each in (*doubles, Decimal128("44.18"), Decimal128("23.14"))]
    stage = {"$group": {"_id": None, "a": {"$avg": "$v"}, "s": {"$sum": "$v"}}}
    assert aggregate([stage], documents) == [
        {
            "_id": None,
            "a": Decimal128("25.30666666666666654528228264098289"),
            "s": Decimal128("303.6799999999999985433873916917947"),
        }
    ]


def test_merging_what_is_no_object_is_refused() -> None:
    with pytest.raises(CommandError) as refused:
        groups({"_id": None, "r": {"$mergeObjects": "$v"}})
    assert refused.value.code == 5911200


@pytest.mark.parametrize(
    ("accumulator", "expected"),
    [
        ({"$firstN": {"n": 2, "input": "$q"}}, [3, None]),
        ({"$lastN": {"n": 2, "input": "$q"}}, [[1, 2], None]),
        ({"$minN": {"n": 3, "input": "$q"}}, [1, 3, 5]),
        ({"$maxN": {"n": 2, "input": "$q"}}, [[1, 2], "x"]),
        ({"$top": {"sortBy": {"q": 1, "i": 1}, "output": ["$i", "$q"]}}, [1, None]),
        ({"$bottom": {"sortBy": {"q": 1}, "output": "$i"}}, 5),
        ({"$topN": {"n": 2, "sortBy": {"q": -1}, "output": "$i"}}, [5, 4]),
        ({"$bottomN": {"n": 2, "sortBy": {"q": 1}, "output": "$zz"}}, [None, None]),
    ],
)
def test_accumulators_that_choose_values(accumulator: dict[str, Any], expected: Any) -> None:
    documents = [{"i": i, "q": q} for i, q in enumerate([3, None, 1, 5, "x", [1, 2]])] + [{"i": 9}]
    stage = {"$group": {"_id": None, "r": accumulator}}
    assert aggregate([stage], documents) == [{"_id": None, "r": expected}]
    split = split_pipeline(parsed([stage]))
    shards, merge = split.shard_stages, split.merge_stages
    halves = [
        document for part in (documents[:3], documents[3:]) for document in aggregate(list(map(decoded, shards)), part)
    ]
    assert aggregate(list(map(decoded, merge)), halves) == [{"_id": None, "r": expected}]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ({"v": 1}, [3, 4, 5, 2, 8, 1, 7, 9, 6]),
        ({"v": -1}, [6, 9, 7, 1, 8, 2, 4, 5, 3]),
        ({"v.x": 1}, [1, 3, 6, 7, 2, 4, 5, 8, 9]),
        ({"v.x": -1}, [9, 8, 2, 4, 5, 1, 3, 6, 7]),
    ],
)
def test_arrays_rank_as_the_real_server_ranks_them(order: dict[str, int], expected: list[int]) -> None:
    held = [[3, 1], 2, [], ..., None, [[0]], [9, -5], {"x": 1}, [{"x": 5}, {"x": 0}]]
    documents = [{"i": i} if v is ... else {"i": i, "v": v} for i, v in enumerate(held, 1)]
    stage = {"$group": {"_id": None, "r": {"$topN": {"n": 9, "sortBy": order, "output": "$i"}}}}
    assert aggregate([stage], documents) == [{"_id": None, "r": expected}]


def test_documents_are_not_ranked_by_two_arrays() -> None:
    stage = {"$group": {"_id": None, "r": {"$top": {"sortBy": {"a": 1, "b": 1}, "output": "$a"}}}}
    with pytest.raises(CommandError, match="parallel arrays") as refused:
        aggregate([stage], [{"a": [1], "b": []}])
    assert refused.value.code == Code.BadValue


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ({"a": "$nope"}, {"a": None}),
        ({"a": {"$getField": "nope"}}, {"a": None}),
        ({"a": "$nope", "b": "$nope"}, {}),
        ({"a": {"b": "$nope"}}, {"a": {}}),
        ({"a": "$v"}, {"a": 1}),
    ],
)
def test_the_only_field_of_a_key_is_null_where_it_is_missing(key: dict[str, Any], expected: dict[str, Any]) -> None:
    for first in ({"$group": {"_id": key}}, {"$group": {"_id": key, "n": {"$stdDevPop": 1}}}):
        stages: list[dict[str, Any]] = [first, {"$project": {"_id": 1}}]
        assert aggregate(stages, [{"v": 1}, {"v": 1}]) == [{"_id": expected}]
        assert aggregate([{"$unwind": "$w"}, *stages], [{"v": 1, "w": [1, 2]}]) == [{"_id": expected}]


@pytest.mark.parametrize(
    "fields",
    [
        {"s": {"$sum": "$v"}, "a": {"$avg": "$v"}, "l": {"$min": "$v"}, "h": {"$max": "$v"}},
        {"f": {"$first": "$v"}, "l": {"$last": "$v"}, "n": {"$count": {}}},
        {"s": {"$sum": "$v"}, "p": {"$push": "$v"}},
        {
            "f": {"$firstN": {"n": 3, "input": "$v"}},
            "l": {"$lastN": {"n": 7, "input": "$v"}},
            "h": {"$maxN": {"n": 2, "input": "$v"}},
            "t": {"$topN": {"n": 4, "sortBy": {"v": -1}, "output": "$v"}},
            "b": {"$bottom": {"sortBy": {"v": -1}, "output": "$k"}},
        },
    ],
)
@pytest.mark.parametrize("kinds", [5, 3000])
def test_groups_that_went_out_of_memory_are_those_that_stayed(fields: dict[str, Any], kinds: int) -> None:
    rng = Random(kinds)
    values: list[Any] = [1, 2.5, Int64(2**40), None, Decimal128("1.5"), float("inf")]
    documents = [{"k": rng.randrange(kinds), "v": rng.choice(values)} for _ in range(6000)]
    stages = [{"$group": {"_id": "$k", **fields}}]
    room = DiskSpace()
    spilling = Environment(clock=lambda: 0.0, memory_limit=100_000 if kinds > 5 else 1000, spill=room)

    found = [decoded(each) for each in drain(parsed(stages).open(FewAtATime(map(raw, documents)), spilling))]

    assert room.runs > 1
    expected = aggregate(stages, documents)
    assert sorted(found, key=lambda group: int(group["_id"])) == sorted(expected, key=lambda group: int(group["_id"]))


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("accumulator", ["$push", "$addToSet"])
def test_an_array_of_more_than_memory_holds_is_refused_at_once(accumulator: str, general: bool) -> None:
    group = parsed([{"$group": {"_id": None, "r": {accumulator: "$s"}}}]).stages[0]
    assert isinstance(group, Group)
    environment = Environment(clock=lambda: 0.0, spill=DiskSpace())
    run = general_run(group, environment) if general else group.start(environment)

    for number in range(10):
        run.push([raw({"s": str(number) + "x" * 4_000_000})])

    with pytest.raises(CommandError) as refused:
        run.push([raw({"s": str(number) + "y" * 7_000_000}) for number in range(10)])

    assert refused.value.code == 146
    assert f"{accumulator} used too much memory and cannot spill to disk" in str(refused.value)


def test_an_array_of_many_pieces_keeps_its_order() -> None:
    found = aggregate(
        [{"$group": {"_id": None, "r": {"$push": "$s"}}}],
        [{"s": f"{number:07}" + "x" * 3_000} for number in range(1_500)],
    )

    assert [text[:7] for text in found[0]["r"]] == [f"{number:07}" for number in range(1_500)]
