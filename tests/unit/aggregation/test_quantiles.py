"""$percentile and $median: as accumulators, expressions and window functions, and how near a digest comes."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from bson.decimal128 import Decimal128

from docstore.aggregation.accumulators.quantiles import QuantileState
from docstore.aggregation.expression_context import FULL
from docstore.aggregation.expressions.parse import Parser
from docstore.aggregation.expressions.quantiles import parse_asked
from docstore.bson import from_python
from docstore.errors import Code, CommandError
from docstore.query.value.quantiles import EXACT, Digest, rank_of
from docstore.query.value.values import double_value
from tests.unit.aggregation.running import aggregate

SCORES = [{"_id": n, "t": t} for n, t in enumerate((62, 60, 85, 67, 82))]


def percentile(source: Any, *fractions: float) -> dict[str, Any]:
    return {"$percentile": {"input": source, "p": list(fractions), "method": "approximate"}}


def median(source: Any) -> dict[str, Any]:
    return {"$median": {"input": source, "method": "approximate"}}


def test_of_a_group() -> None:
    group = {"$group": {"_id": None, "p": percentile("$t", 0.95, 0, 0.5, 1, 0.75), "m": median("$t")}}
    assert aggregate([group], SCORES) == [{"_id": None, "p": [85.0, 60.0, 67.0, 85.0, 82.0], "m": 67.0}]
    assert aggregate([group], [{"t": "x"}, {"t": None}, {}]) == [{"_id": None, "p": [None] * 5, "m": None}]
    odd = [{"t": 1}, {"t": math.nan}, {"t": Decimal128("7")}, {"t": [9]}, {"t": math.inf}]
    assert aggregate([group], odd) == [{"_id": None, "p": [math.inf, 1.0, 7.0, math.inf, math.inf], "m": 7.0}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [([3, 1, 2], 2.0), ([4, 1, 2, 3], 2.0), ([], None), (5, 5.0), ("x", None), (None, None), ([1, "x", None], 1.0)],
)
def test_of_the_elements_of_an_array(given: Any, expected: Any) -> None:
    project = {"$project": {"_id": 0, "m": median("$a"), "p": percentile("$a", 0.5, 1)}}
    (found,) = aggregate([project], [{"a": given}])
    assert found["m"] == expected
    assert found["p"][0] == expected
    assert aggregate([{"$project": {"_id": 0, "m": median([1, {"$add": [1, 2]}, "$a"])}}], [{"a": 2}]) == [{"m": 2.0}]


def test_over_windows() -> None:
    def output(*bounds: Any) -> list[Any]:
        field = {**median("$t"), "window": {"documents": list(bounds)}}
        found = aggregate([{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"m": field}}}], SCORES)
        return [row["m"] for row in found]

    assert output(-1, 1) == [60.0, 62.0, 67.0, 82.0, 67.0]
    assert output("unbounded", "current") == [62.0, 60.0, 62.0, 62.0, 67.0]
    assert output("unbounded", "unbounded") == [67.0] * 5
    assert output(3, 4) == [67.0, 82.0, None, None, None]


@pytest.mark.parametrize(
    ("operator", "code"),
    [
        ({"$percentile": 1}, 7429703),
        ({"$median": 1}, 7436100),
        ({"$median": {"input": 1}}, 40414),
        ({"$median": {"input": 1, "method": "exact"}}, Code.BadValue),
        ({"$median": {"input": 1, "method": 1}}, Code.TypeMismatch),
        ({"$median": {"input": 1, "method": "approximate", "p": [0.5]}}, 40415),
        ({"$percentile": {"input": 1, "p": 0.5, "method": "approximate"}}, 7750301),
        (percentile(1), 7750301),
        (percentile(1, 1.1), 7750303),
        ({"$percentile": {"input": 1, "p": ["x"], "method": "approximate"}}, 7750302),
        ({"$percentile": {"input": 1, "p": "$p", "method": "approximate"}}, 7750300),
    ],
)
def test_what_is_refused(operator: dict[str, Any], code: int) -> None:
    for stage in ({"$group": {"_id": 1, "r": operator}}, {"$project": {"r": operator}}):
        with pytest.raises(CommandError) as caught:
            aggregate([stage], [{}])
        assert caught.value.code == code


@pytest.mark.parametrize("count", [1, 7, EXACT, EXACT + 1, 100_000])
@pytest.mark.parametrize("skewed", [False, True])
def test_a_digest_is_near_and_its_ends_are_exact(count: int, skewed: bool) -> None:
    rng = random.Random(count)
    numbers = [rng.expovariate(1) if skewed else rng.uniform(-5, 5) for _ in range(count)]
    parts = [Digest() for _ in range(3)]
    for place, number in enumerate(numbers):
        parts[place % 3].add(number)
    whole = Digest()
    for part in parts:
        whole.load(part.dump())
    numbers.sort()
    fractions = [0, 0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1]
    found = whole.quantiles(fractions)
    assert found is not None
    for fraction, quantile in zip(fractions, found, strict=True):
        rank = rank_of(fraction, count)
        off = 0 if count <= EXACT or fraction in (0, 1) else max(count // 1000, 1)
        assert numbers[max(rank - off, 0)] <= quantile <= numbers[min(rank + off, count - 1)]
    assert whole.size < 20 * EXACT * 8


def test_a_state_reports_what_it_holds() -> None:
    asked = parse_asked("$median", from_python(median("$x")["$median"]), Parser(FULL))
    state = QuantileState(asked)
    held = sum(state.add(double_value(float(n))) for n in range(EXACT + 5))
    assert 0 < held < 8 * EXACT * 20
    other = QuantileState(asked)
    other.merge(state.partial())
    assert other.result() == state.result()
