"""`$densify` and `$fill`. Expected values are the real server's."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import CommandError
from tests.unit.aggregation.running import aggregate, refusal

ROWS: list[dict[str, Any]] = [
    {"_id": 0, "v": 1, "k": 1},
    {"_id": 1, "v": 4, "k": 2},
    {"_id": 2, "v": 6.5, "k": 1},
    {"_id": 3, "v": 6, "k": 2},
    {"_id": 4, "k": 3},
]


def densify(step: Any, bounds: Any, fields: list[str] | None = None, **more: Any) -> dict[str, Any]:
    partition = {} if fields is None else {"partitionByFields": fields}
    return {"$densify": {"field": "v", "range": {"step": step, "bounds": bounds, **more}, **partition}}


def rows(stage: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(document.values()) for document in aggregate([stage], ROWS)]


def test_full_bounds_are_counted_from_the_least_value() -> None:
    assert rows(densify(2.5, "full")) == [(4, 3), (0, 1, 1), (3.5,), (1, 4, 2), (3, 6, 2), (2, 6.5, 1)]


def test_full_bounds_fill_every_partition() -> None:
    assert rows(densify(2, "full", ["k"])) == [
        (4, 3),
        (0, 1, 1),
        (2, 1),
        (2, 3),
        (1, 4, 2),
        (2, 5),
        (3, 6, 2),
        (1, 3),
        (1, 5),
        (2, 6.5, 1),
    ]


def test_a_partition_has_its_own_bounds() -> None:
    assert rows(densify(2, "partition", ["k"])) == [
        (0, 1, 1),
        (1, 3),
        (1, 5),
        (2, 6.5, 1),
        (1, 4, 2),
        (3, 6, 2),
        (4, 3),
    ]


def test_given_bounds_leave_out_the_upper_one() -> None:
    assert rows(densify(2, [0, 10])) == [(4, 3), (0,), (0, 1, 1), (2,), (1, 4, 2), (3, 6, 2), (2, 6.5, 1), (8,)]


def test_methods_and_values_fill_what_is_null() -> None:
    documents = [{"_id": place, "q": q} for place, q in enumerate([3, None, 1, None, 5])] + [{"_id": 9}]
    output = {"q": {"method": "linear"}, "z": {"value": {"$add": ["$_id", 1]}}}
    found = aggregate([{"$fill": {"sortBy": {"_id": 1}, "output": output}}], documents)
    assert [(document["q"], document["z"]) for document in found] == [
        (3, 1),
        (2.0, 2),
        (1, 3),
        (3.0, 4),
        (5, 5),
        (None, 10),
    ]


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        (densify(0, "full"), 5733401),
        (densify(1, "partition"), 5733408),
        (densify(1, [2, 1]), 5733402),
        (densify(1, [1.0, 8]), 5876900),
        (densify(1, "full", unit="day"), 6053600),
        (densify(1, "full", ["v"]), 5733306),
        ({"$fill": {"output": {"q": {"method": "x"}}}}, 6050202),
        ({"$fill": {"output": {}}}, 6050203),
        ({"$fill": {"partitionBy": "$k", "output": {"q": {"method": "locf"}}}}, 14),
    ],
)
def test_refusals_have_the_codes_of_the_real_server(stage: dict[str, Any], code: int) -> None:
    try:
        found = refusal([stage], ROWS)
    except CommandError as error:
        found = error.code
    assert found == code
