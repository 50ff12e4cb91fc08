"""Which argument decides what comes out, where several are null, of a wrong type, or errors themselves. Expected values
and codes are the real server's.
"""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128

from tests.unit.aggregation.test_expressions import code_of, evaluate

FAILS = {"$toInt": "$arr"}
"""Fails with 241."""
NULLS: list[Any] = [
    {"$dateDiff": {"startDate": "$n", "endDate": FAILS, "unit": "day"}},
    {"$dateAdd": {"startDate": "$n", "unit": FAILS, "amount": 1}},
    {"$dateAdd": {"startDate": "$n", "unit": "day", "amount": FAILS}},
    {"$dateSubtract": {"startDate": "$d", "unit": "$n", "amount": FAILS}},
    {"$dateTrunc": {"date": "$d", "unit": "$n", "binSize": FAILS}},
    {"$dateFromParts": {"year": 20200, "month": "$n"}},
    {"$dateFromParts": {"isoWeekYear": 0, "isoWeek": "$n"}},
    {"$dateToParts": {"date": "$s", "timezone": "$n", "iso8601": "$arr"}},
    {"$atan2": ["$n", FAILS]},
    {"$round": ["$none", FAILS]},
    {"$trunc": [None, FAILS]},
    {"$indexOfArray": ["$n", FAILS, 0, 1]},
    {"$indexOfCP": ["$n", FAILS]},
    {"$indexOfBytes": ["$none", "b", 0, FAILS]},
    {"$slice": ["$n", 0, FAILS]},
    {"$slice": ["$d", "$n", FAILS]},
    {"$slice": ["$n", "$d", FAILS]},
    {"$setIntersection": ["$n", FAILS]},
    {"$concatArrays": ["$n", FAILS]},
]
CODES: list[tuple[Any, int]] = [
    ({"$dateDiff": {"startDate": FAILS, "endDate": "$n", "unit": "day"}}, 241),
    ({"$dateAdd": {"startDate": "$s", "unit": "day", "amount": FAILS}}, 241),
    ({"$dateToParts": {"date": "$n", "timezone": FAILS}}, 241),
    ({"$dateToParts": {"date": "$n", "timezone": "nowhere"}}, 40485),
    ({"$dateToParts": {"date": "$n", "iso8601": "$s"}}, 40521),
    ({"$dateFromParts": {"year": 0, "month": "$s"}}, 40515),
    ({"$dateFromParts": {"year": 0, "month": 40000}}, 31034),
    ({"$dateFromParts": {"year": 0, "month": 1}}, 40523),
    ({"$dateFromParts": {"isoWeekYear": 10000}}, 31095),
    ({"$atan2": ["$d", FAILS]}, 51044),
    ({"$atan2": [1, "$d"]}, 51045),
    ({"$round": ["$d", FAILS]}, 51081),
    ({"$trunc": [1.5, FAILS]}, 241),
    ({"$indexOfArray": ["$d", FAILS]}, 40090),
    ({"$indexOfArray": ["$arr", FAILS, "$n", 1]}, 40096),
    ({"$indexOfArray": ["$arr", 1, "$d", FAILS]}, 40096),
    ({"$indexOfArray": ["$arr", FAILS, 0, "$n"]}, 40096),
    ({"$indexOfArray": ["$arr", FAILS, 0, -1]}, 40097),
    ({"$indexOfArray": ["$arr", FAILS, 5, 9]}, 241),
    ({"$indexOfCP": ["$d", FAILS]}, 40093),
    ({"$indexOfCP": ["abc", "$n", FAILS]}, 40094),
    ({"$indexOfCP": ["abc", "b", "$n", FAILS]}, 40096),
    ({"$indexOfCP": ["abc", "b", -1, FAILS]}, 40097),
    ({"$indexOfCP": ["abc", "b", 9, FAILS]}, 241),
    ({"$indexOfBytes": ["$d", "b", FAILS]}, 40091),
    ({"$slice": ["$d", 0, "$n"]}, 28724),
    ({"$slice": ["$arr", "$d", "$n"]}, 28725),
    ({"$slice": ["$arr", 1.5, FAILS]}, 28726),
    ({"$slice": ["$d", FAILS]}, 241),
    ({"$range": ["$n", 5, FAILS]}, 34443),
    ({"$range": [0, "$d", FAILS]}, 34445),
    ({"$range": ["$d", FAILS]}, 241),
    ({"$setIsSubset": ["$n", FAILS]}, 241),
    ({"$setUnion": ["$s", FAILS]}, 17043),
    ({"$mergeObjects": ["$s", FAILS]}, 40400),
    ({"$mergeObjects": ["$arr", FAILS]}, 40400),
    ({"$add": ["$s", FAILS]}, 16554),
    ({"$add": ["$d", "$d", FAILS]}, 16612),
    ({"$multiply": ["$s", FAILS]}, 14),
    ({"$concat": ["$arr", FAILS]}, 16702),
    ({"$convert": {"input": "$n", "to": "$arr", "onNull": 7}}, 9),
    ({"$convert": {"input": "$n", "to": "nothing", "onNull": 7}}, 2),
    ({"$subtract": [FAILS, {"$size": "$s"}]}, 17124),
    ({"$subtract": ["$s", {"$size": "$s"}]}, 17124),
    ({"$divide": [{"$size": "$s"}, FAILS]}, 241),
    ({"$mod": [FAILS, {"$size": "$s"}]}, 241),
    ({"$round": [5.5, 9.3e18]}, 31109),
    ({"$round": [5.5, 9.2e18]}, 51082),
    ({"$trunc": [5.5, 101]}, 51083),
    ({"$pow": [Decimal128("0"), Decimal128("-0")]}, 28764),
]


@pytest.mark.parametrize("expression", NULLS, ids=str)
def test_null_comes_before_what_stands_behind_it(expression: Any) -> None:
    assert evaluate(expression) is None


@pytest.mark.parametrize(("expression", "code"), CODES, ids=str)
def test_the_argument_that_is_looked_at_first_says_what_is_wrong(expression: Any, code: int) -> None:
    assert code_of(expression) == code


def test_powers_that_are_too_large_keep_their_sign() -> None:
    assert evaluate({"$pow": [-1e300, 3]}) == float("-inf")
    assert evaluate({"$pow": [-2, 1025]}) == float("-inf")
    assert evaluate({"$pow": [-1e300, 2.0]}) == float("inf")


@pytest.mark.parametrize(
    ("base", "power", "expected"),
    [
        ("Infinity", "-2", "0E-6176"),
        ("Infinity", "1E+6000", "Infinity"),
        ("-Infinity", "3", "-Infinity"),
        ("-Infinity", "2", "Infinity"),
        ("-Infinity", "0.5", "Infinity"),
        ("-Infinity", "-1", "0E-6176"),
        ("-Infinity", "Infinity", "Infinity"),
        ("2", "-Infinity", "0E-6176"),
        ("-2", "Infinity", "Infinity"),
        ("0.5", "-Infinity", "Infinity"),
        ("-0.5", "Infinity", "0E-6176"),
        ("-1", "-Infinity", "1.000000000000000000000000000000000"),
        ("1", "NaN", "1.000000000000000000000000000000000"),
        ("NaN", "0", "1.000000000000000000000000000000000"),
        ("NaN", "2", "NaN"),
        ("-2", "0.5", "NaN"),
        ("0", "Infinity", "0E-6176"),
    ],
)
def test_powers_of_decimals_at_the_limits(base: str, power: str, expected: str) -> None:
    assert evaluate({"$pow": [Decimal128(base), Decimal128(power)]}) == Decimal128(expected)
