"""Values of expressions. Expected values are the real server's."""

from __future__ import annotations

from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.bson.walk import Value
from docstore.errors import Code, CommandError
from tests.unit.query.raw import content, raw, value

MISSING = ...
DATE = DatetimeMS(1577934245678)
LONG = Int64(2**63 - 1)
DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "a": 1,
    "b": {"c": 2, "d": [1, 2, {"x": 5}]},
    "arr": [3, 1, 2],
    "objs": [{"k": 1, "v": 2}, {"k": 3}, {"k": [4, 5]}, 7],
    "s": "Héllo",
    "n": None,
    "nest": [[1, 2], [3]],
    "d": DATE,
}


def result(expression: object) -> Value | None:
    return parse_expression(value(expression)).evaluate(Scope(raw(DOCUMENT)))


def evaluate(expression: object) -> Any:
    return content(result(expression))


def code_of(expression: object) -> int:
    with pytest.raises(CommandError) as refused:
        evaluate(expression)
    return refused.value.code


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$b.c", 2),
        ("$objs.k", [1, 3, [4, 5]]),
        ("$objs.k.z", [[]]),
        ("$b.d.x", [5]),
        ("$arr.0", []),
        ("$b.c.z", MISSING),
        ("$$ROOT._id", 1),
        ("$$CURRENT.a", 1),
        ("$$REMOVE", MISSING),
        ({"$literal": "$a"}, "$a"),
        ({"x": "$nope", "y": "$a"}, {"y": 1}),
        ([1, "$nope"], [1, None]),
        ({"$add": [2**31 - 1, 1]}, 2**31),
        ({"$add": [LONG, 1]}, float(2**63)),
        ({"$add": [0.1, 0.2, 0.3]}, 0.6),
        ({"$add": [0.1, Decimal128("1")]}, Decimal128("1.100000000000000005551115123125783")),
        ({"$add": ["$d", 1.6, 1]}, DatetimeMS(1577934245681)),
        ({"$add": ["$d", 0.5]}, DatetimeMS(1577934245678)),
        ({"$add": ["$d", 0.25, 0.75]}, DatetimeMS(1577934245679)),
        ({"$toLong": {"$add": ["$d", Decimal128("1E+6000")]}}, Int64(-(2**63))),
        ({"$toLong": {"$add": ["$d", Decimal128("NaN"), 1]}}, Int64(-(2**63))),
        ({"$subtract": ["$d", 1.9]}, DatetimeMS(1577934245677)),
        ({"$subtract": ["$d", Decimal128("1.6")]}, DatetimeMS(1577934245676)),
        ({"$toDate": {"$toObjectId": "ff0000000000000000000001"}}, DatetimeMS(-16777216000)),
        ({"$year": {"$toObjectId": "ff0000000000000000000001"}}, 1969),
        ({"$add": ["$nope", {"$toInt": "$arr"}]}, None),
        ({"$multiply": ["$nope", {"$toInt": "$arr"}]}, None),
        ({"$concat": ["$nope", {"$toInt": "$arr"}]}, None),
        ({"$concatArrays": ["$nope", {"$toInt": "$arr"}]}, None),
        ({"$setUnion": ["$nope", {"$toInt": "$arr"}]}, None),
        ({"$filter": {"input": [], "cond": True, "limit": 0}}, []),
        ({"$substrBytes": ["abcdef", 1.5, 2]}, "bc"),
        ({"$substrBytes": ["abcdef", Decimal128("1.5"), 2]}, "cd"),
        ({"$substrBytes": ["abcdef", 1, 1.5]}, "b"),
        ({"$ceil": Decimal128("Infinity")}, Decimal128("NaN")),
        ({"$floor": Decimal128("-Infinity")}, Decimal128("NaN")),
        ({"$toUpper": [{"$literal": Timestamp(5, 6)}]}, "JAN  1 00:00:05:6"),
        ({"$type": {"$ln": Decimal128("NaN")}}, "double"),
        ({"$type": {"$log10": Decimal128("NaN")}}, "double"),
        ({"$type": {"$sqrt": Decimal128("NaN")}}, "decimal"),
        ({"$mod": [Int64(5), 2.0]}, Int64(1)),
        ({"$mod": [5, 2.0]}, 1),
        ({"$add": [None, "$a"]}, None),
        ({"$subtract": ["$d", "$d"]}, Int64(0)),
        ({"$subtract": [Decimal128("1"), 0.1]}, Decimal128("0.900000000000000")),
        ({"$multiply": [LONG, 2]}, float(2**64)),
        ({"$divide": [4, 2]}, 2.0),
        ({"$mod": [-5, 3]}, -2),
        ({"$mod": [5, 2.5]}, 0.0),
        ({"$abs": -(2**31)}, 2**31),
        ({"$floor": -1.2}, -2.0),
        ({"$round": [2.345, 2]}, 2.35),
        ({"$round": [1250, -2]}, 1200),
        ({"$round": Decimal128("2.5")}, Decimal128("2")),
        ({"$trunc": [-1789, -2]}, -1700),
        ({"$pow": [2, 63]}, float(2**63)),
        ({"$sqrt": Decimal128("2")}, Decimal128("1.414213562373095048801688724209698")),
        ({"$eq": ["$nope", None]}, False),
        ({"$lt": ["$nope", None]}, True),
        ({"$cmp": ["a", 1]}, 1),
        ({"$and": []}, True),
        ({"$or": [0, ""]}, True),
        ({"$not": ["$nope"]}, True),
        ({"$cond": {"if": False, "then": 1, "else": 2}}, 2),
        ({"$ifNull": ["$nope", "$n", 7]}, 7),
        ({"$ifNull": ["$n", "$nope"]}, MISSING),
        ({"$switch": {"branches": [{"case": False, "then": 1}, {"case": "$a", "then": 2}]}}, 2),
        ({"$let": {"vars": {"CURRENT": "$b"}, "in": "$c"}}, 2),
        ({"$concat": ["a", None]}, None),
        ({"$toUpper": "éa"}, "éA"),
        ({"$substrCP": ["$s", 1, 2]}, "él"),
        ({"$substrBytes": ["$s", 0, 3]}, "Hé"),
        ({"$strLenBytes": "$s"}, 6),
        ({"$indexOfBytes": ["héllo", "l"]}, 3),
        ({"$split": ["a,b", ","]}, ["a", "b"]),
        ({"$trim": {"input": "xxaxx", "chars": "x"}}, "a"),
        ({"$replaceOne": {"input": "aba", "find": "a", "replacement": "x"}}, "xba"),
        ({"$size": "$arr"}, 3),
        ({"$arrayElemAt": ["$arr", -1]}, 2),
        ({"$arrayElemAt": ["$arr", 9]}, MISSING),
        ({"$first": "$arr"}, 3),
        ({"$in": [1.0, "$arr"]}, True),
        ({"$concatArrays": ["$arr", [9]]}, [3, 1, 2, 9]),
        ({"$slice": ["$arr", -2, 1]}, [1]),
        ({"$range": [5, 0, -2]}, [5, 3, 1]),
        ({"$indexOfArray": ["$arr", 1, 2]}, -1),
        ({"$map": {"input": "$arr", "as": "x", "in": {"$add": ["$$x", "$a"]}}}, [4, 2, 3]),
        ({"$filter": {"input": "$arr", "cond": {"$gt": ["$$this", 1]}, "limit": 1}}, [3]),
        ({"$reduce": {"input": "$arr", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 6),
        ({"$objectToArray": {"x": "$a"}}, [{"k": "x", "v": 1}]),
        ({"$arrayToObject": [[["a", 1], ["a", 2]]]}, {"a": 2}),
        ({"$setUnion": [[1, 2], [2, 3]]}, [1, 2, 3]),
        ({"$setIsSubset": [[1], [1, 2]]}, True),
        ({"$mergeObjects": ["$b", {"c": 9}, None]}, {"c": 9, "d": [1, 2, {"x": 5}]}),
        ({"$max": [Int64(3), {"$add": ["$b.c", 1]}]}, 3),
        ({"$max": [{"$max": "$arr"}, 2]}, 3),
        ({"$max": [{"$max": ["$a", 5]}, "$b.c"]}, 5),
        ({"$avg": "$arr"}, 2.0),
        ({"$ceil": {"$subtract": [-0.5, 0]}}, -0.0),
        ({"$type": "$nope"}, "missing"),
        ({"$toString": 123456789.123}, "1.23457e+08"),
        ({"$toString": "$d"}, "2020-01-02T03:04:05.678Z"),
        ({"$toInt": "+5"}, 5),
        ({"$toInt": Decimal128("5.9")}, 5),
        ({"$toLong": "$d"}, Int64(1577934245678)),
        ({"$toLong": Decimal128("-0E+6000")}, Int64(0)),
        ({"$toDecimal": 0.1}, Decimal128("0.100000000000000")),
        ({"$toBool": "$arr"}, True),
        ({"$toDate": "2020-01-01T01:00:00+01:00"}, DatetimeMS(1577836800000)),
        ({"$toObjectId": "0" * 24}, ObjectId("0" * 24)),
        ({"$convert": {"input": "x", "to": "int", "onError": "bad"}}, "bad"),
        ({"$convert": {"input": None, "to": "int", "onNull": 7}}, 7),
    ],
)
def test_values(expression: object, expected: object) -> None:
    found = evaluate(expression)

    assert (found, type(found)) == (expected, type(expected)) or value(found) == value(expected)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("$$nope", 17276),
        ("$", 16872),
        ("$a..b", 15998),
        ({"$bogus": 1}, Code.InvalidPipelineOperator),
        ({"$add": [1], "$x": 1}, 15983),
        ({"$function": {}}, 4660800),
        ({"$add": ["x", 1]}, 16554),
        ({"$subtract": [1]}, 16020),
        ({"$add": ["$d", float("nan")]}, Code.Overflow),
        ({"$add": ["$d", 1e300]}, Code.Overflow),
        ({"$subtract": ["$d", float("inf")]}, 31109),
        ({"$subtract": ["$d", Decimal128("NaN")]}, Code.DurationOverflow),
        ({"$subtract": ["$d", Int64(-(2**63))]}, Code.DurationOverflow),
        ({"$add": [{"$toInt": "$arr"}, "$nope"]}, Code.ConversionFailure),
        ({"$filter": {"input": [1], "cond": True, "limit": 0}}, 327392),
        ({"$substrBytes": ["abcdef", float("nan"), 2]}, 31109),
        ({"$divide": [1, 0]}, Code.BadValue),
        ({"$mod": [5, 0]}, 16610),
        ({"$sqrt": -1}, 28714),
        ({"$cond": {"if": 1, "then": 2}}, 17082),
        ({"$switch": {"branches": [{"case": False, "then": 1}]}}, 40069),
        ({"$switch": {"branches": [{"case": "$n", "then": 1}]}}, 40066),
        ({"$let": {"vars": {"X": 1}, "in": 1}}, Code.FailedToParse),
        ({"$concat": ["a", 1]}, 16702),
        ({"$substrCP": ["$s", -1, 1]}, 34455),
        ({"$substrBytes": ["$s", 2, 1]}, 28656),
        ({"$size": "$nope"}, 17124),
        ({"$arrayElemAt": ["$arr", 1.5]}, 28691),
        ({"$in": [1, 5]}, 40081),
        ({"$slice": ["$arr", 1, 0]}, 28729),
        ({"$map": {"input": 5, "in": 1}}, 16883),
        ({"$filter": {"input": "$arr", "cond": 1, "limit": 0}}, 327392),
        ({"$mergeObjects": [5]}, 40400),
        ({"$toInt": "5.5"}, Code.ConversionFailure),
        ({"$toInt": float("nan")}, Code.ConversionFailure),
        ({"$toString": "$arr"}, Code.ConversionFailure),
        ({"$toLower": True}, 16007),
    ],
)
def test_refusals(expression: object, code: int) -> None:
    assert code_of(expression) == code


def test_constants_are_calculated_while_parsing() -> None:
    with pytest.raises(CommandError):
        parse_expression(value({"$cond": [True, {"$divide": [1, 0]}, 1]}))
    assert parse_expression(value({"$add": [1, {"$multiply": [2, 3]}]})).is_constant


def test_a_plain_path_is_known_as_one() -> None:
    assert parse_expression(value("$a.b")).path == "a.b"
    assert parse_expression(value("$$ROOT")).path is None


def named(operator: str, **given: Any) -> dict[str, Any]:
    return {operator: given}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$acos": Decimal128("0.5")}, Decimal128("1.047197551196597746154214461093168")),
        ({"$atan2": [Decimal128("1"), 2]}, Decimal128("0.4636476090008061162142562314612144")),
        (
            {"$sin": Decimal128("3.141592653589793238462643383279503")},
            Decimal128("-1.158028306006248941790250554076922E-34"),
        ),
        ({"$cos": Decimal128("1E+20")}, Decimal128("0.7639704044417283004001468027378811")),
        ({"$tanh": Decimal128("100")}, Decimal128("1")),
        ({"$degreesToRadians": 180}, 3.141592653589793),
        ({"$pow": [Decimal128("2.0"), 3]}, Decimal128("8.000000000000000000000000000000000")),
        ({"$pow": [Decimal128("0"), Decimal128("2")]}, Decimal128("0E-6176")),
        ({"$round": [-2147483648, -1]}, 2147483646),
        ({"$round": [2147483647, -1]}, Int64(2147483650)),
        ({"$binarySize": "hé"}, 3),
        ({"$bsonSize": {"a": 1}}, 12),
        ({"$getField": {"$literal": "$a"}}, ...),
        (named("$setField", field="a", input={"a": 1, "b": 2}, value="$$REMOVE"), {"b": 2}),
        (named("$unsetField", field="a", input={"a": 1, "b": 2}), {"b": 2}),
        (named("$sortArray", input=[{"a": [1, 5]}, {"a": 4}, {}], sortBy={"a": 1}), [{}, {"a": 4}, {"a": [1, 5]}]),
        (named("$zip", inputs=[[1], [2, 3]], useLongestLength=True, defaults=["$zz", "$zz"]), [[1, 2], [3]]),
        (named("$maxN", n=9, input=[3, 1, None, 1.0]), [3, 1.0, 1]),
        (
            named("$regexFindAll", input="a1b22c", regex="([a-z])(\\d*)"),
            [
                {"match": "a1", "idx": 0, "captures": ["a", "1"]},
                {"match": "b22", "idx": 2, "captures": ["b", "22"]},
                {"match": "c", "idx": 5, "captures": ["c", ""]},
            ],
        ),
        (named("$regexMatch", input=None, regex="a"), False),
        ({"$toHashedIndexKey": "abc"}, Int64(8478485326885698097)),
    ],
)
def test_newer_operators_give_the_values_of_the_real_server(expression: Any, expected: Any) -> None:
    found = evaluate(expression)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$acos": 2}, 50989),
        ({"$sin": "x"}, 28765),
        (named("$getField", field="$q", input={}), 5654600),
        (named("$getField", field={"$concat": ["a", "b"]}, input={}), 5654601),
        (named("$setField", field=5, input={}, value=1), 4161107),
        (named("$sortArray", input=[], sortBy=0), 2942506),
        (named("$zip", inputs=[[1]], defaults=[1]), 34466),
        (named("$firstN", n=1.5, input=[1]), 5787903),
        (named("$regexMatch", input="x", regex="["), 51111),
        (named("$regexMatch", input="a" * 40 + "b", regex="(a+)+$"), 51156),
        ({"$meta": "bogus"}, 17308),
        ({"$rand": {"a": 1}}, 3040501),
    ],
)
def test_newer_operators_refuse_with_the_codes_of_the_real_server(expression: Any, code: int) -> None:
    assert code_of(expression) == code
