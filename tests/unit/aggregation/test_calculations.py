"""What the kernel calculates is what the expressions themselves say."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, MaxKey, MinKey

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import Parser
from docstore.bson import allowance
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN

NUMBERS = [
    0, 1, -1, 7, 2**31 - 1, -(2**31), Int64(0), Int64(5), Int64(2**31), Int64(2**53 + 1), Int64(2**62),
    Int64(2**63 - 1), Int64(-(2**63)), 0.0, -0.0, 0.1, 2.5, -3.75, 1e308, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
VALUES = [
    *NUMBERS, None, Decimal128("2.5"), Decimal128("0"), True, False, "", "a", "b\u00e4", [], [1, "a", None], {"a": 1},
    bson.datetime_ms.DatetimeMS(0), bson.datetime_ms.DatetimeMS(-1), bson.datetime_ms.DatetimeMS(1_700_000_123_456),
    bson.datetime_ms.DatetimeMS(-(2**62)), MinKey(), MaxKey(), bson.Timestamp(5, 1), bson.ObjectId(b"123456789012"),
]  # fmt: skip
TWO = [
    "$add", "$subtract", "$multiply", "$divide", "$mod", "$cmp", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$and",
    "$or", "$concat", "$in", "$arrayElemAt", "$ifNull", "$max", "$min", "$sum", "$avg", "$stdDevPop", "$pow",
    "$setUnion", "$setIntersection", "$concatArrays", "$mergeObjects", "$slice", "$split", "$indexOfCP",
    "$indexOfBytes", "$strcasecmp", "$round", "$trunc",
]  # fmt: skip
ONE = [
    "$add", "$multiply", "$not", "$size", "$year", "$month", "$dayOfMonth", "$dayOfWeek", "$dayOfYear", "$hour",
    "$minute", "$second", "$millisecond", "$concat", "$abs", "$ceil", "$floor", "$exp", "$ln", "$log10", "$sqrt",
    "$round", "$trunc", "$toInt", "$toLong", "$toDouble", "$toBool", "$toDate", "$toString", "$type", "$isArray",
    "$max", "$min", "$sum", "$avg", "$stdDevPop", "$stdDevSamp", "$first", "$last", "$reverseArray", "$objectToArray",
    "$mergeObjects", "$setUnion", "$concatArrays", "$strLenCP", "$strLenBytes", "$toUpper", "$toLower",
]  # fmt: skip


def outcome(expression: Any, document: dict[str, Any], *, in_kernel: bool = True) -> object:
    """The value as bytes, or the code of the error."""
    raw = bson.encode({"e": expression})
    parser = Parser(PLAIN) if in_kernel else Parser(PLAIN).with_variables("unused")
    try:
        parsed = parser.expression((raw[4], raw[7:-1]))
        return parsed.evaluate(Scope(bson.encode(document), {} if in_kernel else {"unused": None}))
    except CommandError as error:
        return error.code


def agree(expression: Any, document: dict[str, Any]) -> None:
    """Where variables are bound, the interpreter evaluates expressions by itself."""
    general = outcome(expression, document, in_kernel=False)
    assert outcome(expression, document) == general, (expression, document)


@pytest.mark.parametrize("name", TWO)
def test_two_operands(name: str) -> None:
    for one in VALUES:
        agree({name: ["$a", "$b"]}, {"a": one})
        agree({name: ["$a", {"$toInt": "$b"}]}, {"a": one, "b": []})
        agree({name: [{"$toInt": "$b"}, "$a"]}, {"a": one, "b": []})
        for two in VALUES:
            agree({name: ["$a", "$b"]}, {"a": one, "b": two})


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name: str) -> None:
    agree({name: "$a"}, {})
    for value in VALUES:
        agree({name: "$a"}, {"a": value})
        agree({name: ["$a"]}, {"a": value})


def test_parts_and_texts_of_dates_with_a_time_zone() -> None:
    rng = random.Random(4)
    names = [
        "$hour",
        "$year",
        "$dayOfWeek",
        "$isoWeek",
        "$isoWeekYear",
        "$isoDayOfWeek",
        "$week",
        "$minute",
        "$dayOfYear",
    ]
    for _ in range(300):
        document = {"a": rng.choice([moments(rng), moments(rng), *VALUES]), "b": rng.choice(["Asia/Tokyo", 5])}
        zone = rng.choice(ZONES)
        for name in names:
            agree({name: {"date": "$a", "timezone": zone}}, document)
            agree({name: {"date": "$a"}}, document)
        layout = rng.choice(["%Y-%m-%d %H", "%G-W%V-%u %U %j", "%H:%M %z"])
        agree({"$dateToString": {"date": "$a", "timezone": zone, "format": layout}}, document)
        agree({"$dateToString": {"date": "$a", "timezone": zone}}, document)


@pytest.mark.parametrize(
    "layout", [None, "%Y-%m-%d", "%H:%M:%S.%L %j %w %%", "year %Y", "%G-%V", "%z", "", "\u00e4%d\u00df"]
)
def test_texts_of_dates(layout: str | None) -> None:
    given = {"date": "$a"} if layout is None else {"date": "$a", "format": layout}
    for value in (*VALUES, bson.datetime_ms.DatetimeMS(253_402_300_800_000)):
        agree({"$dateToString": given}, {"a": value})


ZONES: list[Any] = ["America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "+05:30", "UTC", "nowhere", None, "$b"]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"]


def moments(rng: random.Random) -> bson.datetime_ms.DatetimeMS:
    most = rng.choice([10**11, 2 * 10**12, 10**15, 2**61, 2**62])
    return bson.datetime_ms.DatetimeMS(rng.choice([rng.randint(-most, most), rng.randint(0, 20_000) * 86_400_000]))


@pytest.mark.parametrize("unit", [*UNITS, "decade"])
def test_bins_of_dates_distances_and_sums(unit: str) -> None:
    rng = random.Random(UNITS.index(unit) if unit in UNITS else 99)
    for turn in range(300):
        week: dict[str, Any] = {} if turn % 2 else {"startOfWeek": rng.choice(["monday", "Sun", "friday", "nonsense"])}
        size = rng.choice([1, 2, 3, 7, Int64(45), 100_000, 100_001, Int64(2**40), 0, -1, 2.0, 2.5])
        amounts = (3, -40, 0, 10**6, Int64(2**31), Int64(10**15), 2.0, 2.5, None, "x")
        document = {"a": moments(rng), "b": moments(rng), "n": rng.choice(amounts)}
        if turn % 7 == 0:
            document |= {rng.choice("ab"): rng.choice(VALUES)}
        bins = {"date": "$a", "unit": unit, **week}
        agree({"$dateTrunc": bins}, document)
        agree({"$dateTrunc": bins | {"binSize": size}}, document)
        for zone in ZONES:
            agree({"$dateTrunc": bins | {"timezone": zone}}, document)
            agree({"$dateTrunc": bins | {"timezone": zone, "binSize": size}}, document)
        agree({"$dateAdd": {"startDate": "$a", "unit": unit, "amount": 5, "timezone": "Europe/Rome"}}, document)
        agree({"$dateDiff": {"startDate": "$a", "endDate": "$b", "unit": unit, **week}}, document)
        for name in ("$dateAdd", "$dateSubtract"):
            agree({name: {"startDate": "$a", "unit": unit, "amount": "$n"}}, document)
            agree({name: {"startDate": "$a", "unit": unit, "amount": 5}}, document)


def test_choices() -> None:
    for value in VALUES:
        agree({"$cond": ["$a", "$a", "no"]}, {"a": value})
        agree({"$cond": {"if": {"$gt": ["$a", 1]}, "then": "$b", "else": "no"}}, {"a": value})
        branches = [{"case": {"$eq": ["$a", 7]}, "then": "seven"}, {"case": "$a", "then": {"$add": ["$a", 1]}}]
        agree({"$switch": {"branches": branches, "default": "none"}}, {"a": value})
        agree({"$switch": {"branches": branches}}, {"a": value})
        agree({"$ifNull": ["$b", "$a", "$c"]}, {"a": value})


def test_random_trees() -> None:
    rng = random.Random(5)

    def tree(depth: int) -> Any:
        if depth == 0:
            return rng.choice(["$a", "$b", "$c.d", "$e", rng.choice(NUMBERS), "text", True])
        name = rng.choice([*TWO, "$cond", "$not"])
        count = {"$cond": 3, "$not": 1}.get(name, rng.choice([2, 2, 3]) if name in ("$add", "$multiply") else 2)
        return {name: [tree(depth - 1) for _ in range(count)]}

    for _ in range(3000):
        document = {"a": rng.choice(VALUES), "b": rng.choice(VALUES), "c": {"d": rng.choice(NUMBERS)}}
        agree(tree(rng.choice([1, 2, 2, 3])), document)


def test_products_and_sums_of_many() -> None:
    rng = random.Random(6)
    for _ in range(3000):
        values = [rng.choice(NUMBERS) for _ in range(rng.choice([3, 4]))]
        document = dict(zip("abcd", values, strict=False))
        for name in ("$add", "$multiply"):
            agree({name: ["$" + field for field in document]}, document)


TEXTS = [
    "", "a", "abc", "A bC", "a,b,,c", " x\t", "\u00e4\u20ac\U0001f600z", "\u00a0x\u2003", "aXbxc", "xx", "\0x\0", 5,
    None, 2.5, True, bson.ObjectId(b"123456789012"), Int64(2**40),
]  # fmt: skip


def test_operators_of_texts() -> None:
    rng = random.Random(7)
    for _ in range(3000):
        document = {name: rng.choice(TEXTS) for name in "abc"} | {
            "n": rng.choice([0, 1, 2, -1, 5, 1.0, Int64(1), None])
        }
        document |= {"m": rng.choice([0, 1, 3, -1, 2.5])}
        for name in ("$substrCP", "$substrBytes"):
            agree({name: ["$a", "$n", "$m"]}, document)
        for name in ("$replaceOne", "$replaceAll"):
            agree({name: {"replacement": "$c", "input": "$a", "find": "$b"}}, document)
        for name in ("$trim", "$ltrim", "$rtrim"):
            agree({name: {"input": "$a"}}, document)
            agree({name: {"input": "$a", "chars": "$b"}}, document)
        for name in ("$split", "$indexOfCP", "$indexOfBytes", "$strcasecmp", "$concat"):
            agree({name: ["$a", "$b"]}, document)
        for name in ("$strLenCP", "$strLenBytes", "$toUpper", "$toLower", "$toString"):
            agree({name: "$a"}, document)
        agree({"$indexOfCP": ["$a", "$b", "$n"]}, document)


def members(rng: random.Random) -> Any:
    """An array, mostly."""
    if rng.random() < 0.1:
        return rng.choice(VALUES)
    nested = [{"q": 1, "p": 2.5}, {"q": Int64(4)}, {"q": [1, {"p": 3}]}, [{"q": 9}], {"p": {"q": 2}}]
    return [rng.choice([*VALUES, *nested]) for _ in range(rng.randrange(5))]


def test_operators_of_arrays_and_documents() -> None:
    rng = random.Random(8)
    for _ in range(2000):
        document = {"a": members(rng), "b": members(rng), "o": {"x": members(rng), "a": 1}, "n": rng.randint(-3, 3)}
        for name in ("$setUnion", "$setIntersection", "$concatArrays", "$mergeObjects", "$max", "$sum", "$avg"):
            agree({name: ["$a", "$b"]}, document)
        for name in ("$reverseArray", "$first", "$last", "$sum", "$avg", "$min", "$max", "$stdDevSamp", "$isArray"):
            agree({name: "$a"}, document)
            agree({name: "$a.q"}, document)
            agree({name: "$o.x.q.p"}, document)
        agree({"$slice": ["$a", "$n"]}, document)
        agree({"$slice": ["$a", "$n", {"$add": ["$n", 1]}]}, document)
        agree({"$arrayElemAt": ["$a", "$n"]}, document)
        agree({"$objectToArray": "$o"}, document)
        agree({"$mergeObjects": ["$o", {"a": "$n", "z": ["$a", "$nope", 3]}]}, document)
        agree({"$mergeObjects": "$a"}, document)
        for order in (1, -1, {"q": 1}, {"q.p": -1, "p": 1}, {"p": -1, "q": -1}):
            agree({"$sortArray": {"input": "$a", "sortBy": order}}, document)


def test_conversions() -> None:
    targets = ["int", "long", "double", "bool", "date", "string", "objectId", "decimal", 16, "nonsense", None, "$b"]
    for value in [*VALUES, "12", "1.5", "2024-01-01"]:
        for target in targets:
            document = {"a": value, "b": "int"}
            agree({"$convert": {"input": "$a", "to": target}}, document)
            agree({"$convert": {"input": "$a", "to": target, "onError": "no", "onNull": "none"}}, document)
            agree({"$convert": {"input": "$nope", "to": target, "onError": "no"}}, document)


def bound_tree(rng: random.Random, names: list[str], depth: int) -> Any:
    """An expression with variables in it."""
    if depth == 0:
        return rng.choice(["$a", "$n", 2, "x", *(f"$${name}{rest}" for name in names for rest in ("", ".q", ".q.p"))])
    below = lambda *more: bound_tree(rng, [*names, *more], depth - 1)  # noqa: E731
    match rng.randrange(9):
        case 0:
            return {"$map": {"input": below(), "as": "one", "in": below("one")}}
        case 1:
            return {"$map": {"input": rng.choice(["$a", below()]), "in": below("this")}}
        case 2:
            return {"$filter": {"input": rng.choice(["$a", below()]), "cond": below("this")}}
        case 3:
            return {"$filter": {"input": "$a", "as": "one", "cond": below("one"), "limit": rng.choice([1, "$n"])}}
        case 4:
            return {"$reduce": {"input": "$b", "initialValue": below(), "in": below("this", "value")}}
        case 5:
            return {"$let": {"vars": {"one": below(), "two": below()}, "in": below("one", "two")}}
        case 6:
            return {rng.choice(["$add", "$concatArrays", "$max", "$eq", "$multiply", "$and"]): [below(), below()]}
        case 7:
            return {"$cond": [below(), [below(), 1], {"d": below()}]}
        case _:
            return {"$toString": {"$dateAdd": {"startDate": below(), "unit": "day", "amount": 1}}}


def test_trees_with_variables() -> None:
    rng = random.Random(9)
    for _ in range(6000):
        document = {"a": members(rng), "b": members(rng), "n": rng.choice([1, 2, 0])}
        agree(bound_tree(rng, [], rng.choice([1, 2, 3, 4])), document)


def test_what_binds_variables_is_calculated_by_the_kernel() -> None:
    raw = bson.encode({"e": {"$map": {"input": "$a", "in": {"$add": ["$$this.q", "$n"]}}}})
    parsed = Parser(PLAIN).expression((raw[4], raw[7:-1]))
    assert parsed.calculation is not None
    found = parsed.evaluate(Scope(bson.encode({"a": [{"q": 1}, {"q": 2}], "n": 10})))
    assert found == (4, bson.encode({"0": 11, "1": 12}))


@pytest.mark.parametrize(
    "operator",
    [
        {"$size": "$a"}, {"$in": [-1, "$a"]}, {"$arrayElemAt": ["$a", -1]}, {"$last": "$a"}, {"$eq": ["$d", "$d"]},
        {"$indexOfArray": ["$a", -1]}, {"$max": "$a"}, {"$isArray": {"$slice": ["$a", 1]}}, "$o.nowhere", "$d.nowhere",
        "$d.x.nowhere", {"$let": {"vars": {"v": "$o"}, "in": "$$v.nowhere"}},
    ],
)  # fmt: skip
def test_what_is_walked_is_metered_however_small_the_result(operator: Any) -> None:
    """So that a request of many such operators is interrupted, and lets others run."""
    count, times = 4000, 100
    document = {
        "a": list(range(count)), "o": {f"f{n}": n for n in range(count)}, "d": [{"x": n} for n in range(count)],
    }  # fmt: skip
    before = allowance.looks()
    outcome([operator] * times, document)
    assert allowance.looks() - before >= times * 11 * count // 8 // allowance.QUANTUM // 2


def test_many_small_operators_are_metered() -> None:
    before = allowance.looks()
    outcome([{"$add": ["$x", 1]}] * 5000, {"x": 1})
    assert allowance.looks() > before


@pytest.mark.parametrize("name", ["$toInt", "$toLong"])
@pytest.mark.parametrize("text", ["1" * 5000, "-" + "9" * 5000, "9" * 21])
def test_a_text_of_more_digits_than_an_integer_has_overflows(name: str, text: str) -> None:
    assert outcome({name: text}, {}) == Code.ConversionFailure
    assert outcome({name: "0" * 5000 + "7"}, {}) == outcome({name: 7}, {})
