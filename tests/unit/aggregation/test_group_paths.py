"""The kernel's way of grouping and the one expression by expression are the same, with an `$unwind` in front or
without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bson
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.aggregation.stage import Pipeline
from docstore.aggregation.stages.group import Group, general_run
from docstore.aggregation.streams import Pushed
from docstore.errors import CommandError
from tests.unit.aggregation.running import ENVIRONMENT, FewAtATime, drain, parsed

VALUES = st.sampled_from(
    [
        None,
        1,
        1.0,
        2,
        -0.0,
        0,
        2.5,
        Int64(2**62),
        Int64(-(2**63)),
        Decimal128("1.5"),
        float("inf"),
        "x",
        "",
        True,
        [],
        [1, 2],
    ]
)
MEMBERS = VALUES | st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES})
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"a": MEMBERS, "v": VALUES, "t": st.lists(MEMBERS, max_size=3) | MEMBERS, "n": st.just({"t": [1, 2]})},
    ),
    max_size=12,
)
KEYS: list[Any] = [
    None,
    "$a",
    "$t",
    "$t.x",
    "$a.x",
    {"p": "$a", "q": "$t.x"},
    {"$type": "$v"},
    ["$a"],
    "$n.t",
    {"k": {}},
]
ARGUMENTS: list[Any] = [1, "$v", "$t", "$t.x", "$a.x", {"$add": [1, 1]}, {"$ifNull": ["$v", 0]}, "$$ROOT", "$nope"]
ACCUMULATORS = ["$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet"]
CHOSEN = st.builds(
    lambda name, count, argument: {name: {"n": count, "input": argument}},
    st.sampled_from(["$firstN", "$lastN", "$minN", "$maxN"]),
    st.sampled_from([1, 2.0, Int64(3), 2**40, {"$add": [1, 1]}]),
    st.sampled_from(ARGUMENTS),
)
ORDERS = [{"v": 1}, {"v": -1, "a": 1}, {"a.x": -1}, {"t.x": 1, "_id": -1}, {"n.t": 1}]
RANKED = st.builds(
    lambda name, count, order, argument: {
        name: {"sortBy": order, "output": argument, **({"n": count} if name.endswith("N") else {})}
    },
    st.sampled_from(["$top", "$bottom", "$topN", "$bottomN"]),
    st.integers(1, 3),
    st.sampled_from(ORDERS),
    st.sampled_from(ARGUMENTS),
)
FIELDS = (
    st.builds(lambda name, argument: {name: argument}, st.sampled_from(ACCUMULATORS), st.sampled_from(ARGUMENTS))
    | CHOSEN
    | RANKED
)


def groups(stages: list[dict[str, Any]], documents: list[bytes]) -> list[bytes]:
    return drain(parsed(stages).open(FewAtATime(documents), ENVIRONMENT))


def general_groups(stages: list[dict[str, Any]], documents: list[bytes]) -> list[bytes]:
    *before, group = parsed(stages).stages
    assert isinstance(group, Group)
    stream = Pipeline(tuple(before)).open(FewAtATime(documents), ENVIRONMENT)
    return drain(Pushed(stream, general_run(group, ENVIRONMENT), ENVIRONMENT.clock))


def outcome(way: Callable[..., list[bytes]], stages: list[dict[str, Any]], documents: list[bytes]) -> Any:
    """What came of it, or the error: an order by two arrays is refused."""
    try:
        return way(stages, documents)
    except CommandError as error:
        return error.code, error.message


@settings(max_examples=300, deadline=None)
@given(
    DOCUMENTS,
    st.sampled_from(KEYS),
    st.lists(FIELDS, max_size=3),
    st.sampled_from([None, "$t", "$n.t", "$a"]),
)
def test_both_ways_give_the_same_bytes(
    contents: list[dict[str, Any]], key: Any, fields: list[dict[str, Any]], unwind: str | None
) -> None:
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    specification = {"_id": key, **{f"f{at}": field for at, field in enumerate(fields)}}
    stages = [{"$group": specification}] if unwind is None else [{"$unwind": unwind}, {"$group": specification}]

    assert outcome(groups, stages, documents) == outcome(general_groups, stages, documents)
